/* Rows: every file is opened and stays open; all must have rows of one kind. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/array/array_rows.h"
#include "codec/array/hdf5/decompress.h"
#include "base/rng.h"
#include "feed/group/rows_group.h"
#include "order/subset/subset_rows.h"

enum { BLOCK_BYTES = 1 << 20 /* of rows that are not chunked */, WINDOW_BYTES = 64 << 20 };

/* A file can promise more than any memory has: in chunks that were never written. */
static int refuse_size(const struct array_want *w, const char *key, struct fb_error *e)
{
    error_set(e, FB_E_DATA, "dataset", "'%s' has too many elements", w->source);
    error_at(e, key, -1);
    return FB_E_DATA;
}

static int shape_rows(struct array_want *w, const struct array_layout *l, const char *key, struct fb_error *e)
{
    if (l->ndim < 1 || l->ndim > FB_MAX_DIMS - 1) {
        if (l->ndim < 1 && !l->bytes && l->why_opaque[0]) /* a single number has bytes: this is a shape that could not be told */
            error_set(e, FB_E_DATA, "dataset", "'%s' has %s: its rows cannot be read", w->source, l->why_opaque);
        else
            error_set(e, FB_E_DATA, "dataset", "'%s' has %d dimensions: it has no rows", w->source, l->ndim);
        error_at(e, key, -1);
        return FB_E_DATA;
    }
    w->ndim = l->ndim - 1;
    w->row_bytes = fb_dtype_size(w->dtype);
    for (int d = 0; d < w->ndim; d++) {
        w->shape[d] = (int64_t)l->shape[d + 1];
        if (__builtin_mul_overflow(w->row_bytes, l->shape[d + 1], &w->row_bytes))
            return refuse_size(w, key, e);
    }
    return 0;
}

/* "float32 of 3 x 224" */
static const char *name_shape(enum fb_dtype dtype, int ndim, const uint64_t *shape, char *out, size_t out_size)
{
    int at = snprintf(out, out_size, "%s%s", fb_dtype_name(dtype), ndim > 0 ? " of " : "");
    for (int d = 0; d < ndim && at > 0 && (size_t)at < out_size; d++)
        at += snprintf(out + at, out_size - (size_t)at, "%s%llu", d ? " x " : "", (unsigned long long)shape[d]);
    return out;
}

static int check_same(const struct arrays *a, int field, const struct array_layout *l, const char *key, struct fb_error *e)
{
    const struct array_want *w = &a->want[field];
    bool is_same = l->dtype == w->stored && l->ndim == w->ndim + 1;
    for (int d = 0; is_same && d < w->ndim; d++)
        is_same = (int64_t)l->shape[d + 1] == w->shape[d];
    if (is_same)
        return 0;
    char here[80], there[80];
    error_set(e, FB_E_DATA, "dataset", "a row of '%s' is %s here, but %s in the first file", w->source,
              name_shape(l->dtype, l->ndim - 1, l->shape + 1, here, sizeof(here)),
              name_shape(w->stored, w->ndim, (const uint64_t *)w->shape, there, sizeof(there)));
    error_remedy(e, "open files of one kind together");
    error_at(e, key, -1);
    return FB_E_DATA;
}

static int add_object_fields(struct arrays *a, struct array_object *o, struct fb_error *e)
{
    for (int i = 0; i < a->count; i++) {
        const struct array_layout *l = array_find(&o->file, a->want[i].source);
        if (!l)
            return arrays_refuse_field(&o->file, o->seen.key, a->want[i].source, e);
        FB_TRY(check_same(a, i, l, o->seen.key, e));
        if (i == 0) {
            o->rows = l->shape[0];
        } else if (l->shape[0] != o->rows) {
            error_set(e, FB_E_DATA, "dataset", "'%s' has %llu rows, '%s' %llu", a->want[0].source, (unsigned long long)o->rows,
                      a->want[i].source, (unsigned long long)l->shape[0]);
            error_remedy(e, "choose arrays of one length with fields=");
            error_at(e, o->seen.key, -1);
            return FB_E_DATA;
        }
        o->layout[i] = l;
        FB_TRY(arrays_prepare_conversion(a, i, l, &o->conversion[i], e));
        if (rows_are_in_chunks(l)) {
            o->chunk_rows = o->chunk_rows ? o->chunk_rows : l->chunk_shape[0];
            a->chunk_rows = a->is_chunked ? a->chunk_rows : l->chunk_shape[0];
            a->is_chunked = true;
        }
    }
    return 0;
}

/* As the open file is now: the catalog may be older. */
static int see_object(struct feed *f, struct array_object *o, const struct catalog_sample *s, struct fb_error *e)
{
    if (probe_stat(s, o->fd, &o->seen, e) < 0) {
        error_at(e, s->key, -1);
        return e->code;
    }
    if (o->seen.length != s->length || o->seen.mtime_ns != s->mtime_ns)
        atomic_fetch_add_explicit(&f->changed, 1, memory_order_relaxed);
    return probe_open_array(f, &o->seen, o->fd, &o->file, e);
}

