/* The two engines of the emulated device: one copies, one computes. Each handles its queue in order, on its own thread. The first entry
 * of a queue may have to wait for the other engine, and everybody for the device's clock: one lock and one condition for the whole device
 * instead of a queue of base/ per engine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/thread.h"
#include "device/emulated.h"

enum { CHUNK = 256 << 10 };

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Sleeps by the device's clock; false: it is being closed. The lock is not held. */
static bool sleep_until(struct emulated *d, uint64_t until_ns)
{
    pthread_mutex_lock(&d->lock);
    while (!d->is_closing && clock_now_ns() < until_ns)
        thread_cond_wait_until(&d->wakes, &d->lock, until_ns);
    bool is_open = !d->is_closing;
    pthread_mutex_unlock(&d->lock);
    return is_open;
}

static void report(struct emulated *d, const char *what, size_t bytes)
{
    pthread_mutex_lock(&d->lock);
    error_set(&d->fault, FB_E_DATA, "device", "%s of %zu bytes changed while the emulated device was still reading it", what, bytes);
    error_remedy(&d->fault, "its memory was used again before the device was done with it");
    pthread_mutex_unlock(&d->lock);
}

/* Reads in pieces, each when its turn on the bus comes. */
static bool copy_late(struct emulated *d, const struct emulated_work *w, uint64_t begins_ns)
{
    struct checksum *sum = checksum_open();
    bool is_open = true;
    for (size_t at = 0; is_open && at < w->bytes; at += CHUNK) {
        size_t n = w->bytes - at < CHUNK ? w->bytes - at : CHUNK;
        is_open = sleep_until(d, begins_ns + (uint64_t)((double)(at + n) / (double)w->bytes * (double)w->lasts_ns));
        const char *seen = (const char *)w->from + at;
        if (is_open && w->to)
            seen = memcpy((char *)w->to + at, seen, n);
        if (is_open && sum)
            checksum_add(sum, seen, n);
    }
    if (is_open && (!sum || checksum_value(sum) != w->digest)) /* without memory for the check it has failed, too */
        report(d, "a batch in main memory", w->bytes);
    checksum_close(sum);
    return is_open;
}

static bool compute(struct emulated *d, const struct emulated_work *w, uint64_t begins_ns)
{
    uint64_t before = checksum_of(w->from, w->bytes);
    if (!sleep_until(d, begins_ns + w->lasts_ns))
        return false;
    if (checksum_of(w->from, w->bytes) != before)
        report(d, "a batch on the device", w->bytes);
    return true;
}

bool emulated_is_reached(const struct emulated *d, const struct emulated_point *p)
{
    return d->engine[ENGINE_COPY].done >= p->done[ENGINE_COPY] && d->engine[ENGINE_COMPUTE].done >= p->done[ENGINE_COMPUTE];
}

/* The lock is held. NULL: closing. */
static struct emulated_work *next_work(struct emulated_engine *g)
{
    struct emulated *d = g->owner;
    while (!d->is_closing && !(g->first && emulated_is_reached(d, &g->first->after)))
        pthread_cond_wait(&d->wakes, &d->lock);
    return d->is_closing ? NULL : g->first;
}

static void *engine_main(void *arg)
{
    struct emulated_engine *g = arg;
    struct emulated *d = g->owner;
    uint64_t over_ns = 0;
    pthread_mutex_lock(&d->lock);
    for (struct emulated_work *w; (w = next_work(g));) {
        pthread_mutex_unlock(&d->lock);
        /* by the stated times, not by when this thread got round to it, unless the work had to wait for the other engine */
        uint64_t begins_ns = later(w->begins_ns, over_ns);
        bool is_open = sleep_until(d, begins_ns) && (g->which == ENGINE_COPY ? copy_late(d, w, begins_ns) : compute(d, w, begins_ns));
        over_ns = begins_ns + w->lasts_ns;
        pthread_mutex_lock(&d->lock);
        if (!is_open)
            break;
        g->first = w->next;
        g->done++;
        pthread_cond_broadcast(&d->wakes);
        free(w);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

int engine_start(struct emulated_engine *g, struct fb_error *e)
{
    FB_TRY(thread_start_prompt(&g->thread, g->which == ENGINE_COPY ? "fb-emu-copy" : "fb-emu-step", engine_main, g, e));
    g->is_started = true;
    return 0;
}

void engine_stop(struct emulated_engine *g)
{
    if (g->is_started)
        pthread_join(g->thread, NULL);
    while (g->first) {
        struct emulated_work *w = g->first;
        g->first = w->next;
        free(w);
    }
}

int emulated_stream(uintptr_t stream, struct fb_error *e)
{
    if (stream == DEVICE_COPY_STREAM)
        return EMULATED_STREAMS - 1;
    if (stream < EMULATED_STREAMS - 1)
        return (int)stream;
    return error_set(e, FB_E_USAGE, "device", "the emulated device has no stream %llu", (unsigned long long)stream);
}

int engine_queue(struct emulated_engine *g, uintptr_t stream, const struct emulated_work *w, struct fb_error *e)
{
    struct emulated *d = g->owner;
    int s = emulated_stream(stream, e);
    if (s < 0)
        return s;
    struct emulated_work *own = malloc(sizeof(*own));
    if (!own)
        return error_set_errno(e, "device", ENOMEM, "queue work");
    *own = *w;
    own->next = NULL;
    pthread_mutex_lock(&d->lock);
    own->after = d->at[s];
    own->after.done[g->which] = 0; /* on its own engine the queue's order is enough */
    if (g->first)
        g->last->next = own;
    else
        g->first = own;
    g->last = own;
    d->at[s].done[g->which] = ++g->queued;
    pthread_cond_broadcast(&d->wakes);
    pthread_mutex_unlock(&d->lock);
    return 0;
}
