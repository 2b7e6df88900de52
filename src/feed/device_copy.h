/* Copies batches to a device: page-locked slots, one batch ahead in the device's memory, and no memory reused before the device has read
 * it.
 *
 * With a device to copy to, a slot whose last sample has come in is FILLED; the copying thread gives it a buffer on the device, queues the
 * copy and makes it READY: what the consumer takes is on its way or there. With pin_memory alone nothing is copied, but slots are
 * page-locked, and the program copies from them by itself.
 *
 * Either way a batch may be released by the program while the device still reads: copies and kernels are only queued. So a release records
 * an event on every stream that used the batch (fb_use_batch names them), and the slot waits until those events and its own copy are done.
 * Only then are the slot and its buffer free. At most SHIP_BUFFERS buffers are beyond those that the program holds: a program that queues
 * steps faster than the device takes them is held back there.
 *
 * Safety: what says so is under f->lock. The thread calls the device with the lock let go while it copies, and with it held (short, never
 * waiting) while it asks whether events have happened.
 */
#ifndef FB_FEED_DEVICE_COPY_H
#define FB_FEED_DEVICE_COPY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/text/json_writer.h"
#include "batch/slot.h"
#include "device/device.h"

struct feed;
struct metrics;
struct text;

enum { SHIP_AHEAD = 1, SHIP_BUFFERS = 3 };

struct device_copy_buffer {
    uintptr_t memory;
    size_t bytes;
};

struct device_copy {
    /* constant after open */
    struct device *device; /* NULL: none */
    bool is_copying;       /* batches go to the device's memory */
    bool is_wanted;        /* pin_memory, whatever became of it */
    char reason[512];      /* why there is no page-locked memory */

    pthread_t thread;
    bool has_thread;
    pthread_cond_t wakes;

    /* under f->lock */
    bool is_stopping;
    uint64_t stop_ns; /* when copying that stops gives up what still drains */
    struct slot *draining;
    struct device_copy_buffer spare[SHIP_BUFFERS];
    uint32_t spares, buffers, held; /* buffers: all there are; held: by the program */
    struct fb_error error;          /* the device failed: nothing can be delivered any more */
    uint64_t most_bytes;            /* of a batch on the device */
    uint64_t lost;                  /* slots that may still be read for ever */
    bool has_warned;
    _Atomic uint64_t copied_batches, unpinned, held_back_ns;
};

int device_copy_open(struct feed *f, const char *device, bool pins, struct fb_error *e);
/* Before the first epoch. */
int device_copy_start(struct feed *f, struct fb_error *e);
/* When nobody fills slots any more: waits `timeout_ns` for what drains. False: the thread is stuck in the driver; everything must be
 * leaked. */
bool device_copy_stop(struct feed *f, uint64_t timeout_ns);
/* When the last batch is gone. */
void device_copy_close(struct feed *f);

/* Slots with what the device needs. f->lock is held, or nobody else is there. */
struct slot *device_copy_slot_new(struct feed *f);
void device_copy_slot_free(struct feed *f, struct slot *s);

/* f->lock is held. All samples of the slot have come in: the state that it has now. */
enum slot_state device_copy_filled(struct feed *f, struct slot *s);
/* f->lock is held. The consumer takes it. */
void device_copy_taken(struct feed *f, struct slot *s);
/* f->lock is held. True: the device may still read it; it will be free when it does not. */
bool device_copy_drains(struct feed *f, struct slot *s);

/* The program's streams. */
int device_copy_use(struct feed *f, struct slot *s, uintptr_t stream, struct fb_error *e);
/* The program's last reference is gone. f->lock is not held. */
void device_copy_released(struct feed *f, struct slot *s);
/* After device_copy_stop: waits until nothing reads the slot any more. False: it does; leak it. */
bool device_copy_wait_for(struct feed *f, struct slot *s);

void device_copy_metrics(struct feed *f, struct metrics *m);
void device_copy_stats(struct feed *f, const struct metrics *m, struct json_writer *w);

#endif
