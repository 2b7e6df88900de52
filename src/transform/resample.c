#include "transform/resample.h"

#include <stdbool.h>
#include <string.h>

#include "transform/kernels.h"

static bool is_filtered(const struct axis *a)
{
    return a->in_size != a->out_size;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Pillow 13 filters columns before rows when the height shrinks by more than twice what the width does. Each pass rounds, so the order
 * shows. */
static bool is_columns_first(const struct resample *r)
{
    int64_t shorter = (int64_t)r->y.in_size - r->y.out_size, narrower = (int64_t)r->x.in_size - r->x.out_size;
    return shorter > 0 && shorter > 2 * narrower;
}

/* The image between the two passes. */
static size_t between_stride(const struct resample *r, int channels)
{
    return rounded((size_t)(is_columns_first(r) ? r->x.from_count : r->x.to_count) * (size_t)channels);
}

static size_t between_bytes(const struct resample *r, int channels)
{
    return between_stride(r, channels) * (is_columns_first(r) ? r->y.to_count : r->y.from_count);
}

size_t resample_work_bytes(const struct resample *r, int channels)
{
    size_t bytes = 0;
    if (is_filtered(&r->x))
        bytes += filter_bytes(r->kind, &r->x) + rounded(KERNEL_ROWS_WORK(r->x.from_count, channels));
    if (is_filtered(&r->y))
        bytes += filter_bytes(r->kind, &r->y);
    if (is_filtered(&r->x) && is_filtered(&r->y))
        bytes += between_bytes(r, channels);
    return bytes;
}

static void filter_columns(const struct filter *f, size_t bytes, const uint8_t *in, size_t in_stride, uint8_t *out, size_t out_stride)
{
    for (uint32_t i = 0; i < f->count; i++)
        kernels()->columns(out + i * out_stride, in, in_stride, bytes, f, i);
}

static void copy_rows(size_t bytes, uint32_t rows, const uint8_t *in, size_t in_stride, uint8_t *out, size_t out_stride)
{
    for (uint32_t y = 0; y < rows; y++)
        memcpy(out + y * out_stride, in + y * in_stride, bytes);
}

void resample_run(const struct resample *r, int channels, const uint8_t *in, size_t in_stride, uint8_t *out, size_t out_stride, void *work)
{
    uint8_t *memory = work;
    size_t out_bytes = (size_t)r->x.to_count * (size_t)channels;
    struct filter fx, fy;
    if (is_filtered(&r->y)) {
        filter_build(&fy, r->kind, &r->y, memory);
        memory += filter_bytes(r->kind, &r->y);
    }
    if (!is_filtered(&r->x)) { /* from == to on an axis that is passed through */
        if (is_filtered(&r->y))
            filter_columns(&fy, out_bytes, in, in_stride, out, out_stride);
        else
            copy_rows(out_bytes, r->y.to_count, in, in_stride, out, out_stride);
        return;
    }
    filter_build(&fx, r->kind, &r->x, memory);
    memory += filter_bytes(r->kind, &r->x);
    void *rows_work = memory;
    if (!is_filtered(&r->y)) {
        kernels()->rows(out, out_stride, in, in_stride, r->y.to_count, r->x.from_count, channels, &fx, rows_work);
        return;
    }
    uint8_t *between = memory + rounded(KERNEL_ROWS_WORK(r->x.from_count, channels));
    size_t stride = between_stride(r, channels);
    if (is_columns_first(r)) {
        filter_columns(&fy, (size_t)r->x.from_count * (size_t)channels, in, in_stride, between, stride);
        kernels()->rows(out, out_stride, between, stride, r->y.to_count, r->x.from_count, channels, &fx, rows_work);
    } else {
        kernels()->rows(between, stride, in, in_stride, r->y.from_count, r->x.from_count, channels, &fx, rows_work);
        filter_columns(&fy, out_bytes, between, stride, out, out_stride);
    }
}
