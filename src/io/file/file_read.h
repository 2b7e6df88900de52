/* Reading one file: what every back-end that reads local files does alike, whoever makes the system calls.
 *
 *     open -> io_file_begin -> [ read io_file_part -> io_file_take ]* -> close
 *
 * The size is taken from the open file, not from the catalog. A whole file is asked for one byte more than its size, which costs nothing
 * and shows growth. What can come of it:
 *   as large as at begin          0
 *   larger than the buffer        IO_GREW, object_size says how large it is now
 *   grew while being read         read on to its new end if the buffer holds it, else IO_GREW
 *   ends before its size          FB_E_IO: it shrinks while being read
 *   a range beyond the end        0 with got < length (as pread has it); object_size tells
 * A file that is merely smaller or larger than expected_size is no error here: object_size and object_mtime_ns let the caller compare.
 */
#ifndef FB_IO_FILE_FILE_READ_H
#define FB_IO_FILE_FILE_READ_H

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "io/io_count.h"

/* O_NONBLOCK: the open of a FIFO without a writer returns at once, and is then refused; regular files do not care. */
enum { IO_OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

enum { IO_FILE_MORE = 3 }; /* beside 0, IO_GREW, IO_BLOCKED and failures: not over yet */

struct io_file {
    uint64_t got, end;  /* bytes in the buffer; bytes there should be */
    uint64_t device;    /* for io_device_of */
    bool is_open_ended; /* it grew: read on until there is no more */
};

/* Refuses requests that no file can satisfy: a buffer without room for the tail, a range past the largest offset. 0 or a failure. */
int io_file_check(struct io_request *r);

/* Fills r for a failed open or read, or for a file that ended at `got` instead of `end`; returns r->status. */
int io_file_fail_open(struct io_request *r, int sys_errno);
int io_file_fail_read(struct io_request *r, uint64_t got, int sys_errno);
int io_file_fail_shrunk(struct io_request *r, uint64_t end, uint64_t got);

/* Looks at the open file. IO_FILE_MORE: go on reading; otherwise r is filled. Does not wait for a server: cached attributes do, they are
 * as fresh as the open. */
int io_file_begin(struct io_request *r, struct io_file *f, int fd);

/* The next part to read: where in the file, how many bytes, where to. */
struct io_part {
    uint64_t offset;
    size_t bytes;
    uint8_t *to;
};
struct io_part io_file_part(const struct io_request *r, const struct io_file *f);

/* Takes the result of reading that part: bytes, 0 at the end, or -errno. IO_FILE_MORE, or r is filled. */
int io_file_take(struct io_request *r, struct io_file *f, int fd, ssize_t n);

/* All of it on this thread, blocking. Returns r->status. */
int io_file_read(struct io_request *r);

/* ---- without blocking ---- */

/* What reading from a file system can do to the calling thread. */
enum io_device {
    IO_DEVICE_NOWAIT = 1, /* RWF_NOWAIT works: the kernel says beforehand whether it would block */
    IO_DEVICE_MEMORY,     /* tmpfs and its like: never blocks */
    IO_DEVICE_BLOCKS      /* network, FUSE, overlay: no way to know */
};
/* Looked up once per device, then remembered by the process. `fd` is any open file on it. */
enum io_device io_device_of(uint64_t device, int fd);

/* Remembers that a handle's files are of the kind that always blocks, to spare the system calls that would find it out again. */
struct io_now {
    _Atomic uint32_t blocked_in_a_row;
};

/* try_now of io_ops.h for local files. */
int io_file_try(struct io_now *now, struct io_request *r);
/* try_pieces of io_ops.h; *bytes: how many were read. */
uint32_t io_file_try_pieces(struct io_piece *p, uint32_t count, uint64_t *bytes);

/* The handles of back-ends for local files begin with this; these are hooks of theirs. */
struct local_io {
    struct io io;
    struct io_now now;
    struct io_count count;
    unsigned forks; /* at open */
};
int local_io_try_now(struct io *io, struct io_request *r);
uint32_t local_io_try_pieces(struct io *io, struct io_piece *p, uint32_t count);
void local_io_figures(struct io *io, struct io_figures *f);

#endif
