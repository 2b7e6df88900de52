/* Listing the reads of a bag's rows, and taking what was read.
 *
 * Adjacent chunks are read in one go, straight into the place where nothing has to be undone. Filtered chunks wait on the stage, one after
 * another in the order of their numbers, and are unfiltered into the place when they are all there.
 */
#include <stdio.h>
#include <string.h>

#include "codec/array/array_format.h"
#include "codec/array/array_rows.h"
#include "feed/single/bag.h"

/* How many rows from index i on follow each other in the file. */
static uint64_t picked_run(const struct picked *p, uint64_t i)
{
    if (!p->list)
        return p->count - i;
    uint64_t n = 1;
    while (i + n < p->count && p->list[i + n] == p->list[i] + n)
        n++;
    return n;
}

static bool is_copied(const struct bag *b, const struct array_conversion *c)
{
    return array_conversion_is_copy(c) && !(b->f->arrays->is_sound && b->f->arrays->steps.is_cropped);
}

/* Where a field's rows go, after `before` rows from earlier parts. */
static uint8_t *place_of(const struct bag *b, int field, uint64_t before)
{
    return (uint8_t *)slot_at(b->l->slot, field, b->l->place) + before * b->f->arrays->want[field].row_bytes;
}

/* Rows of a field that lie in the part at hand; `before`: how many of it come from earlier parts. */
typedef int visit_part(struct bag *b, int field, const struct array_layout *l, const struct picked *p, uint64_t before, struct fb_error *e);

/* Every field of every part, in the one order that both listing and taking follow. */
static int for_each_part(struct bag *b, visit_part *visit, struct fb_error *e)
{
    for (int field = 0; field < b->f->arrays->count; field++) {
        uint32_t parts = b->f->arrays->want[field].is_instance ? b->parts : 1;
        uint64_t before = 0;
        for (uint32_t i = 0; i < parts; i++) {
            b->now = &b->part[i];
            const struct array_layout *l = bag_layout(b, field);
            struct picked p = bag_picked(b, field, l);
            FB_TRY(visit(b, field, l, &p, before, e));
            before += p.count;
        }
    }
    b->now = b->part;
    return 0;
}

static int add_piece(struct bag *b, uint64_t offset, uint64_t length, void *to, size_t stage_at, struct fb_error *e)
{
    b->gather.object = b->f->cache && b->gather.files ? &b->gather.file[b->now - b->part].object : NULL;
    return gather_add(&b->gather, b->now->fd, b->now->where.key, offset, length, to, stage_at, e);
}

static int list_straight(struct bag *b, const struct array_layout *l, const struct picked *p, uint8_t *to, struct fb_error *e)
{
    uint64_t row_bytes = array_row_bytes(l);
    for (uint64_t i = 0, n; i < p->count; i += n) {
        n = picked_run(p, i);
        struct array_runs runs;
        struct array_run run;
        array_runs_start(&runs, l, picked_row(p, i), n);
        while (array_runs_next(&runs, &run)) {
            uint64_t at = i * row_bytes + run.at;
            if (run.offset == ARRAY_NO_CHUNK && to)
                array_fill(l, to + at, run.length);
            else if (run.offset != ARRAY_NO_CHUNK)
                FB_TRY(add_piece(b, run.offset, run.length, to ? to + at : NULL, b->at + at, e));
        }
    }
    if (!to)
        b->at += p->count * row_bytes;
    return 0;
}

/* The picked rows that lie in one band of chunks: indices [i, i + *count), chunks *chunk .. + *chunks. */
static void band_at(const struct array_layout *l, const struct picked *p, uint64_t i, uint64_t *count, uint64_t *chunk, uint64_t *chunks)
{
    uint64_t height = l->ndim ? l->chunk_shape[0] : 1, row = picked_row(p, i), end = (row / height + 1) * height;
    uint64_t n = p->list ? 1 : end - row < p->count - i ? end - row : p->count - i;
    while (p->list && i + n < p->count && picked_row(p, i + n) < end)
        n++;
    *count = n;
    array_chunks_of_rows(l, row, 1, chunk, chunks);
}

static size_t next_on_stage(size_t at, const struct array_chunk *c)
{
    return c->offset == ARRAY_NO_CHUNK ? at : (at + c->length + 63) & ~(size_t)63;
}

