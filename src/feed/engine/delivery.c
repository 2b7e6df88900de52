/* Delivery: counting the wait for a batch, from entering next() to the batch in the caller's hands.
 *
 * A caller in C has the batch when fb_next_batch returns. A binding still turns it into something of its own, takes a lock of its language
 * back, calls functions of the user's; it says when all that began (fb_next_batch_since) and when it is done (fb_deliver_batch). Until then
 * the delivery is pending, so that sums, histograms, marks and traces are written once, with the final figure. A batch that is never
 * delivered, because the binding failed on the way, was waited for until the engine gave it away; the next one to be taken counts it.
 *
 * Safety: what is pending, and the loop's own figures, belong to delivery.lock. Only consumers take it, so it is free unless several
 * threads share a loader; it is the last lock to be taken. Of several threads on their way at once only the latest has its conversion
 * counted.
 */
#include "base/clock.h"
#include "feed/feed.h"
#include "meter/trace.h"

void delivery_open(struct feed *f)
{
    pthread_mutex_init(&f->delivery.lock, NULL);
    loop_open(&f->loop);
    f->delivery.tells_cpu = f->loop.marks.fd >= 0;
}

/* delivery.lock is held. The pending batch is in the caller's hands. */
static void count(struct feed *f, uint64_t now_ns, uint64_t cpu_ns)
{
    struct delivery *d = &f->delivery;
    uint64_t waited = now_ns > d->asked_ns ? now_ns - d->asked_ns : 0;
    uint64_t stepped = d->asked_ns > d->last_ns ? d->asked_ns - d->last_ns : 0;
    loop_take(&f->loop, now_ns, waited, cpu_ns, d->samples);
    if (trace_is_on())
        trace_deliver(&f->meter, d->asked_ns - stepped, d->asked_ns, now_ns);
    histogram_add(&f->wait_histogram, waited);
    struct stage_meter *m = &f->meter.shard[0].stage[STAGE_DELIVER];
    meter_add(&m->wait_in_ns, waited);
    meter_add(&m->busy_ns, stepped);
    meter_add(&m->wait_out_ns, d->asked_ns > d->ready_ns ? d->asked_ns - d->ready_ns : 0);
    meter_add(&m->items, d->samples);
    meter_add(&m->bytes, d->bytes);
    if (meter_get(&f->loop.all.batches) > 1) /* the first one is start-up: feed_snapshot.c leaves its wait out */
        meter_add(&f->convert_ns, now_ns > d->taken_ns ? now_ns - d->taken_ns : 0);
    if (!atomic_load_explicit(&f->first_batch_ns, memory_order_relaxed))
        atomic_store_explicit(&f->first_batch_ns, now_ns - f->opened_ns, memory_order_relaxed);
    d->last_ns = now_ns;
    d->pending = NULL;
}

static void count_undelivered(struct feed *f)
{
    if (f->delivery.pending)
        count(f, f->delivery.taken_ns, 0);
}

void delivery_begin_epoch(struct feed *f, uint64_t entered_ns, uint64_t batches)
{
    struct delivery *d = &f->delivery;
    pthread_mutex_lock(&d->lock);
    count_undelivered(f);
    d->last_ns = clock_now_ns();
    d->starting_ns = d->last_ns - entered_ns;
    loop_begin_epoch(&f->loop, d->last_ns, batches);
    pthread_mutex_unlock(&d->lock);
}

void delivery_end_epoch(struct feed *f)
{
    pthread_mutex_lock(&f->delivery.lock);
    count_undelivered(f);
    loop_end_epoch(&f->loop, clock_now_ns());
    pthread_mutex_unlock(&f->delivery.lock);
}

uint64_t delivery_cpu_ns(const struct feed *f)
{
    return f->delivery.tells_cpu ? clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
}

void delivery_take(struct feed *f, const struct slot *s, uint64_t asked_ns, uint64_t asked_cpu_ns, bool has_start)
{
    struct delivery *d = &f->delivery;
    uint64_t now = clock_now_ns();
    pthread_mutex_lock(&d->lock);
    count_undelivered(f);
    d->pending = s;
    d->asked_ns = (asked_ns < now ? asked_ns : now) - (has_start ? 0 : d->starting_ns);
    d->starting_ns = 0;
    d->asked_cpu_ns = asked_cpu_ns;
    d->taken_ns = now;
    d->ready_ns = s->ready_ns;
    d->samples = s->count;
    d->bytes = s->shape->bytes;
    pthread_mutex_unlock(&d->lock);
}

void delivery_done(struct feed *f, const struct slot *s)
{
    struct delivery *d = &f->delivery;
    uint64_t cpu = delivery_cpu_ns(f), now = clock_now_ns();
    pthread_mutex_lock(&d->lock);
    if (d->pending == s)
        count(f, now, cpu > d->asked_cpu_ns ? cpu - d->asked_cpu_ns : 0);
    pthread_mutex_unlock(&d->lock);
    if (trace_is_on() && trace_is_over(&f->meter))
        feed_end_trace(f);
}

void delivery_close(struct feed *f)
{
    pthread_mutex_lock(&f->delivery.lock);
    count_undelivered(f);
    loop_close(&f->loop);
    pthread_mutex_unlock(&f->delivery.lock);
}
