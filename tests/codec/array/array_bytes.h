/* A file in memory as an array_source, and rows of its arrays by the same steps that the engine takes: runs, chunks, or the format's
 * reader. */
#ifndef FB_TESTS_ARRAY_BYTES_H
#define FB_TESTS_ARRAY_BYTES_H

#include <stdlib.h>
#include <string.h>

#include "codec/array/convert/array_convert.h"
#include "codec/array/array_format.h"
#include "codec/array/array_rows.h"
#include "codec/array/hdf5/decompress.h"

struct array_bytes {
    const uint8_t *data;
    size_t size;
    uint64_t fails_at;      /* reads that touch this byte fail; UINT64_MAX: none */
    uint64_t reads, beyond; /* how many; how many of them asked for bytes that are not there */
};

static inline int array_bytes_read(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    struct array_bytes *b = ctx;
    b->reads++;
    if (offset > b->size || length > b->size - offset) {
        b->beyond++;
        return error_set(e, FB_E_DATA, "test", "a parser asked for bytes beyond the end");
    }
    if (b->fails_at >= offset && b->fails_at - offset < length)
        return error_set(e, FB_E_IO, "test", "this read fails");
    memcpy(out, b->data + offset, (size_t)length);
    return 0;
}

static inline struct array_source array_bytes_source(struct array_bytes *b)
{
    return (struct array_source){.size = b->size, .read = array_bytes_read, .ctx = b};
}

static inline int array_bytes_chunks(const struct array_source *s, const struct array_layout *a, uint64_t first, uint64_t rows,
                                     uint8_t *out, struct fb_error *e)
{
    struct decompress u;
    uint64_t chunk, count;
    int rc = 0;
    decompress_init(&u, NULL);
    array_chunks_of_rows(a, first, rows, &chunk, &count);
    uint8_t *whole = malloc((size_t)decompressed_chunk_bytes(a) + 1);
    for (uint64_t i = chunk; rc == 0 && whole && i < chunk + count; i++) {
        const struct array_chunk *c = &a->chunk[i];
        uint8_t *stored = malloc((size_t)c->length + 1);
        rc = stored ? s->read(s->ctx, c->offset, c->length, stored, e) : FB_E_NOMEM;
        if (rc == 0)
            rc = decompress_chunk(&u, a, c->skips, stored, c->length, whole, e);
        if (rc == 0)
            array_copy_from_chunk(a, i, whole, first, rows, out);
        free(stored);
    }
    if (!whole)
        rc = error_set(e, FB_E_NOMEM, "test", "no memory");
    free(whole);
    decompress_free(&u);
    return rc;
}

static inline int array_bytes_straight(const struct array_source *s, const struct array_layout *a, uint64_t first, uint64_t rows,
                                       uint8_t *out, struct fb_error *e)
{
    struct array_runs runs;
    struct array_run run;
    array_runs_start(&runs, a, first, rows);
    while (array_runs_next(&runs, &run))
        FB_TRY(s->read(s->ctx, run.offset, run.length, out + run.at, e));
    return 0;
}

/* Rows as stored (opaque ones: as numbers of the layout's dtype) at `out`, rows * array_row_bytes(a) bytes. */
static inline int array_bytes_rows(const struct array_source *s, const char *format, const struct array_layout *a, uint64_t first,
                                   uint64_t rows, uint8_t *out, struct fb_error *e)
{
    if (!rows || !array_row_bytes(a))
        return 0;
    if (a->storage == ARRAY_OPAQUE)
        return array_format_by_name(format)->read_rows(s, a, first, rows, out, e);
    if (a->storage == ARRAY_CHUNKED)
        return array_bytes_chunks(s, a, first, rows, out, e);
    if (array_is_straight(a))
        return array_bytes_straight(s, a, first, rows, out, e);
    uint8_t *whole = malloc((size_t)a->bytes + 1);
    int rc = whole ? s->read(s->ctx, a->offset, a->bytes, whole, e) : error_set(e, FB_E_NOMEM, "test", "no memory");
    if (rc == 0)
        array_copy_from_whole(a, whole, first, rows, out);
    free(whole);
    return rc;
}

#endif
