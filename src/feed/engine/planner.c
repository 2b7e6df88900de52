/* The planner: one thread per feed that walks the order ahead of the consumer.
 *
 * It takes a slot for each batch, makes a load for each place and sends it on its way: straight to the workers while their own reads find
 * the bytes in the page cache, otherwise to io with a buffer. Loads that come back (a read that would block, a file that grew, a stand-in
 * for a bad sample) go first. After the last batch of an epoch it goes on with the next one; if the consumer wants another, the plan is
 * dropped.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "base/thread.h"
#include "feed/crew.h"
#include "feed/engine/slot_memory.h"
#include "feed/load_ops.h"
#include "feed/source_cache.h"

enum {
    NAP_NS = 100000000, /* how long a wait may overlook is_pressed */
    COLD_ABOVE = 64,    /* of 256: send reads to io */
    PROBE_EVERY = 32,   /* while cold, one load in so many asks whether the cache is warm again */
    LOOK_AHEAD_MOST = 64,
    GROWN_BYTES = 512 << 20,     /* of a look-ahead that grew: fresh memory costs as much time as a slow read */
    ROWS_AHEAD_BYTES = 64 << 20, /* of batches whose size varies: more than that is ahead only to keep two batches. What is still in the
                                    processor's cache is written again a fifth faster */
    ROWS_AHEAD_LEAST = 2,
    WAITS_FOR_BUFFER = 200, /* naps until a load without a read buffer is given up */
    WAITS_FOR_SYSTEM = 20   /* and a batch, when it is malloc that has no memory */
};

struct plan_state {
    struct feed *f;
    struct load *todo;  /* of the slot being issued */
    struct order order; /* of f->planned.epoch */
    uint64_t order_epoch;
    bool has_order;
    struct scratch known;      /* a record, while a load is prepared */
    struct rank_layout layout; /* as it was when the batch was begun */
    uint64_t *given;           /* with takes_order: the samples of the batch */
    size_t rows_most;          /* that a batch of variable lengths has taken */
};

/* ---- how far ahead; f->lock is held ---- */

/* Someone needs memory: an idle feed gives back everything, and what the program still keeps of it is the program's; a live one what it has
 * beyond the least. */
static void give_back(struct feed *f)
{
    atomic_store_explicit(&f->is_pressed, false, memory_order_relaxed);
    f->look_ahead = f->least_ahead;
    if (!f->is_live && f->has_plan)
        feed_replan(f, NULL);
    if (!f->is_live)
        slot_memory_give_away_held(f);
    slot_memory_drop_free(f);
    reads_trim(&f->reads);
    if (f->kind->give_back)
        f->kind->give_back(f, f->is_live);
}

/* Memory that is never touched again in time costs more than the reads it could hide. */
static bool has_rows_enough(const struct feed *f)
{
    uint64_t bytes = 0;
    for (const struct slot *s = f->ahead_first; s; s = s->next)
        bytes += s->rows_capacity;
    return f->ahead >= ROWS_AHEAD_LEAST && bytes >= ROWS_AHEAD_BYTES;
}

static bool wants_batch(struct feed *f)
{
    if (!f->has_plan || has_rows_enough(f))
        return false;
    if (f->takes_order)
        return f->ahead < f->look_ahead && given_has_batch(f, &f->planned, f->planned_next);
    if (f->planned_next == f->planned.batches) { /* on to the next epoch, on the guess that it will be wanted */
        f->planned = (struct run){.epoch = f->planned.epoch + 1, .batches = ranks_batch_count(&f->layout, 0)};
        f->planned_next = 0;
    }
    return f->ahead < f->look_ahead;
}

/* ---- issuing ---- */

static void fail_load(struct feed *f, struct load *l, int code, const char *cause)
{
    error_free(l->error);
    l->error = error_new();
    error_set(l->error, code, "read", "%s", cause);
    crew_push(f, l);
}

static void read_done(struct io_request *r)
{
    struct load *l = r->owner;
    struct feed *f = l->slot->owner;
    meter_work(&f->meter, 0, STAGE_READ, r->done_ns > r->submitted_ns ? r->done_ns - r->submitted_ns : 0, 1, r->status == 0 ? r->got : 0);
    atomic_fetch_add_explicit(&f->io_reads, 1, memory_order_relaxed);
    if (r->status == IO_GREW) {
        l->size = r->object_size;
        planner_redo(f, l);
        return;
    }
    crew_push(f, l);
}

