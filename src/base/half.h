/* Half floats (float16) and bfloat16 as 16 bits, rounded to nearest even once. NaN stays NaN, made quiet, with the upper bits of its
 * payload, as the processor's own instructions do. */
#ifndef FB_BASE_HALF_H
#define FB_BASE_HALF_H

#include <stdint.h>

uint16_t half_from_f32(float v);
uint16_t half_from_f64(double v);
float half_to_f32(uint16_t h);
uint16_t bfloat_from_f32(float v);
float bfloat_to_f32(uint16_t b);

#endif
