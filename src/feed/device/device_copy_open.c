/* Opening and closing the copy to a device, allocating slots that it can read, and its statistics. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "feed/feed.h"
#include "meter/metrics.h"

/* Page-locking needs a device's context. That of the rank's own device, as launchers number them, or of the first. */
static int open_to_pin(struct device **out, struct fb_error *e)
{
    char spec[32];
    const char *local = getenv("LOCAL_RANK");
    int rank = local ? atoi(local) : 0;
    struct fb_error ignored;
    error_clear(&ignored);
    snprintf(spec, sizeof(spec), "cuda:%d", rank);
    if (rank > 0 && rank < 1024 && device_open(out, spec, &ignored) == 0)
        return 0;
    return device_open(out, "cuda:0", e);
}

/* As a DataLoader does: without a driver to lock pages, batches are in ordinary memory, and that is said. */
static void say_unpinned(struct feed *f, const char *why)
{
    snprintf(f->device_copy.reason, sizeof(f->device_copy.reason), "%s", why);
    log_line(&f->log, LOG_WARN, "pin_memory: batches are in ordinary memory, not page-locked: %s", why);
}

int device_copy_open(struct feed *f, const char *device, bool pins, struct fb_error *e)
{
    struct device_copy *h = &f->device_copy;
    h->is_wanted = pins || (device && *device);
    if (device && *device) {
        FB_TRY(device_open(&h->device, device, e));
        h->is_copying = true;
    } else if (pins) {
        struct fb_error why;
        error_clear(&why);
        int rc = open_to_pin(&h->device, &why);
        if (rc == FB_E_NOMEM) {
            *e = why;
            return rc;
        }
        if (rc < 0)
            say_unpinned(f, why.cause);
    }
    return 0;
}

static void free_events(struct device_copy *h, struct slot *s)
{
    if (s->device.copied)
        h->device->ops->event_free(h->device, s->device.copied);
    for (int i = 0; i < SLOT_STREAMS; i++)
        if (s->device.used[i])
            h->device->ops->event_free(h->device, s->device.used[i]);
}

static int make_events(struct device_copy *h, struct slot *s, struct fb_error *e)
{
    FB_TRY(h->device->ops->event_new(h->device, &s->device.copied, e));
    for (int i = 0; i < SLOT_STREAMS; i++)
        FB_TRY(h->device->ops->event_new(h->device, &s->device.used[i], e));
    return 0;
}

/* Ordinary memory does as well, only slower. */
static void pin_slot(struct feed *f, struct slot *s)
{
    struct device_copy *h = &f->device_copy;
    struct fb_error e;
    error_clear(&e);
    if (!s->shape->bytes) /* of empty arrays: there is nothing to copy */
        return;
    s->device.is_pinned = h->device->ops->pin(h->device, s->memory, s->shape->bytes, &e) == 0;
    if (s->device.is_pinned)
        return;
    atomic_fetch_add_explicit(&h->unpinned, 1, memory_order_relaxed);
    if (!h->has_warned)
        say_unpinned(f, e.cause);
    h->has_warned = true;
}

struct slot *device_copy_slot_new(struct feed *f)
{
    struct device_copy *h = &f->device_copy;
    struct slot *s = slot_new(&f->shape, f, sizeof(struct load));
    if (!s || !h->device)
        return s;
    struct fb_error e;
    error_clear(&e);
    if (make_events(h, s, &e) < 0) {
        if (!h->error.code)
            h->error = e;
        pthread_cond_broadcast(&f->consumer_wakes);
        device_copy_slot_free(f, s);
        return NULL;
    }
    pin_slot(f, s);
    return s;
}

void device_copy_slot_free(struct feed *f, struct slot *s)
{
    struct device_copy *h = &f->device_copy;
    if (h->device) {
        free_events(h, s);
        if (s->device.is_pinned)
            h->device->ops->unpin(h->device, s->memory, s->shape->bytes);
    }
    slot_free(s);
}

void device_copy_close(struct feed *f)
{
    struct device_copy *h = &f->device_copy;
    if (!h->device)
        return;
    while (h->spares) {
        struct device_copy_buffer b = h->spare[--h->spares];
        h->device->ops->give(h->device, b.memory, b.bytes);
    }
    h->device->ops->close(h->device);
    h->device = NULL;
}

void device_copy_metrics(struct feed *f, struct metrics *m)
{
    struct device_copy *h = &f->device_copy;
    struct device_figures g = {0};
    if (!h->is_wanted)
        return;
    if (h->device)
        h->device->ops->figures(h->device, &g);
    metrics_set(m, "device.shipped_batches", atomic_load_explicit(&h->copied_batches, memory_order_relaxed));
    metrics_set(m, "device.copies", g.copies);
    metrics_set(m, "device.copied_bytes", g.bytes);
    metrics_set(m, "device.pinned_bytes", g.pinned_bytes);
    metrics_set(m, "device.memory_bytes", g.memory_bytes);
    metrics_set_ns(m, "device.waiting_for_buffers_seconds", atomic_load_explicit(&h->held_back_ns, memory_order_relaxed));
}

void device_copy_stats(struct feed *f, const struct metrics *m, struct json_writer *w)
{
    struct device_copy *h = &f->device_copy;
    if (!h->is_wanted) {
        json_put(w, J_NULL("device"));
        return;
    }
    json_begin_object(w, "device");
    json_put(w, J("name", h->device ? h->device->title : ""),
             J_BOOL("is_pinned", h->device && !atomic_load_explicit(&h->unpinned, memory_order_relaxed)), J("reason", h->reason));
    metrics_put(w, m, "device");
    json_end(w);
}
