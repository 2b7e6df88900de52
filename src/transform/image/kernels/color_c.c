/* Colour arithmetic as Pillow 13 does it: floats and doubles in the same places, so the same rounding. */
#include "transform/image/kernels/color_c.h"

#include <math.h>
#include <string.h>

/* ITU-R 601 luma in 16-bit fixed point, rounded. */
static uint8_t luma(const uint8_t *p)
{
    return (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
}

static uint8_t blend(int base, int value, float factor)
{
    float v = (float)base + factor * (float)(value - base);
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
}

void blend_constant_c(uint8_t *bytes, size_t n, uint8_t base, float factor)
{
    uint8_t table[256];
    for (int v = 0; v < 256; v++)
        table[v] = blend(base, v, factor);
    for (size_t i = 0; i < n; i++)
        bytes[i] = table[bytes[i]];
}

void blend_gray_c(uint8_t *pixels, size_t n, float factor)
{
    for (uint8_t *p = pixels, *end = pixels + 3 * n; p < end; p += 3) {
        uint8_t base = luma(p);
        for (int c = 0; c < 3; c++)
            p[c] = blend(base, p[c], factor);
    }
}

void gray_c(uint8_t *pixels, size_t n)
{
    for (uint8_t *p = pixels, *end = pixels + 3 * n; p < end; p += 3)
        memset(p, luma(p), 3);
}

uint64_t gray_sum_c(const uint8_t *pixels, size_t n)
{
    uint64_t sum = 0;
    for (const uint8_t *p = pixels, *end = pixels + 3 * n; p < end; p += 3)
        sum += luma(p);
    return sum;
}

struct hsv {
    uint8_t h, s, v;
};

static float hue_of(int r, int g, int b, int max, float range)
{
    float to_r = (float)(max - r) / range, to_g = (float)(max - g) / range, to_b = (float)(max - b) / range;
    float h = r == max ? to_b - to_g : g == max ? (float)(2.0 + to_r - to_b) : (float)(4.0 + to_g - to_r);
    return (float)fmod(h / 6.0 + 1.0, 1.0);
}

static struct hsv to_hsv(const uint8_t *p)
{
    int r = p[0], g = p[1], b = p[2];
    int max = r > g ? r : g, min = r < g ? r : g;
    max = b > max ? b : max;
    min = b < min ? b : min;
    if (min == max)
        return (struct hsv){0, 0, (uint8_t)max};
    float range = (float)(max - min);
    float h = hue_of(r, g, b, max, range), s = range / (float)max;
    return (struct hsv){(uint8_t)(h * 255.0), (uint8_t)(s * 255.0), (uint8_t)max};
}

static void from_hsv(struct hsv c, uint8_t *p)
{
    if (c.s == 0) {
        memset(p, c.v, 3);
        return;
    }
    double sextant = c.h * 6.0 / 255.0;
    int i = (int)sextant;
    float f = (float)(sextant - i), s = (float)(c.s / 255.0), v = c.v;
    uint8_t low = (uint8_t)round(v * (1.0 - s)), down = (uint8_t)round(v * (1.0 - s * f)), up = (uint8_t)round(v * (1.0 - s * (1.0 - f)));
    const uint8_t rgb[6][3] = {{c.v, up, low}, {down, c.v, low}, {low, c.v, up}, {low, down, c.v}, {up, low, c.v}, {c.v, low, down}};
    memcpy(p, rgb[i % 6], 3);
}

void shift_hue_c(uint8_t *pixels, size_t n, uint8_t shift)
{
    for (uint8_t *p = pixels, *end = pixels + 3 * n; p < end; p += 3) {
        struct hsv c = to_hsv(p);
        c.h = (uint8_t)(c.h + shift);
        from_hsv(c, p);
    }
}
