#include "base/file/file.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

/* Counts what a call moved. False: that was the last call; errno is 0 at the end of the file. */
static bool goes_on(ssize_t moved, size_t *done)
{
    if (moved > 0)
        *done += (size_t)moved;
    else if (moved == 0)
        errno = 0;
    return moved > 0 || (moved < 0 && errno == EINTR);
}

size_t file_read_all(int fd, void *out, size_t n)
{
    size_t done = 0;
    while (done < n && goes_on(read(fd, (char *)out + done, n - done), &done))
        ;
    return done;
}

size_t file_read_all_at(int fd, void *out, size_t n, uint64_t offset)
{
    size_t done = 0;
    while (done < n && goes_on(pread(fd, (char *)out + done, n - done, (off_t)(offset + done)), &done))
        ;
    return done;
}

static int written(bool is_whole, struct fb_error *e)
{
    if (is_whole)
        return 0;
    if (errno == 0)
        errno = ENOSPC;
    return error_set_errno(e, "write", errno, "write the file");
}

int file_write_all(int fd, const void *bytes, size_t n, struct fb_error *e)
{
    size_t done = 0;
    while (done < n && goes_on(write(fd, (const char *)bytes + done, n - done), &done))
        ;
    return written(done == n, e);
}

int file_write_all_at(int fd, const void *bytes, size_t n, uint64_t offset, struct fb_error *e)
{
    size_t done = 0;
    while (done < n && goes_on(pwrite(fd, (const char *)bytes + done, n - done, (off_t)(offset + done)), &done))
        ;
    return written(done == n, e);
}

int file_write_parts_at(int fd, struct iovec *v, int count, uint64_t offset, struct fb_error *e)
{
    for (;;) {
        size_t n = 0;
        for (; count > 0 && v->iov_len == 0; count--)
            v++;
        if (count == 0)
            return 0;
        if (!goes_on(pwritev(fd, v, count, (off_t)offset), &n))
            return written(false, e);
        offset += n;
        for (; count > 0 && n >= v->iov_len; count--)
            n -= v++->iov_len;
        if (n > 0)
            *v = (struct iovec){(char *)v->iov_base + n, v->iov_len - n};
    }
}

int file_sync(int fd, struct fb_error *e)
{
    return fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP ? error_set_errno(e, "write", errno, "bring the file to the disk") : 0;
}
