#include "transform/resample.h"

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

/* A row and everything a kernel may read after it: at most a whole span of the filter. */
static size_t row_copy_bytes(const struct resample *r, int channels)
{
    double stretch = (double)r->x.in_size / r->x.out_size;
    size_t span = (size_t)(stretch < 1 ? 1 : stretch + 1) * 4 + 8;
    size_t pixels = r->x.from_count > span ? r->x.from_count : span;
    return rounded(pixels * (size_t)channels + 64);
}

/* Pillow 13 filters columns before rows when the height shrinks by more than twice what the width does. Each pass rounds, so the order shows. */
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
        bytes += filter_bytes(r->kind, &r->x) + row_copy_bytes(r, channels);
    if (is_filtered(&r->y))
        bytes += filter_bytes(r->kind, &r->y);
    if (is_filtered(&r->x) && is_filtered(&r->y))
        bytes += between_bytes(r, channels);
    return bytes;
}

/* The last rows go through a copy with room behind it, so that wide loads stay inside memory we own. */
static void filter_rows(const struct filter *f, uint32_t width, int channels, const uint8_t *in, size_t in_stride, uint32_t rows,
                        uint8_t *out, size_t out_stride, uint8_t *row_copy)
{
    size_t slack = filter_slack(f, width, channels), late = (slack + in_stride - 1) / in_stride;
    uint32_t safe = rows > late ? rows - (uint32_t)late : 0;
    kernels()->rows(out, out_stride, in, in_stride, safe, channels, f);
    size_t bytes = (size_t)width * (size_t)channels;
    for (uint32_t y = safe; y < rows; y++) {
        memcpy(row_copy, in + y * in_stride, bytes);
        memset(row_copy + bytes, 0, slack);
        kernels()->rows(out + y * out_stride, out_stride, row_copy, bytes, 1, channels, f);
    }
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
        filter_build(&fy, r->kind, &r->y, false, memory);
        memory += filter_bytes(r->kind, &r->y);
    }
    if (!is_filtered(&r->x)) { /* from == to on an axis that is passed through */
        if (is_filtered(&r->y))
            filter_columns(&fy, out_bytes, in, in_stride, out, out_stride);
        else
            copy_rows(out_bytes, r->y.to_count, in, in_stride, out, out_stride);
        return;
    }
    filter_build(&fx, r->kind, &r->x, true, memory);
    memory += filter_bytes(r->kind, &r->x);
    uint8_t *row_copy = memory;
    if (!is_filtered(&r->y)) {
        filter_rows(&fx, r->x.from_count, channels, in, in_stride, r->y.to_count, out, out_stride, row_copy);
        return;
    }
    uint8_t *between = memory + row_copy_bytes(r, channels);
    size_t stride = between_stride(r, channels);
    if (is_columns_first(r)) {
        filter_columns(&fy, (size_t)r->x.from_count * (size_t)channels, in, in_stride, between, stride);
        filter_rows(&fx, r->x.from_count, channels, between, stride, r->y.to_count, out, out_stride, row_copy);
    } else {
        filter_rows(&fx, r->x.from_count, channels, in, in_stride, r->y.from_count, between, stride, row_copy);
        filter_columns(&fy, out_bytes, between, stride, out, out_stride);
    }
}
