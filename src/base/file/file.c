#include "base/file/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
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

static int synced(int rc, struct fb_error *e)
{
    return rc < 0 && errno != EINVAL && errno != ENOTSUP ? error_set_errno(e, "write", errno, "bring the file to the disk") : 0;
}

int file_sync(int fd, struct fb_error *e)
{
    return synced(fsync(fd), e);
}

int file_sync_data(int fd, struct fb_error *e)
{
    return synced(fdatasync(fd), e);
}

struct timespec file_time(int64_t ns)
{
    int64_t s = ns / 1000000000, rest = ns % 1000000000;
    return (struct timespec){(time_t)(rest < 0 ? s - 1 : s), (long)(rest < 0 ? rest + 1000000000 : rest)};
}

int file_set_time(int fd, int64_t mtime_ns, const char *stage, struct fb_error *e)
{
    const struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, file_time(mtime_ns)};
    return futimens(fd, t) < 0 ? error_set_errno(e, stage, errno, "set the time of a file") : 0;
}

bool file_folder_is_empty(int fd)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = own >= 0 ? fdopendir(own) : NULL;
    bool is_empty = d != NULL;
    for (struct dirent *x; d && (x = readdir(d));)
        is_empty &= strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0 || strcmp(x->d_name, "lost+found") == 0;
    if (d)
        closedir(d);
    else if (own >= 0)
        close(own);
    return is_empty;
}
