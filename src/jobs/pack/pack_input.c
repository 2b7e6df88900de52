#include "jobs/pack/pack_input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "dataset/catalog_keep.h"
#include "io/io_wait.h"

static int changed(struct fb_error *e, const char *what)
{
    return error_advise(e, error_set(e, FB_E_STATE, "pack", "the source %s", what), "leave it alone while it is packed, then pack again");
}

/* ---- files ---- */

static int open_file(struct pack_input *in, struct pack_item *item, struct fb_error *e)
{
    const struct catalog_sample *w = in->where;
    struct stat *st = &in->st;
    in->fd = openat(in->source->dataset->root_fd, w->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (in->fd < 0)
        return error_set_errno(e, "pack", errno, "open the file");
    bool is_whole = w->offset == 0 && w->length == w->object_size;
    int rc = fstat(in->fd, st) < 0   ? error_set_errno(e, "pack", errno, "look at the file")
             : !S_ISREG(st->st_mode) ? error_set(e, FB_E_DATA, "pack", "it is not a regular file")
             : is_whole              ? 0
             : (uint64_t)st->st_size == w->object_size && keep_mtime_ns(st) == w->mtime_ns
                 ? 0
                 : changed(e, "was changed since it was catalogued");
    if (rc < 0)
        pack_input_close(in);
    item->size = item->source_size = is_whole ? (uint64_t)st->st_size : w->length;
    item->mtime_ns = keep_mtime_ns(st);
    return rc;
}

static int read_file(const struct pack_input *in, char *out, uint64_t offset, uint64_t n, struct fb_error *e)
{
    if (file_read_all_at(in->fd, out, n, offset) == n)
        return 0;
    return errno ? error_set_errno(e, "pack", errno, "read the file") : changed(e, "became shorter while it was read");
}

/* ---- objects ---- */

/* The back-end wants room behind the bytes that it gives, so they go through memory of its own. */
static int read_object(const struct pack_input *in, void *out, uint64_t offset, uint64_t n, struct fb_error *e)
{
    const struct catalog_sample *w = in->where;
    if (n == 0)
        return 0;
    struct io_wait *wait = io_wait_new(in->source->io, 1, n);
    if (!wait)
        return error_set(e, FB_E_NOMEM, "pack", "no memory for a record");
    io_wait_submit(wait, 0,
                   &(struct io_request){.dir_fd = -1,
                                        .path = w->object,
                                        .offset = offset,
                                        .length = n,
                                        .expected_size = w->object_size,
                                        .expected_mtime_ns = w->mtime_ns,
                                        .must_match = true},
                   false);
    io_wait_all(wait, NULL);
    const struct io_request *r = io_wait_result(wait, 0);
    int rc = io_wait_status(wait, 0, e);
    if (rc > 0 || (rc == 0 && r->got != n))
        rc = changed(e, "became shorter while it was read");
    else if (rc == 0)
        memcpy(out, r->buffer, n);
    io_wait_end(wait);
    return rc;
}

/* ---- either ---- */

int pack_input_open(struct pack_input *in, const struct pack_source *s, struct pack_item *item, struct fb_error *e)
{
    *in = (struct pack_input){.source = s, .where = &item->where, .fd = -1};
    if (!s->io)
        return open_file(in, item, e);
    item->size = item->source_size = item->where.length;
    item->mtime_ns = item->where.mtime_ns;
    return 0;
}

int pack_input_read(const struct pack_input *in, void *out, uint64_t offset, uint64_t n, struct fb_error *e)
{
    offset += in->where->offset;
    return in->fd < 0 ? read_object(in, out, offset, n, e) : read_file(in, out, offset, n, e);
}

int pack_input_check(const struct pack_input *in, struct fb_error *e)
{
    struct stat now;
    if (in->fd < 0) /* each read named the version it wants */
        return 0;
    if (fstat(in->fd, &now) < 0)
        return error_set_errno(e, "pack", errno, "look at the file");
    return now.st_size == in->st.st_size && keep_mtime_ns(&now) == keep_mtime_ns(&in->st) ? 0 : changed(e, "was changed while it was read");
}

void pack_input_close(struct pack_input *in)
{
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
}
