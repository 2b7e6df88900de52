/* Closing a feed: all threads leave it, within a second, whatever its state.
 *
 * close asks all threads to stop, waits until none is inside the feed (crew.h), then closes io and everything else: feed_finish. A thread
 * may be stuck in what cannot be cancelled: a function of the caller's, a driver, a file system that does not answer. Then close returns
 * all the same. The feed is left behind as it is, with what the thread needs, less the memory that nobody uses; the caller's log function
 * is not called any more; and the last thread to leave the feed, now or in an hour, does the rest. What is left behind is logged and
 * counted.
 *
 * Only what a back-end abandons (reads that the kernel never ends, a driver that hangs) is never freed, because nothing tells when it ends.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "feed/load_ops.h"
#include "feed/crew.h"
#include "feed/source_cache.h"

/* How long close waits for each, together less than a second. A worker may be in the middle of a large image. */
static const uint64_t lock_ns = 50000000, threads_end_ns = 500000000, planner_joins_ns = 20000000, io_ends_ns = 150000000,
                      device_ends_ns = 50000000, silence_ns = 20000000;

static _Atomic uint32_t left_reads; /* only shown: relaxed */

uint32_t feed_left_reads(void)
{
    return atomic_load_explicit(&left_reads, memory_order_relaxed);
}

/* ---- what is said ---- */

/* Sequentially consistent: either this sees is_silent, or silence() sees `speaking`. */
void feed_say(void *ctx, int level, const char *line)
{
    struct feed *f = ctx;
    atomic_fetch_add(&f->speaking, 1);
    if (!atomic_load(&f->is_silent))
        f->heard.write(f->heard.ctx, level, line);
    atomic_fetch_sub(&f->speaking, 1);
}

/* The caller may free what its log function uses as soon as close has returned. close() does not wait for a thread stuck inside that
 * function. */
static void silence(struct feed *f)
{
    uint64_t deadline_ns = clock_now_ns() + silence_ns;
    atomic_store(&f->is_silent, true);
    while (atomic_load(&f->speaking) > 0 && clock_now_ns() < deadline_ns)
        clock_sleep_until_ns(clock_now_ns() + 1000000u);
}

/* ---- memory ---- */

/* Loads in queues that no worker will empty any more. */
static void drop_loads(struct feed *f, struct load *l)
{
    while (l) {
        struct load *next = l->next;
        load_finish(f, l);
        l = next;
    }
}

static void drop_unused(struct feed *f)
{
    drop_loads(f, crew_take_ready(f));
    pthread_mutex_lock(&f->lock);
    slot_memory_drop_free(f);
    reads_trim(&f->reads);
    pthread_mutex_unlock(&f->lock);
}

void feed_unref(struct feed *f)
{
    if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (f->budget) {
        slot_memory_drop_free(f);
        reads_trim(&f->reads);
    }
    device_copy_close(f);
    feed_free_bad(f);
    free(f->held_slots);
    free(f->given);
    free(f->plan_given);
    if (f->kind && f->kind->close)
        f->kind->close(f);
    labels_close(&f->labels);
    alias_close(f->weights);
    subset_free(&f->subset);
    if (f->object_fd >= 0)
        close(f->object_fd);
    dataset_close(&f->dataset);
    crew_unref(f->crew);
    pthread_cond_destroy(&f->planner_wakes);
    pthread_cond_destroy(&f->consumer_wakes);
    pthread_cond_destroy(&f->device_copy.wakes);
    pthread_mutex_destroy(&f->lock);
    pthread_mutex_destroy(&f->bad_lock);
    pthread_mutex_destroy(&f->delivery.lock);
    free(f);
}

/* ---- closing ---- */

