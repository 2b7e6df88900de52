#include "feed/rows_read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/array/array_format.h"
#include "codec/array/array_rows.h"

void rows_reader_init(struct rows_reader *r, struct budget *budget)
{
    memset(r, 0, sizeof(*r));
    unfilter_init(&r->unfilter, budget);
    r->stored.budget = r->chunk.budget = r->rows.budget = budget;
}

void rows_reader_free(struct rows_reader *r)
{
    unfilter_free(&r->unfilter);
    scratch_free(&r->stored);
    scratch_free(&r->chunk);
    scratch_free(&r->rows);
}

int rows_pread(const struct array_object *o, uint64_t offset, uint64_t bytes, void *out, struct fb_error *e)
{
    for (uint64_t got = 0; got < bytes;) {
        ssize_t n = pread(o->fd, (char *)out + got, bytes - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int rc = n < 0 ? error_set_errno(e, "read", errno, "read the file")
                           : error_set(e, FB_E_DATA, "read", "the file ends inside of what is wanted: it was cut short");
            error_at(e, o->key, (int64_t)(offset + got));
            return rc;
        }
        got += (uint64_t)n;
    }
    return 0;
}

static int read_straight(const struct array_object *o, const struct array_layout *l, uint64_t first, uint64_t rows, uint8_t *out,
                         struct fb_error *e)
{
    struct array_runs runs;
    struct array_run run;
    array_runs_start(&runs, l, first, rows);
    while (array_runs_next(&runs, &run))
        if (run.offset == ARRAY_NO_CHUNK)
            array_fill(l, out + run.at, run.length);
        else
            FB_TRY(rows_pread(o, run.offset, run.length, out + run.at, e));
    return 0;
}

static int read_chunk(struct rows_reader *r, const struct array_object *o, const struct array_layout *l, uint64_t chunk,
                      const uint8_t **out, struct fb_error *e)
{
    const struct array_chunk *c = &l->chunk[chunk];
    *out = NULL;
    if (c->offset == ARRAY_NO_CHUNK)
        return 0;
    if (r->last == c) {
        *out = r->chunk.data;
        return 0;
    }
    r->last = NULL;
    uint8_t *stored = scratch_need(&r->stored, c->length + 64, e), *data = scratch_need(&r->chunk, unfilter_chunk_bytes(l), e);
    if (!stored || !data)
        return e->code;
    FB_TRY(rows_pread(o, c->offset, c->length, stored, e));
    int rc = unfilter_chunk(&r->unfilter, l, c->skips, stored, c->length, data, e);
    if (rc < 0) {
        error_at(e, o->key, (int64_t)c->offset);
        return rc;
    }
    r->last = c;
    *out = data;
    return 0;
}

static int read_chunked(struct rows_reader *r, const struct array_object *o, const struct array_layout *l, uint64_t first, uint64_t rows,
                        uint8_t *out, struct fb_error *e)
{
    uint64_t chunk, count;
    array_chunks_of_rows(l, first, rows, &chunk, &count);
    for (; count > 0; chunk++, count--) {
        const uint8_t *data;
        FB_TRY(read_chunk(r, o, l, chunk, &data, e));
        array_copy_from_chunk(l, chunk, data, first, rows, out);
    }
    return 0;
}

static int read_whole(struct rows_reader *r, const struct array_object *o, const struct array_layout *l, uint64_t first, uint64_t rows,
                      uint8_t *out, struct fb_error *e)
{
    const uint8_t *all = l->inline_data;
    if (l->storage == ARRAY_CONTIGUOUS) {
        uint8_t *stored = scratch_need(&r->stored, l->bytes, e);
        if (!stored)
            return e->code;
        FB_TRY(rows_pread(o, l->offset, l->bytes, stored, e));
        all = stored;
    }
    array_copy_from_whole(l, all, first, rows, out);
    return 0;
}

/* The format's reader opens the name again: is that still the file whose layout is known? */
static int check_named(const struct array_object *o, const char *path, struct fb_error *e)
{
    struct stat open, named;
    if (fstat(o->fd, &open) == 0 && stat(path, &named) == 0 && open.st_dev == named.st_dev && open.st_ino == named.st_ino &&
        (uint64_t)named.st_size == o->size && named.st_mtim.tv_sec * INT64_C(1000000000) + named.st_mtim.tv_nsec == o->mtime_ns)
        return 0;
    error_set(e, FB_E_DATA, "read", "it was changed while it was read");
    error_remedy(e, "open the loader again; leave the file alone while it is being read");
    error_at(e, o->key, -1);
    return FB_E_DATA;
}

/* What only the format's own reader can read. */
static int read_opaque(const struct arrays *a, const struct array_object *o, const struct array_layout *l, uint64_t first, uint64_t rows,
                       uint8_t *out, struct fb_error *e)
{
    const struct array_ops *ops = array_format_by_name(o->file.format);
    char path[4352];
    bool is_absolute = o->path[0] == '/';
    snprintf(path, sizeof(path), "%s%s%s", is_absolute ? "" : a->root, is_absolute ? "" : "/", o->path);
    struct array_source s = {.path = path, .size = o->size, .allows_external = a->allows_external};
    if (ops && ops->read_rows) {
        FB_TRY(ops->read_rows(&s, l, first, rows, out, e));
        return check_named(o, path, e);
    }
    error_set(e, FB_E_UNSUPPORTED, "decode", "'%s' cannot be read: %s", l->name, l->why_opaque);
    error_at(e, o->key, -1);
    return FB_E_UNSUPPORTED;
}

static int read_as_stored(struct rows_reader *r, const struct arrays *a, const struct array_object *o, const struct array_layout *l,
                          uint64_t first, uint64_t rows, uint8_t *out, struct fb_error *e)
{
    if (l->storage == ARRAY_OPAQUE)
        return read_opaque(a, o, l, first, rows, out, e);
    if (array_is_straight(l))
        return read_straight(o, l, first, rows, out, e);
    return l->storage == ARRAY_CHUNKED ? read_chunked(r, o, l, first, rows, out, e) : read_whole(r, o, l, first, rows, out, e);
}

int rows_read(struct rows_reader *r, const struct arrays *a, const struct array_object *o, int field, uint64_t first, uint64_t rows,
              void *out, struct fb_error *e)
{
    const struct array_layout *l = o->layout[field];
    const struct array_conversion *c = &o->conversion[field];
    if (array_conversion_is_copy(c))
        return read_as_stored(r, a, o, l, first, rows, out, e);
    uint64_t bytes = rows * array_row_bytes(l), numbers = a->want[field].row_bytes / c->to_bytes;
    uint8_t *stored = scratch_need(&r->rows, bytes, e);
    if (!stored)
        return e->code;
    FB_TRY(read_as_stored(r, a, o, l, first, rows, stored, e));
    for (uint64_t i = 0; i < rows; i++)
        array_convert(c, stored + i * array_row_bytes(l), (uint8_t *)out + i * a->want[field].row_bytes, numbers);
    return 0;
}
