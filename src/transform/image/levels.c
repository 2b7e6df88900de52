#include "transform/image/levels.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof(u));
    return u;
}

/* Round to nearest even by adding just under half of what is cut off, plus the bit that stays last. */
uint16_t level_to_bf16(float v)
{
    uint32_t u = bits_of(v);
    if (v != v)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

uint16_t level_to_f16(float v)
{
    uint32_t u = bits_of(v), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x477ff000) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) { /* subnormal: adding 0.5 leaves the wanted bits, rounded, at the bottom of the sum */
        float magnitude;
        memcpy(&magnitude, &u, sizeof(magnitude));
        return (uint16_t)(sign | (bits_of(magnitude + 0.5f) - bits_of(0.5f)));
    }
    return (uint16_t)(sign | ((u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13));
}

static bool is_arithmetic_equal(const struct levels *l)
{
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++) {
            float x = fmaf((float)v, LEVELS_255_HIGH, (float)v * LEVELS_255_LOW) - l->mean[c];
            float y = fmaf(x, l->high[c], x * l->low[c]);
            if (bits_of(y) != bits_of(l->f32[c][v]))
                return false;
        }
    return true;
}

void levels_build(struct levels *l, const float mean[3], const float std[3])
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++) {
            float y = ((float)v / 255.0f - mean[c]) / std[c];
            l->f32[c][v] = y;
            l->f16[c][v] = level_to_f16(y);
            l->bf16[c][v] = level_to_bf16(y);
        }
        l->mean[c] = mean[c];
        l->high[c] = (float)(1.0 / std[c]);
        l->low[c] = (float)(1.0 / std[c] - l->high[c]);
    }
    l->is_arithmetic = is_arithmetic_equal(l);
}
