#ifndef FB_TRANSFORM_IMAGE_KERNELS_RESAMPLE_RESAMPLE_C_H
#define FB_TRANSFORM_IMAGE_KERNELS_RESAMPLE_RESAMPLE_C_H

#include "transform/image/kernels/resample/resample.h"

void resample_rows_c(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride, uint32_t rows, uint32_t width, int channels,
                     const struct filter *f, void *work);
void resample_columns_c(uint8_t *out, const uint8_t *in, size_t in_stride, size_t bytes, const struct filter *f, uint32_t i);

#endif
