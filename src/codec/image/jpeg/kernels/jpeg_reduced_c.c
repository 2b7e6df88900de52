/* Blocks to 4 x 4, 2 x 2 and 1 x 1 samples, in plain C: what every other version must equal.
 *
 * libjpeg's reduced transforms leave out every other output of the full one, and with it the coefficients that cancel there: the fifth row
 * and column for four samples, all even ones but the first for two. Like its SIMD code these cut products of coefficients to 16 bits, wrap
 * sums at 32 and saturate the first pass to 16, but for the first column of two samples, which is never narrowed. One sample is the mean
 * alone, for which libjpeg has no SIMD code: its product is whole, and only ten bits of the result count.
 */
#include "codec/image/jpeg/kernels/jpeg_kernels.h"

static int16_t cut(int32_t v)
{
    return (int16_t)(uint16_t)(uint32_t)v;
}

static int32_t sum(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static int32_t difference(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

static int32_t shifted_left(int32_t v, int bits)
{
    return (int32_t)((uint32_t)v << bits);
}

static int32_t saturated(int32_t v)
{
    return v < -32768 ? -32768 : v > 32767 ? 32767 : v;
}

static uint8_t sample(int32_t v)
{
    return (uint8_t)(v < -128 ? 0 : v > 127 ? 255 : v + 128);
}

/* v / 2^shift, rounded. */
static int32_t rounded(int32_t v, int shift)
{
    return sum(v, 1 << (shift - 1)) >> shift;
}

/* Four values from eight, `step` apart. */
static void four_of(int32_t out[4], const int16_t *x, int step, int shift)
{
    int32_t x1 = x[step], x3 = x[3 * step], x5 = x[5 * step], x7 = x[7 * step];
    int32_t outer = sum(x1 * 20995 + x3 * 7373, x5 * -4926 + x7 * -4176);
    int32_t inner = sum(x1 * 8697 + x3 * -17799, x5 * 11893 + x7 * -1730);
    int32_t even = x[2 * step] * 15137 + x[6 * step] * -6270, first = x[0] * 16384;
    out[0] = rounded(sum(sum(first, even), outer), shift);
    out[1] = rounded(sum(difference(first, even), inner), shift);
    out[2] = rounded(difference(difference(first, even), inner), shift);
    out[3] = rounded(difference(sum(first, even), outer), shift);
}

/* Are there no coefficients outside the first row, the fifth aside? */
static bool is_flat(const int16_t *c)
{
    int any = 0;
    for (int i = 8; i < 64; i++)
        any |= i / 8 == 4 ? 0 : c[i];
    return !any;
}

static void four_by_four(const struct jpeg_block *b, const int16_t *quant, size_t stride)
{
    int16_t x[64], between[4][8];
    int32_t v[4];
    bool shifts = is_flat(b->coefficients);
    for (int i = 0; i < 64; i++)
        x[i] = cut(b->coefficients[i] * quant[i]);
    for (int i = 0; i < 8; i++) {
        four_of(v, x + i, 8, 12);
        for (int k = 0; k < 4; k++)
            between[k][i] = (int16_t)(shifts ? cut(x[i] * 4) : saturated(v[k]));
    }
    for (int k = 0; k < 4; k++) {
        four_of(v, between[k], 1, 19);
        for (int i = 0; i < 4; i++)
            b->out[(size_t)k * stride + (size_t)i] = sample(v[i]);
    }
}

void jpeg_idct_4_c(const struct jpeg_block *blocks, int n, const int16_t *quant, size_t stride)
{
    for (int i = 0; i < n; i++)
        four_by_four(&blocks[i], quant, stride);
}

/* What is added for the first of two values and subtracted for the second: from the odd ones of eight. */
static int32_t odd_part(int32_t x1, int32_t x3, int32_t x5, int32_t x7)
{
    return sum(x1 * 29692 + x3 * -10426, x5 * 6967 + x7 * -5906);
}

static int32_t product(const struct jpeg_block *b, const int16_t *quant, int at)
{
    return cut(b->coefficients[at] * quant[at]);
}

static void two_by_two(const struct jpeg_block *b, const int16_t *quant, size_t stride)
{
    int32_t upper[8], lower[8];
    for (int i = 0; i < 8; i += i ? 2 : 1) {
        int32_t first = product(b, quant, i) * 32768;
        int32_t odd = odd_part(product(b, quant, 8 + i), product(b, quant, 24 + i), product(b, quant, 40 + i), product(b, quant, 56 + i));
        upper[i] = rounded(sum(first, odd), 13);
        lower[i] = rounded(difference(first, odd), 13);
    }
    for (int k = 0; k < 2; k++) {
        const int32_t *x = k ? lower : upper;
        int32_t first = shifted_left(x[0], 15), odd = odd_part(saturated(x[1]), saturated(x[3]), saturated(x[5]), saturated(x[7]));
        b->out[(size_t)k * stride] = sample(rounded(sum(first, odd), 20));
        b->out[(size_t)k * stride + 1] = sample(rounded(difference(first, odd), 20));
    }
}

void jpeg_idct_2_c(const struct jpeg_block *blocks, int n, const int16_t *quant, size_t stride)
{
    for (int i = 0; i < n; i++)
        two_by_two(&blocks[i], quant, stride);
}

void jpeg_idct_1_c(const struct jpeg_block *blocks, int n, const int16_t *quant, size_t stride)
{
    (void)stride;
    for (int i = 0; i < n; i++) {
        int32_t mean = (blocks[i].coefficients[0] * quant[0] + 4) >> 3;
        blocks[i].out[0] = sample(shifted_left(mean, 22) >> 22);
    }
}
