#include "feed/array_walk.h"

#include <string.h>

#include "codec/array/array_rows.h"

enum { FETCH_BYTES = 1024 };

static uint8_t *place_at(const struct array_walk *x, uint64_t i)
{
    return x->to + (x->turn ? x->turn[i] : i) * x->numbers * x->conversion->to_bytes;
}

/* How many rows from index i on, before `end`, follow each other in the file and in their places. */
static uint64_t run_at(const struct array_walk *x, uint64_t i, uint64_t end)
{
    if (!x->list)
        return end - i;
    uint64_t n = 1, row = array_walk_row(x, i);
    while (i + n < end && array_walk_row(x, i + n) == row + n && (!x->turn || x->turn[i + n] == x->turn[i] + n))
        n++;
    return n;
}

static void convert(const struct array_walk *x, uint64_t i, uint64_t n, const uint8_t *stored)
{
    for (uint64_t k = 0, run; k < n; k += run) {
        run = run_at(x, i + k, i + n);
        array_convert(x->conversion, stored + k * x->row_bytes, place_at(x, i + k), run * x->numbers);
    }
}

/* ---- rows that are runs of bytes ---- */

/* `at`: of rows on the stage. What was never written is filled in where it goes, if that is there already. */
static int walk_runs(struct array_walk *x, uint8_t *stored, size_t at, bool is_listing, struct fb_error *e)
{
    const struct array_layout *l = x->layout;
    uint64_t bytes = x->row_bytes;
    for (uint64_t i = 0, n; i < x->count; i += n) {
        struct array_runs runs;
        struct array_run run;
        n = run_at(x, i, x->count);
        array_runs_start(&runs, l, array_walk_row(x, i), n);
        uint8_t *to = stored ? stored + i * bytes : x->is_copied ? place_at(x, i) : NULL;
        while (array_runs_next(&runs, &run))
            if (run.offset == ARRAY_NO_CHUNK && to)
                array_fill(l, to + run.at, run.length);
            else if (run.offset != ARRAY_NO_CHUNK && is_listing)
                FB_TRY(gather_add(&x->gather, &x->from, run.offset, run.length, to ? to + run.at : NULL, at + i * bytes + run.at, e));
    }
    return 0;
}

static int list_runs(struct array_walk *x, struct fb_error *e)
{
    size_t at = 0;
    if (!x->is_copied)
        FB_TRY(gather_reserve(&x->gather, x->layout, x->count * x->row_bytes, &at, e));
    return walk_runs(x, NULL, at, true, e);
}

static int take_runs(struct array_walk *x, struct fb_error *e)
{
    uint8_t *stored = x->is_copied ? NULL : gather_next(&x->gather, x->layout);
    if (!stored)
        return 0; /* they are in their places */
    if (x->layout->storage == ARRAY_CHUNKED)
        FB_TRY(walk_runs(x, stored, 0, false, e));
    convert(x, 0, x->count, stored);
    return 0;
}

/* ---- rows in chunks ---- */

/* Rows that lie in the same chunks. */
struct band {
    uint64_t first, count; /* indices */
    uint64_t chunk, chunks;
};

static uint64_t chunk_height(const struct array_layout *l)
{
    return l->ndim ? l->chunk_shape[0] : 1;
}

static struct band band_at(const struct array_walk *x, uint64_t i)
{
    uint64_t height = chunk_height(x->layout), row = array_walk_row(x, i), low = row - row % height, end = low + height - row;
    struct band b = {.first = i, .count = 1};
    if (!x->list)
        b.count = end < x->count - i ? end : x->count - i;
    while (x->list && i + b.count < x->count && array_walk_row(x, i + b.count) - low < height)
        b.count++;
    array_chunks_of_rows(x->layout, row, 1, &b.chunk, &b.chunks);
    return b;
}

static int list_chunks(struct array_walk *x, struct fb_error *e)
{
    struct band b;
    for (uint64_t i = 0; i < x->count; i += b.count) {
        b = band_at(x, i);
        for (uint64_t k = b.chunk; k < b.chunk + b.chunks; k++) {
            const struct array_chunk *c = &x->layout->chunk[k];
            if (c->offset != ARRAY_NO_CHUNK && !(x->cache && chunk_cache_has(x->cache, x->cache_key + k)))
                FB_TRY(gather_stage(&x->gather, &x->from, c, c->offset, c->length, e));
        }
    }
    return 0;
}