/* May be called again. False: another thread holds the lock and does not release it. */
static bool ask_to_end(struct feed *f)
{
    atomic_store(&f->is_closing, true); /* set before taking the lock: threads see it even if the lock cannot be had */
    if (!thread_lock_within(&f->lock, lock_ns))
        return false;
    feed_replan(f, NULL);
    feed_end_epoch(f);
    if (f->budget)
        slot_memory_give_away_held(f); /* they may be kept for long, and other loaders need the room */
    pthread_cond_broadcast(&f->consumer_wakes);
    pthread_mutex_unlock(&f->lock);
    return true;
}

/* Reads, or the device's thread, did not end. They may still write to slots and buffers, so that memory is never freed. */
static void keep_for_ever(struct feed *f, uint32_t reads)
{
    static _Atomic(struct feed *) kept;
    if (f->crew)
        drop_unused(f);
    atomic_fetch_add_explicit(&left_reads, reads, memory_order_relaxed);
    if (reads)
        log_line(&f->log, LOG_WARN, "close: %u read%s could not be cancelled and %s left behind, with the memory in use there", reads,
                 reads == 1 ? "" : "s", reads == 1 ? "was" : "were");
    else
        log_line(&f->log, LOG_WARN, "close: the thread that copies to the device does not end and is left behind, with the memory it uses");
    silence(f);
    f->next_feed = atomic_load(&kept); /* reachable: it is left on purpose */
    while (!atomic_compare_exchange_weak(&kept, &f->next_feed, f))
        ;
}

static void drop_redo(struct feed *f)
{
    pthread_mutex_lock(&f->lock);
    struct load *redo = f->redo;
    f->redo = NULL;
    pthread_mutex_unlock(&f->lock);
    drop_loads(f, redo);
}

void feed_finish(struct feed *f)
{
    void (*closed)(void *) = f->closed;
    void *closed_ctx = f->closed_ctx;
    ask_to_end(f); /* once more: a slow thread may have planned a batch meanwhile, or held the lock the first time */
    uint32_t reads = f->io ? f->io->ops->close(f->io, io_ends_ns) : 0;
    bool is_stuck = !device_copy_stop(f, device_ends_ns) || reads;
    if (f->has_joined)
        crew_leave(f);
    f->has_joined = false;
    if (f->crew)
        drop_loads(f, crew_take_ready(f));
    drop_redo(f);
    audit_close(f);
    learnt_close(f->learnt); /* now, not with the last batch kept: another process may want to merge */
    f->learnt = NULL;
    if (is_stuck) {
        keep_for_ever(f, reads);
    } else {
        if (f->crew)
            drop_unused(f); /* now, not with the last batch kept */
        source_cache_close(f);
        feed_unref(f);
    }
    if (closed)
        closed(closed_ctx); /* last: it may wait for the interpreter, or end this thread with it */
}

/* `late` threads are still inside. is_locked: one of them, or a device's, has the feed's lock. */
static void leave_behind(struct feed *f, uint32_t late, bool is_locked)
{
    if (f->has_planner)
        pthread_detach(f->planner);
    crew_leave(f);
    f->has_joined = false;
    if (!is_locked)
        drop_unused(f);
    log_line(&f->log, LOG_WARN,
             "close: %u thread%s still busy, inside a function of yours, a read or a driver, and left behind; what they "
             "use is freed when they come back",
             late, late == 1 ? " is" : "s are");
    silence(f);
    if (late && crew_step_out(f))
        feed_finish(f);
}

void feed_close(struct feed *f)
{
    if (f->pid != getpid())
        return; /* the parent's threads are not here: nothing can be taken down in a forked child */
    feed_end_trace(f);
    delivery_close(f);
    bool is_asked = ask_to_end(f);
    uint32_t late = f->has_joined ? crew_quiet(f, threads_end_ns) : 0;
    if (!is_asked && late == 0)
        is_asked = ask_to_end(f); /* the planner had it and is gone; if not, a driver has it */
    if (late || !is_asked) {
        leave_behind(f, late, !is_asked);
        return;
    }
    if (f->has_planner)
        thread_join_or_leave(f->planner, planner_joins_ns); /* it has stepped out: a moment */
    feed_finish(f);
}