static int list_chunks(struct bag *b, const struct array_layout *l, const struct picked *p, struct fb_error *e)
{
    for (uint64_t i = 0, n, chunk, chunks; i < p->count; i += n) {
        band_at(l, p, i, &n, &chunk, &chunks);
        for (; chunks > 0; chunk++, chunks--) {
            const struct array_chunk *c = &l->chunk[chunk];
            if (c->offset != ARRAY_NO_CHUNK)
                FB_TRY(add_piece(b, c->offset, c->length, NULL, b->at, e));
            b->at = next_on_stage(b->at, c);
        }
    }
    return 0;
}

static int list_whole(struct bag *b, const struct array_layout *l, struct fb_error *e)
{
    FB_TRY(add_piece(b, l->offset, l->bytes, NULL, b->at, e));
    b->at += l->bytes;
    return 0;
}

/* Compressed sound is decoded from memory, so that no worker waits for a disk inside of a decoder. */
static int list_recording(struct bag *b, struct fb_error *e)
{
    uint64_t bytes = b->now->file->object_size;
    FB_TRY(add_piece(b, 0, bytes, NULL, b->at, e));
    b->at += bytes;
    return 0;
}

static int list_part(struct bag *b, int field, const struct array_layout *l, const struct picked *p, uint64_t before, struct fb_error *e)
{
    struct array_conversion c;
    FB_TRY(arrays_prepare_conversion(b->f->arrays, field, l, &c, e));
    b->at = (b->at + 63) & ~(size_t)63;
    if (array_is_straight(l))
        return list_straight(b, l, p, is_copied(b, &c) ? place_of(b, field, before) : NULL, e);
    if (l->storage == ARRAY_CHUNKED)
        return list_chunks(b, l, p, e);
    if (l->storage == ARRAY_CONTIGUOUS)
        return list_whole(b, l, e);
    return b->f->arrays->is_sound ? list_recording(b, e) : 0;
}

int bag_list(struct bag *b, struct fb_error *e)
{
    b->at = 0;
    FB_TRY(for_each_part(b, list_part, e));
    if (b->at > b->gather.stage_bytes)
        b->gather.stage_bytes = b->at; /* rows that were never written take room, too */
    return 0;
}

/* ---- taking what was read ---- */

/* A chunk of whole rows, all of which are wanted, may be unfiltered where its rows belong. */
static bool is_whole_band(const struct array_layout *l, uint64_t row, uint64_t n, uint64_t chunks)
{
    bool is_wide = chunks == 1 && !l->is_fortran;
    for (int d = 1; d < l->ndim; d++)
        is_wide &= l->chunk_shape[d] == l->shape[d];
    return is_wide && (l->ndim == 0 || (row % l->chunk_shape[0] == 0 && n == l->chunk_shape[0]));
}

static int take_chunk(struct bag *b, const struct array_layout *l, const struct picked *p, uint64_t i, uint64_t n, uint64_t chunk,
                      uint64_t chunks, uint8_t *out, struct fb_error *e)
{
    const struct array_chunk *c = &l->chunk[chunk];
    uint64_t row = picked_row(p, i), row_bytes = array_row_bytes(l);
    bool is_here = !p->list && c->offset != ARRAY_NO_CHUNK && is_whole_band(l, row, n, chunks);
    uint8_t *data = NULL;
    if (c->offset != ARRAY_NO_CHUNK) {
        data = is_here ? out + i * row_bytes : worker_memory(b->f, &b->w->pixels, unfilter_chunk_bytes(l), e);
        if (!data)
            return e->code;
        int rc = unfilter_chunk(&b->w->unfilter, l, c->skips, b->stage + b->at, c->length, data, e);
        if (rc < 0) {
            error_at(e, b->now->where.key, (int64_t)c->offset);
            return rc;
        }
        b->at = next_on_stage(b->at, c);
    }
    if (is_here)
        return 0;
    for (uint64_t k = 0, run; k < n; k += run) {
        run = p->list ? 1 : n;
        array_copy_from_chunk(l, chunk, data, picked_row(p, i + k), run, out + (i + k) * row_bytes);
    }
    return 0;
}

static int take_chunks(struct bag *b, const struct array_layout *l, const struct picked *p, uint8_t *out, struct fb_error *e)
{
    for (uint64_t i = 0, n, chunk, chunks; i < p->count; i += n) {
        band_at(l, p, i, &n, &chunk, &chunks);
        uint64_t all = chunks;
        for (; chunks > 0; chunk++, chunks--)
            FB_TRY(take_chunk(b, l, p, i, n, chunk, all, out, e));
    }
    return 0;
}

int bag_read_memory(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    const struct bag *b = ctx;
    if (offset > b->byte_count || length > b->byte_count - offset)
        return error_set(e, FB_E_DATA, "decode", "the file ends at byte %zu", b->byte_count);
    memcpy(out, b->bytes + offset, length);
    return 0;
}