/* `stored` NULL: it was in the cache when the reads were listed, and is not any more. */
static int decompress(struct array_walk *x, const struct array_chunk *c, const uint8_t *stored, uint8_t *out, struct fb_error *e)
{
    if (!stored) {
        uint8_t *again = worker_memory(x->f, &x->w->mapped[1], c->length + IO_TAIL, e);
        if (!again)
            return e->code;
        FB_TRY(gather_read_one(&x->from, c->offset, c->length, again, e));
        stored = again;
    }
    int rc = decompress_chunk(&x->w->decompress, x->layout, c->skips, stored, c->length, out, e);
    if (rc < 0)
        error_at(e, x->from.path, (int64_t)c->offset);
    return rc;
}

/* In memory of the worker's own. NULL: an error. */
static const uint8_t *data_apart(struct array_walk *x, const struct array_chunk *c, const uint8_t *stored, struct fb_error *e)
{
    uint8_t *data = worker_memory(x->f, &x->w->pixels, decompressed_chunk_bytes(x->layout), e);
    if (!data)
        error_at(e, x->from.path, (int64_t)c->offset);
    if (!data || x->held == c)
        return data;
    x->held = NULL;
    if (decompress(x, c, stored, data, e) < 0)
        return NULL;
    x->held = c;
    return data;
}

/* The chunk's numbers; *pinned is to be given back. NULL: an error. */
static const uint8_t *chunk_data(struct array_walk *x, uint64_t chunk, const uint8_t *stored, struct chunk_entry **pinned,
                                 struct fb_error *e)
{
    const struct array_chunk *c = &x->layout->chunk[chunk];
    bool is_mine = false;
    if (x->cache)
        *pinned = chunk_cache_get(x->cache, x->cache_key + chunk, decompressed_chunk_bytes(x->layout), &is_mine);
    if (!*pinned)
        return data_apart(x, c, stored, e);
    int rc = is_mine ? decompress(x, c, stored, (*pinned)->data, e) : 0;
    if (is_mine)
        chunk_cache_filled(x->cache, *pinned, rc == 0);
    return rc == 0 ? (*pinned)->data : NULL;
}

/* A chunk has whole rows, one after another. */
static bool is_wide(const struct array_layout *l)
{
    for (int d = 1; d < l->ndim; d++)
        if (l->chunk_shape[d] != l->shape[d])
            return false;
    return !l->is_fortran;
}

/* The rows of a band lie anywhere in their chunk, and that may be in no processor's cache any more. Measured, rows of 4 KB in window order:
 * 7.2 us of CPU time a row instead of 7.9; rows of 1 KB: no difference. */
static void fetch_early(const uint8_t *row, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes && at < FETCH_BYTES; at += 64)
        __builtin_prefetch(row + at);
}

/* What a chunk has of the band's rows. `rows` NULL: into their places, converted if it takes that; else one after another, as stored. */
static void spread(const struct array_walk *x, const struct band *b, uint64_t chunk, const uint8_t *data, uint8_t *rows)
{
    const struct array_layout *l = x->layout;
    uint64_t bytes = x->row_bytes, height = chunk_height(l);
    bool is_whole = data && is_wide(l);
    for (uint64_t i = b->first, end = i + b->count, n; i < end; i += n) {
        n = run_at(x, i, end);
        uint64_t row = array_walk_row(x, i);
        if (is_whole && i + n < end)
            fetch_early(data + array_walk_row(x, i + n) % height * bytes, bytes);
        if (rows)
            array_copy_from_chunk(l, chunk, data, row, n, rows + (i - b->first) * bytes);
        else if (!x->is_copied)
            convert(x, i, n, data + row % height * bytes);
        else if (is_whole)
            memcpy(place_at(x, i), data + row % height * bytes, n * bytes);
        else
            array_copy_from_chunk(l, chunk, data, row, n, place_at(x, i));
    }
}

/* Are the rows just those of a chunk, in the order that it has, so that it may be decompressed where they belong? */
static bool is_whole_chunk(const struct array_walk *x, const struct band *b)
{
    uint64_t height = chunk_height(x->layout);
    return !x->cache && x->is_copied && b->count == height && array_walk_row(x, b->first) % height == 0 && is_wide(x->layout) &&
           run_at(x, b->first, b->first + height) == height;
}

