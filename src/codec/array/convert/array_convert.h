/* Numbers as they are stored -> numbers as they are wanted, straight into their place.
 *
 * A conversion is prepared once per field and used by all threads. It reads `from` at any alignment, writes `to` aligned to its numbers,
 * and nothing beyond `count` of them. Casts are numpy's: integers wrap, floats lose their fraction, float16 is rounded to even once (from
 * integers by way of float32), bfloat16 as torch has it, bool is "not zero". What C leaves open is fixed here: a float beyond the range of
 * an integer gives the nearest end, NaN gives 0. Sound becomes what libsndfile gives as float32 (s16 / 32768 ...); halves are made from
 * that, float64 directly.
 *
 * FULLBORE_SIMD=c in the environment keeps to C; the bytes are the same either way.
 */
#ifndef FB_CODEC_ARRAY_CONVERT_ARRAY_CONVERT_H
#define FB_CODEC_ARRAY_CONVERT_ARRAY_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/array/array.h"

/* Normalising: out = (in - mean[k]) * inv_std[k] with k = (i / repeat) % period for the number of index i in its row. In float32; in
 * float64 when either side is float64 or the numbers are integers of 32 bits and more. period 1: one pair for all; period = row length:
 * one per number; sound of C channels: period C, repeat 1. The arrays stay the caller's and must outlive the conversion. */
struct array_norm {
    const float *mean, *inv_std;
    uint64_t period, repeat; /* both >= 1 */
};

/* Numbers between the two steps of a conversion. */
enum array_wide { ARRAY_WIDE_I64, ARRAY_WIDE_F32, ARRAY_WIDE_F64 };

struct array_conversion {
    enum array_code code;
    enum fb_dtype from, to;
    uint32_t from_bytes, to_bytes; /* of one number */
    struct array_norm norm;        /* period 0: none */

    /* private */
    enum array_wide wide;
    void (*direct)(void *to, const void *from, size_t n); /* one step does it; NULL: two */
    void (*widen)(void *wide, const void *from, size_t n);
    void (*narrow)(void *to, const void *wide, size_t n);
};

/* Prepares a conversion of numbers stored as `code` of `from` (a layout's dtype; ignored for sound) into `to`. `norm` may be NULL; with
 * it `to` must be a float type. FB_E_USAGE: the pair makes no sense (24-bit sound as int16, normalised integers), the cause says which
 * and why. */
int array_conversion_init(struct array_conversion *c, enum array_code code, enum fb_dtype from, enum fb_dtype to,
                          const struct array_norm *norm, struct fb_error *e);

/* Bytes of one number stored as `code` of `dtype`; 0: no such thing. */
uint32_t array_stored_bytes(enum array_code code, enum fb_dtype dtype);

/* Is the place's content the file's, byte for byte? Then it may be read straight into its place. */
bool array_conversion_is_copy(const struct array_conversion *c);

/* `count` numbers, the first of which begins a row. `from` and `to` do not overlap. Any thread. */
void array_convert(const struct array_conversion *c, const void *from, void *to, size_t count);
/* The same from the middle of a row: the first number has index `first` in it. Matters only for normalising. */
void array_convert_from(const struct array_conversion *c, uint64_t first, const void *from, void *to, size_t count);
/* One stored number `value` (a fill value) repeated `count` times; NULL: the number 0, which is silence in sound. */
void array_convert_fill(const struct array_conversion *c, uint64_t first, const void *value, void *to, size_t count);

#endif
