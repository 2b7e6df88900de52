#include "transform/image/kernels/resample.h"

#include <assert.h>
#include <string.h>

#include "base/round_up.h"
#include "transform/image/kernels/image_kernels.h"

static bool is_filtered(const struct axis *a)
{
    return a->in_size != a->out_size;
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
    return round_up((size_t)(is_columns_first(r) ? r->x.from_count : r->x.to_count) * (size_t)channels, 64);
}

static size_t between_bytes(const struct resample *r, int channels)
{
    return between_stride(r, channels) * (is_columns_first(r) ? r->y.to_count : r->y.from_count);
}

size_t resample_work_bytes(const struct resample *r, int channels)
{
    size_t bytes = 0;
    if (is_filtered(&r->x))
        bytes += filter_bytes(r->kind, &r->x) + round_up(KERNEL_ROWS_WORK(r->x.from_count, channels), 64);
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

bool resample_takes_bands(const struct resample *r)
{
    return is_filtered(&r->x) && is_filtered(&r->y) && !is_columns_first(r);
}

/* Memory: weights of y, weights of x, work of the rows, the image between. */
static void divide(struct resample_bands *b, const struct resample *r, int channels, void *work)
{
    uint8_t *memory = work;
    *b = (struct resample_bands){.job = r, .channels = channels, .stride = between_stride(r, channels)};
    if (is_filtered(&r->y)) {
        filter_build(&b->y, r->kind, &r->y, memory);
        memory += filter_bytes(r->kind, &r->y);
    }
    if (is_filtered(&r->x)) {
        filter_build(&b->x, r->kind, &r->x, memory);
        memory += filter_bytes(r->kind, &r->x);
        b->work = memory;
        memory += round_up(KERNEL_ROWS_WORK(r->x.from_count, channels), 64);
    }
    b->between = memory;
}

void resample_begin(struct resample_bands *b, const struct resample *r, int channels, void *work)
{
    assert(resample_takes_bands(r));
    divide(b, r, channels, work);
}

void resample_take(struct resample_bands *b, uint32_t first, uint32_t count, const uint8_t *in, size_t in_stride)
{
    kernels()->rows(b->between + first * b->stride, b->stride, in, in_stride, count, b->job->x.from_count, b->channels, &b->x, b->work);
}

void resample_end(const struct resample_bands *b, uint8_t *out, size_t out_stride)
{
    filter_columns(&b->y, (size_t)b->job->x.to_count * (size_t)b->channels, b->between, b->stride, out, out_stride);
}

void resample_run(const struct resample *r, int channels, const uint8_t *in, size_t in_stride, uint8_t *out, size_t out_stride, void *work)
{
    struct resample_bands b;
    size_t out_bytes = (size_t)r->x.to_count * (size_t)channels, in_bytes = (size_t)r->x.from_count * (size_t)channels;
    divide(&b, r, channels, work);
    if (resample_takes_bands(r)) {
        resample_take(&b, 0, r->y.from_count, in, in_stride);
        resample_end(&b, out, out_stride);
    } else if (is_filtered(&r->x) && is_filtered(&r->y)) {
        filter_columns(&b.y, in_bytes, in, in_stride, b.between, b.stride);
        kernels()->rows(out, out_stride, b.between, b.stride, r->y.to_count, r->x.from_count, channels, &b.x, b.work);
    } else if (is_filtered(&r->x)) { /* from == to on an axis that is passed through */
        kernels()->rows(out, out_stride, in, in_stride, r->y.to_count, r->x.from_count, channels, &b.x, b.work);
    } else if (is_filtered(&r->y)) {
        filter_columns(&b.y, out_bytes, in, in_stride, out, out_stride);
    } else {
        copy_rows(out_bytes, r->y.to_count, in, in_stride, out, out_stride);
    }
}