static void submit(struct feed *f, struct load *l, struct read_buffer *b)
{
    l->buffer = b;
    l->request = f->kind->request(f, l, b->data, b->capacity, &b->error);
    l->request.done = read_done;
    l->has_begun = true;
    load_step(l, LOAD_READING);
    f->io->ops->submit(f->io, &l->request, false);
}

static bool is_cold(struct feed *f)
{
    return !f->io->ops->try_now || atomic_load_explicit(&f->miss_score, memory_order_relaxed) > COLD_ABOVE;
}

/* Does this load go to the workers, who read by themselves? Not if that was tried and would have blocked. */
static bool goes_straight(struct feed *f, const struct load *l)
{
    if (l->would_block || l->buffer || !f->io->ops->try_now) /* a buffer: io has begun with it and goes on */
        return false;
    return !is_cold(f) || f->probe++ % PROBE_EVERY == 0;
}

/* Sends one load to io. False: no buffer now. */
static bool send_to_io(struct feed *f, struct load *l)
{
    bool is_too_large = false, is_alone;
    pthread_mutex_lock(&f->lock);
    struct read_buffer *b = l->buffer;
    if (b && b->capacity < l->size + IO_TAIL) {
        reads_give(&f->reads, b);
        b = NULL;
    }
    if (!b)
        b = reads_take(&f->reads, l->size + IO_TAIL, &is_too_large);
    l->buffer = NULL;
    is_alone = f->reads.bytes == 0;
    pthread_mutex_unlock(&f->lock);
    f->reads_failed = b ? 0 : f->reads_failed + 1;
    if (b) {
        submit(f, l, b);
        return true;
    }
    if (!is_too_large && is_alone && f->reads_failed > WAITS_FOR_BUFFER) { /* no read is under way that would give its buffer back */
        fail_load(f, l, FB_E_NOMEM, "there is no memory to read it into");
        return true;
    }
    if (!is_too_large)
        return false;
    char cause[160], size[32], limit[32];
    snprintf(cause, sizeof(cause), "the file has %s, more than half of the memory budget of %s", text_size(l->size, size, sizeof(size)),
             text_size(atomic_load(&f->budget->limit), limit, sizeof(limit)));
    fail_load(f, l, FB_E_BUDGET, cause);
    return true;
}

/* Issues what it can of `todo`; a chain of straight ones is pushed at once. */
static bool issue(struct plan_state *p)
{
    struct feed *f = p->f;
    struct load *first = NULL, **tail = &first;
    bool is_stuck = false;
    while (p->todo && !is_stuck && !atomic_load_explicit(&f->has_redo, memory_order_relaxed)) {
        struct load *l = p->todo, *next = l->next;
        l->next = NULL;
        if (l->slot->generation != atomic_load_explicit(&f->generation, memory_order_relaxed)) {
            load_finish(f, l);
            p->todo = next;
            continue;
        }
        if (f->kind->prepare)
            f->kind->prepare(f, l, &p->known);
        if (l->error || l->reads_itself || goes_straight(f, l)) {
            *tail = l;
            tail = &l->next;
        } else if (!send_to_io(f, l)) {
            l->next = next;
            is_stuck = true;
            break;
        }
        p->todo = next;
    }
    if (first)
        crew_push(f, first);
    return !is_stuck;
}

/* ---- planning ---- */

static const struct order *order_of(struct plan_state *p, uint64_t epoch)
{
    if (!p->has_order || p->order_epoch != epoch) {
        feed_order(p->f, epoch, &p->order);
        p->order_epoch = epoch;
        p->has_order = true;
    }
    return &p->order;
}

static void drop_todo(struct plan_state *p)
{
    while (p->todo) {
        struct load *l = p->todo;
        p->todo = l->next;
        load_finish(p->f, l);
    }
}

