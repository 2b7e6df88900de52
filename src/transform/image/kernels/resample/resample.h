/* Antialiased resampling, equal to Pillow's on 8-bit pixels.
 *
 * Two passes of a separable filter, along rows and along columns, each rounding to 8 bits. Weights are made in double precision,
 * normalised, and used as fixed point with 22 fractional bits. Only the outputs asked for are made, from only the inputs they touch; their
 * weights are those of the whole image, so a part is equal to the same part of the whole.
 *
 * RESAMPLE_NEAREST takes the one pixel under the centre of each output, as Pillow's NEAREST: a filter of one weight, so nothing is blended.
 */
#ifndef FB_TRANSFORM_IMAGE_KERNELS_RESAMPLE_RESAMPLE_H
#define FB_TRANSFORM_IMAGE_KERNELS_RESAMPLE_RESAMPLE_H

#include <stdbool.h>

#include "model/image.h"

enum resample_kind { RESAMPLE_BILINEAR, RESAMPLE_BICUBIC, RESAMPLE_NEAREST };
enum { RESAMPLE_BITS = 22 };

/* One direction of a resampling: which outputs are wanted, which inputs are at hand. */
struct axis {
    uint32_t in_size, out_size; /* of the whole image */
    uint32_t from, from_count;  /* inputs at hand */
    uint32_t to, to_count;      /* outputs wanted */
};

/* The weights of an axis. Lives in caller's memory. Inputs are counted from axis.from. */
struct filter {
    uint32_t count;   /* outputs */
    uint32_t taps;    /* weights per output, zero-padded */
    uint32_t *start;  /* first input of each output */
    uint32_t *length; /* inputs of each output, 1 <= length <= taps */
    int32_t *weight;  /* count x taps */

    /* The same for SIMD. A weight is high * 2^15 + low with 0 <= low < 2^15; the low parts of two neighbours share one word, their high
     * parts the next. A last weight without neighbour is followed by 0. */
    uint32_t pairs;
    int16_t *pair_weight; /* count x pairs x {low, low, high, high} */
};

struct resample {
    enum resample_kind kind;
    struct axis x, y;
};

/* The inputs that outputs [to, to + count) touch. */
void resample_span(enum resample_kind kind, uint32_t in_size, uint32_t out_size, uint32_t to, uint32_t count, uint32_t *from,
                   uint32_t *from_count);
/* Work memory that resample_run needs; 0 < channels <= 4. */
size_t resample_work_bytes(const struct resample *r, int channels);
/* Makes outputs [y.to..] x [x.to..] from inputs [y.from..] x [x.from..]. in and out do not overlap; work is 64-byte aligned. */
void resample_run(const struct resample *r, int channels, const uint8_t *in, size_t in_stride, uint8_t *out, size_t out_stride, void *work);

/* The same while the inputs come in, a few rows at a time. */
struct resample_bands {
    const struct resample *job;
    int channels;
    struct filter x, y;
    uint8_t *between; /* what the rows have become */
    size_t stride;
    void *work;
};
/* Can it be? Not where Pillow filters columns first, nor where there is nothing to do in one direction. */
bool resample_takes_bands(const struct resample *r);
/* `work` as for resample_run; `r` stays the caller's. */
void resample_begin(struct resample_bands *b, const struct resample *r, int channels, void *work);
/* Input rows [first, first + count), in any order, perhaps again. */
void resample_take(struct resample_bands *b, uint32_t first, uint32_t count, const uint8_t *in, size_t in_stride);
void resample_end(const struct resample_bands *b, uint8_t *out, size_t out_stride);

/* The weights alone; `memory` holds filter_bytes and is 64-byte aligned. */
size_t filter_bytes(enum resample_kind kind, const struct axis *a);
void filter_build(struct filter *f, enum resample_kind kind, const struct axis *a, void *memory);

#endif
