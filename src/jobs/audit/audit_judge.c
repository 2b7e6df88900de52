/* The proof of an epoch, second half: is every position there, and if not, which rank should have had it? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "jobs/audit/audit_internal.h"

/* ---- what may be missing ---- */

static bool is_there(const struct proof *p, uint64_t position)
{
    return p->t.flags[position] & (AUDIT_SEEN | AUDIT_LEFT_OUT);
}

static void leave_out(struct proof *p, uint64_t first, uint64_t last, uint64_t *count)
{
    for (uint64_t at = first; at < last && at < p->t.count; at++)
        if (!is_there(p, at)) {
            p->t.flags[at] |= AUDIT_LEFT_OUT;
            ++*count;
        }
}

/* What the program skipped, and what drop_last drops of the latest stretch. */
static void mark_left_out(struct proof *p, const struct audit_stretch *last)
{
    const struct audit_stream *s = p->stream;
    for (uint64_t i = 0; i < s->parts; i++) {
        const struct audit_stretch *r = s->part[i].stretch;
        for (uint32_t k = 0; r->epoch == p->epoch->epoch && k < r->skips.count; k++)
            if (!audit_is_taken_back(&s->part[i], r->epoch, r->skips.range[k].first)) /* else the run went back to before the skip */
                leave_out(p, r->skips.range[k].first, r->skips.range[k].last, &p->epoch->skipped);
    }
    if (!last || !last->layout.drop_last || s->order == ORDER_GIVEN)
        return;
    uint64_t batches = ranks_batches_left(&last->layout, &last->skips, last->start);
    uint64_t end = batches ? ranks_batch_left(&last->layout, &last->skips, last->start, batches - 1).end : last->start;
    leave_out(p, end, p->t.count, &p->epoch->dropped);
}

/* ---- whose is it ---- */

/* The rank that has to hand out this position in a stretch; false: none has. */
static bool owner_of(const struct audit_stretch *s, uint64_t position, uint32_t *rank)
{
    struct rank_layout l = s->layout;
    uint64_t index = skips_index(&s->skips, position), g = (index - skips_index(&s->skips, s->start)) / l.global_batch;
    if (g >= ranks_batches_left(&l, &s->skips, s->start))
        return false;
    for (l.rank = 0; l.rank < l.world; l.rank++) {
        struct batch_span span = ranks_batch_left(&l, &s->skips, s->start, g);
        if (index >= span.first && index < span.first + span.count) {
            *rank = l.rank;
            return true;
        }
    }
    return false;
}

static bool is_same_stretch(const struct audit_stretch *a, const struct audit_stretch *b)
{
    return a->epoch == b->epoch && a->start == b->start && a->layout.world == b->layout.world;
}

static const char *name_of(const struct audit_log *l)
{
    return text_last_part(l->path);
}

/* Which rank had to hand out this position in the latest stretch that began before it, and what does its log say? */
static void blame(const struct proof *p, uint64_t position, char *out, size_t out_size)
{
    const struct audit_stream *s = p->stream;
    const struct audit_stretch *last = NULL;
    uint32_t rank;
    char shown[160];
    for (uint64_t i = 0; i < s->parts; i++)
        if (s->part[i].stretch->epoch == p->epoch->epoch && s->part[i].stretch->start <= position)
            last = s->part[i].stretch;
    snprintf(out, out_size, "%s", last ? "" : ": no log begins so early in this epoch");
    if (!last || !owner_of(last, position, &rank))
        return;
    for (uint64_t i = s->parts; i > 0; i--) {
        const struct audit_part *part = &s->part[i - 1];
        if (!is_same_stretch(part->stretch, last) || part->stretch->layout.rank != rank)
            continue;
        snprintf(out, out_size, ": they are rank %u's of %u, whose log %s %s after %llu batches from position %llu on", rank,
                 last->layout.world, text_escape(name_of(part->log), shown, sizeof(shown)), part->log->torn_bytes ? "is torn" : "ends",
                 (ull)part->stretch->batches, (ull)last->start);
        return;
    }
    snprintf(out, out_size, ": they are rank %u's of %u, which has no log from position %llu on", rank, last->layout.world,
             (ull)last->start);
}

static void count_missing(struct proof *p, uint64_t end)
{
    char why[300];
    for (uint64_t at = 0; at < end; at++) {
        uint64_t from = at;
        while (at < end && !is_there(p, at))
            at++;
        if (at == from)
            continue;
        p->epoch->missing += at - from;
        blame(p, from, why, sizeof(why));
        PROBLEM(p, from, "%llu positions from here on were never handed out%s", (ull)(at - from), why);
    }
}

