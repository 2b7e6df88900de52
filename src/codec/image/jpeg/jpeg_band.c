#include "codec/image/jpeg/jpeg_band.h"

#include <string.h>

#include "base/round_up.h"

/* Blocks of a component in an MCU. */
static uint32_t across(const struct jpeg_plan *p, int component)
{
    return component ? 1 : (uint32_t)p->across;
}

static uint32_t down(const struct jpeg_plan *p, int component)
{
    return component ? 1 : (uint32_t)p->down;
}

static size_t stride_of(const struct jpeg_plan *p, const struct jpeg_span *s, int component)
{
    return round_up((size_t)(s->end_column - s->first_column) * jpeg_plan_side(p, component) * across(p, component), 64) +
           2 * JPEG_ROW_MARGIN;
}

static size_t plane_bytes(const struct jpeg_plan *p, const struct jpeg_span *s, uint32_t rows, int component)
{
    return stride_of(p, s, component) * (1 + (size_t)rows * jpeg_plan_side(p, component) * down(p, component));
}

size_t jpeg_band_bytes(const struct jpeg_plan *p, const struct jpeg_span *s, uint32_t rows)
{
    size_t bytes = 2 * stride_of(p, s, 0);
    for (int c = 0; c < p->components; c++)
        bytes += plane_bytes(p, s, rows, c);
    return bytes;
}

void jpeg_band_init(struct jpeg_band *b, const struct jpeg_plan *p, const struct jpeg_kernels *k, const struct region *r,
                    const struct image *out, uint32_t rows, void *memory)
{
    *b = (struct jpeg_band){.plan = p, .kernels = k, .region = r, .out = out, .span = jpeg_plan_span(p, r)};
    uint8_t *at = memory;
    for (int i = 0; i < 2; i++, at += stride_of(p, &b->span, 0))
        b->full[i] = at;
    for (int c = 0; c < p->components; c++) {
        b->stride[c] = stride_of(p, &b->span, c);
        b->plane[c] = at + b->stride[c] + JPEG_ROW_MARGIN;
        at += plane_bytes(p, &b->span, rows, c);
    }
    b->row = b->span.first_row;
}

/* The blocks of one component of a run of MCUs. */
static int list_blocks(const struct jpeg_band *b, int component, uint32_t row, uint32_t column, uint32_t mcus, const int16_t *coefficients,
                       const uint8_t *counts, struct jpeg_block *list)
{
    const struct jpeg_plan *p = b->plan;
    uint32_t wide = across(p, component), high = down(p, component), side = jpeg_plan_side(p, component);
    size_t first = component ? (size_t)(p->across * p->down + component - 1) : 0, stride = b->stride[component];
    uint8_t *out = b->plane[component] + (size_t)row * side * high * stride + (size_t)(column - b->span.first_column) * side * wide;
    const size_t place[4] = {0, wide == 2 ? side : side * stride, side * stride, side * (stride + 1)}; /* in an MCU */
    struct jpeg_block *to = list;
    coefficients += first * 64;
    counts += first;
    for (uint32_t m = 0; m < mcus; m++, out += side * wide, coefficients += 64 * p->blocks, counts += p->blocks)
        for (uint32_t i = 0; i < wide * high; i++)
            *to++ = (struct jpeg_block){coefficients + 64 * i, out + place[i], counts[i]};
    return (int)(to - list);
}

void jpeg_band_transform(struct jpeg_band *b, uint32_t row, uint32_t column, uint32_t mcus, const int16_t *coefficients,
                         const uint8_t *counts)
{
    struct jpeg_block list[JPEG_BATCH];
    for (int c = 0; c < b->plan->components; c++) {
        int n = list_blocks(b, c, row, column, mcus, coefficients, counts, list);
        b->kernels->idct[b->plan->halvings[c]](list, n, b->plan->quant[c], b->stride[c]);
    }
}

/* Repeats the outermost chroma samples at the image's left and right border. */
static void extend_chroma(struct jpeg_band *b, uint32_t rows)
{
    const struct jpeg_plan *p = b->plan;
    uint32_t side = jpeg_plan_side(p, 1), origin = b->span.first_column * side, width = p->chroma_width - origin;
    bool is_right = b->span.end_column == p->columns;
    for (int c = 1; c < 3; c++)
        for (uint32_t y = 0; y < rows * side; y++) {
            uint8_t *row = b->plane[c] + y * b->stride[c];
            if (origin == 0)
                row[-1] = row[0];
            if (is_right)
                row[width] = row[width - 1];
        }
}

