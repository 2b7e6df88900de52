/* The copying thread and the calls that other threads make to it. Opening and statistics are in device_copy_open.c. */
#include "base/round_up.h"
#include "feed/device_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "feed/feed.h"

enum {
    POLL_NS = 200000, /* between questions whether events have happened, while something drains */
    ALIGNMENT = 256,  /* of each array on the device */
    WAIT_AFTER_CLOSE_NS = 1000000000
};

/* ---- buffers on the device; f->lock is held ---- */

static size_t bytes_on_device(const struct slot *s)
{
    size_t bytes = 0;
    for (int i = 0; i < s->shape->field_count; i++)
        bytes += round_up(s->array[i].bytes, ALIGNMENT);
    return bytes ? bytes : ALIGNMENT;
}

static void give_buffer(struct device_copy *h, struct device_copy_buffer b)
{
    h->device->ops->give(h->device, b.memory, b.bytes);
    h->buffers--;
}

/* One that is large enough; those that are not are given back, to make room. */
static bool take_spare(struct device_copy *h, size_t bytes, struct device_copy_buffer *out)
{
    while (h->spares) {
        struct device_copy_buffer b = h->spare[--h->spares];
        if (b.bytes >= bytes) {
            *out = b;
            return true;
        }
        give_buffer(h, b);
    }
    return false;
}

static void fail(struct feed *f, const struct fb_error *e)
{
    if (!f->device_copy.error.code)
        f->device_copy.error = *e;
    pthread_cond_broadcast(&f->consumer_wakes);
}

/* True: *out is a buffer. False: not now, or never again (then copying has failed). */
static bool take_buffer(struct feed *f, size_t bytes, struct device_copy_buffer *out)
{
    struct device_copy *h = &f->device_copy;
    h->most_bytes = bytes > h->most_bytes ? bytes : h->most_bytes;
    if (take_spare(h, bytes, out))
        return true;
    if (h->buffers - h->held >= SHIP_BUFFERS)
        return false;
    struct fb_error e;
    error_clear(&e);
    *out = (struct device_copy_buffer){.bytes = h->most_bytes};
    if (h->device->ops->take(h->device, out->bytes, &out->memory, &e) == 0) {
        h->buffers++;
        return true;
    }
    if (e.code == FB_E_NOMEM && h->draining)
        return false; /* there will be one soon */
    error_remedy(&e, "use a smaller batch_size=, or keep fewer batches; up to %d batches are on the device beside those you keep",
                 SHIP_BUFFERS);
    fail(f, &e);
    return false;
}

static void drop_buffer(struct device_copy *h, struct slot *s)
{
    struct device_copy_buffer b = {s->device.memory, s->device.memory_bytes};
    s->device.memory = 0;
    if (!b.memory)
        return;
    if (h->spares < SHIP_BUFFERS && h->buffers - h->held <= SHIP_BUFFERS)
        h->spare[h->spares++] = b;
    else
        give_buffer(h, b);
}

/* ---- draining; f->lock is held ---- */

static bool is_used(const struct slot *s)
{
    return s->device.is_queued || s->device.streams > 0;
}

/* 1: nothing reads it any more; 0: not yet; negative: the device has failed. A driver that is being unloaded runs nothing. */
static int ask(struct device_copy *h, const struct slot *s, struct fb_error *e)
{
    const struct device_ops *ops = h->device->ops;
    int rc = s->device.is_queued ? ops->query(h->device, s->device.copied, e) : 1;
    for (int i = 0; i < s->device.streams && rc == 1; i++)
        rc = ops->query(h->device, s->device.used[i], e);
    return rc == FB_E_STATE ? 1 : rc;
}

static void end_use(struct device_copy *h, struct slot *s)
{
    drop_buffer(h, s);
    s->device.is_queued = false;
    s->device.streams = 0;
}

static void end_drain(struct feed *f, struct slot *s)
{
    end_use(&f->device_copy, s);
    if (s->is_given)
        device_copy_slot_free(f, s);
    else
        feed_recycle(f, s);
}

static void reap(struct feed *f)
{
    struct fb_error e;
    error_clear(&e);
    for (struct slot **at = &f->device_copy.draining; *at;) {
        struct slot *s = *at;
        int rc = s->device.is_lost ? 0 : ask(&f->device_copy, s, &e);
        if (rc < 0)
            fail(f, &e);
        if (rc != 1) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        end_drain(f, s);
    }
}

