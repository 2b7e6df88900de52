#include "base/half.h"

#include <string.h>

static uint32_t bits_of(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof(u));
    return u;
}

static float float_of(uint32_t u)
{
    float v;
    memcpy(&v, &u, sizeof(v));
    return v;
}

uint16_t half_from_f32(float v)
{
    uint32_t u = bits_of(v), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x477ff000) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) /* subnormal: adding 0.5 leaves the wanted bits, rounded, at the bottom of the sum */
        return (uint16_t)(sign | (bits_of(float_of(u) + 0.5f) - bits_of(0.5f)));
    return (uint16_t)(sign | ((u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13));
}

/* By way of a float whose last bit is set when anything was cut off below it: then the second rounding sees every tie as it was. */
uint16_t half_from_f64(double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof(u));
    uint32_t sign = (uint32_t)(u >> 48) & 0x8000;
    u &= INT64_MAX;
    if (u > 0x7ff0000000000000)
        return (uint16_t)(sign | 0x7e00 | (u >> 42 & 0x3ff));
    if (u >= 0x40f0000000000000) /* 65536 */
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x3e00000000000000) /* below 2^-31, where the rebased exponent would leave float32: far less than half of the least half */
        return (uint16_t)sign;
    uint32_t cut = (uint32_t)((u - ((uint64_t)(1023 - 127) << 52)) >> 29) | ((u & 0x1fffffff) != 0);
    return (uint16_t)(sign | half_from_f32(float_of(cut)));
}

/* By adding just under half of what is cut off, plus the bit that stays last. */
uint16_t bfloat_from_f32(float v)
{
    uint32_t u = bits_of(v);
    if (v != v)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float half_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    if (magnitude > 0x7c00)
        return float_of(sign | 0x7fc00000 | magnitude << 13);
    if (magnitude == 0x7c00)
        return float_of(sign | 0x7f800000);
    if (magnitude < 0x400) /* subnormal: an integer times 2^-24 */
        return float_of(sign | bits_of((float)magnitude * 0x1p-24f));
    return float_of(sign | ((magnitude << 13) + 0x38000000));
}

float bfloat_to_f32(uint16_t b)
{
    return float_of((uint32_t)b << 16);
}
