#ifndef FB_TRANSFORM_IMAGE_KERNELS_STORE_C_H
#define FB_TRANSFORM_IMAGE_KERNELS_STORE_C_H

#include "transform/image/levels.h"

void planes_u8_c(uint8_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored);
void planes_f32_c(float *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void planes_f16_c(uint16_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void planes_bf16_c(uint16_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void pixels_f32_c(float *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void pixels_f16_c(uint16_t *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void pixels_bf16_c(uint16_t *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
void mirror_c(uint8_t *out, const uint8_t *in, uint32_t n);

#endif
