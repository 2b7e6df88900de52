/* Resuming: loading states and skipping batches. Both set a position in an epoch and the ranges of it that are skipped. */
#include "feed/feed.h"

struct state feed_state_at(const struct feed *f, uint64_t epoch, uint64_t position, const struct skips *skips)
{
    return (struct state){.seed = f->seed, .epoch = epoch, .position = position, .skips = *skips, .origin = f->origin};
}

/* ---- states ---- */

static void continue_at(struct feed *f, const struct state *s)
{
    pthread_mutex_lock(&f->lock);
    f->at = feed_state_at(f, s->epoch, s->position, &s->skips);
    f->must_continue = true;
    feed_end_epoch(f);
    error_clear(&f->epoch_error);
    pthread_mutex_unlock(&f->lock);
}

int feed_load_state(struct feed *f, const char *json, bool force, struct fb_error *e)
{
    struct state s, here = feed_state_at(f, 0, 0, &(struct skips){0});
    uint64_t version;
    uint32_t faults;
    char consequence[1024];
    FB_TRY(feed_check_usable(f, e));
    FB_TRY(feed_resolve(f, e));
    FB_TRY(state_read(&s, json, &version, &faults, e));
    faults |= state_compare(&s, version, &here);
    if (faults && !force)
        return state_refuse(faults, &s, version, &here, e);
    if (faults) {
        state_consequence(faults, &s, version, &here, consequence, sizeof(consequence));
        log_line(&f->log, LOG_WARN, "%s", consequence);
    }
    if (faults & STATE_BEYOND) {
        s.position = f->origin.samples;
        s.skips.count = 0;
    }
    continue_at(f, &s);
    return 0;
}

/* ---- skipping ---- */

static int refuse_given(const struct feed *f, struct fb_error *e)
{
    if (!f->takes_order)
        return 0;
    return error_advise(e, error_set(e, FB_E_UNSUPPORTED, "order", "skipping needs the loader's own order, but this loader has a sampler"),
                        "leave the indices out of the sampler");
}

/* f->lock is held: the epoch that is running, from the last batch returned on, or the one that will be started. */
static struct run next_run(struct feed *f)
{
    return f->is_live ? feed_run_from(f, f->live.epoch, f->at.position, &f->live.skips) : feed_wanted_run(f, FB_NEXT_EPOCH);
}

/* f->lock is held. */
static int leave_out(struct feed *f, const struct run *r, uint64_t first, uint64_t last, struct fb_error *e)
{
    struct skips skips = r->skips;
    if (first < r->start)
        first = r->start;
    if (first >= last)
        return 0;
    if (!skips_add(&skips, first, last, r->start))
        return error_advise(e, error_set(e, FB_E_USAGE, "order", "more than %d separate ranges to skip in one epoch", SKIPS_MOST),
                            "join ranges, or skip some of them later in the epoch");
    struct run next = feed_run_from(f, r->epoch, r->start, &skips);
    f->at = feed_state_at(f, next.epoch, skips_position(&skips, skips_index(&skips, next.start)), &skips);
    if (!f->is_live) {
        f->must_continue = true;
        return 0;
    }
    feed_replan(f, &next);
    f->live = next;
    f->live_next = 0;
    return 0;
}

int64_t feed_skip(struct feed *f, uint64_t batches, struct fb_error *e)
{
    FB_TRY(feed_check_usable(f, e));
    FB_TRY(refuse_given(f, e));
    FB_TRY(feed_resolve(f, e));
    pthread_mutex_lock(&f->lock);
    struct run r = next_run(f);
    if (batches > r.batches)
        batches = r.batches;
    uint64_t end = r.start;
    if (batches)
        end = ranks_batch_left(&f->layout, &r.skips, r.start, batches - 1).end;
    int rc = leave_out(f, &r, r.start, end, e);
    bool is_live = f->is_live;
    pthread_mutex_unlock(&f->lock);
    if (rc == 0 && is_live)
        audit_run(f);
    return rc < 0 ? rc : (int64_t)batches;
}

/* The position where global batch g of a whole epoch begins. */
static uint64_t begin_of(const struct feed *f, uint64_t g)
{
    uint64_t position;
    bool is_beyond = __builtin_mul_overflow(g, f->layout.global_batch, &position) || position > f->layout.count;
    return is_beyond ? f->layout.count : position;
}

int feed_skip_range(struct feed *f, uint64_t first, uint64_t last, struct fb_error *e)
{
    FB_TRY(feed_check_usable(f, e));
    FB_TRY(refuse_given(f, e));
    FB_TRY(feed_resolve(f, e));
    if (first > last)
        return error_set(e, FB_E_USAGE, "order", "skip_range from batch %llu to batch %llu: the end comes before the beginning",
                         (unsigned long long)first, (unsigned long long)last);
    pthread_mutex_lock(&f->lock);
    struct run r = next_run(f);
    int rc = leave_out(f, &r, begin_of(f, first), begin_of(f, last), e);
    bool is_live = f->is_live;
    pthread_mutex_unlock(&f->lock);
    if (rc == 0 && is_live)
        audit_run(f);
    return rc;
}
