/* The inner loops of array_convert and clip, chosen once by what the processor can do. C is the reference; the others give the same bytes.
 *
 * Each step takes n numbers at `from` (any alignment) to n numbers at `to` (aligned to its numbers). Tables are by dtype, by code or by
 * bytes; NULL where there is no such step.
 */
#ifndef FB_CODEC_ARRAY_CONVERT_ARRAY_CONVERT_KERNELS_H
#define FB_CODEC_ARRAY_CONVERT_ARRAY_CONVERT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "model/array/array.h"

enum { ARRAY_DTYPES = FB_BOOL + 1, ARRAY_CODES = ARRAY_MULAW + 1 };

typedef void array_step(void *to, const void *from, size_t n);

struct array_kernels {
    const char *name;                                                                           /* "c", "avx2" */
    array_step *copy[9], *swap[9];                                                              /* by bytes of a number */
    array_step *widen_i64[ARRAY_DTYPES], *widen_f32[ARRAY_DTYPES], *widen_f64[ARRAY_DTYPES];    /* from a dtype */
    array_step *narrow_i64[ARRAY_DTYPES], *narrow_f32[ARRAY_DTYPES], *narrow_f64[ARRAY_DTYPES]; /* to a dtype */
    array_step *sound_i16[ARRAY_CODES], *sound_f32[ARRAY_CODES], *sound_f64[ARRAY_CODES];       /* from a code */

    /* x = (x - mean) * inv_std, in place: with one pair, or with a pair for each number */
    void (*norm_one)(float *x, float mean, float inv_std, size_t n);
    void (*norm_each)(float *x, const float *mean, const float *inv_std, size_t n);

    /* n stereo frames: their channels apart; their mean */
    void (*split_2)(float *left, float *right, const float *from, size_t n);
    void (*mix_2)(float *to, const float *from, size_t n);
};

const struct array_kernels *array_kernels(void);
/* For tests: a set by its name, or NULL when this build or processor has it not; and the set to use from now on (NULL: the usual one). */
const struct array_kernels *array_kernels_by_name(const char *name);
void array_kernels_use(const struct array_kernels *k);

extern const struct array_kernels array_kernels_c;
void array_kernels_add_avx2(struct array_kernels *k);

/* 13-bit A-law and 14-bit mu-law of ITU G.711, as 16-bit numbers. */
extern const int16_t array_alaw[256], array_mulaw[256];

#endif
