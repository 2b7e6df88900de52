/* Archives without an index in a bucket: they are read through once, from the first byte to the last, several ranges at a time, and what
 * their structure needs is laid into a file in memory at the place where it stands in the archive: headers, the labels beside the images,
 * the first bytes of members whose names do not say what they are. Pictures leave holes. All that walks archives on a disk then walks this
 * one.
 *
 * To go from header to header would read less, but a round trip for each member: minutes where this takes the time of one epoch's bytes.
 * The catalog that comes of it is kept, so it is done once. An archive whose members are large is passed over in hops.
 */
#include "dataset/store/bucket_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/file/file.h"
#include "dataset/image_names.h"

enum { RANGES = 8, RANGE_BYTES = 4 << 20, HOP_BYTES = 64 << 10, SIDE_MOST = 4 << 20 };

struct walker {
    struct dataset_job *job;
    const struct store_ops *ops;
    struct store *store;
    const struct archive *archive;
    int fd;
    uint8_t *bytes; /* RANGES * RANGE_BYTES */
    uint64_t start, have;
    uint64_t members;
};

static int wait_on(void *ctx, struct fb_error *e)
{
    struct walker *w = ctx;
    return s3_url_beat(w->job, w->members, e);
}

static int replaced(struct fb_error *e)
{
    return error_set(e, FB_E_DATA, "dataset", "the archive was replaced while it was read");
}

static int check(const struct walker *w, const struct store_range *r, struct fb_error *e)
{
    if (r->status < 0)
        return r->status;
    if (r->mtime_ns != w->archive->mtime_ns || (r->object_size && r->object_size != w->archive->size))
        return replaced(e);
    return r->got == r->length ? 0 : error_set(e, FB_E_DATA, "dataset", "the archive ends before it should");
}

/* The window goes to `offset`: a large one if that is where it ends now, a small one after a hop. */
static int move(struct walker *w, uint64_t offset, struct fb_error *e)
{
    struct store_range range[RANGES];
    uint64_t left = w->archive->size - offset, is_hop = offset > w->start + w->have + RANGE_BYTES;
    uint64_t most = is_hop ? HOP_BYTES : (uint64_t)RANGES * RANGE_BYTES, wanted = left < most ? left : most;
    uint32_t n = 0;
    for (uint64_t at = 0; at < wanted; at += RANGE_BYTES, n++)
        range[n] = (struct store_range){.key = w->archive->object,
                                        .offset = offset + at,
                                        .out = w->bytes + at,
                                        .length = wanted - at < RANGE_BYTES ? wanted - at : RANGE_BYTES};
    w->start = offset;
    w->have = 0;
    FB_TRY(w->ops->read(w->store, range, n, wait_on, w, e));
    for (uint32_t i = 0; i < n; i++)
        FB_TRY(check(w, &range[i], e));
    w->have = wanted;
    return 0;
}

static int read_through(void *ctx, uint64_t offset, void *out, size_t n, struct fb_error *e)
{
    struct walker *w = ctx;
    while (n > 0) {
        if (offset < w->start || offset - w->start >= w->have)
            FB_TRY(move(w, offset, e));
        size_t at = (size_t)(offset - w->start), part = w->have - at < n ? (size_t)(w->have - at) : n;
        memcpy(out, w->bytes + at, part);
        out = (uint8_t *)out + part;
        offset += part;
        n -= part;
    }
    return 0;
}

static int keep(struct walker *w, uint64_t offset, uint64_t length, struct fb_error *e)
{
    uint8_t some[16 << 10];
    for (uint64_t n; length > 0; offset += n, length -= n) {
        n = length < sizeof(some) ? length : sizeof(some);
        FB_TRY(read_through(w, offset, some, (size_t)n, e));
        if (file_write_all_at(w->fd, some, n, offset, NULL) < 0)
            return error_set_errno(e, "dataset", errno, "keep the structure of an archive in memory");
    }
    return 0;
}

static bool is_side(const char *name)
{
    const char *extension = image_name_extension(name);
    return strcasecmp(extension, "cls") == 0 || strcasecmp(extension, "json") == 0 || strcasecmp(extension, "txt") == 0;
}

static int keep_member(struct walker *w, const struct tar_member *m, struct fb_error *e)
{
    FB_TRY(keep(w, m->start, m->offset - m->start, e));
    if (m->kind != TAR_FILE || image_name_kind(m->name) == IMAGE_NAME_YES)
        return 0;
    uint64_t most = is_side(m->name) ? SIDE_MOST : IMAGE_SNIFF_BYTES;
    return keep(w, m->offset, m->size < most ? m->size : most, e);
}

/* The file in memory gets the archive's time, since those who read it compare. */
static int set_time(const struct walker *w, struct fb_error *e)
{
    int64_t ns = w->archive->mtime_ns;
    struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}};
    return futimens(w->fd, t) < 0 ? error_set_errno(e, "dataset", errno, "keep the structure of an archive in memory") : 0;
}

static int walk(struct walker *w, struct fb_error *e)
{
    struct tar_reader r;
    struct tar_member m;
    int rc;
    tar_open(&r, &(struct tar_bytes){read_through, w, w->archive->size});
    while ((rc = tar_next(&r, &m, e)) == 1) {
        w->members++;
        rc = keep_member(w, &m, e);
        if (rc == 0)
            rc = scan_progress_report(&w->job->progress, w->members, 0, e);
        if (rc < 0)
            break;
    }
    tar_close(&r);
    return rc < 0 ? rc : set_time(w, e);
}

int s3_walk(struct dataset_job *job, const struct store_ops *ops, struct store *store, const struct archive *a, int fd, struct fb_error *e)
{
    struct walker w = {.job = job, .ops = ops, .store = store, .archive = a, .fd = fd, .bytes = malloc((size_t)RANGES * RANGE_BYTES)};
    if (!w.bytes)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to read an archive");
    int rc = walk(&w, e);
    free(w.bytes);
    return rc;
}
