/* Eight float32, or four float64, as one value, by the compiler's vector types: one instruction each with AVX2, two without. */
#ifndef FB_TRANSFORM_SOUND_FFT_LANES_H
#define FB_TRANSFORM_SOUND_FFT_LANES_H

#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are never passed between files */

typedef float lanes __attribute__((vector_size(32)));
typedef double lanes_f64 __attribute__((vector_size(32))); /* four of them */
typedef float lanes_half __attribute__((vector_size(16)));
typedef int32_t lanes_i32 __attribute__((vector_size(32)));

static inline lanes lanes_load(const float *p)
{
    lanes v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void lanes_store(float *p, lanes v)
{
    memcpy(p, &v, sizeof(v));
}

static inline lanes lanes_all(float f)
{
    return (lanes){f, f, f, f, f, f, f, f};
}

static inline lanes lanes_max(lanes a, lanes b)
{
    lanes_i32 is_a = a > b;
    return (lanes)((is_a & (lanes_i32)a) | (~is_a & (lanes_i32)b));
}

/* Eight rows of eight become their columns. */
static inline void lanes_transpose(lanes r[8])
{
    lanes t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            u[i + 2 * k] = __builtin_shufflevector(t[i + k], t[i + 2 + k], 0, 1, 8, 9, 4, 5, 12, 13);
            u[i + 2 * k + 1] = __builtin_shufflevector(t[i + k], t[i + 2 + k], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        r[i] = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

#endif
