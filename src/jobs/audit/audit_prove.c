/* The proof of an epoch, first half: what was handed out is laid out by position, and each place looked at by itself. Everything is
 * computed anew from the seed; nothing that the engine planned is believed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/text/text.h"
#include "host/host.h"
#include "jobs/audit/audit_internal.h"
#include "model/audit_format.h"
#include "order/order_window.h"

static bool is_permuted(const struct proof *p)
{
    return p->stream->order != ORDER_WEIGHTED && p->stream->order != ORDER_GIVEN;
}

/* ---- tables ---- */

void audit_table_free(struct audit_table *t)
{
    free(t->flags);
    free(t->sample);
    free(t->content);
    *t = (struct audit_table){0};
}

static bool table_open(struct audit_table *t, uint64_t count)
{
    bool fits = count < SIZE_MAX / 16;
    *t = (struct audit_table){.count = count};
    t->flags = fits ? calloc(count + 1, 1) : NULL;
    t->sample = fits ? malloc((count + 1) * sizeof(*t->sample)) : NULL;
    t->content = fits ? malloc((count + 1) * sizeof(*t->content)) : NULL;
    if (t->flags && t->sample && t->content)
        return true;
    audit_table_free(t);
    return false;
}

/* How long an epoch of a given order is only the program knows: nothing is laid out. */
static uint64_t positions_of(const struct audit_stream *s)
{
    return s->order == ORDER_GIVEN ? 0 : s->samples;
}

/* ---- one place ---- */

static const char *key_of(const struct proof *p, uint64_t sample)
{
    for (uint64_t i = 0; i < p->set->logs; i++) {
        const struct audit_log *l = &p->set->log[i];
        for (uint64_t k = 0; k < l->bads && l->fingerprint == p->stream->fingerprint; k++)
            if (l->bad[k].sample == sample)
                return l->bad[k].key;
    }
    return NULL;
}

static void note_redraw(struct proof *p, const struct audit_place *a)
{
    uint64_t bad = is_permuted(p) ? order_at(&p->order, a->position) : 0;
    p->epoch->redraws++;
    if (!p->set || p->set->redraws >= AUDIT_MOST_REDRAWS)
        return;
    p->set->redraw[p->set->redraws++] =
        (struct audit_redraw){p->stream_number, p->epoch->epoch, a->position, bad, a->sample, key_of(p, bad)};
}

/* Is it the sample that the order has at this position? */
static void check_sample(struct proof *p, const struct audit_place *a)
{
    if (!is_permuted(p))
        return;
    uint64_t wanted = a->attempt ? order_redraw(&p->order, a->position, (uint32_t)a->attempt) : order_at(&p->order, a->position);
    if (a->sample != wanted)
        PROBLEM(p, a->position, "sample %llu was decoded here, where the order has sample %llu", (ull)a->sample, (ull)wanted);
}

/* A sample comes once in an epoch, stand-ins aside. */
static void check_once(struct proof *p, const struct audit_place *a)
{
    if (!is_permuted(p) || a->attempt || a->sample >= p->stream->samples)
        return;
    uint8_t *byte = &p->is_taken[a->sample / 8], bit = (uint8_t)(1u << (a->sample % 8));
    if (*byte & bit)
        PROBLEM(p, a->position, "sample %llu came a second time", (ull)a->sample);
    *byte |= bit;
}

/* The same sample is read from the same bytes, whenever. */
static void check_source(struct proof *p, const struct audit_place *a)
{
    if (!p->source || !a->source || a->sample >= p->stream->samples)
        return;
    uint16_t *known = &p->source[a->sample];
    if (*known && *known != a->source)
        PROBLEM(p, a->position, "sample %llu was read from other bytes than before: its file was changed, or another one was read",
                (ull)a->sample);
    *known = a->source;
}

static void check_note(struct proof *p, const struct audit_place *a)
{
    if (a->note & AUDIT_EMPTY)
        PROBLEM(p, a->position, "nothing was decoded into this place: it held what was there before");
    if (a->note & AUDIT_CHANGED)
        PROBLEM(p, a->position, "what was handed out is not what had been decoded: sample %llu was overwritten in its place",
                (ull)a->sample);
}

/* Was it handed out before? Then a restart took it back, and it must have had the same bytes. */
static void check_replay(struct proof *p, const struct audit_place *a)
{
    const struct audit_table *t = &p->t;
    if (!(t->flags[a->position] & AUDIT_KNOWN))
        return;
    p->epoch->replayed++;
    if (t->sample[a->position] != a->sample)
        PROBLEM(p, a->position, "after a restart sample %llu came, before it sample %llu", (ull)a->sample, (ull)t->sample[a->position]);
    else if (t->content[a->position] != a->content && !p->stream->has_many_configs)
        PROBLEM(p, a->position, "sample %llu came again after a restart, with other bytes", (ull)a->sample);
}

