/* Samples from coefficients and pixels from samples, in plain C: what every other version must equal. */
#include <string.h>

#include "codec/image/jpeg/kernels/jpeg_kernels.h"

/* ---- inverse DCT: the accurate integer one (Loeffler, Ligtenberg and Moschytz), 13 bits of fraction ---- */

static int16_t cut(int32_t v)
{
    return (int16_t)(uint16_t)(uint32_t)v;
}

static int16_t saturated(int32_t v, int shift)
{
    v >>= shift;
    return (int16_t)(v < -32768 ? -32768 : v > 32767 ? 32767 : v);
}

static int32_t sum(int32_t a, int32_t b) /* wraps as the SIMD code does */
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static int32_t difference(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

/* Eight values `step` apart, in place. */
static void transform_line(int16_t *x, int step, int shift)
{
    int32_t z2 = x[2 * step], z6 = x[6 * step], half = 1 << (shift - 1);
    int32_t even2 = z2 * 4433 + z6 * -10704, even3 = z2 * 10703 + z6 * 4433;
    int32_t even0 = sum(cut(x[0] + x[4 * step]) * 8192, half), even1 = sum(cut(x[0] - x[4 * step]) * 8192, half);
    int32_t e0 = sum(even0, even3), e3 = difference(even0, even3), e1 = sum(even1, even2), e2 = difference(even1, even2);

    int32_t x1 = x[step], x3 = x[3 * step], x5 = x[5 * step], x7 = x[7 * step], z3 = cut(x7 + x3), z4 = cut(x5 + x1);
    int32_t odd3 = sum(z3 * -6436, z4 * 9633), odd4 = sum(z3 * 9633, z4 * 6437);
    int32_t o0 = sum(sum(x7 * -4927, x1 * -7373), odd3), o3 = sum(sum(x7 * -7373, x1 * 4926), odd4);
    int32_t o1 = sum(sum(x5 * -4176, x3 * -20995), odd4), o2 = sum(sum(x5 * -20995, x3 * 4177), odd3);

    x[0] = saturated(sum(e0, o3), shift);
    x[7 * step] = saturated(difference(e0, o3), shift);
    x[step] = saturated(sum(e1, o2), shift);
    x[6 * step] = saturated(difference(e1, o2), shift);
    x[2 * step] = saturated(sum(e2, o1), shift);
    x[5 * step] = saturated(difference(e2, o1), shift);
    x[3 * step] = saturated(sum(e3, o0), shift);
    x[4 * step] = saturated(difference(e3, o0), shift);
}

static bool has_one_row(const int16_t *c)
{
    int any = 0;
    for (int i = 8; i < 64; i++)
        any |= c[i];
    return !any;
}

static void transform_block(const struct jpeg_block *b, const int16_t *quant, size_t stride)
{
    int16_t x[64];
    for (int i = 0; i < 64; i++)
        x[i] = cut(b->coefficients[i] * quant[i]);
    if (has_one_row(b->coefficients))
        for (int i = 0; i < 64; i++)
            x[i] = i < 8 ? cut(x[i] * 4) : x[i - 8];
    else
        for (int i = 0; i < 8; i++)
            transform_line(x + i, 8, 11);
    for (int i = 0; i < 8; i++) {
        transform_line(x + 8 * i, 1, 18);
        for (int k = 0; k < 8; k++) {
            int v = x[8 * i + k] + 128;
            b->out[(size_t)i * stride + (size_t)k] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
    }
}

static void idct_c(const struct jpeg_block *blocks, int n, const int16_t *quant, size_t stride)
{
    for (int i = 0; i < n; i++)
        transform_block(&blocks[i], quant, stride);
}

/* ---- chroma to full size: repeated, or blended: the nearer sample weighs three times the other ---- */

static void repeat_c(uint8_t *out, const uint8_t *in, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[2 * i] = out[2 * i + 1] = in[i];
}

static void widen_c(uint8_t *out, const uint8_t *in, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[2 * i] = (uint8_t)((3 * in[i] + in[(int64_t)i - 1] + 1) >> 2);
        out[2 * i + 1] = (uint8_t)((3 * in[i] + in[i + 1] + 2) >> 2);
    }
}

static void widen_blend_c(uint8_t *out, const uint8_t *near, const uint8_t *next, uint32_t n)
{
    int before = 3 * near[-1] + next[-1], here = 3 * near[0] + next[0];
    for (uint32_t i = 0; i < n; i++) {
        int behind = 3 * near[i + 1] + next[i + 1];
        out[2 * i] = (uint8_t)((3 * here + before + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((3 * here + behind + 7) >> 4);
        before = here;
        here = behind;
    }
}

static void blend_c(uint8_t *out, const uint8_t *near, const uint8_t *next, uint32_t n, bool is_lower)
{
    int bias = is_lower ? 2 : 1;
    for (uint32_t i = 0; i < n; i++)
        out[i] = (uint8_t)((3 * near[i] + next[i] + bias) >> 2);
}

/* ---- colour ---- */

static uint8_t clamped(int v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void rgb_c(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, out += 3) {
        int b = cb[i] - 128, r = cr[i] - 128; /* 1.402, 0.34414, 0.71414 and 1.772 in 16 bits of fraction */
        out[0] = clamped(y[i] + ((91881 * r + 32768) >> 16));
        out[1] = clamped(y[i] + ((-22554 * b - 46802 * r + 32768) >> 16));
        out[2] = clamped(y[i] + ((116130 * b + 32768) >> 16));
    }
}

static void grey_c(uint8_t *out, const uint8_t *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, out += 3)
        out[0] = out[1] = out[2] = y[i];
}

const struct jpeg_kernels jpeg_kernels_c = {
    .name = "c",
    .entropy = jpeg_entropy_c,
    .unstuff = jpeg_unstuff_c,
    .idct = {idct_c, jpeg_idct_4_c, jpeg_idct_2_c, jpeg_idct_1_c},
    .repeat = repeat_c,
    .widen = widen_c,
    .widen_blend = widen_blend_c,
    .blend = blend_c,
    .rgb = rgb_c,
    .grey = grey_c,
};
