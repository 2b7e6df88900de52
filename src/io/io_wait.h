/* Blocking reads on top of a back-end: submit some, wait for the next one or for all, and stop when interrupted.
 *
 * For callers that have nothing else to do: opening, probing, jobs. (The engine does not wait: a load leaves its worker and comes back
 * later.) A wait has room for `count` reads of up to `room` bytes each; a read that came may be submitted again, with another place.
 *
 *     struct io_wait *w = io_wait_new(io, 1, n);
 *     io_wait_submit(w, 0, &(struct io_request){.dir_fd = fd, .path = path, .length = n}, false);
 *     int rc = io_wait_all(w, &stop);
 *     if (rc == 0)
 *         rc = io_wait_status(w, 0, e);
 *     io_wait_end(w);
 *
 * Safety: one thread submits, waits and ends. Everything that a back-end writes to (request, buffer, error record) is the wait's memory,
 * and each read in flight holds on to it. So whoever is interrupted just ends the wait: what did not come yet goes on without anybody
 * waiting, and the last one that comes frees the memory, on the back-end's thread. One that never comes keeps it. A back-end cannot cancel
 * single reads; closing it does, and may be done before or after io_wait_end. Paths and descriptors stay the caller's, until the back-end
 * is closed. `interrupted` is called on the waiting thread, with no lock held.
 */
#ifndef FB_IO_IO_WAIT_H
#define FB_IO_IO_WAIT_H

#include "model/io_ops.h"

struct io_wait;

/* When to stop waiting; all zero, or NULL: never. */
struct io_wait_stop {
    int (*interrupted)(void *ctx); /* MAY. Asked every 100 ms, not before the first; non-zero: FB_E_INTERRUPTED */
    void *ctx;
    uint64_t deadline_ns; /* of clock_now_ns; 0: none. FB_E_TIMEOUT */
};

/* NULL: no memory. */
struct io_wait *io_wait_new(struct io *io, uint32_t count, size_t room);
/* Read `i`, which is not under way: `wanted` says what (length or expected_size at most `room`). Its buffer, capacity, error, done and
 * owner are not used. `more` as in io_ops. */
void io_wait_submit(struct io_wait *w, uint32_t i, const struct io_request *wanted, bool more);
/* The next one that comes, in *i. 1; 0: none is under way; FB_E_INTERRUPTED, FB_E_TIMEOUT: none came yet, it may be called again. */
int io_wait_next(struct io_wait *w, const struct io_wait_stop *stop, uint32_t *i);
/* Until none is under way: 0, whether they succeeded or not. Otherwise as above. */
int io_wait_all(struct io_wait *w, const struct io_wait_stop *stop);

/* Of a read that came: all of it, buffer included, until it is submitted again or the wait ends. */
const struct io_request *io_wait_result(const struct io_wait *w, uint32_t i);
/* Its status. When it failed, why becomes *e (may be NULL; the first error is kept). */
int io_wait_status(const struct io_wait *w, uint32_t i, struct fb_error *e);

/* Takes NULL. */
void io_wait_end(struct io_wait *w);

#endif
