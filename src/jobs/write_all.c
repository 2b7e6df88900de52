#include "jobs/write_all.h"

#include <errno.h>
#include <unistd.h>

enum { MOST_AT_ONCE = 1 << 30 };

int write_all(int fd, const void *bytes, size_t n, struct fb_error *e)
{
    for (const char *at = bytes; n > 0;) {
        ssize_t got = write(fd, at, n < MOST_AT_ONCE ? n : MOST_AT_ONCE);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set_errno(e, "write", errno, "write the file");
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

int write_all_at(int fd, const void *bytes, size_t n, uint64_t offset, struct fb_error *e)
{
    for (const char *at = bytes; n > 0;) {
        ssize_t got = pwrite(fd, at, n < MOST_AT_ONCE ? n : MOST_AT_ONCE, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set_errno(e, "write", errno, "write the file");
        at += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return 0;
}

int write_sync(int fd, struct fb_error *e)
{
    return fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP ? error_set_errno(e, "write", errno, "bring the file to the disk") : 0;
}
