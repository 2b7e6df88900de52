/* Rows: every file is opened and stays open; all must have rows of one kind. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/array_rows.h"
#include "codec/unfilter.h"
#include "feed/array_open.h"

static int shape_rows(struct array_want *w, const struct array_layout *l, const char *key, struct fb_error *e)
{
    if (l->ndim < 1 || l->ndim > FB_MAX_DIMS - 1) {
        error_set(e, FB_E_DATA, "dataset", "'%s' has %d dimensions: it has no rows", w->source, l->ndim);
        error_at(e, key, -1);
        return FB_E_DATA;
    }
    w->ndim = l->ndim - 1;
    w->row_bytes = fb_dtype_size(w->dtype);
    for (int d = 0; d < w->ndim; d++) {
        w->shape[d] = (int64_t)l->shape[d + 1];
        w->row_bytes *= l->shape[d + 1];
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

static bool has_gaps(const struct array_layout *l)
{
    for (uint64_t i = 0; l->storage == ARRAY_CHUNKED && i < l->chunk_count; i++)
        if (l->chunk[i].offset == ARRAY_NO_CHUNK)
            return true;
    return false;
}

static int add_object_fields(struct arrays *a, struct array_object *o, struct fb_error *e)
{
    for (int i = 0; i < a->count; i++) {
        const struct array_layout *l = array_find(&o->file, a->want[i].source);
        if (!l)
            return arrays_refuse_field(&o->file, o->key, a->want[i].source, e);
        FB_TRY(check_same(a, i, l, o->key, e));
        if (i == 0) {
            o->rows = l->shape[0];
        } else if (l->shape[0] != o->rows) {
            error_set(e, FB_E_DATA, "dataset", "'%s' has %llu rows, '%s' %llu", a->want[0].source, (unsigned long long)o->rows,
                      a->want[i].source, (unsigned long long)l->shape[0]);
            error_remedy(e, "choose arrays of one length with fields=");
            error_at(e, o->key, -1);
            return FB_E_DATA;
        }
        o->layout[i] = l;
        FB_TRY(arrays_prepare_conversion(a, i, l, &o->conversion[i], e));
        o->is_straight[i] = array_is_straight(l);
        o->stored_bytes[i] = array_row_bytes(l);
        o->is_copied[i] = array_conversion_is_copy(&o->conversion[i]);
        o->has_gaps[i] = has_gaps(l);
        if (!array_is_straight(l) && l->storage == ARRAY_CHUNKED) {
            a->chunk_rows = a->is_chunked ? a->chunk_rows : l->chunk_shape[0];
            a->is_chunked = true;
        }
    }
    return 0;
}

static int open_object(struct feed *f, struct array_object *o, uint64_t sample, struct fb_error *e)
{
    struct catalog_sample s;
    FB_TRY(catalog_sample(f->dataset.catalog, sample, &s, e));
    o->key = s.key;
    o->path = s.object;
    o->size = s.length;
    o->mtime_ns = s.mtime_ns;
    FB_TRY(look_at_file(f, &s, &o->file, e));
    o->fd = openat(f->dataset.root_fd, s.object, O_RDONLY | O_CLOEXEC);
    if (o->fd < 0) {
        int rc = error_set_errno(e, "read", errno, "open the file");
        error_remedy(e, errno == EMFILE ? "raise the limit of open files (ulimit -n)" : "check that it is readable");
        error_at(e, s.key, -1);
        return rc;
    }
    return add_object_fields(f->arrays, o, e);
}

static int open_objects(struct feed *f, struct fb_error *e)
{
    struct arrays *a = f->arrays;
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

int rows_open(struct feed *f, const struct array_file *first, const char *key, struct fb_error *e)
{
    struct arrays *a = f->arrays;
    if (a->steps.instances || a->is_sound)
        return error_set(e, FB_E_USAGE, "transform", "%s", a->is_sound ? "recordings have no rows; use sample=\"file\"" :
                         "sample_instances is for bags: use it with sample=\"file\"");
    for (int i = 0; i < a->count; i++) {
        const struct array_layout *l = array_find(first, a->want[i].source);
        FB_TRY(shape_rows(&a->want[i], l, key, e));
    }
    FB_TRY(open_objects(f, e));
    uint64_t limit = atomic_load(&f->budget->limit), chunk = 0;
    for (int i = 0; i < a->count; i++)
        if (a->object[0].layout[i]->storage == ARRAY_CHUNKED)
            chunk += unfilter_chunk_bytes(a->object[0].layout[i]);
    return a->is_chunked ? chunk_cache_open(&a->cache, f->budget, limit / 3, chunk, e) : 0;
}
