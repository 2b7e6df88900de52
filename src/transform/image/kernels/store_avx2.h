#ifndef FB_TRANSFORM_IMAGE_KERNELS_STORE_AVX2_H
#define FB_TRANSFORM_IMAGE_KERNELS_STORE_AVX2_H

#include "transform/image/levels.h"

void planes_u8_avx2(uint8_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored);
void planes_f32_avx2(float *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void planes_f16_avx2(uint16_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void planes_bf16_avx2(uint16_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void pixels_f32_avx2(float *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void pixels_f16_avx2(uint16_t *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void pixels_bf16_avx2(uint16_t *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void mirror_avx2(uint8_t *out, const uint8_t *in, uint32_t n);

#endif