static int take_chunk(struct array_walk *x, const struct band *b, uint64_t chunk, uint8_t *rows, struct fb_error *e)
{
    const struct array_chunk *c = &x->layout->chunk[chunk];
    struct chunk_entry *pinned = NULL;
    const uint8_t *data = NULL;
    bool is_there = c->offset != ARRAY_NO_CHUNK;
    if (is_there) {
        const uint8_t *stored = gather_next(&x->gather, c);
        if (is_whole_chunk(x, b))
            return decompress(x, c, stored, place_at(x, b->first), e);
        data = chunk_data(x, chunk, stored, &pinned, e);
    }
    if (data || !is_there)
        spread(x, b, chunk, data, rows);
    if (pinned)
        chunk_cache_unpin(x->cache, pinned);
    return is_there && !data ? e->code : 0;
}

/* Rows that must be converted and do not come out of their chunk in one piece are put together first. */
static bool is_apart(const struct array_walk *x, const struct band *b)
{
    bool is_split = !is_wide(x->layout);
    for (uint64_t k = b->chunk; k < b->chunk + b->chunks; k++)
        is_split |= x->layout->chunk[k].offset == ARRAY_NO_CHUNK;
    return is_split && !x->is_copied;
}

static int take_band(struct array_walk *x, const struct band *b, struct fb_error *e)
{
    uint8_t *rows = NULL;
    if (is_apart(x, b) && !(rows = worker_memory(x->f, &x->w->work, b->count * x->row_bytes + 64, e)))
        return e->code;
    for (uint64_t k = b->chunk; k < b->chunk + b->chunks; k++)
        FB_TRY(take_chunk(x, b, k, rows, e));
    if (rows)
        convert(x, b->first, b->count, rows);
    return 0;
}

static int take_chunks(struct array_walk *x, struct fb_error *e)
{
    struct band b;
    for (uint64_t i = 0; i < x->count; i += b.count) {
        b = band_at(x, i);
        FB_TRY(take_band(x, &b, e));
    }
    return 0;
}

/* ---- arrays that come as a whole, or by their format's own reader ---- */

static int take_whole(struct array_walk *x, struct fb_error *e)
{
    const struct array_layout *l = x->layout;
    const uint8_t *all = l->storage == ARRAY_INLINE ? l->inline_data : gather_next(&x->gather, l);
    uint64_t bytes = x->row_bytes;
    uint8_t *rows = x->is_copied ? NULL : worker_memory(x->f, &x->w->work, x->count * bytes + 64, e);
    if (!rows && !x->is_copied)
        return e->code;
    for (uint64_t i = 0, n; i < x->count; i += n) {
        uint8_t *out = rows ? rows + i * bytes : place_at(x, i);
        n = run_at(x, i, x->count);
        if (l->storage == ARRAY_OPAQUE)
            FB_TRY(probe_read_rows(x->f, &x->open, l, array_walk_row(x, i), n, out, e));
        else
            array_copy_from_whole(l, all, array_walk_row(x, i), n, out);
    }
    if (rows)
        convert(x, 0, x->count, rows);
    return 0;
}

/* ---- */

/* False: there is nothing to do. */
static bool begin(struct array_walk *x)
{
    x->row_bytes = array_row_bytes(x->layout);
    x->numbers = x->row_bytes / x->conversion->from_bytes;
    x->is_copied = x->to && array_conversion_is_copy(x->conversion);
    return x->count && x->row_bytes;
}

int array_walk_list(struct array_walk *x, struct fb_error *e)
{
    const struct array_layout *l = x->layout;
    if (!begin(x))
        return 0;
    if (array_is_straight(l))
        return list_runs(x, e);
    if (l->storage == ARRAY_CHUNKED)
        return list_chunks(x, e);
    return l->storage == ARRAY_CONTIGUOUS ? gather_stage(&x->gather, &x->from, l, l->offset, l->bytes, e) : 0;
}

int array_walk_take(struct array_walk *x, struct fb_error *e)
{
    if (!begin(x))
        return 0;
    if (array_is_straight(x->layout))
        return take_runs(x, e);
    return x->layout->storage == ARRAY_CHUNKED ? take_chunks(x, e) : take_whole(x, e);
}

int array_walk_here(struct array_walk *x, struct fb_error *e)
{
    gather_start(&x->gather, x->w);
    FB_TRY(array_walk_list(x, e));
    FB_TRY(gather_read_here(x->f, &x->gather, e));
    return array_walk_take(x, e);
}
