#include "io/file/file_read.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text/text.h"

/* Larger reads go in parts, so that a close is noticed between them and one large file does not hold the ring. */
enum { PART_MAX = 4 << 20 };

struct look {
    mode_t mode;
    uint64_t size, device;
    int64_t mtime_ns;
};

static bool is_whole(const struct io_request *r)
{
    return r->length == IO_WHOLE;
}

/* The most bytes the buffer may hold beside the tail. */
static uint64_t room(const struct io_request *r)
{
    return r->capacity - IO_TAIL;
}

static int fail(struct io_request *r, int code, int sys_errno, uint64_t got)
{
    r->got = 0;
    r->status = code;
    if (r->error && r->error->sys_errno == 0)
        r->error->sys_errno = sys_errno;
    error_at(r->error, r->path, got ? (int64_t)((is_whole(r) ? 0 : r->offset) + got) : -1);
    return code;
}

int io_file_check(struct io_request *r)
{
    r->got = r->object_size = 0;
    r->object_mtime_ns = 0;
    r->status = 0;
    bool is_held = r->has_fd ? !is_whole(r) && r->length <= r->capacity : r->capacity >= IO_TAIL && (is_whole(r) || r->length <= room(r));
    bool is_in_range = is_whole(r) || (r->offset <= INT64_MAX && r->length <= INT64_MAX - r->offset);
    if (is_held && is_in_range)
        return 0;
    if (!is_held)
        error_set(r->error, FB_E_USAGE, "read", "a buffer of %zu bytes cannot hold what is asked for and %d more", r->capacity, IO_TAIL);
    else
        error_set(r->error, FB_E_USAGE, "read", "%llu bytes at offset %llu are beyond any file", (unsigned long long)r->length,
                  (unsigned long long)r->offset);
    return fail(r, FB_E_USAGE, 0, 0);
}

static int refuse_kind(struct io_request *r, const char *kind, int sys_errno)
{
    error_set(r->error, FB_E_DATA, "read", "it is %s, not a regular file", kind);
    error_remedy(r->error, "take it out of the data set");
    return fail(r, FB_E_DATA, sys_errno, 0);
}

int io_file_fail_open(struct io_request *r, int sys_errno)
{
    if (sys_errno == ENXIO) /* a socket, or a device that is not there */
        return refuse_kind(r, "a socket or a device", sys_errno);
    if (sys_errno != ENOENT && sys_errno != ENOTDIR)
        return fail(r, error_set_errno(r->error, "read", sys_errno, "open the file"), sys_errno, 0);
    error_set(r->error, FB_E_NOT_FOUND, "read", "it has vanished since the data set was catalogued");
    error_remedy(r->error, "put it back, or let the data set be scanned again");
    return fail(r, FB_E_NOT_FOUND, sys_errno, 0);
}

int io_file_fail_read(struct io_request *r, uint64_t got, int sys_errno)
{
    if (sys_errno == ESTALE) {
        error_set(r->error, FB_E_IO, "read", "it was replaced or removed on the server while being read");
        error_remedy(r->error, "leave the data set alone while it is being read");
        return fail(r, FB_E_IO, sys_errno, got);
    }
    return fail(r, error_set_errno(r->error, "read", sys_errno, "read the file"), sys_errno, got);
}

static int look_by_fstat(int fd, struct look *l)
{
    struct stat s;
    if (fstat(fd, &s) != 0)
        return errno;
    *l = (struct look){s.st_mode, (uint64_t)s.st_size, s.st_dev, s.st_mtim.tv_sec * INT64_C(1000000000) + s.st_mtim.tv_nsec};
    return 0;
}

/* statx can be asked not to wait for a server (fstat on NFS and FUSE may); where it is missing or forbidden by an old seccomp profile,
 * fstat does. */
static int look_at(int fd, struct look *l)
{
    struct statx s;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE | STATX_MTIME, &s) != 0)
        return look_by_fstat(fd, l);
    *l = (struct look){s.stx_mode, s.stx_size, (uint64_t)s.stx_dev_major << 32 | s.stx_dev_minor,
                       s.stx_mtime.tv_sec * INT64_C(1000000000) + s.stx_mtime.tv_nsec};
    return 0;
}

