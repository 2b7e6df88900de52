/* Reading on the caller's thread when that cannot block: openat2 RESOLVE_CACHED, statx, preadv2 RWF_NOWAIT, close. Four system calls, no
 * lock, no allocation.
 *
 * RESOLVE_CACHED (Linux 5.12) refuses when a name or an inode would have to come from the disk. Where it is missing, everything is
 * IO_BLOCKED: a plain open may wait for a device, and a worker that waits is worse than a hand-over to a thread that is there for waiting.
 * That path reads tmpfs and old kernels correctly, only dearer.
 *
 * RWF_NOWAIT is EOPNOTSUPP on tmpfs, where a plain pread cannot block, and on overlay, NFS and FUSE, where it can: those are IO_BLOCKED. A
 * handle that finds only such files stops trying, but looks again from time to time.
 */
#include <errno.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/file/file_read.h"
#include "io/io_shared.h"
#include "io/io.h"

enum { DEVICES = 64, GIVE_UP_AFTER = 8, LOOK_AGAIN_EVERY = 256 };

static bool is_memory(int fd)
{
    struct statfs s;
    if (fstatfs(fd, &s) != 0)
        return false;
    return s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC || s.f_type == HUGETLBFS_MAGIC;
}

static enum io_device find_out(int fd)
{
    if (is_memory(fd))
        return IO_DEVICE_MEMORY;
    char byte;
    struct iovec one = {&byte, 1};
    bool is_refused = preadv2(fd, &one, 1, 0, RWF_NOWAIT) < 0 &&
                      (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == EPERM); /* EAGAIN, EIO: it was understood */
    return is_refused ? IO_DEVICE_BLOCKS : IO_DEVICE_NOWAIT;
}

enum io_device io_device_of(uint64_t device, int fd)
{
    /* (device + 1) << 2 | kind, filled from the front; each word is whole in itself, so relaxed order suffices */
    static _Atomic uint64_t known[DEVICES];
    uint64_t key = (device + 1) << 2;
    for (int i = 0; i < DEVICES; i++) {
        uint64_t seen = atomic_load_explicit(&known[i], memory_order_relaxed);
        if ((seen & ~(uint64_t)3) == key)
            return (enum io_device)(seen & 3);
        if (seen != 0)
            continue;
        enum io_device kind = find_out(fd);
        uint64_t none = 0;
        atomic_compare_exchange_strong_explicit(&known[i], &none, key | kind, memory_order_relaxed, memory_order_relaxed);
        return kind; /* a lost race costs one more look, some other time */
    }
    return find_out(fd);
}

/* The fd, IO_BLOCKED as -EAGAIN, or -errno. */
static int open_cached(const struct io_request *r)
{
    static atomic_bool is_missing;
    if (atomic_load_explicit(&is_missing, memory_order_relaxed))
        return -EAGAIN;
    struct open_how how = {.flags = IO_OPEN_FLAGS, .resolve = RESOLVE_CACHED};
    long fd = syscall(SYS_openat2, r->dir_fd, r->path, &how, sizeof(how));
    if (fd >= 0)
        return (int)fd;
    if (errno == ENOSYS || errno == EINVAL)
        atomic_store_explicit(&is_missing, true, memory_order_relaxed);
    /* EPERM is how old container profiles refuse calls they do not know; the waiting path tells it from a real one */
    return errno == ENOSYS || errno == EINVAL || errno == EPERM || errno == EINTR ? -EAGAIN : -errno;
}

static bool is_hopeless(struct io_now *now)
{
    uint32_t n = atomic_load_explicit(&now->blocked_in_a_row, memory_order_relaxed);
    if (n < GIVE_UP_AFTER)
        return false;
    return atomic_fetch_add_explicit(&now->blocked_in_a_row, 1, memory_order_relaxed) % LOOK_AGAIN_EVERY != 0;
}

static int read_now(struct io_request *r, struct io_file *f, int fd, enum io_device kind)
{
    while (true) {
        struct io_part p = io_file_part(r, f);
        struct iovec v = {p.to, p.bytes};
        ssize_t n = preadv2(fd, &v, 1, (off_t)p.offset, kind == IO_DEVICE_MEMORY ? 0 : RWF_NOWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EOPNOTSUPP || errno == ENOSYS))
            return IO_BLOCKED;
        /* fewer than asked for and not the end: the rest is not in memory */
        if (n >= 0 && (size_t)n < p.bytes && f->got + (uint64_t)n < f->end)
            return IO_BLOCKED;
        int rc = io_file_take(r, f, fd, n < 0 ? -errno : n);
        if (rc != IO_FILE_MORE)
            return rc;
    }
}