/* False: the batch has failed already. */
static bool fill_slot(struct plan_state *p, struct slot *s, const struct run *run, uint64_t batch)
{
    struct feed *f = p->f;
    struct batch_span span = ranks_batch_left(&p->layout, &run->skips, run->start, batch);
    s->epoch = run->epoch;
    s->batch = batch;
    s->first = skips_position(&run->skips, span.first);
    s->end = span.end;
    s->redraws = 0;
    error_free(s->error);
    s->error = NULL;
    slot_prepare(s, (uint32_t)span.count);
    audit_prepare(f, s);
    struct state after = feed_state_at(f, s->epoch, s->end, &run->skips);
    state_write(&after, s->state_json, sizeof(s->state_json));
    atomic_store_explicit(&s->remaining, s->count, memory_order_relaxed);

    for (uint32_t i = 0; i < s->count; i++) {
        s->place[i].position = skips_position(&run->skips, span.first + i);
        s->place[i].is_repeat = i >= span.count - span.repeats;
    }
    p->todo = f->kind->plan(f, s, order_of(p, run->epoch), p->given);
    return !s->room || slot_memory_make_room(f, s, &p->rows_most);
}

/* f->lock is held: the next batch gets the slot. */
static void append_slot(struct feed *f, struct slot *s)
{
    s->state = SLOT_FILLING;
    s->next = NULL;
    if (f->ahead_last)
        f->ahead_last->next = s;
    else
        f->ahead_first = s;
    f->ahead_last = s;
    f->ahead++;
}

/* f->lock is held. Re-aims what came back and puts it before everything else. */
static void collect_redo(struct plan_state *p)
{
    struct feed *f = p->f;
    atomic_store_explicit(&f->has_redo, false, memory_order_relaxed);
    while (f->redo) {
        struct load *l = f->redo;
        f->redo = l->next;
        if (l->needs_aim)
            load_aim(f, l, feed_stand_in(f, l->slot, l->place, &l->attempt));
        l->next = p->todo;
        p->todo = l;
    }
}

/* Loads that are still under way keep the storage as busy as it can be kept: it is the storage that is slow, not one sample. */
static bool has_loads_enough(const struct feed *f)
{
    uint64_t loads = 0;
    for (const struct slot *s = f->ahead_first; s; s = s->next)
        loads += atomic_load_explicit(&s->remaining, memory_order_relaxed);
    return loads >= f->io_depth;
}

/* The consumer waits although the look-ahead is full and workers are idle: one slow sample holds up its slot, and the slots behind it
 * are too few to keep everybody busy meanwhile. (When all workers are busy, or the storage is, more look-ahead would only take memory.) */
static void grow_look_ahead(struct feed *f)
{
    uint64_t share = atomic_load_explicit(&f->budget->limit, memory_order_relaxed) / 4;
    share = share < GROWN_BYTES ? share : GROWN_BYTES;
    bool is_held_up = f->is_consumer_waiting && f->ahead == f->look_ahead && crew_is_idle(f) && !has_loads_enough(f);
    if (is_held_up && f->look_ahead < LOOK_AHEAD_MOST && (f->look_ahead + 1) * f->slot_total_bytes < share)
        f->look_ahead++;
}

/* f->lock is held, but let go while the slot is filled. The plan may be dropped meanwhile: then the slot is free again. */
static void plan_batch(struct plan_state *p, struct slot *s)
{
    struct feed *f = p->f;
    struct run run = f->planned;
    uint64_t batch = f->planned_next++;
    s->generation = atomic_load_explicit(&f->generation, memory_order_relaxed);
    s->sequence = f->sequence++;
    p->layout = f->layout;
    if (f->takes_order)
        memcpy(p->given, f->given + run.start + batch * f->layout.global_batch, given_in_batch(f, &run, batch) * sizeof(*p->given));
    pthread_mutex_unlock(&f->lock);

    uint64_t since = clock_now_ns();
    bool is_good = fill_slot(p, s, &run, batch);
    source_cache_move(f, &run, s->end);
    meter_work(&f->meter, 0, STAGE_PLAN, clock_now_ns() - since, s->count, 0);

    pthread_mutex_lock(&f->lock);
    if (s->generation == atomic_load_explicit(&f->generation, memory_order_relaxed)) {
        append_slot(f, s);
        if (!is_good) { /* its places are in line; nothing is read for them */
            pthread_mutex_unlock(&f->lock);
            drop_todo(p);
            pthread_mutex_lock(&f->lock);
        }
    } else {
        p->todo = NULL;
        feed_recycle(f, s);
    }
}

