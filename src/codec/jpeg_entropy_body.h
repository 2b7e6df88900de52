/* The entropy decoder, compiled once for any processor and once for those with BMI2 (shifts by a register without flags); the including
 * file says its name in JPEG_ENTROPY.
 *
 * Limits on the bits: after a refill at least 56 are there. A quick symbol takes at most JPEG_LOOK_BITS (11), so five fit; slow ones and
 * the first of a block (DC) refill by themselves, before and after.
 */
#include "codec/jpeg_entropy.h"

#include <string.h>

#define ALWAYS static inline __attribute__((always_inline))

/* A lane while it runs, in registers. */
struct runner {
    const uint8_t *next;
    uint64_t bits;
    uint32_t left; /* only the low 8 bits count: whole entries are subtracted from it */
    uint32_t k;    /* place of the next coefficient in coded order */
    int16_t *block;
    const uint32_t *entry; /* the AC table of this block */
    uint32_t todo; /* blocks, this one included */
    int at;        /* this block's place in the MCU */
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

ALWAYS uint32_t take(struct runner *r, uint32_t count)
{
    uint32_t v = (uint32_t)(r->bits >> 1 >> (63 - count));
    r->bits <<= count;
    r->left -= count;
    return v;
}

/* A symbol whose code, or whose code and value, are longer than the look-up. Returns an entry without a length; refills. */
static __attribute__((noinline)) uint32_t slow_symbol(struct runner *r, const struct jpeg_huffman *h)
{
    refill(r);
    uint32_t e = h->entry[r->bits >> (64 - JPEG_LOOK_BITS)], length = e >> 8 & 255, symbol = e >> 16;
    if (!e) {
        length = JPEG_LOOK_BITS + 1;
        while (length <= 16 && (int32_t)(r->bits >> (64 - length)) > h->most[length])
            length++;
        if (length > 16) {
            r->is_odd = true;
            return (uint32_t)JPEG_END_RUN << 8;
        }
        symbol = h->symbols[(h->symbol[length] + (int32_t)(r->bits >> (64 - length))) & 255];
    }
    take(r, length);
    uint32_t size = h->is_dc ? symbol : symbol & 15, run = h->is_dc ? 0 : symbol >> 4;
    refill(r);
    if (!size)
        return (!h->is_dc && run != 15 ? JPEG_END_RUN : run) << 8;
    uint32_t v = take(r, size);
    int32_t value = v >> (size - 1) ? (int32_t)v : (int32_t)v - (1 << size) + 1;
    refill(r);
    return run << 8 | (uint32_t)value << 16;
}

ALWAYS void begin_block(struct runner *r, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    const struct jpeg_huffman *dc = s->block[r->at].dc;
    refill(r);
    uint32_t e = dc->entry[r->bits >> (64 - JPEG_LOOK_BITS)];
    if (__builtin_expect(!(e & 63), 0)) {
        struct runner copy = *r; /* so that the address of `r` is never taken and it stays in registers */
        e = slow_symbol(&copy, dc);
        *r = copy;
    } else {
        r->bits <<= e & 63;
        r->left -= e;
    }
    l->dc[s->block[r->at].component] += (int32_t)e >> 16;
    r->entry = s->block[r->at].ac->entry;
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
    uint32_t e = r->entry[r->bits >> (64 - JPEG_LOOK_BITS)];
    if (__builtin_expect(!(e & 63), 0)) {
        struct runner copy = *r;
        e = slow_symbol(&copy, (const struct jpeg_huffman *)(const void *)r->entry);
        *r = copy;
    } else {
        r->bits <<= e & 63;
        r->left -= e;
    }
    r->k += e >> 8 & 255;
    r->block[jpeg_natural[r->k]] = (int16_t)(e >> 16);
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

ALWAYS void run_alone(struct runner *r, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    while (r->todo) {
        refill(r);
        for (int i = 0; i < 4; i++) {
            step(r);
            if (is_done(r, l, s))
                return;
        }
    }
}

ALWAYS void run_together(struct runner *a, struct runner *b, struct jpeg_lane *l, const struct jpeg_schedule *s)
{
    for (;;) {
        refill(a);
        refill(b);
        for (int i = 0; i < 4; i++) {
            step(a);
            step(b);
            if (is_done(a, &l[0], s) | is_done(b, &l[1], s))
                return;
        }
    }
}

bool JPEG_ENTROPY(struct jpeg_lane *lanes, int n, const struct jpeg_schedule *s, uint32_t mcus)
{
    struct runner a = enter(&lanes[0], s, mcus);
    if (n == 1) {
        run_alone(&a, &lanes[0], s);
        return leave(&a, &lanes[0]);
    }
    struct runner b = enter(&lanes[1], s, mcus);
    run_together(&a, &b, lanes, s);
    run_alone(&a, &lanes[0], s);
    run_alone(&b, &lanes[1], s);
    bool is_good = leave(&a, &lanes[0]);
    return leave(&b, &lanes[1]) && is_good;
}
