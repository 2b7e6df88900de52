#ifndef FB_TRANSFORM_IMAGE_KERNELS_COLOR_AVX2_H
#define FB_TRANSFORM_IMAGE_KERNELS_COLOR_AVX2_H

#include <stddef.h>
#include <stdint.h>

void blend_constant_avx2(uint8_t *bytes, size_t n, uint8_t base, float factor);
void blend_gray_avx2(uint8_t *pixels, size_t n, float factor);
void gray_avx2(uint8_t *pixels, size_t n);
uint64_t gray_sum_avx2(const uint8_t *pixels, size_t n);
void shift_hue_avx2(uint8_t *pixels, size_t n, uint8_t shift);

#endif
