/* The shape of an io back-end: bytes of extents, many in flight. One static const table per back-end, listed in io/io_list.c.
 *
 * A request is the caller's memory from submit until `done` is called, exactly once, from the back-end's thread (or from submit itself).
 * It asks for `length` bytes at `offset` of an object, or for the whole object (IO_WHOLE) whose size is expected to be `expected_size`.
 */
#ifndef FB_MODEL_IO_OPS_H
#define FB_MODEL_IO_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"

#define IO_WHOLE UINT64_MAX
enum { IO_GREW = 1, IO_BLOCKED = 2 }; /* positive answers, see below */
enum { IO_TAIL = 64 };                /* bytes after the data that a buffer must also have: for the size check and for wide loads */

/* What an open file is, for those who keep bytes of it: a version of an object, kept as a whole or in blocks. */
struct io_object {
    int dir_fd;
    const char *path;
    uint64_t size; /* these two as the open file has them */
    int64_t mtime_ns;
    uint64_t block; /* bytes that are kept as one, from multiples of it; no read crosses one. 0: the whole object is */
    uint64_t index; /* of the sample that it is; UINT64_MAX: it is none */
};

struct io_request {
    /* in: constant while in flight */
    int dir_fd;       /* the data set's root; `path` is relative to it or absolute */
    const char *path; /* NUL-terminated, outlives the request */
    uint64_t offset;
    uint64_t length;                /* or IO_WHOLE */
    uint64_t expected_size;         /* IO_WHOLE: what the catalog says; the file is read up to one byte more to notice growth */
    bool has_fd;                    /* `fd` is the object, open: only read from; not with IO_WHOLE; the path is for messages */
    int fd;                         /* stays the caller's, open until done */
    const struct io_object *object; /* with has_fd: what it is; NULL: nobody keeps it. Outlives the request */
    uint8_t *buffer;                /* holds capacity bytes, at least length (or expected_size) + IO_TAIL; with has_fd length is enough */
    size_t capacity;
    void (*done)(struct io_request *r); /* MUST NOT block; may resubmit r */
    void *owner;                        /* the caller's */
    bool goes_first;                    /* of what waits for its turn, before everything that does not: the rest of a load that has begun */
    int64_t expected_mtime_ns;          /* 0: not known; else what the catalog says. For stores, see store_ops.h */
    bool must_match; /* a range of another version is refused (FB_E_DATA) where versions can be told for certain: stores. Files leave
                             * the comparison to the caller */

    /* out: valid in done, or after try_now */
    int status; /* 0: got bytes are there. IO_GREW: the object is object_size bytes now, give a larger buffer and resubmit.
                             * Negative: FB_E_*, told in `error` (stage "read", errno) */
    uint64_t got;
    uint64_t object_size;    /* as seen while reading */
    int64_t object_mtime_ns; /* 0: not known */
    uint64_t submitted_ns, done_ns;
    struct fb_error *error; /* the caller's record to fill on failure; may be NULL */

    /* the back-end's own while in flight */
    struct io_request *next;
    uint64_t own[6];
};

/* One of many small reads that are wanted if they need not wait. */
struct io_piece {
    int fd;
    uint64_t offset;
    uint64_t length;
    void *to;
    bool is_there;    /* out */
    bool is_staged;   /* the caller's */
    bool is_sure;     /* in: the file is in memory as a whole (io_is_in_memory); a plain read is cheaper than one that must not wait */
    const char *path; /* of the file, for messages; the caller's too */
    const struct io_object *object; /* in: as in a request */
};

struct io_figures {
    uint64_t reads, bytes, failures;
    uint64_t busy_ns;      /* sum over requests of done - submitted */
    uint64_t in_flight_ns; /* of it, those that were in flight: reads done by try_now never are */
    uint32_t in_flight, in_flight_peak;
    uint32_t depth;     /* how many it takes at once */
    uint32_t abandoned; /* reads that could not be cancelled at close */
};

struct io;

struct io_ops {
    const char *name; /* "uring" */

    /* MUST. Starts the back-end. `spec` is what follows the colon in "slow:latency_us=500", or "". `depth` is how many reads the caller
     * wants in flight. Wrapping back-ends (slow, fault) open the one they wrap through io_open. FB_E_UNSUPPORTED: not on this machine; the
     * cause says why. */
    int (*open)(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e);

    /* MUST. Takes a request; never blocks: queues inside when the kernel's queue is full. Any thread. `more` says that another submit
     * follows at once, so the system call may wait for that one. */
    void (*submit)(struct io *io, struct io_request *r, bool more);

    /* MAY. Reads on the caller's thread if that cannot block: 0 and r filled as in done (status, got, ...), without calling done;
     * IO_BLOCKED when it would have to wait for a device (nothing happened); IO_GREW; or a failure. A missing hook means IO_BLOCKED
     * always. */
    int (*try_now)(struct io *io, struct io_request *r);

    /* MAY. Reads on the caller's thread those pieces that are in memory already, whole ones only, and returns how many of them are there. A
     * piece that would block or fails is left for submit, which tells why. A missing hook means none. */
    uint32_t (*try_pieces)(struct io *io, struct io_piece *p, uint32_t count);

    /* MAY. How long it takes to be told an object's size and time, for a back-end that stands for a device further away than its file
     * system shows. A missing hook means what the file system takes. Any thread. */
    uint64_t (*ask_ns)(const struct io *io);

    /* MUST. A copy of the counters. Any thread. */
    void (*figures)(struct io *io, struct io_figures *f);

    /* MUST. Cancels what is in flight and frees everything within timeout_ns. Requests cancelled in time get done with FB_E_STATE. Returns
     * how many could not be: their requests and buffers are left to the stuck thread, which will not call done; the caller must leak them.
     * */
    uint32_t (*close)(struct io *io, uint64_t timeout_ns);
};

/* Each back-end's own struct begins with this. */
struct io {
    const struct io_ops *ops;
};

#endif
