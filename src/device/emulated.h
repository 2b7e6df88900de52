/* "emulated:12GB/s,20us": a device inside this process, to show when memory is used too early or too late.
 *
 * It does with the time it states what an accelerator does: a copy begins `latency` after it was queued (and after those before it), moves
 * bytes at the stated rate, on a thread of its own, by absolute deadlines, so it reads the source late. A digest of the source is taken
 * when the copy is queued and compared with what was read in the end: memory that was reused too early is caught and named. A kernel is
 * emulated as a read of device memory that lasts: its digest at the beginning and at the end must be the same.
 *
 *   emulated[:RATE[,LATENCY[,MEMORY]]]   12GB/s, 20us, and no limit of memory
 *
 * Streams: 0 is the calling thread, 1 to 7 are queues of the caller's, DEVICE_COPY_STREAM is the device's own. The CPU reads its memory.
 * The copying costs CPU time of this machine, which a real device does not take.
 */
#ifndef FB_DEVICE_EMULATED_H
#define FB_DEVICE_EMULATED_H

#include <pthread.h>

#include "device/device.h"

enum emulated_engines { ENGINE_COPY, ENGINE_COMPUTE, ENGINES };
enum { EMULATED_STREAMS = 9 }; /* the caller's 8, and the device's own */

/* How far each engine must have come. */
struct emulated_point {
    uint64_t done[ENGINES];
};

struct emulated_work {
    struct emulated_work *next;
    const void *from;
    void *to; /* NULL: only read */
    size_t bytes;
    uint64_t digest; /* a copy's: of `from` when it was queued */
    uint64_t lasts_ns;
    uint64_t begins_ns; /* not before */
    struct emulated_point after;
};

struct emulated_engine {
    struct emulated *owner;
    int which;
    pthread_t thread;
    bool is_started;
    /* under the device's lock */
    struct emulated_work *first, *last;
    uint64_t queued, done;
};

struct emulated {
    struct device device;
    double bytes_per_ns;
    uint64_t latency_ns;
    uint64_t memory_limit; /* 0: none */
    struct emulated_engine engine[ENGINES];
    pthread_mutex_t lock;
    pthread_cond_t wakes; /* anything happened */

    /* under lock */
    bool is_closing;
    struct emulated_point at[EMULATED_STREAMS]; /* each stream's own work so far, and what it was told to wait for */
    struct fb_error fault;                      /* the first: memory changed under a read */
    struct device_figures figures;
};

/* emulated_engine.c */
int engine_start(struct emulated_engine *g, struct fb_error *e);
void engine_stop(struct emulated_engine *g);
/* FB_E_USAGE: there is no such stream. */
int emulated_stream(uintptr_t stream, struct fb_error *e);
/* The lock is held. */
bool emulated_is_reached(const struct emulated *d, const struct emulated_point *p);
/* Queues work on a stream; a copy of *w is made. */
int engine_queue(struct emulated_engine *g, uintptr_t stream, const struct emulated_work *w, struct fb_error *e);

/* What programs with a device of their own do, for tests: queue a late read of a batch in main memory (their own copy), or a kernel that
 * reads device memory for `lasts_ns`. */
int emulated_read(struct device *d, uintptr_t stream, const void *from, size_t bytes, struct fb_error *e);
int emulated_kernel(struct device *d, uintptr_t stream, const void *memory, size_t bytes, uint64_t lasts_ns, struct fb_error *e);
/* Blocks until nothing is queued. The first fault, or 0. */
int emulated_settle(struct device *d, struct fb_error *e);

#endif
