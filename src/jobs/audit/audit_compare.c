/* Two runs beside each other: the same streams, epochs, samples and bytes, position by position; the first difference in words. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/text/text.h"
#include "jobs/audit.h"

typedef unsigned long long ull;

static void differ(struct audit_difference *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void differ(struct audit_difference *d, const char *format, ...)
{
    va_list ap;
    if (d->is_different)
        return;
    va_start(ap, format);
    text_vwords(d->what, sizeof(d->what), format, ap);
    va_end(ap);
    d->is_different = true;
}

static void compare_place(const struct audit_table *a, const struct audit_table *b, uint64_t epoch, uint64_t at, struct audit_difference *d)
{
    bool in_a = a->flags[at] & AUDIT_SEEN, in_b = b->flags[at] & AUDIT_SEEN;
    if (in_a != in_b)
        differ(d, "epoch %llu, position %llu: only the %s run has it", (ull)epoch, (ull)at, in_a ? "first" : "second");
    else if (in_a && a->sample[at] != b->sample[at])
        differ(d, "epoch %llu, position %llu: sample %llu in the first run, sample %llu in the second", (ull)epoch, (ull)at,
               (ull)a->sample[at], (ull)b->sample[at]);
    else if (in_a && a->content[at] != b->content[at])
        differ(d, "epoch %llu, position %llu: sample %llu in both, with different bytes (%08" PRIx32 " and %08" PRIx32 ")", (ull)epoch,
               (ull)at, (ull)a->sample[at], a->content[at], b->content[at]);
    else
        d->compared += in_a;
}

static int compare_epoch(const struct audit_stream *a, const struct audit_stream *b, uint64_t epoch, struct audit_difference *d,
                         struct fb_error *e)
{
    struct audit_table x = {0}, y = {0};
    int rc = audit_read_epoch(a, epoch, &x, e);
    if (rc == 0)
        rc = audit_read_epoch(b, epoch, &y, e);
    for (uint64_t at = 0; rc == 0 && at < x.count && !d->is_different; at++)
        compare_place(&x, &y, epoch, at, d);
    audit_table_free(&x);
    audit_table_free(&y);
    return rc;
}

static bool has_epoch(const struct audit_stream *s, uint64_t epoch)
{
    for (uint64_t i = 0; i < s->epochs; i++)
        if (s->epoch[i].epoch == epoch)
            return true;
    return false;
}

static int compare_stream(const struct audit_stream *a, const struct audit_stream *b, struct audit_difference *d, struct fb_error *e)
{
    for (uint64_t i = 0, k = 0; !d->is_different && (i < a->epochs || k < b->epochs);) {
        bool is_a = i < a->epochs && (k == b->epochs || a->epoch[i].epoch <= b->epoch[k].epoch);
        uint64_t epoch = is_a ? a->epoch[i].epoch : b->epoch[k].epoch;
        bool in_a = has_epoch(a, epoch), in_b = has_epoch(b, epoch);
        if (in_a != in_b)
            differ(d, "epoch %llu: only the %s run has it", (ull)epoch, in_a ? "first" : "second");
        else
            FB_TRY(compare_epoch(a, b, epoch, d, e));
        i += in_a;
        k += in_b;
    }
    return 0;
}

static const struct audit_stream *find(const struct audit_set *s, const struct audit_stream *like)
{
    for (uint64_t i = 0; i < s->streams; i++) {
        const struct audit_stream *b = &s->stream[i];
        if (b->fingerprint == like->fingerprint && b->seed == like->seed && b->order == like->order && b->samples == like->samples &&
            b->block == like->block && b->window == like->window)
            return b;
    }
    return NULL;
}

/* No stream of the other run has all of it: say what the nearest one has instead. */
static void tell_unmatched(const struct audit_stream *a, const struct audit_set *other, const char *which, struct audit_difference *d)
{
    for (uint64_t i = 0; i < other->streams; i++) {
        const struct audit_stream *b = &other->stream[i];
        if (b->fingerprint != a->fingerprint)
            continue;
        if (b->seed != a->seed)
            differ(d, "the seed: %llu in the %s run, %llu in the other", (ull)a->seed, which, (ull)b->seed);
        else
            differ(d, "the order: %s in the %s run, %s in the other", order_kind_name(a->order), which, order_kind_name(b->order));
        return;
    }
    differ(d, "only the %s run has the %llu samples with fingerprint %016llx", which, (ull)a->samples, (ull)a->fingerprint);
}

int audit_compare(const struct audit_set *a, const struct audit_set *b, struct audit_difference *d, struct fb_error *e)
{
    *d = (struct audit_difference){0};
    for (uint64_t i = 0; i < a->streams && !d->is_different; i++) {
        const struct audit_stream *other = find(b, &a->stream[i]);
        if (!other)
            tell_unmatched(&a->stream[i], b, "first", d);
        else
            FB_TRY(compare_stream(&a->stream[i], other, d, e));
    }
    for (uint64_t i = 0; i < b->streams && !d->is_different; i++)
        if (!find(a, &b->stream[i]))
            tell_unmatched(&b->stream[i], a, "second", d);
    return 0;
}