/* A chroma row by its number in the image, from `first` of the needed columns on. */
static const uint8_t *chroma_row(const struct jpeg_band *b, int c, uint32_t y, uint32_t first)
{
    return b->plane[c] + ((int64_t)y - (int64_t)b->row * jpeg_plan_side(b->plan, c)) * (int64_t)b->stride[c] + first;
}

/* The chroma row that pixel row y blends in, beside the one it lies in. */
static uint32_t next_row(const struct jpeg_plan *p, uint32_t y, uint32_t near)
{
    if (p->high == 1 || !p->is_blended)
        return near;
    return y & 1 ? (near + 1 < p->chroma_height ? near + 1 : near) : (near ? near - 1 : 0);
}

/* Chroma samples [first, first + n) at the pixels' scale: in their plane or in `full`. */
static const uint8_t *enlarged(const struct jpeg_band *b, int c, uint32_t y, uint32_t first, uint32_t n)
{
    const struct jpeg_plan *p = b->plan;
    uint32_t near = y / (uint32_t)p->high;
    const uint8_t *in = chroma_row(b, c, near, first), *other = chroma_row(b, c, next_row(p, y, near), first);
    uint8_t *full = b->full[c - 1];
    if (p->wide == 2 && !p->is_blended)
        b->kernels->repeat(full, in, n);
    else if (p->wide == 2 && p->high == 2)
        b->kernels->widen_blend(full, in, other, n);
    else if (p->wide == 2)
        b->kernels->widen(full, in, n);
    else if (p->high == 2 && p->is_blended)
        b->kernels->blend(full, in, other, n, y & 1);
    else
        return in;
    return full;
}

static void emit_row(struct jpeg_band *b, uint32_t y)
{
    const struct jpeg_plan *p = b->plan;
    const struct region *r = b->region;
    uint32_t side = jpeg_plan_side(p, 0), wide = (uint32_t)p->wide, left = r->left - b->span.first_column * side * (uint32_t)p->across;
    const uint8_t *luma = b->plane[0] + ((int64_t)y - (int64_t)b->row * side * p->down) * (int64_t)b->stride[0] + left;
    uint8_t *out = b->out->data + (size_t)(b->taker ? (y - r->top) % CODEC_RING_ROWS : y - r->top) * b->out->stride;
    if (p->components == 1) {
        b->kernels->grey(out, luma, r->width);
        return;
    }
    uint32_t first = left / wide, n = (left + r->width - 1) / wide + 1 - first, skip = left - first * wide;
    const uint8_t *cb = enlarged(b, 1, y, first, n), *cr = enlarged(b, 2, y, first, n);
    b->kernels->rgb(out, luma, cb + skip, cr + skip, r->width);
}

/* Keeps the last row of each component before the first row of the next band. */
static void carry(struct jpeg_band *b, uint32_t rows)
{
    for (int c = 0; c < 3; c++) {
        size_t last = (size_t)rows * jpeg_plan_side(b->plan, c) * down(b->plan, c) - 1;
        uint8_t *margin = b->plane[c] - JPEG_ROW_MARGIN;
        memcpy(margin - b->stride[c], margin + last * b->stride[c], b->stride[c]);
    }
}

void jpeg_band_emit(struct jpeg_band *b, uint32_t rows)
{
    const struct jpeg_plan *p = b->plan;
    bool waits = p->high == 2 && p->is_blended;
    uint32_t end = b->region->top + b->region->height, ready = (b->row + rows) * jpeg_plan_side(p, 0) * (uint32_t)p->down;
    if (p->wide == 2)
        extend_chroma(b, rows);
    if (waits && b->row + rows < b->span.end_row)
        ready--;
    if (ready > end)
        ready = end;
    uint32_t first = b->emitted;
    for (uint32_t y = b->region->top + first; y < ready; y++, b->emitted++)
        emit_row(b, y);
    if (b->taker && b->emitted > first)
        b->taker->take(b->taker->ctx, first, b->emitted - first);
    if (waits)
        carry(b, rows);
    b->row += rows;
}
