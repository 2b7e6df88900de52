/* The consumer's side: epochs, batches, releases. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "base/thread.h"
#include "feed/crew.h"
#include "feed/delivery.h"
#include "meter/trace.h"

enum { ASK_EVERY_NS = 100000000 };

int feed_check_usable(const struct feed *f, struct fb_error *e)
{
    if (f->pid == getpid())
        return 0;
    error_set(e, FB_E_FORKED, "feed", "this loader was opened in another process (%d) and does not survive fork", (int)f->pid);
    error_remedy(e, "open the loader after the fork, or start processes with the spawn method");
    return FB_E_FORKED;
}

/* ---- plan and slots; f->lock is held ---- */

void feed_recycle(struct feed *f, struct slot *s)
{
    if (device_copy_drains(f, s))
        return; /* comes back here when the device has done with it */
    s->state = SLOT_FREE;
    s->next = f->free_slots;
    f->free_slots = s;
    pthread_cond_signal(&f->planner_wakes);
}

void feed_replan(struct feed *f, const struct run *r)
{
    atomic_fetch_add_explicit(&f->generation, 1, memory_order_relaxed);
    for (struct slot *s = f->ahead_first; s;) {
        struct slot *next = s->next;
        if (s->state == SLOT_READY || s->state == SLOT_FILLED)
            feed_recycle(f, s);
        s = next; /* those still filling or being copied recycle themselves when that is done */
    }
    f->ahead_first = f->ahead_last = NULL;
    f->ahead = 0;
    atomic_store_explicit(&f->is_ample, false, memory_order_relaxed);
    f->has_plan = r != NULL;
    if (r) {
        f->planned = *r;
        f->planned_next = 0;
    }
    pthread_cond_signal(&f->planner_wakes);
}

static bool hold(struct feed *f, struct slot *s)
{
    if (f->held == f->held_capacity) {
        uint32_t capacity = f->held_capacity ? 2 * f->held_capacity : 16;
        struct slot **more = realloc(f->held_slots, capacity * sizeof(*more));
        if (!more)
            return false;
        f->held_slots = more;
        f->held_capacity = capacity;
    }
    f->held_slots[f->held++] = s;
    s->state = SLOT_HELD;
    return true;
}

static void unhold(struct feed *f, struct slot *s)
{
    for (uint32_t i = 0; i < f->held; i++)
        if (f->held_slots[i] == s) {
            f->held--;
            memmove(&f->held_slots[i], &f->held_slots[i + 1], (f->held - i) * sizeof(s));
            return;
        }
}

/* ---- epochs ---- */

struct run feed_run_from(const struct feed *f, uint64_t epoch, uint64_t start, const struct skips *skips)
{
    return (struct run){epoch, start, f->takes_order ? UINT64_MAX : ranks_batches_left(&f->layout, skips, start), *skips};
}

static struct run whole_run(const struct feed *f, uint64_t epoch)
{
    return feed_run_from(f, epoch, 0, &(struct skips){0});
}

/* Which epoch, and from where; a loaded state at the end of its epoch means the next one. */
struct run feed_wanted_run(struct feed *f, int64_t epoch)
{
    bool is_named = epoch >= 0;
    if (f->must_continue && (!is_named || f->at.epoch == (uint64_t)epoch)) {
        struct run r = feed_run_from(f, f->at.epoch, f->at.position, &f->at.skips);
        return r.batches || is_named ? r : whole_run(f, f->at.epoch + 1);
    }
    return whole_run(f, is_named ? (uint64_t)epoch : f->has_run ? f->live.epoch + 1 : 0);
}

/* Is what the planner has prepared what is wanted? Then nothing is thrown away. */
static bool is_prepared(const struct feed *f, const struct run *r)
{
    bool is_at_end = !f->takes_order && f->has_run && f->live_next == f->live.batches;
    return f->has_plan && is_at_end && r->start == 0 && r->skips.count == 0 && r->epoch == f->live.epoch + 1;
}

static int start_planner(struct feed *f, struct fb_error *e)
{
    if (f->has_planner)
        return 0;
    size_t places = f->takes_order ? f->shape.places : 0;
    if (places && !f->plan_given && !(f->plan_given = malloc(places * sizeof(*f->plan_given))))
        return error_set_errno(e, "feed", ENOMEM, "plan batches of %zu samples", places);
    crew_planner_in(f);
    int rc = thread_start(&f->planner, "fb-plan", planner_main, f, e);
    f->has_planner = rc == 0;
    if (rc < 0)
        crew_planner_out(f);
    return rc;
}

