#ifndef FB_CODEC_JPEG_IDCT_AVX2_H
#define FB_CODEC_JPEG_IDCT_AVX2_H

#include "codec/jpeg_kernels.h"

void jpeg_idct_avx2(const struct jpeg_block *blocks, int n, const int16_t *quant, size_t stride);

#endif
