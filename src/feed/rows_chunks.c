/* Rows inside filtered chunks, a band at a time: each chunk is asked for once per band, however many of its rows the load wants. It comes
 * from the cache, or is unfiltered into it; one that the cache has no room for is unfiltered into memory of the worker, for this band
 * alone.
 */
#include <string.h>

#include "codec/array/array_rows.h"
#include "feed/group/rows_group.h"
#include "feed/rows_read.h"

enum {
    BAND_MOST = 4096, /* rows: an int counts them, and converting them takes memory */
    FETCH_BYTES = 1024
};

struct band {
    const struct array_object *o;
    const struct array_layout *l;
    int field;
    uint32_t first, count; /* places in turn */
    uint64_t chunk, chunks;
};

static struct band band_at(struct group *g, int field, uint32_t i)
{
    uint64_t row;
    struct band b = {.field = field, .first = i, .count = 1};
    b.o = object_at(g, i, &row);
    b.l = b.o->layout[field];
    array_chunks_of_rows(b.l, row, 1, &b.chunk, &b.chunks);
    uint64_t low = b.o->first + row / b.l->chunk_shape[0] * b.l->chunk_shape[0], height = b.l->chunk_shape[0];
    uint64_t left = b.o->first + b.o->rows - low;
    height = height < left ? height : left;
    while (b.count < BAND_MOST && i + b.count < g->l->count && place_at(g->l, i + b.count)->sample - low < height)
        b.count++;
    return b;
}

static uint64_t key_of(const struct group *g, const struct band *b, uint64_t chunk)
{
    return ((uint64_t)(b->o - g->f->arrays->object) * FB_MAX_FIELDS + (uint64_t)b->field) << 32 | chunk; /* array_check: fewer than 2^32 */
}

/* ---- listing ---- */

static int list_chunk(struct group *g, const struct band *b, uint64_t chunk, struct fb_error *e)
{
    const struct array_chunk *c = &b->l->chunk[chunk];
    struct load *l = g->l;
    uint64_t key = key_of(g, b, chunk);
    if (c->offset == ARRAY_NO_CHUNK || chunk_cache_has(&g->f->arrays->cache, key))
        return 0;
    size_t listed = l->staged * sizeof(*g->staged);
    g->staged = scratch_grow(&g->w->mapped[0], listed, listed + sizeof(*g->staged), e);
    if (!g->staged)
        return e->code;
    size_t to = (g->gather.stage_bytes + 63) & ~(size_t)63;
    g->staged[l->staged++] = (struct staged){key, to, c->length};
    return gather_add(&g->gather, b->o->fd, b->o->key, c->offset, c->length, NULL, to, e);
}

int band_list(struct group *g, int field, uint32_t i, struct fb_error *e)
{
    struct band b = band_at(g, field, i);
    for (uint64_t k = 0; k < b.chunks; k++)
        FB_TRY(list_chunk(g, &b, b.chunk + k, e));
    return (int)b.count;
}

/* ---- taking ---- */

static const struct staged *find_staged(const struct group *g, uint64_t key)
{
    for (uint32_t i = 0; i < g->l->staged; i++)
        if (g->staged[i].key == key)
            return &g->staged[i];
    return NULL;
}

static int unfilter(struct group *g, const struct band *b, uint64_t chunk, uint8_t *out, struct fb_error *e)
{
    const struct array_chunk *c = &b->l->chunk[chunk];
    const struct staged *s = find_staged(g, key_of(g, b, chunk));
    const uint8_t *stored = s ? g->stage + s->at : NULL;
    if (!stored) { /* it was in the cache when the reads were listed, and is not any more */
        uint8_t *again = worker_memory(g->f, &g->w->mapped[1], c->length + IO_TAIL, e);
        if (!again)
            return e->code;
        FB_TRY(rows_pread(b->o, c->offset, c->length, again, e));
        stored = again;
    }
    int rc = unfilter_chunk(&g->w->unfilter, b->l, c->skips, stored, c->length, out, e);
    if (rc < 0)
        error_at(e, b->o->key, (int64_t)c->offset);
    return rc;
}

/* In memory of the worker's own. NULL: an error. */
static const uint8_t *unfiltered_apart(struct group *g, const struct band *b, uint64_t chunk, struct fb_error *e)
{
    uint64_t key = key_of(g, b, chunk);
    uint8_t *data = worker_memory(g->f, &g->w->pixels, unfilter_chunk_bytes(b->l), e);
    if (!data)
        error_at(e, b->o->key, (int64_t)b->l->chunk[chunk].offset);
    if (!data || g->held == key)
        return data;
    g->held = NO_KEY;
    if (unfilter(g, b, chunk, data, e) < 0)
        return NULL;
    g->held = key;
    return data;
}

