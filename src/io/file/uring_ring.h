/* The ring itself: set up with the best flags the kernel knows, checked for what we need, entered without counting as iowait.
 * All functions belong to the one thread that opened the ring. */
#ifndef FB_IO_FILE_URING_RING_H
#define FB_IO_FILE_URING_RING_H

#include <liburing.h>
#include <stdbool.h>

#include "base/error.h"

struct uring_ring {
    struct io_uring ring;
    unsigned wait_flags; /* IORING_ENTER_NO_IOWAIT where known */
    bool has_cqe_skip;
};

/* Room for 3 operations per read in flight. FB_E_UNSUPPORTED: not on this machine, the cause says why. */
int uring_ring_open(struct uring_ring *u, uint32_t depth, struct fb_error *e);
void uring_ring_close(struct uring_ring *u);

/* Submits what was prepared and, if `wait`, sleeps until a completion is there. Interruptions and full queues are no failures: what was not
 * taken is submitted by the next call. */
void uring_ring_enter(struct uring_ring *u, bool wait);

/* Submits what was prepared once there are two, the most the kernel takes without holding them back from the device. */
void uring_ring_start(struct uring_ring *u);

/* A submission entry while more than `reserve` are free, else NULL. */
struct io_uring_sqe *uring_ring_sqe(struct uring_ring *u, unsigned reserve);

#endif
