/* The shape of a device: where batches are copied to. One static const table per device, listed in device_list.c.
 *
 * Work is queued on streams and done in order on each. The device has one stream of its own, for copies; those of the caller's program are
 * numbers to us, handed on as they are. An event is recorded on a stream and happens when everything queued there before it is done; one
 * that was never recorded has happened.
 *
 * Memory that is copied from belongs to the device from `copy` until an event recorded after it has happened; so does memory that a stream
 * of the caller's was given.
 */
#ifndef FB_DEVICE_DEVICE_OPS_H
#define FB_DEVICE_DEVICE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define DEVICE_COPY_STREAM UINTPTR_MAX /* the device's own */

struct device;
struct device_event;

struct device_figures {
    uint64_t copies, bytes;
    uint64_t pinned_bytes; /* page-locked now */
    uint64_t memory_bytes; /* allocated on the device now */
};

struct device_ops {
    const char *name;      /* "cuda": what stands before the colon */
    enum fb_memory memory; /* what its memory is to a caller */

    /* MUST. `spec` is what follows the colon in "cuda:1", or "". FB_E_UNSUPPORTED: not on this machine, the cause says why; FB_E_USAGE. */
    int (*open)(struct device **out, const char *spec, struct fb_error *e);

    /* All others: any thread, several at once; none blocks on the device unless it says so. A failure of the device itself is FB_E_IO. */

    /* MUST. Page-locks memory of the caller's, so that it can be copied from while the caller goes on. May take milliseconds. */
    int (*pin)(struct device *d, void *memory, size_t bytes, struct fb_error *e);
    /* MUST. Nothing queued reads it any more. */
    void (*unpin)(struct device *d, void *memory, size_t bytes);

    /* MUST. Memory on the device, aligned to 256 bytes; FB_E_NOMEM when it is full. */
    int (*take)(struct device *d, size_t bytes, uintptr_t *out, struct fb_error *e);
    /* MUST. Nothing queued uses it any more. */
    void (*give)(struct device *d, uintptr_t memory, size_t bytes);

    int (*event_new)(struct device *d, struct device_event **out, struct fb_error *e); /* MUST */
    void (*event_free)(struct device *d, struct device_event *event);                  /* MUST; it has happened */

    /* MUST. Queues a copy to the device on its own stream. */
    int (*copy)(struct device *d, uintptr_t to, const void *from, size_t bytes, struct fb_error *e);
    /* MUST. Records the event, again if it was before, on DEVICE_COPY_STREAM or a stream of the caller's. FB_E_STATE: the driver is being
     * unloaded with the program, and nothing is running any more. */
    int (*record)(struct device *d, struct device_event *event, uintptr_t stream, struct fb_error *e);
    /* MUST. Whatever is queued on `stream` from now on waits for the event. A device whose memory the CPU reads takes 0 for the calling
     * thread, and blocks. */
    int (*wait)(struct device *d, struct device_event *event, uintptr_t stream, struct fb_error *e);
    /* MUST. 1: happened. 0: not yet. */
    int (*query)(struct device *d, struct device_event *event, struct fb_error *e);

    void (*figures)(struct device *d, struct device_figures *f); /* MUST */
    /* MUST. Everything was given back and freed. */
    void (*close)(struct device *d);
};

/* Each device's own struct begins with this. */
struct device {
    const struct device_ops *ops;
    int index;      /* which one of its kind */
    char title[96]; /* "NVIDIA A100, driver 12.4" */
};

#endif