/* ---- how did it end ---- */

struct ending {
    bool is_done, is_left, has_later;
    const struct audit_stretch *last; /* the latest stretch that was not taken back whole; NULL: all were */
};

static struct ending ending_of(const struct proof *p)
{
    struct ending e = {0};
    for (uint64_t i = 0; i < p->stream->parts; i++) {
        const struct audit_part *part = &p->stream->part[i];
        const struct audit_stretch *r = part->stretch;
        if (audit_is_taken_back(part, r->epoch, r->start))
            continue;
        e.has_later |= r->epoch > p->epoch->epoch;
        if (r->epoch != p->epoch->epoch)
            continue;
        e.last = r;
        e.is_done |= r->why == AUDIT_DONE && !audit_is_taken_back(part, r->epoch, r->layout.count - 1);
        e.is_left = r->why == AUDIT_LEFT || r->why == AUDIT_FAILED;
    }
    return e;
}

/* How far the ranks of a world have come in a stretch, in batches. */
struct reach {
    uint64_t least, most;
    uint32_t ranks, slowest, absent; /* how many; the one with the least; the first one without a log */
};

static struct reach reach_of(const struct proof *p, const struct audit_stretch *last)
{
    struct reach r = {.least = UINT64_MAX};
    uint8_t *has = calloc(last->layout.world, 1);
    for (uint64_t i = 0; has && i < p->stream->parts; i++) {
        const struct audit_part *part = &p->stream->part[i];
        const struct audit_stretch *s = part->stretch;
        if (!is_same_stretch(s, last) || audit_is_taken_back(part, s->epoch, s->start))
            continue;
        r.ranks += !has[s->layout.rank];
        has[s->layout.rank] = 1;
        if (s->batches < r.least) {
            r.least = s->batches;
            r.slowest = s->layout.rank;
        }
        r.most = s->batches > r.most ? s->batches : r.most;
    }
    while (has && r.absent < last->layout.world && has[r.absent])
        r.absent++;
    if (r.ranks < last->layout.world) {
        r.least = 0;
        r.slowest = r.absent;
    }
    free(has);
    return r;
}

static uint64_t end_of(const struct audit_stretch *s, uint64_t batches)
{
    uint64_t most = ranks_batches_left(&s->layout, &s->skips, s->start);
    batches = batches < most ? batches : most;
    return batches ? ranks_batch_left(&s->layout, &s->skips, s->start, batches - 1).end : s->start;
}

/* An epoch that is under way, or was left: the ranks need not have come equally far, but what all of them passed must be there. A rank that
 * was only just about to begin has no log yet. */
static void judge_part(struct proof *p, const struct ending *end)
{
    enum { JUST_BEGUN = 2 };
    struct reach r = reach_of(p, end->last);
    struct audit_epoch *e = p->epoch;
    e->verdict = end->is_left ? AUDIT_ABANDONED : AUDIT_UNFINISHED;
    e->reached = end_of(end->last, r.least);
    e->furthest = end_of(end->last, r.most);
    e->slowest_rank = r.slowest;
    if (r.ranks < end->last->layout.world && r.most > JUST_BEGUN)
        PROBLEM(p, -1, "rank %u of %u has no log from position %llu on, where others took %llu batches", r.absent, end->last->layout.world,
                (ull)end->last->start, (ull)r.most);
    if (end->is_left && r.least != r.most)
        PROBLEM(p, -1, "the ranks did not leave this epoch at the same batch: rank %u left after %llu, others after %llu", r.slowest,
                (ull)r.least, (ull)r.most);
    count_missing(p, e->reached);
}

static bool is_whole(const struct proof *p)
{
    for (uint64_t at = 0; at < p->t.count; at++)
        if (!is_there(p, at))
            return false;
    return true;
}

void audit_judge(struct proof *p)
{
    struct audit_epoch *e = p->epoch;
    struct ending end = ending_of(p);
    mark_left_out(p, end.last);
    e->verdict = AUDIT_PROVED;
    e->reached = e->furthest = p->t.count;
    if (!end.last) { /* begun, and taken back whole */
        e->verdict = AUDIT_ABANDONED;
        e->reached = e->furthest = 0;
    } else if (!is_whole(p) && (end.is_done || (end.has_later && !end.is_left))) {
        count_missing(p, p->t.count);
    } else if (!is_whole(p)) {
        judge_part(p, &end);
    }
    if (e->problems)
        e->verdict = AUDIT_BROKEN;
}