int64_t feed_start_epoch(struct feed *f, int64_t epoch, struct fb_error *e)
{
    uint64_t entered_ns = clock_now_ns();
    FB_TRY(feed_check_usable(f, e));
    FB_TRY(feed_resolve(f, e));
    FB_TRY(feed_check_memory(f, crew_least_memory(f), e));
    FB_TRY(device_copy_start(f, e));
    FB_TRY(start_planner(f, e));
    pthread_mutex_lock(&f->lock);
    struct run r = feed_wanted_run(f, epoch);
    if (f->takes_order)
        given_restart(f);
    if (!is_prepared(f, &r))
        feed_replan(f, &r);
    f->live = r;
    f->live_next = 0;
    f->is_live = f->has_run = true;
    f->must_continue = false;
    f->at = feed_state_at(f, r.epoch, r.start, &r.skips);
    f->epoch_redraws = 0;
    error_clear(&f->epoch_error);
    error_clear(&f->plan_error);
    delivery_begin_epoch(f, entered_ns, f->takes_order ? 0 : r.batches);
    atomic_store_explicit(&f->is_consuming, true, memory_order_release); /* with what feed_resolve found: other feeds add it up */
    pthread_cond_signal(&f->planner_wakes);
    pthread_mutex_unlock(&f->lock);
    audit_run(f);
    log_line(&f->log, LOG_DEBUG, "epoch %llu begins at sample %llu", (unsigned long long)r.epoch, (unsigned long long)r.start);
    return (int64_t)r.epoch;
}

/* ---- batches ---- */

static int fail_with(const struct fb_error *why, struct fb_error *e)
{
    if (e && !e->code)
        *e = *why;
    return why->code;
}

static bool is_head_ready(const struct feed *f)
{
    return f->ahead_first && f->ahead_first->state == SLOT_READY;
}

/* f->lock is held. Waits for the head of the line. */
static int wait_for_head(struct feed *f, struct fb_error *e)
{
    if (is_head_ready(f))
        return 0;
    f->is_consumer_waiting = true;
    pthread_cond_signal(&f->planner_wakes); /* it may want to look further ahead */
    int rc = 0;
    uint64_t ask_at = clock_now_ns() + ASK_EVERY_NS;
    atomic_store_explicit(&f->waiting_since_ns, clock_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&f->is_starving, true, memory_order_relaxed);
    crew_hurry(f);
    while (!is_head_ready(f)) {
        if (f->is_closing) {
            rc = error_set(e, FB_E_STATE, "feed", "the loader was closed while it waited for a batch");
            break;
        }
        if (f->plan_error.code && !f->ahead_first) {
            f->epoch_error = f->plan_error;
            rc = fail_with(&f->plan_error, e);
            feed_end_epoch(f);
            break;
        }
        if (f->device_copy.error.code) {
            rc = fail_with(&f->device_copy.error, e);
            break;
        }
        if (thread_cond_wait_until(&f->consumer_wakes, &f->lock, ask_at))
            continue;
        ask_at = clock_now_ns() + ASK_EVERY_NS;
        if (!f->interrupted)
            continue;
        pthread_mutex_unlock(&f->lock); /* the question may take locks of its own (Python's) */
        bool is_interrupted = f->interrupted(f->ctx) != 0;
        pthread_mutex_lock(&f->lock);
        if (is_interrupted) {
            rc = error_set(e, FB_E_INTERRUPTED, "feed", "interrupted while waiting for a batch");
            break;
        }
        ask_at = clock_now_ns() + ASK_EVERY_NS;
    }
    atomic_store_explicit(&f->is_starving, false, memory_order_relaxed);
    atomic_store_explicit(&f->waiting_since_ns, 0, memory_order_relaxed);
    f->is_consumer_waiting = false;
    return rc;
}

void feed_end_epoch(struct feed *f)
{
    f->is_live = false;
    atomic_store_explicit(&f->is_consuming, false, memory_order_relaxed);
}

/* A bad sample's own remedy, if it has one, is about the file. */
static void advise_skip(struct fb_error *e)
{
    static const char words[] = "on_error=\"skip\" goes on with another sample in its place";
    size_t n = strlen(e->remedy);
    if (e->sample >= 0 && !error_is_systemic(e) && (n == 0 || strcmp(e->stage, "read") == 0 || strcmp(e->stage, "decode") == 0))
        text_words(e->remedy + n, sizeof(e->remedy) - n, "%s%s", n ? "; " : "", words);
}

/* The errors of an epoch are counted as batches are taken, not as workers meet them: the same run stops at the same batch. */
static int check_batch(struct feed *f, const struct slot *s, struct fb_error *e)
{
    f->epoch_redraws += s->redraws;
    bool is_too_many = f->max_errors >= 0 && f->epoch_redraws > (uint64_t)f->max_errors;
    if (s->error)
        f->epoch_error = *s->error;
    else if (is_too_many)
        error_set(&f->epoch_error, FB_E_DATA, "feed", "%llu bad samples in this epoch, more than max_errors=%lld allows",
                  (unsigned long long)f->epoch_redraws, (long long)f->max_errors);
    if (!f->epoch_error.code)
        return 0;
    if (f->skips_bad)
        error_remedy(&f->epoch_error, "the statistics name them under bad_samples");
    else if (s->error)
        advise_skip(&f->epoch_error);
    return fail_with(&f->epoch_error, e);
}

/* At least all of the look-ahead but two is ready, in a row from the head. With fewer, a slow sample would not be hidden by finished
 * batches. */
