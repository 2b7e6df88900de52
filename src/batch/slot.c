#include "batch/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/round_up.h"

static void c_order_strides(struct slot_field *f)
{
    int64_t step = (int64_t)fb_dtype_size(f->dtype);
    for (int d = f->ndim - 1; d >= 0; d--) {
        f->strides[d] = step;
        step *= f->shape[d];
    }
}

/* The field's own figures; the caller says where it lies. */
static int describe(struct slot_shape *s, struct slot_field **out, const char *name, enum fb_dtype dtype, int ndim, const int64_t *shape,
                    const int64_t *strides, struct fb_error *e)
{
    if (s->field_count == FB_MAX_FIELDS || ndim >= FB_MAX_DIMS)
        return error_set(e, FB_E_USAGE, "batch", "a batch has at most %d fields of %d dimensions", FB_MAX_FIELDS, FB_MAX_DIMS - 1);
    struct slot_field *f = &s->field[s->field_count];
    snprintf(f->name, sizeof(f->name), "%s", name);
    f->dtype = dtype;
    f->ndim = ndim;
    f->sample_bytes = fb_dtype_size(dtype);
    for (int d = 0; d < ndim; d++) {
        f->shape[d] = shape[d];
        if (__builtin_mul_overflow(f->sample_bytes, (size_t)shape[d], &f->sample_bytes))
            return error_set(e, FB_E_USAGE, "batch", "the field %s is too large", f->name);
    }
    if (strides)
        memcpy(f->strides, strides, (size_t)ndim * sizeof(*strides));
    else
        c_order_strides(f);
    *out = f;
    return 0;
}

int slot_shape_add(struct slot_shape *s, const char *name, enum fb_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides,
                   struct fb_error *e)
{
    struct slot_field *f = NULL;
    FB_TRY(describe(s, &f, name, dtype, ndim, shape, strides, e));
    size_t bytes; /* all fields together leave room for several batches to be counted */
    if (__builtin_mul_overflow(f->sample_bytes, (size_t)s->places, &bytes) || bytes > SIZE_MAX / 16 - s->bytes)
        return error_set(e, FB_E_USAGE, "batch", "a batch of %u samples is too large for memory", s->places);
    f->offset = s->bytes;
    s->bytes += memory_rounded(bytes);
    s->field_count++;
    return 0;
}

int slot_shape_add_variable(struct slot_shape *s, const char *name, enum slot_packing packing, enum fb_dtype dtype, int ndim,
                            const int64_t *shape, struct fb_error *e)
{
    struct slot_field *f = NULL;
    FB_TRY(describe(s, &f, name, dtype, ndim, shape, NULL, e));
    f->packing = packing;
    s->has_rows = true;
    if (__builtin_add_overflow(s->row_bytes, f->sample_bytes, &s->row_bytes))
        return error_set(e, FB_E_USAGE, "batch", "the field %s is too large", f->name);
    s->field_count++;
    return 0;
}

size_t slot_bytes(const struct slot_shape *shape, size_t load_bytes)
{
    return memory_rounded(shape->bytes) + memory_rounded(sizeof(struct slot)) +
           shape->places * (sizeof(struct slot_place) + shape->draw_numbers * sizeof(double) + load_bytes);
}

/* A batch of empty arrays has a place in memory, too: mapping nothing would fail, and look like want of memory. */
static size_t mapped_bytes(const struct slot_shape *shape)
{
    return shape->bytes ? shape->bytes : 64;
}

struct slot *slot_new(const struct slot_shape *shape, void *owner, size_t load_bytes)
{
    struct slot *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->shape = shape;
    s->owner = owner;
    s->memory = memory_map(mapped_bytes(shape));
    s->place = calloc(shape->places, sizeof(*s->place));
    s->loads = calloc(shape->places, load_bytes);
    s->draws = calloc((size_t)shape->places * shape->draw_numbers + 1, sizeof(*s->draws));
    if (shape->has_rows && (s->room = calloc(shape->places, 3 * sizeof(*s->room)))) {
        s->start = s->room + shape->places;
        s->rows = s->start + shape->places;
    }
    if (s->memory && s->place && s->loads && s->draws && (!shape->has_rows || s->room))
        return s;
    slot_free(s);
    return NULL;
}

void slot_free(struct slot *s)
{
    memory_unmap(s->memory, mapped_bytes(s->shape));
    memory_unmap(s->rows_memory, s->rows_capacity);
    free(s->room);
    free(s->turn);
    free(s->keys);
    free(s->place);
    free(s->draws);
    free(s->loads);
    error_free(s->error);
    free(s);
}

void slot_prepare(struct slot *s, uint32_t count)
{
    s->count = count;
    for (int i = 0; i < s->shape->field_count; i++) {
        const struct slot_field *f = &s->shape->field[i];
        struct fb_array *a = &s->array[i];
        if (f->packing != SLOT_STACKED)
            continue;
        *a = (struct fb_array){.name = f->name, .dtype = f->dtype, .ndim = f->ndim + 1, .data = slot_at(s, i, 0)};
        a->shape[0] = count;
        a->strides[0] = (int64_t)f->sample_bytes;
        memcpy(a->shape + 1, f->shape, (size_t)f->ndim * sizeof(f->shape[0]));
        memcpy(a->strides + 1, f->strides, (size_t)f->ndim * sizeof(f->strides[0]));
        a->bytes = f->sample_bytes * count;
    }
}

void *slot_at(const struct slot *s, int field, uint32_t place)
{
    const struct slot_field *f = &s->shape->field[field];
    if (f->packing == SLOT_STACKED)
        return (char *)s->memory + f->offset + f->sample_bytes * place;
    uint64_t row = f->packing == SLOT_PADDED ? s->longest * place : s->start[place];
    return (char *)s->rows_memory + s->rows_at[field] + row * f->sample_bytes;
}
