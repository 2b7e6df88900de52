/* Resampling in plain C: what every faster version is measured against. */
#include "transform/resample_c.h"

static uint8_t to_byte(int32_t sum)
{
    sum >>= RESAMPLE_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void filter_row(uint8_t *out, const uint8_t *in, int channels, const struct filter *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        const int32_t *w = f->weight + (size_t)i * f->taps;
        const uint8_t *p = in + (size_t)f->start[i] * (size_t)channels;
        int32_t sum[4] = {1 << (RESAMPLE_BITS - 1), 1 << (RESAMPLE_BITS - 1), 1 << (RESAMPLE_BITS - 1), 1 << (RESAMPLE_BITS - 1)};
        for (uint32_t k = 0; k < f->length[i]; k++)
            for (int c = 0; c < channels; c++)
                sum[c] += *p++ * w[k];
        for (int c = 0; c < channels; c++)
            *out++ = to_byte(sum[c]);
    }
}

void resample_rows_c(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride, uint32_t rows, uint32_t width, int channels,
                     const struct filter *f, void *work)
{
    (void)width, (void)work;
    for (uint32_t y = 0; y < rows; y++)
        filter_row(out + y * out_stride, in + y * in_stride, channels, f);
}

void resample_columns_c(uint8_t *out, const uint8_t *in, size_t in_stride, size_t bytes, const struct filter *f, uint32_t i)
{
    const int32_t *w = f->weight + (size_t)i * f->taps;
    in += f->start[i] * in_stride;
    for (size_t x = 0; x < bytes; x++) {
        int32_t sum = 1 << (RESAMPLE_BITS - 1);
        for (uint32_t k = 0; k < f->length[i]; k++)
            sum += in[k * in_stride + x] * w[k];
        out[x] = to_byte(sum);
    }
}
