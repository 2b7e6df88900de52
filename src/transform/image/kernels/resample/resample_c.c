/* Resampling in plain C: what every faster version is measured against. */
#include "transform/image/kernels/resample/resample_c.h"

enum { HALF = 1 << (RESAMPLE_BITS - 1) };

static uint8_t to_byte(int32_t sum)
{
    sum >>= RESAMPLE_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Inlined with a constant number of channels, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void filter_row(uint8_t *out, const uint8_t *in, int channels, const struct filter *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        const int32_t *w = f->weight + (size_t)i * f->taps;
        const uint8_t *p = in + (size_t)f->start[i] * (size_t)channels;
        int32_t sum[4] = {HALF, HALF, HALF, HALF};
        for (uint32_t k = 0; k < f->length[i]; k++, p += channels)
            for (int c = 0; c < channels; c++)
                sum[c] += p[c] * w[k];
        for (int c = 0; c < channels; c++)
            *out++ = to_byte(sum[c]);
    }
}

void resample_rows_c(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride, uint32_t rows, uint32_t width, int channels,
                     const struct filter *f, void *work)
{
    (void)width, (void)work;
    for (uint32_t y = 0; y < rows; y++, out += out_stride, in += in_stride)
        switch (channels) {
        case 1: filter_row(out, in, 1, f); break;
        case 3: filter_row(out, in, 3, f); break;
        default: filter_row(out, in, 4, f); break;
        }
}

void resample_columns_c(uint8_t *out, const uint8_t *in, size_t in_stride, size_t bytes, const struct filter *f, uint32_t i)
{
    enum { BLOCK = 64 }; /* sums side by side, which compilers turn into vectors */
    const int32_t *w = f->weight + (size_t)i * f->taps;
    in += f->start[i] * in_stride;
    for (size_t x = 0; x < bytes; x += BLOCK) {
        size_t n = bytes - x < BLOCK ? bytes - x : BLOCK;
        int32_t sum[BLOCK];
        for (size_t k = 0; k < n; k++)
            sum[k] = HALF;
        for (uint32_t t = 0; t < f->length[i]; t++)
            for (size_t k = 0; k < n; k++)
                sum[k] += in[t * in_stride + x + k] * w[t];
        for (size_t k = 0; k < n; k++)
            out[x + k] = to_byte(sum[k]);
    }
}
