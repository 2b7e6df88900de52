#ifndef FB_TRANSFORM_IMAGE_KERNELS_COLOR_C_H
#define FB_TRANSFORM_IMAGE_KERNELS_COLOR_C_H

#include <stddef.h>
#include <stdint.h>

void blend_constant_c(uint8_t *bytes, size_t n, uint8_t base, float factor);
void blend_gray_c(uint8_t *pixels, size_t n, float factor);
void gray_c(uint8_t *pixels, size_t n);
uint64_t gray_sum_c(const uint8_t *pixels, size_t n);
void shift_hue_c(uint8_t *pixels, size_t n, uint8_t shift);

#endif