/* A later start leaves it out: then it went back to before this position, whatever position it began at. */
static bool is_skipped_later(const struct proof *p, uint64_t position)
{
    for (uint64_t i = 0; i < p->later_count; i++)
        if (position >= p->later[i].first && position < p->later[i].last)
            return true;
    return false;
}

static void take_place(struct proof *p, const struct audit_part *part, const struct audit_place *a)
{
    uint8_t *flags = &p->t.flags[a->position];
    check_note(p, a);
    if (a->note & AUDIT_EMPTY)
        return;
    check_sample(p, a);
    check_source(p, a);
    check_replay(p, a);
    p->t.sample[a->position] = a->sample;
    p->t.content[a->position] = a->content;
    bool is_back = audit_is_taken_back(part, p->epoch->epoch, a->position) || is_skipped_later(p, a->position);
    if (!is_back && (*flags & AUDIT_SEEN))
        PROBLEM(p, a->position, "this position was handed out twice");
    if (!is_back && a->attempt)
        note_redraw(p, a);
    if (!is_back)
        check_once(p, a);
    p->epoch->handed_out += !is_back && !(*flags & AUDIT_SEEN);
    *flags |= AUDIT_KNOWN | (is_back ? 0 : AUDIT_SEEN) | (a->attempt ? AUDIT_STAND_IN : 0);
}

/* ---- one batch ---- */

/* A rank takes its own part of each global batch and nothing else. */
static bool is_own_part(const struct proof *p, const struct audit_stretch *s, const struct audit_batch *b)
{
    if (p->stream->order == ORDER_GIVEN)
        return true;
    if (b->number >= ranks_batches_left(&s->layout, &s->skips, s->start))
        return false;
    struct batch_span span = ranks_batch_left(&s->layout, &s->skips, s->start, b->number);
    bool is_same = span.count == b->count;
    for (uint64_t i = 0; is_same && i < b->count; i++)
        is_same = b->place[i].position == skips_position(&s->skips, span.first + i);
    return is_same;
}

static void take_batch(struct proof *p, const struct audit_part *part, uint64_t expected_number)
{
    const struct audit_stretch *s = part->stretch;
    const struct audit_batch *b = &p->batch;
    uint64_t first = b->count ? b->place[0].position : s->start;
    if (b->number != expected_number)
        PROBLEM(p, first, "rank %u took batch %llu of its stretch, but batch %llu was next", s->layout.rank, (ull)b->number,
                (ull)expected_number);
    if (!is_own_part(p, s, b))
        PROBLEM(p, first, "batch %llu of rank %u does not hold the positions that are this rank's", (ull)b->number, s->layout.rank);
    for (uint64_t i = 0; i < b->count; i++) {
        const struct audit_place *a = &b->place[i];
        if (a->position < p->t.count) {
            take_place(p, part, a);
        } else {
            *(p->stream->order == ORDER_GIVEN ? &p->epoch->handed_out : &p->epoch->repeats) += 1;
            check_note(p, a);
            check_sample(p, a);
        }
    }
}

static bool is_listed(const struct proof *p, struct skip r)
{
    for (uint64_t i = 0; i < p->later_count; i++)
        if (p->later[i].first == r.first && p->later[i].last == r.last)
            return true;
    return false;
}

/* What stretches after this one leave out; nearly always nothing, or the same few ranges again and again. */
static int list_skips_after(struct proof *p, const struct audit_part *part)
{
    const struct audit_stream *s = p->stream;
    p->later_count = 0;
    for (const struct audit_part *next = part + 1; s->has_skips && next < s->part + s->parts; next++) {
        const struct audit_stretch *r = next->stretch;
        bool is_ours = r->layout.rank == part->stretch->layout.rank || r->layout.world != part->stretch->layout.world;
        for (uint32_t k = 0; is_ours && r->epoch == p->epoch->epoch && k < r->skips.count; k++) {
            if (is_listed(p, r->skips.range[k]))
                continue;
            struct skip *more = realloc(p->later, (p->later_count + 1) * sizeof(*more));
            if (!more)
                return error_set_errno(p->e, "audit", ENOMEM, "list what was skipped");
            p->later = more;
            p->later[p->later_count++] = r->skips.range[k];
        }
    }
    return 0;
}

