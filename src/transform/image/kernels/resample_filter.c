/* Weights of a resampling filter, as Pillow 13 makes them: same operations on doubles in the same order, so the same bits. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/round_up.h"
#include "transform/image/kernels/resample.h"

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Keys' cubic with a = -1/2. */
static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

struct geometry {
    double scale, stretch, support;
};

static struct geometry geometry_of(enum resample_kind kind, uint32_t in_size, uint32_t out_size)
{
    struct geometry g;
    g.scale = (double)in_size / out_size;
    g.stretch = g.scale < 1 ? 1 : g.scale; /* enlarging uses the filter as it is; shrinking widens it */
    g.support = (kind == RESAMPLE_BICUBIC ? 2.0 : 1.0) * g.stretch;
    return g;
}

static double center_of(const struct geometry *g, uint32_t out_index)
{
    return (out_index + 0.5) * g->scale;
}

static void bounds(const struct geometry *g, uint32_t in_size, double center, uint32_t *first, uint32_t *end)
{
    double low = center - g->support + 0.5, high = center + g->support + 0.5;
    *first = low < 0 ? 0 : (uint32_t)low;
    *end = high > in_size ? in_size : (uint32_t)high;
}

/* Nearest: Pillow finds the pixels by adding up steps, and the rounding of the sum shows. So it is added up here, from the first output. */
static uint32_t pixel_under(double at, uint32_t in_size)
{
    return at < in_size ? (uint32_t)at : in_size - 1;
}

static uint32_t nearest_of(const struct geometry *g, uint32_t in_size, uint32_t out_index)
{
    double at = g->scale * 0.5;
    for (uint32_t i = 0; i < out_index; i++)
        at += g->scale;
    return pixel_under(at, in_size);
}

static void build_nearest(struct filter *f, const struct geometry *g, const struct axis *a)
{
    double at = g->scale * 0.5;
    for (uint32_t i = 0; i < a->to + f->count; i++, at += g->scale) {
        if (i < a->to)
            continue;
        uint32_t pixel = pixel_under(at, a->in_size);
        assert(pixel >= a->from && pixel < a->from + a->from_count);
        f->start[i - a->to] = pixel - a->from;
        f->length[i - a->to] = 1;
        f->weight[i - a->to] = 1 << RESAMPLE_BITS;
    }
}

void resample_span(enum resample_kind kind, uint32_t in_size, uint32_t out_size, uint32_t to, uint32_t count, uint32_t *from,
                   uint32_t *from_count)
{
    assert(count > 0 && to < out_size && count <= out_size - to);
    if (in_size == out_size) { /* passed through without filtering */
        *from = to;
        *from_count = count;
        return;
    }
    struct geometry g = geometry_of(kind, in_size, out_size);
    if (kind == RESAMPLE_NEAREST) {
        *from = nearest_of(&g, in_size, to);
        *from_count = nearest_of(&g, in_size, to + count - 1) + 1 - *from;
        return;
    }
    uint32_t end, unused;
    bounds(&g, in_size, center_of(&g, to), from, &unused);
    bounds(&g, in_size, center_of(&g, to + count - 1), &unused, &end);
    *from_count = end - *from;
}

static uint32_t tap_limit(enum resample_kind kind, const struct geometry *g, uint32_t from_count)
{
    double limit = kind == RESAMPLE_NEAREST ? 1 : ceil(g->support) * 2 + 1;
    return limit < from_count ? (uint32_t)limit : from_count;
}

size_t filter_bytes(enum resample_kind kind, const struct axis *a)
{
    struct geometry g = geometry_of(kind, a->in_size, a->out_size);
    uint32_t taps = tap_limit(kind, &g, a->from_count);
    size_t n = a->to_count;
    return 2 * round_up(n * 4, 64) + round_up(n * taps * 4, 64) + round_up(n * ((taps + 1) / 2) * 8, 64) + round_up((size_t)taps * 8, 64);
}

static int32_t to_fixed(double w)
{
    const double one = 1 << RESAMPLE_BITS;
    return (int32_t)(w < 0 ? w * one - 0.5 : w * one + 0.5);
}

/* The weights of one output; w is room for taps doubles. */
static void weigh(enum resample_kind kind, const struct geometry *g, double center, uint32_t first, uint32_t length, double *w,
                  int32_t *out)
{
    double sum = 0, shrink = 1.0 / g->stretch;
    for (uint32_t i = 0; i < length; i++) {
        double at = ((double)i + first - center + 0.5) * shrink;
        w[i] = kind == RESAMPLE_BICUBIC ? cubic(at) : triangle(at);
        sum += w[i];
    }
    for (uint32_t i = 0; i < length; i++)
        out[i] = to_fixed(sum != 0 ? w[i] / sum : w[i]);
}

static void split_pairs(struct filter *f, uint32_t longest)
{
    f->pairs = (longest + 1) / 2;
    for (uint32_t i = 0; i < f->count; i++) {
        const int32_t *w = f->weight + (size_t)i * f->taps;
        int16_t *pair = f->pair_weight + (size_t)i * f->pairs * 4;
        for (uint32_t k = 0; k < f->length[i]; k += 2, pair += 4) {
            int32_t second = k + 1 < f->length[i] ? w[k + 1] : 0;
            pair[0] = (int16_t)(w[k] & 0x7fff);
            pair[1] = (int16_t)(second & 0x7fff);
            pair[2] = (int16_t)(w[k] >> 15);
            pair[3] = (int16_t)(second >> 15);
        }
    }
}

static void *carve(uint8_t **memory, size_t bytes)
{
    void *p = *memory;
    *memory += round_up(bytes, 64);
    return p;
}

void filter_build(struct filter *f, enum resample_kind kind, const struct axis *a, void *memory)
{
    struct geometry g = geometry_of(kind, a->in_size, a->out_size);
    uint8_t *at = memory;
    size_t n = a->to_count;
    f->count = a->to_count;
    f->taps = tap_limit(kind, &g, a->from_count);
    f->start = carve(&at, n * 4);
    f->length = carve(&at, n * 4);
    f->weight = carve(&at, n * f->taps * 4);
    f->pair_weight = carve(&at, n * ((f->taps + 1) / 2) * 8);
    double *w = carve(&at, (size_t)f->taps * 8);
    uint32_t longest = 1;
    if (kind == RESAMPLE_NEAREST)
        build_nearest(f, &g, a);
    for (uint32_t i = 0; kind != RESAMPLE_NEAREST && i < f->count; i++) {
        double center = center_of(&g, a->to + i);
        uint32_t first, end;
        bounds(&g, a->in_size, center, &first, &end);
        assert(first >= a->from && end <= a->from + a->from_count && end - first <= f->taps);
        f->start[i] = first - a->from;
        f->length[i] = end - first;
        longest = f->length[i] > longest ? f->length[i] : longest;
        weigh(kind, &g, center, first, f->length[i], w, f->weight + (size_t)i * f->taps);
    }
    split_pairs(f, longest);
}
