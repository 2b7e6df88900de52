/* The entropy decoder, compiled once for any processor and once for those with BMI2 (shifts by a register without flags); a file that
 * includes it may say another name in JPEG_ENTROPY.
 *
 * After a refill at least 56 bits are there. A quick symbol takes at most JPEG_QUICK_BITS (18), so three fit; slow ones refill before and
 * after, and so does, before, the first of a block (DC), which leaves room for the two that may follow it until the next refill.
 * Coefficients that are not needed are skipped several at a time: two such look-ups fit.
 */
#ifndef FB_CODEC_IMAGE_JPEG_KERNELS_JPEG_ENTROPY_BODY_H
#define FB_CODEC_IMAGE_JPEG_KERNELS_JPEG_ENTROPY_BODY_H

#ifndef JPEG_ENTROPY
#define JPEG_ENTROPY jpeg_entropy_c
#endif

#include "codec/image/jpeg/kernels/jpeg_entropy.h"

#include <string.h>

/* Stands for a code that is none: ends the block. */
#define NO_CODE ((uint32_t)JPEG_END_RUN << 8 | 16)

#define ALWAYS static inline __attribute__((always_inline))

/* A lane while it runs, in registers. */
struct runner {
    const uint8_t *next;
    uint64_t bits;
    uint32_t left; /* only the low 8 bits count: whole entries are subtracted from it */
    uint32_t k;    /* place of the next coefficient in coded order */
    int16_t *block;
    const struct jpeg_huffman *table; /* AC, of this block */
    uint32_t todo;                    /* blocks, this one included */
    int at;                           /* this block's place in the MCU */
    bool is_odd;
};

ALWAYS void refill(struct runner *r)
{
    uint64_t word;
    uint32_t left = r->left & 63;
    memcpy(&word, r->next, 8);
    r->bits |= __builtin_bswap64(word) >> left;
    r->next += (63 - left) >> 3;
    r->left = left | 56;
}

/* The entry of a code that is not in the look-up; 16 bits at least must be there. */
static __attribute__((noinline)) uint32_t slow_entry(uint64_t bits, const struct jpeg_huffman *h)
{
    for (uint32_t length = 1; length <= 16; length++) {
        int32_t code = (int32_t)(bits >> (64 - length));
        if (code <= h->most[length])
            return h->all[(h->first[length] + code) & 255];
    }
    return 0;
}

/* The value at the end of what an entry covers. The bits stand for themselves if the first of them is 1, otherwise for so much above the
 * least value. */
ALWAYS int32_t value_of(uint64_t bits, uint32_t e)
{
    int32_t least = (int32_t)e >> 16, v = (int32_t)(uint32_t)(bits >> (-e & 63)) & -least;
    return v + ((2 * v + least) >> 31 & least);
}

ALWAYS int32_t consume(struct runner *r, uint32_t e)
{
    int32_t value = value_of(r->bits, e);
    r->bits <<= e & 63;
    r->left -= e;
    return value;
}

/* Reads one symbol. *value is what comes with it. */
ALWAYS uint32_t symbol(struct runner *r, const struct jpeg_huffman *h, int32_t *value)
{
    uint32_t e = h->quick[r->bits >> (64 - JPEG_LOOK_BITS)];
    if (__builtin_expect(e != 0, 1)) {
        *value = consume(r, e);
        return e;
    }
    refill(r);
    e = slow_entry(r->bits, h);
    r->is_odd |= !e;
    e = e ? e : NO_CODE;
    *value = consume(r, e);
    refill(r);
    return e;
}

ALWAYS void begin_block(struct runner *r, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    int32_t difference;
    refill(r);
    symbol(r, s->block[r->at].dc, &difference);
    l->dc[s->block[r->at].component] += difference;
    r->table = s->block[r->at].ac;
    r->k = 1;
}

/* Coefficients end at 64 or by an end of block, which adds JPEG_END_RUN + 1. Anything between is too many of them. */
ALWAYS void end_block(struct runner *r, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    r->block[0] = (int16_t)l->dc[s->block[r->at].component]; /* last: what lies behind the block's end was written here too */
    r->is_odd |= r->k - 65 < JPEG_END_RUN + 1 - 64;
    if (!l->is_dropped) {
        *l->counts++ = (uint8_t)(r->k > 64 ? r->k - (JPEG_END_RUN + 1) : 64);
        r->block += 64;
    }
    r->at = r->at + 1 == s->blocks ? 0 : r->at + 1;
    r->todo--;
}