bool device_copy_drains(struct feed *f, struct slot *s)
{
    struct device_copy *h = &f->device_copy;
    if (!h->device || !is_used(s) || h->is_stopping)
        return false;
    if (s->state == SLOT_HELD && s->device.memory)
        h->held--;
    s->state = SLOT_DRAINING;
    s->next = h->draining;
    h->draining = s;
    pthread_cond_signal(&h->wakes);
    return true;
}

/* ---- shipping ---- */

/* f->lock is held. The next batch to copy, unless there are enough on the device that nobody has taken. */
static struct slot *next_to_copy(struct feed *f)
{
    uint32_t ahead = 0;
    struct slot *s = f->ahead_first;
    for (; s && s->state == SLOT_READY; s = s->next)
        ahead++;
    return s && s->state == SLOT_FILLED && ahead < SHIP_AHEAD && f->device_copy.is_copying && !f->device_copy.error.code ? s : NULL;
}

/* Without the lock: the slot belongs to the copying thread. */
static int queue_copies(struct device_copy *h, struct slot *s, struct device_copy_buffer b, struct fb_error *e)
{
    uintptr_t to = b.memory;
    int rc = 0;
    for (int i = 0; i < s->shape->field_count && rc == 0; i++) {
        struct fb_array *a = &s->array[i];
        if (a->bytes)
            rc = h->device->ops->copy(h->device, to, a->data, a->bytes, e);
        s->device.is_queued |= rc == 0 && a->bytes;
        a->data = (void *)to;
        to += round_up(a->bytes, ALIGNMENT);
    }
    if (rc == 0)
        rc = h->device->ops->record(h->device, s->device.copied, DEVICE_COPY_STREAM, e);
    s->device.is_lost = rc < 0 && s->device.is_queued; /* something may be under way, and no event tells when it is done */
    return rc;
}

/* f->lock is held, but let go while the copies are queued. The plan may be dropped meanwhile. */
static void device_copy_slot(struct feed *f, struct slot *s, struct device_copy_buffer b)
{
    struct fb_error e;
    error_clear(&e);
    s->state = SLOT_SHIPPING;
    s->device.memory = b.memory;
    s->device.memory_bytes = b.bytes;
    pthread_mutex_unlock(&f->lock);
    int rc = queue_copies(&f->device_copy, s, b, &e);
    pthread_mutex_lock(&f->lock);
    if (rc < 0) {
        fail(f, &e);
        s->error = error_new(); /* its buffer on the device is incomplete, and must not be used */
        if (!error_is_shared(s->error))
            *s->error = e;
    }
    atomic_fetch_add_explicit(&f->device_copy.copied_batches, 1, memory_order_relaxed);
    if (s->generation != atomic_load_explicit(&f->generation, memory_order_relaxed)) {
        feed_recycle(f, s);
        return;
    }
    s->state = SLOT_READY;
    s->ready_ns = clock_now_ns();
    if (f->is_consumer_waiting && s == f->ahead_first)
        pthread_cond_signal(&f->consumer_wakes);
}

static bool may_go_on(const struct device_copy *h)
{
    return !h->is_stopping || h->draining;
}

