/* The inner loops of the JPEG decoder, chosen once by what the processor can do. C is the reference; every other version gives the same
 * bytes.
 *
 * They equal libjpeg-turbo 2.1's SIMD code, overflows of damaged files included: products and sums of coefficients are cut to 16 bits, the
 * first pass of the inverse DCT saturates to 16 bits, a block with coefficients in its first row only is shifted instead.
 *
 * Plain C is for comparing, and for FULLBORE_SIMD=c in the environment: it takes three times as long, longer than libjpeg-turbo's SIMD code
 * for the whole image. So where a processor has nothing better, libjpeg-turbo decodes. Any thread.
 */
#ifndef FB_CODEC_IMAGE_JPEG_KERNELS_JPEG_KERNELS_H
#define FB_CODEC_IMAGE_JPEG_KERNELS_JPEG_KERNELS_H

#include "codec/image/jpeg/kernels/jpeg_entropy.h"

enum { JPEG_ROW_MARGIN = 64 }; /* bytes that may be read and written behind a row of samples */

/* A block to be transformed and where its samples go, 8 x 8 or fewer. */
struct jpeg_block {
    const int16_t *coefficients; /* 64, natural order, 16-byte aligned */
    uint8_t *out;
    uint32_t count; /* from the entropy decoder: 1: DC alone */
};

typedef void jpeg_idct_fn(const struct jpeg_block *blocks, int n, const int16_t *quant, size_t stride);

struct jpeg_kernels {
    const char *name; /* "c", "avx2" */
    jpeg_entropy_fn *entropy;
    jpeg_unstuff_fn *unstuff;

    /* Dequantises and transforms n blocks of one component to 8, 4, 2 or 1 samples a side; rows of samples are `stride` apart. */
    jpeg_idct_fn *idct[4];

    /* Chroma doubled in width by repeating n samples. */
    void (*repeat)(uint8_t *out, const uint8_t *in, uint32_t n);
    /* The same by blending: 2n samples from in[-1] to in[n]. */
    void (*widen)(uint8_t *out, const uint8_t *in, uint32_t n);
    /* Chroma of one output row from the chroma row it lies in and the one next to it, 2n samples from [-1] to [n]. */
    void (*widen_blend)(uint8_t *out, const uint8_t *near, const uint8_t *next, uint32_t n);
    /* The same without doubling; `is_lower`: `next` is the row below. */
    void (*blend)(uint8_t *out, const uint8_t *near, const uint8_t *next, uint32_t n, bool is_lower);

    /* n pixels; writes not a byte more. */
    void (*rgb)(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t n);
    void (*grey)(uint8_t *out, const uint8_t *y, uint32_t n);
};

/* NULL: none that would gain something on this processor. */
const struct jpeg_kernels *jpeg_kernels(void);

/* For tests: a set by its name, or NULL when this build or processor has it not; and using one from now on (NULL: the usual). */
const struct jpeg_kernels *jpeg_kernels_by_name(const char *name);
void jpeg_kernels_use(const struct jpeg_kernels *k);

extern const struct jpeg_kernels jpeg_kernels_c, jpeg_kernels_avx2;
jpeg_idct_fn jpeg_idct_4_c, jpeg_idct_2_c, jpeg_idct_1_c;

#endif
