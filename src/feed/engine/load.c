/* The life of a load of any kind: it is given a sample, run by a worker, and finished; the last load of a slot publishes the slot. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "feed/crew.h"
#include "feed/load_ops.h"

enum {
    WAITS_FOR_MEMORY = 200,
    WAITS_FOR_SYSTEM = 20, /* when the budget has enough, but malloc does not */
    MEMORY_NAP_NS = 5000000,
    AWAITED_MOST_NS = 300000000
};

void load_step(struct load *l, uint32_t step)
{
    atomic_store_explicit(&l->step, step, memory_order_relaxed);
    atomic_store_explicit(&l->since_ns, clock_now_ns(), memory_order_relaxed);
}

void load_init(struct load *l, struct slot *s, uint32_t place, uint64_t position)
{
    l->slot = s;
    l->place = place;
    l->count = 1;
    l->waited = NULL;
    l->reads_itself = false;
    l->attempt = l->bad_tries = 0;
    l->poor_since_ns = 0;
    l->position = position;
    l->buffer = NULL;
    l->error = NULL;
    l->next = NULL;
    load_step(l, LOAD_PLANNED);
}

void load_aim(struct feed *f, struct load *l, uint64_t sample)
{
    l->needs_aim = l->would_block = l->has_begun = l->is_further = false;
    memset(l->own, 0, sizeof(l->own));
    l->selected = sample;
    l->sample = f->subset.sample ? f->subset.sample[sample] : sample;
    struct fb_error *e = NULL;
    if (catalog_sample(f->dataset.catalog, l->sample, &l->where, NULL) < 0) {
        e = error_new();
        if (!error_is_shared(e))
            catalog_sample(f->dataset.catalog, l->sample, &l->where, e);
        l->where = (struct catalog_sample){.key = "", .object = ""};
    }
    l->error = e;
    l->size = l->where.length;
    l->reads_itself = f->kind->reads_itself && f->kind->reads_itself(f, &l->where);
    l->slot->place[l->place].sample = l->sample;
    l->slot->place[l->place].key = l->where.key;
}

/* ---- finishing ---- */

/* f->lock is held. */
static bool is_full(const struct feed *f)
{
    for (const struct slot *s = f->ahead_first; s; s = s->next)
        if (s->state == SLOT_FILLING)
            return false;
    return f->ahead >= f->look_ahead;
}

/* The device, if there is one, then the consumer. */
static void publish(struct feed *f, struct slot *s)
{
    pthread_mutex_lock(&f->lock);
    if (s->generation != atomic_load_explicit(&f->generation, memory_order_relaxed)) {
        feed_recycle(f, s);
    } else {
        s->state = device_copy_filled(f, s);
        s->ready_ns = clock_now_ns();
        if (is_full(f))
            atomic_store_explicit(&f->is_ample, true, memory_order_relaxed);
        if (s->state == SLOT_READY && f->is_consumer_waiting && s == f->ahead_first)
            pthread_cond_signal(&f->consumer_wakes);
    }
    pthread_mutex_unlock(&f->lock);
}

/* The last place of a slot is filled, on this worker: what is still to be done with the batch as a whole, of whatever kind it is, in this
 * order. Steps that work on whole batches belong between the kind's own and publishing. */
static void finish_slot(struct feed *f, struct slot *s)
{
    if (!s->error && f->kind->finish)
        f->kind->finish(f, s);
    publish(f, s);
}

void load_give_buffer_back(struct feed *f, struct load *l)
{
    if (!l->buffer)
        return;
    pthread_mutex_lock(&f->lock);
    reads_give(&f->reads, l->buffer);
    pthread_cond_signal(&f->planner_wakes);
    pthread_mutex_unlock(&f->lock);
    l->buffer = NULL;
}

void load_finish(struct feed *f, struct load *l)
{
    struct slot *s = l->slot;
    load_give_buffer_back(f, l);
    if (l->waited)
        f->kind->drop_waited(f, l);
    error_free(l->error);
    l->error = NULL;
    atomic_store_explicit(&l->step, LOAD_IDLE, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&s->remaining, 1, memory_order_acq_rel) == 1)
        finish_slot(f, s);
}

void load_fail_batch(struct feed *f, struct load *l, const struct fb_error *e)
{
    struct slot *s = l->slot;
    pthread_mutex_lock(&f->lock);
    if (!s->error || l->place < s->error_place) {
        if (!s->error)
            s->error = error_new();
        if (!error_is_shared(s->error))
            *s->error = *e;
        s->error_place = l->place;
    }
    pthread_mutex_unlock(&f->lock);
    load_finish(f, l);
}

/* Batches that are ready and not taken yet have memory, and so do other workers: a load waits for it as long as the consumer does not wait
 * for the load itself. */
bool load_waits_for_memory(struct feed *f, struct load *l, const struct fb_error *e)
{
    if (e->code != FB_E_BUDGET || atomic_load_explicit(&f->is_closing, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&f->lock);
    bool is_awaited = f->is_consumer_waiting && f->ahead_first == l->slot;
    pthread_mutex_unlock(&f->lock);
    uint64_t now = clock_now_ns();
    if (!is_awaited || !l->poor_since_ns)
        l->poor_since_ns = is_awaited ? now : 0;
    if (is_awaited && now - l->poor_since_ns > AWAITED_MOST_NS)
        return false;
    uint32_t seen = budget_seen(f->budget);
    crew_press(f, false);
    budget_wait(f->budget, seen, MEMORY_NAP_NS);
    crew_push(f, l);
    return true;
}

/* ---- what all kinds need ---- */

void *worker_memory(struct feed *f, struct scratch *s, size_t bytes, struct fb_error *e)
{
    if (s->data && bytes <= s->capacity)
        return s->data; /* nearly always */
    for (int i = 0; i < WAITS_FOR_MEMORY; i++) {
        struct fb_error why;
        error_clear(&why);
        bool is_hopeless = bytes > atomic_load_explicit(&f->budget->limit, memory_order_relaxed);
        if (scratch_need(s, bytes, &why) || is_hopeless || atomic_load_explicit(&f->is_closing, memory_order_relaxed))
            break;
        if (why.code == FB_E_NOMEM && i >= WAITS_FOR_SYSTEM)
            break;
        uint32_t seen = budget_seen(f->budget);
        crew_press(f, false);
        budget_wait(f->budget, seen, MEMORY_NAP_NS);
    }
    return scratch_need(s, bytes, e);
}

void load_note_service(struct feed *f, uint64_t ns)
{
    uint64_t mean = atomic_load_explicit(&f->service_ns, memory_order_relaxed);
    atomic_store_explicit(&f->service_ns, mean ? mean - mean / 16 + ns / 16 : ns, memory_order_relaxed);
    histogram_add(&f->load_histogram, ns);
}

void load_place_labels(const struct feed *f, const struct slot *s, uint32_t place, void **to)
{
    for (int k = 0; k < f->labels.count; k++)
        to[k] = slot_at(s, f->labels.field[k].batch_field, place);
}

int load_copy_labels(const struct feed *f, const struct slot *s, uint32_t place, uint64_t selected, uint64_t sample, struct fb_error *e)
{
    void *to[FB_MAX_FIELDS];
    load_place_labels(f, s, place, to);
    return labels_copy(&f->labels, selected, sample, to, e);
}

void load_run(struct worker *w, struct feed *f, struct load *l)
{
    if (l->slot->generation != atomic_load_explicit(&f->generation, memory_order_relaxed))
        load_finish(f, l);
    else
        f->kind->run(w, f, l);
}