/* f->lock is held. The budget has room for a batch, but the system has none, and nothing is under way that could be given back. */
static void give_plan_up(struct feed *f)
{
    char size[32];
    error_clear(&f->plan_error);
    error_set(&f->plan_error, FB_E_NOMEM, "feed", "the system has no %s for a batch", text_size(f->slot_total_bytes, size, sizeof(size)));
    error_remedy(&f->plan_error, "lower memory=, batch_size= or threads=, or free memory on this machine");
    f->slots_failed = 0;
    feed_replan(f, NULL);
    pthread_cond_broadcast(&f->consumer_wakes);
}

/* f->lock is held and there is nothing to issue: plans one batch, or waits. */
static void plan_or_wait(struct plan_state *p)
{
    struct feed *f = p->f;
    bool is_poor = false;
    struct slot *s = wants_batch(f) ? slot_memory_get(f, &is_poor) : NULL;
    if (s) {
        plan_batch(p, s);
        return;
    }
    uint64_t since = clock_now_ns();
    if (is_poor && f->ahead == 0 && f->slots_failed > WAITS_FOR_SYSTEM) {
        give_plan_up(f);
        is_poor = false;
    } else if (is_poor && f->ahead >= f->least_ahead) {
        f->look_ahead = f->ahead; /* the budget is used up: that far and no further */
        is_poor = false;
    } else if (is_poor) {
        pthread_mutex_unlock(&f->lock);
        crew_press(f, true);
        pthread_mutex_lock(&f->lock);
    } else {
        grow_look_ahead(f);
    }
    if (!f->is_closing && !f->redo)
        thread_cond_wait_until(&f->planner_wakes, &f->lock, since + (is_poor ? SLOT_MEMORY_NAP_NS : NAP_NS));
    meter_add(&f->meter.shard[0].stage[STAGE_PLAN].wait_out_ns, clock_now_ns() - since);
}

/* The planner's own thread was the last to try. */
static void say_if_not_in_background(struct feed *f)
{
    static _Atomic bool is_said;
    char reason[128];
    int error = thread_background_error();
    if (error && f->heard.write && !atomic_exchange_explicit(&is_said, true, memory_order_relaxed))
        log_line(&f->log, LOG_WARN,
                 "the workers cannot run in the background (SCHED_BATCH: %s): on busy cores next() may take some ms longer",
                 text_errno(error, reason, sizeof(reason)));
}

void *planner_main(void *arg)
{
    struct feed *f = arg;
    say_if_not_in_background(f);
    struct plan_state p = {.f = f, .known.budget = f->budget, .given = f->plan_given};
    pthread_mutex_lock(&f->lock);
    while (!f->is_closing) {
        collect_redo(&p);
        if (atomic_load_explicit(&f->is_pressed, memory_order_relaxed))
            give_back(f);
        if (!p.todo)
            plan_or_wait(&p);
        pthread_mutex_unlock(&f->lock);
        bool went = issue(&p);
        pthread_mutex_lock(&f->lock);
        if (!went && !f->is_closing) {
            uint64_t since = clock_now_ns();
            thread_cond_wait_until(&f->planner_wakes, &f->lock, since + SLOT_MEMORY_NAP_NS);
            meter_add(&f->meter.shard[0].stage[STAGE_PLAN].wait_out_ns, clock_now_ns() - since);
        }
    }
    collect_redo(&p);
    pthread_mutex_unlock(&f->lock);
    drop_todo(&p);
    scratch_free(&p.known);
    if (crew_planner_out(f))
        feed_finish(f);
    return NULL;
}

void planner_redo(struct feed *f, struct load *l)
{
    load_step(l, LOAD_PLANNED);
    pthread_mutex_lock(&f->lock);
    l->next = f->redo;
    f->redo = l;
    atomic_store_explicit(&f->has_redo, true, memory_order_relaxed);
    pthread_cond_signal(&f->planner_wakes);
    pthread_mutex_unlock(&f->lock);
}
