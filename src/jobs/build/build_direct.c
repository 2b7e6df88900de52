/* Writing past the page cache (O_DIRECT): rows go to the disk from where they were computed, with no copy and no pages that have to be
 * written back and forgotten later. On the machine of docs/bench.md that is a third of a build's system time, and 1.7 GB/s to the disk
 * instead of 0.4.
 *
 * The disk wants whole pages of the file, from memory that begins at a sector. What lies before the first whole page of a write, or behind
 * its last, goes the usual way; both never touch one page. So does everything where direct writing is not possible, or not known to pay:
 * network file systems have no disk to spare the copy for, and memory is its own page cache.
 *
 * A thread that writes this way waits for the disk, so it should have nothing else to do.
 */
#include "base/file/file.h"
#include "jobs/build/build_direct.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { EXT4_MAGIC = 0xef53, XFS_MAGIC = 0x58465342 };

static bool is_same_file(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool is_on_disk(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && (fs.f_type == EXT4_MAGIC || fs.f_type == XFS_MAGIC);
}

void build_direct_open(struct build_direct *d, int usual_fd, int dir_fd, const char *name)
{
    *d = (struct build_direct){.usual_fd = usual_fd, .fd = -1};
    if (!name || !is_on_disk(usual_fd))
        return;
    d->fd = openat(dir_fd, name, O_WRONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
    if (d->fd >= 0 && !is_same_file(d->fd, usual_fd))
        build_direct_close(d);
}

bool build_direct_is_on(const struct build_direct *d)
{
    return d->fd >= 0 && !atomic_load_explicit(&d->is_off, memory_order_relaxed);
}

/* n if the disk took all of the pages, else 0: the usual way then writes them again, and tells why the disk fails. */
static size_t write_pages(struct build_direct *d, const uint8_t *bytes, size_t n, uint64_t offset)
{
    if (file_write_all_at(d->fd, bytes, n, offset, NULL) == 0)
        return n;
    atomic_store_explicit(&d->is_off, true, memory_order_relaxed);
    return 0;
}

int build_direct_write(struct build_direct *d, const uint8_t *bytes, size_t n, uint64_t offset, struct fb_error *e)
{
    size_t before = (size_t)(-offset % BUILD_PAGE), pages = n > before ? (n - before) & ~(size_t)(BUILD_PAGE - 1) : 0, done = 0;
    bool fits = pages >= BUILD_LEAST_DIRECT && (uintptr_t)(bytes + before) % BUILD_SECTOR == 0;
    if (!fits || !build_direct_is_on(d))
        return file_write_all_at(d->usual_fd, bytes, n, offset, e);
    FB_TRY(file_write_all_at(d->usual_fd, bytes, before, offset, e));
    done = before + write_pages(d, bytes + before, pages, offset + before);
    return file_write_all_at(d->usual_fd, bytes + done, n - done, offset + done, e);
}

void build_direct_close(struct build_direct *d)
{
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
}
