/* An archive read through a window: small members come many to a read, large ones are passed over with a small read each. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "dataset/catalog_keep.h"
#include "dataset/tar/tar_table.h"

enum { SMALL_WINDOW = 4 << 10, LARGE_WINDOW = 64 << 10 };

static int failed(struct tar_window *w, const char *what, struct fb_error *e)
{
    int rc = error_set_errno(e, "dataset", errno, "%s", what);
    error_at(e, w->path, -1);
    tar_window_close(w);
    return rc;
}

int tar_window_open(struct tar_window *w, const struct archive *a, struct fb_error *e)
{
    struct stat st;
    *w = (struct tar_window){
        .fd = open(archive_place(a), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), .path = a->path, .wanted = LARGE_WINDOW};
    if (w->fd < 0 || fstat(w->fd, &st) < 0)
        return failed(w, "open the archive", e);
    w->bytes = malloc(LARGE_WINDOW);
    if (!w->bytes) {
        errno = ENOMEM;
        return failed(w, "read the archive", e);
    }
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size == a->size && keep_mtime_ns(&st) == a->mtime_ns) {
        w->size = a->size;
        return 0;
    }
    tar_window_close(w);
    error_set(e, FB_E_DATA, "dataset", "the archive was changed while it was read");
    error_at(e, a->path, -1);
    return FB_E_DATA;
}

static int fill(struct tar_window *w, uint64_t offset, struct fb_error *e)
{
    uint64_t left = w->size - offset;
    size_t n = left < w->wanted ? (size_t)left : w->wanted;
    w->start = offset;
    w->have = file_read_all_at(w->fd, w->bytes, n, offset);
    if (w->have == n)
        return 0;
    if (errno == 0)
        return error_set(e, FB_E_DATA, "dataset", "the archive became shorter while it was read");
    int rc = error_set_errno(e, "dataset", errno, "read the archive");
    error_at(e, w->path, (int64_t)offset);
    return rc;
}

int tar_window_read(void *window, uint64_t offset, void *out, size_t n, struct fb_error *e)
{
    struct tar_window *w = window;
    while (n > 0) {
        bool is_inside = offset >= w->start && offset - w->start < w->have;
        if (!is_inside) {
            w->wanted = w->have && offset > w->start + 2 * LARGE_WINDOW ? SMALL_WINDOW : LARGE_WINDOW;
            FB_TRY(fill(w, offset, e));
        }
        size_t at = (size_t)(offset - w->start), part = w->have - at < n ? w->have - at : n;
        memcpy(out, w->bytes + at, part);
        out = (uint8_t *)out + part;
        offset += part;
        n -= part;
    }
    return 0;
}

void tar_window_close(struct tar_window *w)
{
    if (w->fd >= 0)
        close(w->fd);
    free(w->bytes);
    *w = (struct tar_window){.fd = -1};
}
