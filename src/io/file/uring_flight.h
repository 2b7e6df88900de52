/* Reads in flight on a ring, each a small state machine: OPEN -> look at the open file -> READ (in parts if large) -> CLOSE.
 *
 * The operations are not chained with links. Size, time and kind of the file are wanted anyway and only to be had from a real descriptor,
 * and a short or growing file needs a say before it is closed. Measured against open-read-close chains on direct descriptors this is the
 * same from a cold cache and about 1 us dearer per file from a warm one, where file_now.c reads without the ring. Opening files whose path
 * is in memory by a plain openat2 beside the ring was no faster.
 *
 * O_NONBLOCK, which keeps FIFOs from hanging, makes the kernel read inline even where a file system cannot promise not to block (NFS, FUSE,
 * overlay). That would hold up the ring, so reads from such devices are sent to its workers.
 *
 * Safety: all of it belongs to the thread that owns the ring.
 */
#ifndef FB_IO_FILE_URING_FLIGHT_H
#define FB_IO_FILE_URING_FLIGHT_H

#include "io/file/file_read.h"
#include "io/file/uring_ring.h"

/* What a completion is for: the low bits of its user data; above them the flight's index. */
enum uring_operation { URING_OPEN, URING_READ, URING_CLOSE, URING_QUIET_CLOSE, URING_CANCEL, URING_WAKE };

static inline uint64_t uring_tag(uint32_t index, enum uring_operation operation)
{
    return (uint64_t)index << 3 | operation;
}

struct uring_flight {
    struct io_request *r; /* NULL: free */
    struct io_file file;
    int fd;
    bool is_async;       /* reads go to the ring's workers */
    bool is_quiet_close; /* a local file: closing it cannot block and needs no answer */
    enum uring_operation operation;
};

struct uring_flights {
    struct uring_ring ring;
    struct uring_flight *all; /* depth of them */
    uint32_t *free_list;
    uint32_t depth, free_count, reads_in_flight, closes_in_flight;
    struct io_request *finished, **finished_end; /* filled, for the caller to deliver */
    uint32_t finished_count;
    bool is_cancelled;
};

/* Memory only; the ring is opened by its thread. */
int uring_flights_alloc(struct uring_flights *fs, uint32_t depth, struct fb_error *e);
void uring_flights_free(struct uring_flights *fs);

/* Puts a request on the ring; there must be a free flight. A request refused at once is finished. */
void uring_flight_begin(struct uring_flights *fs, struct io_request *r);
/* Takes a completion (of anything but URING_WAKE) and prepares the next step. */
void uring_flight_answer(struct uring_flights *fs, const struct io_uring_cqe *cqe);
/* The finished ones, oldest first; the list is empty afterwards. */
struct io_request *uring_flights_take_finished(struct uring_flights *fs);

/* Tells everything in flight to stop: it finishes with FB_E_STATE, or with its result if that comes first. Once. */
void uring_flights_cancel(struct uring_flights *fs);
void uring_flights_cancel_one(struct uring_flights *fs, uint64_t tag);
/* Nothing is in flight or to be delivered. */
bool uring_flights_is_empty(const struct uring_flights *fs);

#endif
