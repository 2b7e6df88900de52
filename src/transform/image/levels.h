/* What the 256 values of each channel become: v / 255, minus mean, divided by std, each rounded to float32 as torch does it.
 *
 * The tables are the truth. The same by arithmetic is faster with wide registers: a division by d is x * high + x * low with high + low = 1
 * / d to 48 bits, one rounding at the end. That is tried against the tables when they are made; should one value differ, is_arithmetic
 * stays false and the tables are used.
 */
#ifndef FB_TRANSFORM_IMAGE_LEVELS_H
#define FB_TRANSFORM_IMAGE_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

struct levels {
    float f32[3][256];
    uint16_t f16[3][256], bf16[3][256]; /* f32 rounded to nearest even */
    bool is_arithmetic;
    float mean[3], high[3], low[3]; /* 1 / std = high + low */
};

void levels_build(struct levels *l, const float mean[3], const float std[3]);

#define LEVELS_255_HIGH 0x1.010102p-8f /* 1 / 255 = HIGH + LOW */
#define LEVELS_255_LOW (-0x1.fdfdfep-33f)

#endif