static void *device_copy_main(void *arg)
{
    struct feed *f = arg;
    struct device_copy *h = &f->device_copy;
    pthread_mutex_lock(&f->lock);
    while (may_go_on(h) && !(h->is_stopping && clock_now_ns() >= h->stop_ns)) {
        reap(f);
        struct device_copy_buffer b;
        struct slot *s = h->is_stopping ? NULL : next_to_copy(f);
        if (s && take_buffer(f, bytes_on_device(s), &b)) {
            device_copy_slot(f, s, b);
            continue;
        }
        uint64_t since = clock_now_ns();
        if (h->draining)
            thread_cond_wait_until(&h->wakes, &f->lock, since + POLL_NS);
        else if (may_go_on(h))
            pthread_cond_wait(&h->wakes, &f->lock);
        if (s)
            atomic_fetch_add_explicit(&h->held_back_ns, clock_now_ns() - since, memory_order_relaxed);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

enum slot_state device_copy_filled(struct feed *f, struct slot *s)
{
    if (!f->device_copy.is_copying || s->error)
        return SLOT_READY;
    pthread_cond_signal(&f->device_copy.wakes);
    return SLOT_FILLED;
}

void device_copy_taken(struct feed *f, struct slot *s)
{
    if (!f->device_copy.device)
        return;
    f->device_copy.held += s->device.memory != 0;
    pthread_cond_signal(&f->device_copy.wakes);
}

/* ---- starting, stopping ---- */

int device_copy_start(struct feed *f, struct fb_error *e)
{
    struct device_copy *h = &f->device_copy;
    if (!h->device || h->has_thread)
        return 0;
    FB_TRY(thread_start_prompt(&h->thread, "fb-copy", device_copy_main, f, e));
    h->has_thread = true;
    return 0;
}

/* The device may still read it, and nobody can tell until when. Reachable, because it is left on purpose. */
static void keep_for_ever(struct device_copy *h, struct slot *s)
{
    static _Atomic(struct slot *) kept;
    h->lost++;
    s->next = atomic_load(&kept);
    while (!atomic_compare_exchange_weak(&kept, &s->next, s))
        ;
}

bool device_copy_stop(struct feed *f, uint64_t timeout_ns)
{
    struct device_copy *h = &f->device_copy;
    if (!h->device)
        return true;
    pthread_mutex_lock(&f->lock);
    h->is_stopping = true;
    h->stop_ns = clock_now_ns() + timeout_ns;
    pthread_cond_signal(&h->wakes);
    pthread_mutex_unlock(&f->lock);
    if (h->has_thread && !thread_join_or_leave(h->thread, 2 * timeout_ns))
        return false;
    h->has_thread = false;
    for (struct slot *s = h->draining, *next; s; s = next) {
        next = s->next;
        keep_for_ever(h, s);
    }
    h->draining = NULL;
    return true;
}

bool device_copy_wait_for(struct feed *f, struct slot *s)
{
    struct device_copy *h = &f->device_copy;
    struct fb_error e;
    error_clear(&e);
    if (!h->device || !is_used(s))
        return true;
    uint64_t until = clock_now_ns() + WAIT_AFTER_CLOSE_NS;
    int rc = 0;
    while (!s->device.is_lost && (rc = ask(h, s, &e)) == 0 && clock_now_ns() < until)
        clock_sleep_until_ns(clock_now_ns() + POLL_NS);
    if (rc != 1) {
        keep_for_ever(h, s);
        return false;
    }
    pthread_mutex_lock(&f->lock);
    end_use(h, s);
    pthread_mutex_unlock(&f->lock);
    return true;
}

/* ---- the program's streams ---- */

/* f->lock is held. Where the stream is in the slot's list; beyond the end of a full one, the last is made to wait for it instead. */
static int note_stream(struct device_copy *h, struct slot *s, uintptr_t stream, struct fb_error *e)
{
    struct slot_device *d = &s->device;
    for (int i = 0; i < d->streams; i++)
        if (d->stream[i] == stream)
            return 0;
    if (d->streams < SLOT_STREAMS) {
        d->stream[d->streams++] = stream;
        return 0;
    }
    /* as many as there are events: the new stream goes on after the last one, and stands for both */
    const int last = SLOT_STREAMS - 1;
    FB_TRY(h->device->ops->record(h->device, d->used[last], d->stream[last], e));
    FB_TRY(h->device->ops->wait(h->device, d->used[last], stream, e));
    d->stream[last] = stream;
    return 0;
}

int device_copy_use(struct feed *f, struct slot *s, uintptr_t stream, struct fb_error *e)
{
    struct device_copy *h = &f->device_copy;
    if (!h->device)
        return 0;
    bool is_thread = h->device->ops->memory == FB_EMULATED && stream == 0;
    if (!is_thread) {
        pthread_mutex_lock(&f->lock);
        int rc = note_stream(h, s, stream, e);
        pthread_mutex_unlock(&f->lock);
        FB_TRY(rc);
    }
    return s->device.is_queued ? h->device->ops->wait(h->device, s->device.copied, stream, e) : 0;
}

void device_copy_released(struct feed *f, struct slot *s)
{
    struct device_copy *h = &f->device_copy;
    struct fb_error e;
    error_clear(&e);
    for (int i = 0; i < s->device.streams; i++) {
        int rc = h->device->ops->record(h->device, s->device.used[i], s->device.stream[i], &e);
        if (rc >= 0)
            continue;
        pthread_mutex_lock(&f->lock);
        s->device.is_lost |= rc != FB_E_STATE;
        if (rc != FB_E_STATE)
            fail(f, &e);
        pthread_mutex_unlock(&f->lock);
    }
}
