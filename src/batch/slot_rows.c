/* Fields of variable length: the rows of a batch lie in memory of their own, sized by what the batch needs and kept for the next one.
 *
 * The memory is sized before the samples are read, by their known lengths. The replacement of a bad sample may be shorter: padding covers
 * that; ragged rows are compacted when the last load has finished.
 */
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/round_up.h"
#include "batch/slot.h"

enum { ALIGNMENT = 64, GRANULE = 1 << 20 };

int slot_shape_add_lengths(struct slot_shape *s, struct fb_error *e)
{
    bool is_ragged = false;
    for (int i = 0; i < s->field_count; i++)
        is_ragged |= s->field[i].packing == SLOT_RAGGED;
    s->length_field = s->field_count;
    uint32_t places = s->places;
    s->places += is_ragged; /* one offset more than samples */
    int rc = slot_shape_add(s, is_ragged ? "offsets" : "lengths", FB_INT64, 0, NULL, NULL, e);
    s->places = places;
    return rc;
}

static bool is_ragged(const struct slot *s)
{
    return strcmp(s->shape->field[s->shape->length_field].name, "offsets") == 0;
}

static uint64_t rows_of(const struct slot *s, uint32_t count, uint64_t *longest)
{
    uint64_t total = 0;
    *longest = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += s->room[i];
        *longest = s->room[i] > *longest ? s->room[i] : *longest;
    }
    return is_ragged(s) ? total : *longest * count;
}

size_t slot_rows_bytes(const struct slot *s, uint32_t count)
{
    uint64_t longest, rows = rows_of(s, count, &longest);
    unsigned __int128 bytes = (unsigned __int128)rows * s->shape->row_bytes + (unsigned)s->shape->field_count * ALIGNMENT + 1;
    return bytes > SIZE_MAX / 4 ? SIZE_MAX / 4 : round_up((size_t)bytes, GRANULE);
}

static bool make_room(struct slot *s, size_t bytes)
{
    memory_unmap(s->rows_memory, s->rows_capacity);
    s->rows_memory = memory_map(bytes);
    s->rows_capacity = s->rows_memory ? bytes : 0;
    return s->rows_memory;
}

/* Where each field starts, and its array as the caller will see it. */
static void lay_out(struct slot *s, uint32_t count, uint64_t rows)
{
    size_t at = 0;
    for (int i = 0; i < s->shape->field_count; i++) {
        const struct slot_field *f = &s->shape->field[i];
        if (f->packing == SLOT_STACKED)
            continue;
        s->rows_at[i] = at;
        struct fb_array *a = &s->array[i];
        bool is_padded = f->packing == SLOT_PADDED;
        *a = (struct fb_array){.name = f->name, .dtype = f->dtype, .ndim = f->ndim + 1 + is_padded, .bytes = rows * f->sample_bytes};
        a->data = (char *)s->rows_memory + at;
        a->packing = is_padded ? FB_COLLATE_PAD : FB_COLLATE_RAGGED;
        int d = 0;
        if (is_padded) {
            a->shape[d] = count;
            a->strides[d++] = (int64_t)(s->longest * f->sample_bytes);
        }
        a->shape[d] = (int64_t)(is_padded ? s->longest : rows);
        a->strides[d++] = (int64_t)f->sample_bytes;
        memcpy(a->shape + d, f->shape, (size_t)f->ndim * sizeof(f->shape[0]));
        memcpy(a->strides + d, f->strides, (size_t)f->ndim * sizeof(f->strides[0]));
        at = round_up(at + a->bytes, ALIGNMENT);
    }
}

bool slot_prepare_rows(struct slot *s, uint32_t count, size_t bytes)
{
    uint64_t rows = rows_of(s, count, &s->longest);
    if (slot_rows_bytes(s, count) > s->rows_capacity && !make_room(s, bytes))
        return false;
    s->total = 0;
    for (uint32_t i = 0; i < count; i++) {
        s->start[i] = s->total;
        s->total += s->room[i];
        s->rows[i] = 0;
    }
    lay_out(s, count, rows);
    struct fb_array *lengths = &s->array[s->shape->length_field];
    lengths->shape[0] = count + is_ragged(s);
    lengths->bytes = (size_t)lengths->shape[0] * sizeof(int64_t);
    return true;
}

void slot_set_rows(struct slot *s, uint32_t place, uint64_t rows)
{
    s->rows[place] = rows;
    for (int i = 0; i < s->shape->field_count; i++) {
        const struct slot_field *f = &s->shape->field[i];
        if (f->packing == SLOT_PADDED)
            memset((char *)slot_at(s, i, place) + rows * f->sample_bytes, 0, (s->longest - rows) * f->sample_bytes);
    }
}

static void move_together(struct slot *s, int field)
{
    size_t row = s->shape->field[field].sample_bytes;
    uint64_t rows = 0;
    char *base = (char *)s->rows_memory + s->rows_at[field], *to = base;
    for (uint32_t i = 0; i < s->count; i++) {
        char *from = base + s->start[i] * row;
        if (to != from)
            memmove(to, from, s->rows[i] * row);
        to += s->rows[i] * row;
        rows += s->rows[i];
    }
    s->array[field].shape[0] = (int64_t)rows;
    s->array[field].bytes = (size_t)(to - base);
}

void slot_finish_rows(struct slot *s)
{
    int64_t *lengths = slot_at(s, s->shape->length_field, 0);
    for (int i = 0; i < s->shape->field_count; i++)
        if (s->shape->field[i].packing == SLOT_RAGGED)
            move_together(s, i);
    int64_t at = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        lengths[i] = is_ragged(s) ? at : (int64_t)s->rows[i];
        at += (int64_t)s->rows[i];
    }
    if (is_ragged(s))
        lengths[s->count] = at;
}