static const char *kind_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR: return "a directory";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    default: return "a device";
    }
}

static int finish(struct io_request *r, const struct io_file *f)
{
    if (f->is_open_ended)
        r->object_size = f->got;
    r->got = f->got;
    return r->status = 0;
}

int io_file_begin(struct io_request *r, struct io_file *f, int fd)
{
    struct look l;
    int sys_errno = look_at(fd, &l);
    if (sys_errno)
        return fail(r, error_set_errno(r->error, "read", sys_errno, "look at the open file"), sys_errno, 0);
    if (!S_ISREG(l.mode))
        return refuse_kind(r, kind_name(l.mode), S_ISDIR(l.mode) ? EISDIR : 0);
    r->object_size = l.size;
    r->object_mtime_ns = l.mtime_ns;
    *f = (struct io_file){.end = l.size, .device = l.device};
    if (is_whole(r))
        return l.size > room(r) ? (r->status = IO_GREW) : IO_FILE_MORE;
    uint64_t left = l.size > r->offset ? l.size - r->offset : 0;
    f->end = r->length < left ? r->length : left;
    return f->end == 0 ? finish(r, f) : IO_FILE_MORE;
}

struct io_part io_file_part(const struct io_request *r, const struct io_file *f)
{
    uint64_t left = f->end - f->got;
    struct io_part p = {f->got + (is_whole(r) ? 0 : r->offset), left, r->buffer + f->got};
    if (left > PART_MAX - 1)
        p.bytes = PART_MAX - 1;
    p.bytes += is_whole(r); /* the byte that shows growth; the tail has room for it */
    return p;
}

/* One byte too many arrived. */
static int grew(struct io_request *r, struct io_file *f, int fd)
{
    if (f->got <= room(r)) {
        f->end = room(r);
        f->is_open_ended = true;
        return f->got < f->end ? IO_FILE_MORE : finish(r, f);
    }
    struct look l;
    r->object_size = look_at(fd, &l) == 0 && l.size > f->got ? l.size : f->got;
    r->got = 0;
    return r->status = IO_GREW;
}

int io_file_fail_shrunk(struct io_request *r, uint64_t end, uint64_t got)
{
    error_set(r->error, FB_E_IO, "read", "it shrinks while being read: of %llu bytes only %llu were left", (unsigned long long)end,
              (unsigned long long)got);
    error_remedy(r->error, "leave the data set alone while it is being read");
    return fail(r, FB_E_IO, 0, got);
}

int io_file_take(struct io_request *r, struct io_file *f, int fd, ssize_t n)
{
    if (n < 0)
        return n == -EINTR ? IO_FILE_MORE : io_file_fail_read(r, f->got, (int)-n);
    f->got += (uint64_t)n;
    if (f->got > f->end)
        return grew(r, f, fd);
    if (f->got == f->end)
        return finish(r, f);
    if (n > 0)
        return IO_FILE_MORE;
    return f->is_open_ended ? finish(r, f) : io_file_fail_shrunk(r, f->end, f->got);
}

static int read_open_file(struct io_request *r, int fd)
{
    struct io_file f;
    int rc = io_file_begin(r, &f, fd);
    while (rc == IO_FILE_MORE) {
        struct io_part p = io_file_part(r, &f);
        ssize_t n = pread(fd, p.to, p.bytes, (off_t)p.offset);
        rc = io_file_take(r, &f, fd, n < 0 ? -errno : n);
    }
    return rc;
}

int io_file_read(struct io_request *r)
{
    FB_TRY(io_file_check(r));
    if (r->has_fd)
        return read_open_file(r, r->fd);
    int fd;
    do
        fd = openat(r->dir_fd, r->path, IO_OPEN_FLAGS);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return io_file_fail_open(r, errno);
    int rc = read_open_file(r, fd);
    close(fd);
    return rc;
}
