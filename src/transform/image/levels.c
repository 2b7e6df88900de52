#include "transform/image/levels.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

static uint32_t bits_of(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof(u));
    return u;
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
            l->f16[c][v] = half_from_f32(y);
            l->bf16[c][v] = bfloat_from_f32(y);
        }
        l->mean[c] = mean[c];
        l->high[c] = (float)(1.0 / std[c]);
        l->low[c] = (float)(1.0 / std[c] - l->high[c]);
    }
    l->is_arithmetic = is_arithmetic_equal(l);
}