static int take_part(struct proof *p, const struct audit_part *part)
{
    const struct audit_stretch *s = part->stretch;
    FB_TRY(list_skips_after(p, part));
    for (uint64_t i = 0; i < s->batches; i++) {
        struct fb_error e = {0};
        if (p->interrupted && p->interrupted(p->ctx))
            return error_set(p->e, FB_E_INTERRUPTED, "audit", "interrupted");
        if (audit_log_batch(part->log, s->first_batch + i, &p->batch, &e) < 0) {
            char shown[200];
            PROBLEM(p, -1, "%s: byte %lld: %s", text_escape(e.path, shown, sizeof(shown)), (long long)e.offset, e.cause);
            continue;
        }
        take_batch(p, part, i);
    }
    return 0;
}

static void sum_up(struct proof *p)
{
    uint64_t h = 0;
    for (uint64_t at = 0; at < p->t.count; at++)
        if (p->t.flags[at] & AUDIT_SEEN)
            h += rng_mix(rng_mix(at, p->t.sample[at]), p->t.content[at]);
    p->epoch->digest = h;
}

static int read_epoch(struct proof *p)
{
    const struct audit_stream *s = p->stream;
    order_init(&p->order, s->samples, s->seed, p->epoch->epoch, s->order == ORDER_SHUFFLED || s->order == ORDER_WINDOW, NULL);
    if (s->order == ORDER_WINDOW)
        order_use_window(&p->order, s->block, s->window);
    for (uint64_t i = 0; i < s->parts; i++)
        if (s->part[i].stretch->epoch == p->epoch->epoch)
            FB_TRY(take_part(p, &s->part[i]));
    return 0;
}

static int prove_epoch(struct proof *p)
{
    if (!table_open(&p->t, positions_of(p->stream)))
        return error_set_errno(p->e, "audit", ENOMEM, "lay out an epoch of %llu samples", (ull)p->stream->samples);
    memset(p->is_taken, 0, p->stream->samples / 8 + 1);
    int rc = read_epoch(p);
    if (rc == 0) {
        audit_judge(p);
        sum_up(p);
    }
    audit_table_free(&p->t);
    return rc;
}

/* A log may claim any number of samples. The system would grant the memory and end the program when it is touched, so it is asked
 * before. */
static int check_room(const struct proof *p)
{
    enum { BYTES_PER_SAMPLE = 16 }; /* of all tables */
    uint64_t samples = p->stream->samples, room = host_memory_available();
    char needed[32], there[32];
    if (samples < room / BYTES_PER_SAMPLE)
        return 0;
    uint64_t bytes = samples < UINT64_MAX / BYTES_PER_SAMPLE ? samples * BYTES_PER_SAMPLE : UINT64_MAX;
    error_set(p->e, FB_E_NOMEM, "audit", "the logs say that the data set has %llu samples; to lay them out takes %s, and %s are free",
              (ull)samples, text_size(bytes, needed, sizeof(needed)), text_size(room, there, sizeof(there)));
    error_remedy(p->e, "audit on a machine with more memory; if that number is wrong, the log is not one of this program");
    return FB_E_NOMEM;
}

static int prove_stream(struct proof *p)
{
    struct audit_stream *s = &p->set->stream[p->stream_number];
    p->stream = s;
    FB_TRY(check_room(p));
    p->is_taken = malloc(s->samples / 8 + 1);
    p->source = s->samples < SIZE_MAX / 4 ? calloc(s->samples, sizeof(*p->source)) : NULL;
    int rc = p->is_taken && p->source ? 0 : error_set_errno(p->e, "audit", ENOMEM, "lay out %llu samples", (ull)s->samples);
    for (uint64_t i = 0; rc == 0 && i < s->epochs; i++) {
        p->epoch = &s->epoch[i];
        rc = prove_epoch(p);
    }
    free(p->is_taken);
    free(p->source);
    return rc;
}

int audit_prove(struct audit_set *s, int (*interrupted)(void *), void *ctx, struct fb_error *e)
{
    struct proof p = {.set = s, .interrupted = interrupted, .ctx = ctx, .e = e};
    int rc = 0;
    for (; rc == 0 && p.stream_number < s->streams; p.stream_number++)
        rc = prove_stream(&p);
    audit_batch_free(&p.batch);
    free(p.later);
    return rc;
}

bool audit_is_proved(const struct audit_set *s)
{
    return s->problems == 0;
}

int audit_read_epoch(const struct audit_stream *s, uint64_t epoch, struct audit_table *t, struct fb_error *e)
{
    struct audit_epoch unused = {.epoch = epoch};
    struct proof p = {.stream = s, .epoch = &unused, .e = e, .is_taken = calloc(s->samples / 8 + 1, 1)};
    int rc = p.is_taken && table_open(&p.t, positions_of(s)) ? read_epoch(&p) : error_set_errno(e, "audit", ENOMEM, "lay out an epoch");
    audit_batch_free(&p.batch);
    free(p.later);
    free(p.is_taken);
    *t = p.t;
    if (rc < 0)
        audit_table_free(t);
    return rc;
}