static int open_object(struct feed *f, struct array_object *o, uint64_t sample, struct fb_error *e)
{
    struct catalog_sample s;
    FB_TRY(catalog_sample(f->dataset.catalog, sample, &s, e));
    o->fd = openat(f->dataset.root_fd, s.object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (o->fd < 0) {
        int rc = error_set_errno(e, "read", errno, "open the file");
        error_remedy(e, errno == EMFILE ? "raise the limit of open files (ulimit -n)" : "check that it is readable");
        error_at(e, s.key, -1);
        return rc;
    }
    FB_TRY(see_object(f, o, &s, e));
    o->kept = (struct io_object){f->dataset.root_fd, s.object, o->seen.length, o->seen.mtime_ns, ARRAYS_CACHE_BLOCK, UINT64_MAX};
    return add_object_fields(arrays_of(f), o, e);
}

static int open_objects(struct feed *f, struct fb_error *e)
{
    struct arrays *a = arrays_of(f);
    a->objects = catalog_count(f->dataset.catalog);
    a->object = calloc(a->objects, sizeof(*a->object));
    if (!a->object)
        return arrays_no_memory(e);
    for (uint64_t i = 0; i < a->objects; i++)
        a->object[i].fd = -1;
    for (uint64_t i = 0; i < a->objects; i++) {
        struct array_object *o = &a->object[i];
        FB_TRY(open_object(f, o, i, e));
        o->first = a->rows;
        if (__builtin_add_overflow(a->rows, o->rows, &a->rows))
            return error_set(e, FB_E_DATA, "dataset", "more rows than can be counted");
    }
    return a->rows ? 0 : error_set(e, FB_E_DATA, "dataset", "the arrays have no rows");
}

/* Everything that is computed from rows and bytes later fits into 64 bits. */
static int check_bytes(const struct arrays *a, const char *key, struct fb_error *e)
{
    uint64_t bytes = 0, all;
    for (int i = 0; i < a->count; i++)
        if (__builtin_mul_overflow(a->rows, a->want[i].row_bytes, &all) || __builtin_add_overflow(bytes, all, &bytes))
            return refuse_size(&a->want[i], key, e);
    return 0;
}

/* Of one chunk of every field, where they are smallest. */
static uint64_t smallest_chunks(const struct arrays *a)
{
    uint64_t sum = 0;
    for (int i = 0; i < a->count; i++) {
        uint64_t least = UINT64_MAX;
        for (uint64_t k = 0; k < a->objects; k++) {
            const struct array_object *o = &a->object[k];
            uint64_t bytes = rows_are_in_chunks(o->layout[i]) ? decompressed_chunk_bytes(o->layout[i]) : UINT64_MAX;
            least = bytes < least ? bytes : least;
        }
        sum += least == UINT64_MAX ? 0 : least;
    }
    return sum;
}

int rows_open(struct feed *f, const struct array_file *first, const char *key, struct fb_error *e)
{
    struct arrays *a = arrays_of(f);
    if (a->steps.instances || a->is_sound)
        return error_set(e, FB_E_USAGE, "transform", "%s",
                         a->is_sound ? "recordings have no rows; use sample=\"file\""
                                     : "sample_instances is for bags: use it with sample=\"file\"");
    for (int i = 0; i < a->count; i++) {
        const struct array_layout *l = array_find(first, a->want[i].source);
        FB_TRY(shape_rows(&a->want[i], l, key, e));
    }
    FB_TRY(arrays_shape_steps(a, e));
    FB_TRY(open_objects(f, e));
    FB_TRY(check_bytes(a, key, e));
    uint64_t limit = atomic_load(&f->budget->limit);
    return a->is_chunked ? chunk_cache_open(&a->cache, f->budget, limit / 3, smallest_chunks(a), e) : 0;
}

/* ---- which rows take part ---- */

/* Rows are known by the names and lengths of their files. */
int rows_choose(struct feed *f, const struct subset_request *r, enum order_kind order, struct fb_error *e)
{
    const struct arrays *a = arrays_of(f);
    uint64_t all = catalog_fingerprint(f->dataset.catalog);
    for (uint64_t i = 0; i < a->objects; i++)
        all = rng_mix(all, a->object[i].rows);
    FB_TRY(subset_choose_rows(&f->subset, a->rows, all, r, e));
    f->origin = (struct data_identity){f->subset.fingerprint, f->subset.count, all, a->rows, all, all, order};
    return 0;
}

/* Blocks are what is read or decompressed together. */
void rows_window(const struct feed *f, uint64_t *block, uint64_t *samples)
{
    const struct arrays *a = arrays_of(f);
    uint64_t row_bytes = 1;
    for (int i = 0; i < a->count; i++)
        row_bytes += a->want[i].row_bytes;
    *block = a->is_chunked ? a->chunk_rows : BLOCK_BYTES / row_bytes + 1;
    *samples = WINDOW_BYTES / row_bytes;
}
