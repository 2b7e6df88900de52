#ifndef FB_CODEC_IMAGE_JPEG_KERNELS_JPEG_IDCT_AVX2_H
#define FB_CODEC_IMAGE_JPEG_KERNELS_JPEG_IDCT_AVX2_H

#include "codec/image/jpeg/kernels/jpeg_kernels.h"

jpeg_idct_fn jpeg_idct_avx2, jpeg_idct_4_avx2, jpeg_idct_2_avx2;

#endif