/* One coefficient. */
ALWAYS void step(struct runner *r)
{
    int32_t value;
    uint32_t e = symbol(r, r->table, &value);
    r->k += e >> 8 & 255;
    r->block[jpeg_natural[r->k]] = (int16_t)value;
    r->k++;
}

ALWAYS struct runner enter(struct jpeg_lane *l, const struct jpeg_schedule *s, uint32_t mcus)
{
    struct runner r = {.next = l->next, .bits = l->bits, .left = l->left, .block = l->blocks, .todo = mcus * (uint32_t)s->blocks};
    begin_block(&r, l, s);
    return r;
}

ALWAYS bool leave(const struct runner *r, struct jpeg_lane *l)
{
    l->next = r->next;
    l->bits = r->bits;
    l->left = r->left & 63;
    return !r->is_odd;
}

/* Does what follows a step; says whether the lane has decoded all its blocks. */
ALWAYS bool is_done(struct runner *r, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    if (__builtin_expect(r->k < 64, 1))
        return false;
    end_block(r, l, s);
    if (!r->todo)
        return true;
    begin_block(r, l, s);
    return false;
}

ALWAYS bool step_is_last(struct runner *a, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    step(a);
    return is_done(a, l, s);
}

ALWAYS bool steps_are_last(struct runner *a, struct runner *b, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    step(a);
    step(b);
    bool is_a_done = is_done(a, &l[0], s);
    return is_done(b, &l[1], s) || is_a_done;
}

/* Runners are copied in and out so that they live in registers: their addresses are never taken. */

static void run_one(struct runner *to_a, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    struct runner a = *to_a;
    bool is_over = !a.todo;
    while (!is_over) {
        refill(&a);
        is_over = step_is_last(&a, l, s) || step_is_last(&a, l, s) || step_is_last(&a, l, s);
    }
    *to_a = a;
}

/* Until one of them is done. */
static void run_two(struct runner *r, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    struct runner a = r[0], b = r[1];
    bool is_over = false;
    while (!is_over) {
        refill(&a);
        refill(&b);
        is_over = steps_are_last(&a, &b, l, s) || steps_are_last(&a, &b, l, s) || steps_are_last(&a, &b, l, s);
    }
    r[0] = a;
    r[1] = b;
}

/* Passes coefficients; one by one where more at once would go beyond the block's end. */
ALWAYS void pass_some(struct runner *r)
{
    int32_t value;
    uint32_t e = r->table->skip[r->bits >> (64 - JPEG_LOOK_BITS)], k = r->k + (e >> 8);
    if (__builtin_expect((k & 127) + (k >> 7) <= 64, 1)) { /* 64, or less with or without the end */
        r->bits <<= e & 63;
        r->left -= e;
    } else {
        k = r->k + (symbol(r, r->table, &value) >> 8 & 255) + 1;
    }
    r->k = k;
}

ALWAYS void pass_block(struct runner *r)
{
    while (r->k < 64) {
        refill(r);
        pass_some(r);
        if (r->k < 64)
            pass_some(r);
    }
}

ALWAYS void keep_block(struct runner *r)
{
    while (r->k < 64) {
        refill(r);
        step(r);
        if (r->k < 64)
            step(r);
    }
}

/* For lanes that are dropped and schedules with means. Side by side they would gain little: passing waits less. */
static void run_passing(struct runner *to_a, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    struct runner a = *to_a;
    for (;;) {
        if (l->is_dropped || s->block[a.at].is_mean)
            pass_block(&a);
        else
            keep_block(&a);
        end_block(&a, l, s);
        if (!a.todo)
            break;
        begin_block(&a, l, s);
    }
    *to_a = a;
}

bool JPEG_ENTROPY(struct jpeg_lane *lanes, int n, const struct jpeg_schedule *s, uint32_t mcus)
{
    struct runner r[JPEG_LANES];
    bool is_good = true;
    for (int i = 0; i < n; i++)
        r[i] = enter(&lanes[i], s, mcus);
    if (n == 2 && !lanes[0].is_dropped && !s->has_means)
        run_two(r, lanes, s);
    for (int i = 0; i < n; i++) {
        if (lanes[i].is_dropped || s->has_means)
            run_passing(&r[i], &lanes[i], s);
        else
            run_one(&r[i], &lanes[i], s);
        is_good &= leave(&r[i], &lanes[i]);
    }
    return is_good;
}

#endif