/* The chunk's numbers; *pinned is to be given back. NULL: an error. */
static const uint8_t *chunk_data(struct group *g, const struct band *b, uint64_t chunk, struct chunk_entry **pinned, struct fb_error *e)
{
    struct chunk_cache *cache = &g->f->arrays->cache;
    bool is_mine;
    struct chunk_entry *x = *pinned = chunk_cache_get(cache, key_of(g, b, chunk), unfilter_chunk_bytes(b->l), &is_mine);
    if (!x)
        return unfiltered_apart(g, b, chunk, e);
    int rc = is_mine ? unfilter(g, b, chunk, x->data, e) : 0;
    if (is_mine)
        chunk_cache_filled(cache, x, rc == 0);
    return rc == 0 ? x->data : NULL;
}

static bool is_wide(const struct array_layout *l)
{
    for (int d = 1; d < l->ndim; d++)
        if (l->chunk_shape[d] != l->shape[d])
            return false;
    return !l->is_fortran;
}

static uint64_t row_in(const struct group *g, const struct band *b, uint32_t i)
{
    return place_at(g->l, b->first + i)->sample - b->o->first;
}

static void *to_place(const struct group *g, const struct band *b, uint32_t i)
{
    return slot_at(g->l->slot, b->field, place_of(g->l, b->first + i));
}

/* The rows of a band lie anywhere in their chunk, and that may be in no processor's cache any more. Measured, rows of 4 KB in window order:
 * 7.2 us of CPU time a row instead of 7.9; rows of 1 KB: no difference. */
static void fetch_early(const uint8_t *row, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes && at < FETCH_BYTES; at += 64)
        __builtin_prefetch(row + at);
}

/* What a chunk has of the band's rows. `rows` NULL: into their places, converted if it takes that; else one after another, as stored. */
static void spread(struct group *g, const struct band *b, uint64_t chunk, const uint8_t *data, uint8_t *rows)
{
    const struct array_conversion *c = &b->o->conversion[b->field];
    uint64_t bytes = b->o->stored_bytes[b->field], height = b->l->chunk_shape[0];
    size_t numbers = g->f->arrays->want[b->field].row_bytes / c->to_bytes;
    bool is_copied = b->o->is_copied[b->field], is_whole = data && is_wide(b->l);
    for (uint32_t i = 0; i < b->count; i++) {
        uint64_t row = row_in(g, b, i);
        if (is_whole && i + 1 < b->count)
            fetch_early(data + row_in(g, b, i + 1) % height * bytes, bytes);
        if (rows)
            array_copy_from_chunk(b->l, chunk, data, row, 1, rows + i * bytes);
        else if (!is_copied)
            array_convert(c, data + row % height * bytes, to_place(g, b, i), numbers);
        else if (is_whole)
            memcpy(to_place(g, b, i), data + row % height * bytes, bytes);
        else
            array_copy_from_chunk(b->l, chunk, data, row, 1, to_place(g, b, i));
    }
}

static int take_chunk(struct group *g, const struct band *b, uint64_t chunk, uint8_t *rows, struct fb_error *e)
{
    const uint8_t *data = NULL;
    struct chunk_entry *pinned = NULL;
    bool is_there = b->l->chunk[chunk].offset != ARRAY_NO_CHUNK;
    if (is_there)
        data = chunk_data(g, b, chunk, &pinned, e);
    if (data || !is_there)
        spread(g, b, chunk, data, rows);
    if (pinned)
        chunk_cache_unpin(&g->f->arrays->cache, pinned);
    return is_there && !data ? e->code : 0;
}

static void convert_rows(struct group *g, const struct band *b, const uint8_t *rows)
{
    const struct array_conversion *c = &b->o->conversion[b->field];
    for (uint32_t i = 0; i < b->count; i++)
        array_convert(c, rows + i * b->o->stored_bytes[b->field], to_place(g, b, i), g->f->arrays->want[b->field].row_bytes / c->to_bytes);
}

int band_take(struct group *g, int field, uint32_t i, struct fb_error *e)
{
    struct band b = band_at(g, field, i);
    /* rows that must be converted and do not come out of their chunk in one piece are put together first */
    bool is_apart = !b.o->is_copied[field] && (!is_wide(b.l) || b.o->has_gaps[field]);
    uint8_t *rows = is_apart ? worker_memory(g->f, &g->w->work, b.count * b.o->stored_bytes[field] + 64, e) : NULL;
    if (is_apart && !rows)
        return e->code;
    for (uint64_t k = 0; k < b.chunks; k++)
        FB_TRY(take_chunk(g, &b, b.chunk + k, rows, e));
    if (is_apart)
        convert_rows(g, &b, rows);
    return (int)b.count;
}