static bool is_ample_still(const struct feed *f)
{
    uint32_t ready = 0;
    for (const struct slot *s = f->ahead_first; s && s->state == SLOT_READY; s = s->next)
        ready++;
    return ready > 0 && ready + 2 >= f->look_ahead;
}

static struct slot *pop_head(struct feed *f)
{
    struct slot *s = f->ahead_first;
    f->ahead_first = s->next;
    if (!f->ahead_first)
        f->ahead_last = NULL;
    f->ahead--;
    s->next = NULL;
    if (!is_ample_still(f))
        atomic_store_explicit(&f->is_ample, false, memory_order_relaxed);
    pthread_cond_signal(&f->planner_wakes);
    return s;
}

/* f->lock is held. */
static int take_batch(struct feed *f, struct slot **out, struct fb_error *e)
{
    if (!f->is_live && f->epoch_error.code)
        return fail_with(&f->epoch_error, e);
    if (!f->is_live) {
        if (f->has_run && f->live_next == f->live.batches)
            return 0;
        return error_set(e, FB_E_STATE, "feed", "no epoch is running; start one first");
    }
    if (f->live_next == f->live.batches) {
        feed_end_epoch(f);
        delivery_end_epoch(f);
        return 0;
    }
    if (f->takes_order && !given_has_batch(f, &f->live, f->live_next))
        return error_set(e, FB_E_STATE, "order", "the samples given with fb_push_order have run out");
    FB_TRY(wait_for_head(f, e));
    struct slot *s = pop_head(f);
    int rc = check_batch(f, s, e);
    if (rc == 0 && !hold(f, s))
        rc = error_set_errno(e, "feed", ENOMEM, "keep a batch");
    if (rc < 0) {
        feed_recycle(f, s);
        feed_end_epoch(f);
        return rc;
    }
    device_copy_taken(f, s);
    f->live_next++;
    f->at.position = s->end;
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    *out = s;
    return 1;
}

static void warn_if_many_held(struct feed *f, bool *is_due)
{
    *is_due = f->given_away && !f->warned_held;
    if (*is_due)
        f->warned_held = true;
}

static void say_epoch(const struct feed *f)
{
    struct loop_figures g = loop_read(&f->loop.epoch);
    log_line(&f->log, LOG_DEBUG, "epoch %llu: %llu batches in %.3f s, of which %.3f s were spent waiting, at most %.1f ms for one",
             (unsigned long long)f->live.epoch, (unsigned long long)g.batches, (double)g.wall_ns / 1e9, (double)g.wait_ns / 1e9,
             (double)g.wait_most_ns / 1e6);
}

void feed_end_trace(struct feed *f)
{
    struct fb_error e = {0};
    char line[1024];
    if (trace_finish(&f->meter, &e) < 0) {
        fb_format_error(&e, line, sizeof(line));
        log_line(&f->log, LOG_WARN, "%s", line);
    }
}

int feed_next(struct feed *f, uint64_t asked_ns, struct slot **out, struct fb_error *e)
{
    uint64_t entered_ns = asked_ns ? asked_ns : clock_now_ns(), cpu_ns = delivery_cpu_ns(f);
    *out = NULL;
    FB_TRY(feed_check_usable(f, e));
    bool must_warn = false;
    pthread_mutex_lock(&f->lock);
    bool was_live = f->is_live;
    int rc = f->is_closing ? error_set(e, FB_E_STATE, "feed", "the loader is closed") : take_batch(f, out, e);
    warn_if_many_held(f, &must_warn);
    bool is_live = f->is_live, is_cramped = f->is_cramped;
    pthread_mutex_unlock(&f->lock);
    if (rc == 1)
        audit_delivered(f, *out);
    else if (!is_live)
        audit_end(f, rc == 0 ? "done" : "failed");
    if (rc == 0 && was_live)
        say_epoch(f);
    if (must_warn)
        log_line(&f->log, LOG_WARN, "%s",
                 is_cramped
                     ? "the memory budget has no room for a batch beside those that the program keeps; these take memory outside of it "
                       "(raise memory=, lower batch_size=, or drop batches sooner)"
                     : "more than two batches are kept by the program; each further one takes memory outside the budget (copy what "
                       "you need, or drop batches sooner)");
    if (rc == 1)
        delivery_take(f, *out, entered_ns, cpu_ns, asked_ns != 0);
    return rc;
}

void feed_release(struct slot *s)
{
    struct feed *f = s->owner;
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (f->pid != getpid())
        return; /* a forked child's copy: the parent has the real one */
    uint64_t since_ns = clock_now_ns();
    device_copy_released(f, s);
    pthread_mutex_lock(&f->lock);
    if (!s->is_given)
        unhold(f, s);
    bool is_away = device_copy_drains(f, s);
    pthread_mutex_unlock(&f->lock);
    if (!is_away && device_copy_wait_for(f, s)) {
        pthread_mutex_lock(&f->lock);
        bool is_ours = !s->is_given;
        if (is_ours)
            feed_recycle(f, s);
        else
            device_copy_slot_free(f, s);
        pthread_mutex_unlock(&f->lock);
    }
    meter_add(&f->release_ns, clock_now_ns() - since_ns);
    feed_unref(f);
}