static int try_open_file(struct io_now *now, struct io_request *r, int fd)
{
    struct io_file f;
    int rc = io_file_begin(r, &f, fd);
    if (rc != IO_FILE_MORE)
        return rc;
    enum io_device kind = io_device_of(f.device, fd);
    if (kind == IO_DEVICE_BLOCKS) {
        atomic_fetch_add_explicit(&now->blocked_in_a_row, 1, memory_order_relaxed);
        return IO_BLOCKED;
    }
    if (atomic_load_explicit(&now->blocked_in_a_row, memory_order_relaxed))
        atomic_store_explicit(&now->blocked_in_a_row, 0, memory_order_relaxed);
    return read_now(r, &f, fd, kind);
}

int io_file_try(struct io_now *now, struct io_request *r)
{
    if (is_hopeless(now))
        return IO_BLOCKED;
    r->submitted_ns = clock_now_ns();
    FB_TRY(io_file_check(r));
    int fd = r->has_fd ? r->fd : open_cached(r);
    if (fd == -EAGAIN)
        return IO_BLOCKED;
    int rc = fd < 0 ? io_file_fail_open(r, -fd) : try_open_file(now, r, fd);
    if (fd >= 0 && !r->has_fd)
        close(fd);
    r->done_ns = clock_now_ns();
    return rc;
}

static enum io_device kind_of(int fd)
{
    struct stat s;
    return fstat(fd, &s) == 0 ? io_device_of(s.st_dev, fd) : IO_DEVICE_BLOCKS;
}

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* of every architecture */
#endif

bool io_is_in_memory(int fd, uint64_t bytes)
{
    struct {
        uint64_t from, length;
    } range = {0, 0}; /* length 0: to the end */
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } pages = {0};
    long page = sysconf(_SC_PAGESIZE);
    return syscall(SYS_cachestat, fd, &range, &pages, 0) == 0 && pages.cached * (uint64_t)page >= bytes;
}

/* preadv2 costs a tenth of a microsecond more than pread, which is as much of a row of 1 KB as everything else the engine does with it. As
 * system calls without libc's wrapper, whose cancellation points nobody needs. */
static bool is_read(const struct io_piece *p, enum io_device kind)
{
    if (p->is_sure)
        return syscall(SYS_pread64, p->fd, p->to, p->length, (off_t)p->offset) == (long)p->length;
    struct iovec v = {p->to, p->length};
    return kind != IO_DEVICE_BLOCKS &&
           preadv2(p->fd, &v, 1, (off_t)p->offset, kind == IO_DEVICE_MEMORY ? 0 : RWF_NOWAIT) == (ssize_t)p->length;
}

uint32_t io_file_try_pieces(struct io_piece *p, uint32_t count, uint64_t *bytes)
{
    uint32_t there = 0;
    enum io_device kind = IO_DEVICE_BLOCKS;
    *bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!p[i].is_sure && (i == 0 || p[i].fd != p[i - 1].fd || p[i - 1].is_sure))
            kind = kind_of(p[i].fd);
        p[i].is_there = is_read(&p[i], kind);
        there += p[i].is_there;
        *bytes += p[i].is_there ? p[i].length : 0;
    }
    return there;
}

int local_io_try_now(struct io *io, struct io_request *r)
{
    struct local_io *l = (struct local_io *)io;
    if (l->forks != io_fork_count())
        return io_fail_forked(r);
    int rc = io_file_try(&l->now, r);
    if (rc != IO_BLOCKED)
        io_count_add(&l->count, r);
    return rc;
}

uint32_t local_io_try_pieces(struct io *io, struct io_piece *p, uint32_t count)
{
    struct local_io *l = (struct local_io *)io;
    uint64_t bytes;
    uint32_t there = l->forks == io_fork_count() ? io_file_try_pieces(p, count, &bytes) : 0;
    if (there)
        io_count_add_pieces(&l->count, there, bytes);
    return there;
}

void local_io_figures(struct io *io, struct io_figures *f)
{
    io_count_figures(&((struct local_io *)io)->count, f);
}