static int read_opaque(struct bag *b, const struct array_layout *l, const struct picked *p, uint8_t *out, struct fb_error *e)
{
    const struct array_ops *ops = array_format_by_name(b->now->file->format);
    if (!ops || !ops->read_rows)
        return bag_refuse(b, e, l->why_opaque, "leave the field out of fields=");
    char path[4352];
    snprintf(path, sizeof(path), "%s%s%s", b->now->where.object[0] == '/' ? "" : b->f->dataset.root,
             b->now->where.object[0] == '/' ? "" : "/", b->now->where.object);
    struct array_source s = {.path = b->bytes ? NULL : path,
                             .size = b->now->file->object_size,
                             .read = bag_read_memory,
                             .ctx = b,
                             .allows_external = b->f->arrays->allows_external};
    for (uint64_t i = 0, n; i < p->count; i += n) {
        n = picked_run(p, i);
        FB_TRY(ops->read_rows(&s, l, picked_row(p, i), n, out + i * array_row_bytes(l), e));
    }
    return b->bytes ? 0 : look_check_named(b->f, &b->now->where, b->now->fd, e);
}

/* Rows in chunks that were never written. */
static void fill_missing(const struct array_layout *l, const struct picked *p, uint8_t *rows)
{
    for (uint64_t i = 0, n; l->storage == ARRAY_CHUNKED && i < p->count; i += n) {
        n = picked_run(p, i);
        struct array_runs runs;
        struct array_run run;
        array_runs_start(&runs, l, picked_row(p, i), n);
        while (array_runs_next(&runs, &run))
            if (run.offset == ARRAY_NO_CHUNK)
                array_fill(l, rows + i * array_row_bytes(l) + run.at, run.length);
    }
}

/* The picked rows as stored: where they are now. NULL: an error. `out` may be used for them. */
static uint8_t *stored_rows(struct bag *b, const struct array_layout *l, const struct picked *p, uint8_t *out, struct fb_error *e)
{
    uint64_t row_bytes = array_row_bytes(l);
    if (array_is_straight(l)) {
        uint8_t *rows = b->stage + b->at;
        b->at += p->count * row_bytes;
        fill_missing(l, p, rows);
        return rows;
    }
    if (!out && !(out = worker_memory(b->f, &b->w->mapped[1], p->count * row_bytes + 64, e)))
        return NULL;
    int rc = 0;
    if (l->storage == ARRAY_CHUNKED)
        rc = take_chunks(b, l, p, out, e);
    else if (l->storage == ARRAY_OPAQUE)
        rc = read_opaque(b, l, p, out, e);
    else
        for (uint64_t i = 0; i < p->count; i++)
            array_copy_from_whole(l, l->storage == ARRAY_INLINE ? l->inline_data : b->stage + b->at, picked_row(p, i), 1,
                                  out + i * row_bytes);
    if (l->storage == ARRAY_CONTIGUOUS)
        b->at += l->bytes;
    return rc < 0 ? NULL : out;
}

static int take_part(struct bag *b, int field, const struct array_layout *l, const struct picked *p, uint64_t before, struct fb_error *e)
{
    struct array_conversion c;
    FB_TRY(arrays_prepare_conversion(b->f->arrays, field, l, &c, e));
    uint8_t *to = place_of(b, field, before);
    b->at = (b->at + 63) & ~(size_t)63;
    if (is_copied(b, &c) && array_is_straight(l))
        return 0; /* read into its place */
    uint8_t *stored = stored_rows(b, l, p, is_copied(b, &c) ? to : NULL, e);
    if (!stored)
        return e->code;
    uint64_t row_numbers = array_row_bytes(l) / l->stored_bytes;
    if (!is_copied(b, &c))
        for (uint64_t i = 0; i < p->count; i++)
            array_convert(&c, stored + i * array_row_bytes(l), to + i * row_numbers * c.to_bytes, row_numbers);
    return 0;
}

static int take_sound(struct bag *b, struct fb_error *e)
{
    const struct array_layout *l = bag_layout(b, 0);
    if (l->storage != ARRAY_OPAQUE)
        return bag_place_sound(b, l, b->stage, e);
    b->bytes = b->stage;
    b->byte_count = b->now->file->object_size;
    return bag_place_compressed(b, l, e);
}

int bag_take(struct bag *b, struct fb_error *e)
{
    b->at = 0;
    return b->f->arrays->is_sound ? take_sound(b, e) : for_each_part(b, take_part, e);
}
