/* The inner loops, chosen once by what the processor can do. C is the reference; every other version gives the same bytes.
 *
 * FULLBORE_SIMD=c in the environment keeps to C. Any thread.
 */
#ifndef FB_TRANSFORM_IMAGE_KERNELS_IMAGE_KERNELS_H
#define FB_TRANSFORM_IMAGE_KERNELS_IMAGE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transform/image/levels.h"
#include "transform/image/kernels/resample/resample.h"

#define KERNEL_ROWS_WORK(WIDTH, CHANNELS) ((size_t)(WIDTH) * (size_t)(CHANNELS) * 32)

struct kernels {
    const char *name; /* "c", "avx2" */

    /* `rows` rows of `width` pixels through a filter along the row. Reads and writes no byte outside the rows. work: 64-byte aligned,
     * KERNEL_ROWS_WORK bytes. */
    void (*rows)(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride, uint32_t rows, uint32_t width, int channels,
                 const struct filter *f, void *work);

    /* One row of `bytes` bytes, output `i` of a vertical filter. Reads and writes no byte outside the rows. */
    void (*columns)(uint8_t *out, const uint8_t *in, size_t in_stride, size_t bytes, const struct filter *f, uint32_t i);

    /* n RGB pixels into one row of each plane, or into pixels again; mirrored: the last one first. uint8 has no levels. */
    void (*planes_u8)(uint8_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored);
    void (*planes_f32)(float *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
    void (*planes_f16)(uint16_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
    void (*planes_bf16)(uint16_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
    void (*pixels_f32)(float *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
    void (*pixels_f16)(uint16_t *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
    void (*pixels_bf16)(uint16_t *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l);
    void (*mirror)(uint8_t *out, const uint8_t *in, uint32_t n); /* pixels, last one first; out != in */

    /* In place on n pixels (or bytes). Blends follow Pillow's: base + factor * (value - base) in float, cut to 0..255, truncated. */
    void (*blend_constant)(uint8_t *bytes, size_t n, uint8_t base, float factor);
    void (*blend_gray)(uint8_t *pixels, size_t n, float factor);
    void (*gray)(uint8_t *pixels, size_t n);
    uint64_t (*gray_sum)(const uint8_t *pixels, size_t n);
    void (*shift_hue)(uint8_t *pixels, size_t n, uint8_t shift);
};

const struct kernels *kernels(void);

/* For tests: a set by its name, or NULL when this build or processor has it not. */
const struct kernels *kernels_by_name(const char *name);
/* Every other set begins as a copy of this one and overwrites what it does better. */
extern const struct kernels kernels_c;
void kernels_add_avx2(struct kernels *k);

#endif
