/* The transform, compiled once in plain C and once for AVX2: FFT_NAME(x) names the functions. The arithmetic is written in vectors of
 * eight, which the compiler splits where the processor has shorter ones; nothing is fused, so both give the same bytes.
 */
#ifndef FB_TRANSFORM_FFT_BODY_H
#define FB_TRANSFORM_FFT_BODY_H

#include "transform/fft.h"
#include "transform/lanes.h"

#ifndef FFT_NAME
#define FFT_NAME(x) x##_c
#endif

struct complex8 {
    lanes re, im;
};

static inline struct complex8 load8(const float *p)
{
    return (struct complex8){lanes_load(p), lanes_load(p + FFT_LANES)};
}

static inline void store8(float *p, struct complex8 v)
{
    lanes_store(p, v.re);
    lanes_store(p + FFT_LANES, v.im);
}

static inline struct complex8 add8(struct complex8 a, struct complex8 b)
{
    return (struct complex8){a.re + b.re, a.im + b.im};
}

static inline struct complex8 subtract8(struct complex8 a, struct complex8 b)
{
    return (struct complex8){a.re - b.re, a.im - b.im};
}

static inline struct complex8 turn8(struct complex8 a, const float *w)
{
    lanes c = lanes_all(w[0]), s = lanes_all(w[1]);
    return (struct complex8){a.re * c - a.im * s, a.re * s + a.im * c};
}

/* Times -i. */
static inline struct complex8 quarter8(struct complex8 a)
{
    return (struct complex8){a.im, -a.re};
}

static inline struct complex8 scale8(struct complex8 a, float f)
{
    return (struct complex8){a.re * lanes_all(f), a.im * lanes_all(f)};
}

/* ---- butterflies: a becomes its transform ---- */

static inline void butterfly_2(struct complex8 *a)
{
    struct complex8 sum = add8(a[0], a[1]);
    a[1] = subtract8(a[0], a[1]);
    a[0] = sum;
}

static inline void butterfly_3(struct complex8 *a)
{
    const float sine = 0.86602540378443864676f;
    struct complex8 sum = add8(a[1], a[2]), middle = subtract8(a[0], scale8(sum, 0.5f));
    struct complex8 side = quarter8(scale8(subtract8(a[1], a[2]), sine));
    a[0] = add8(a[0], sum);
    a[1] = add8(middle, side);
    a[2] = subtract8(middle, side);
}

static inline void butterfly_4(struct complex8 *a)
{
    struct complex8 even = add8(a[0], a[2]), odd = subtract8(a[0], a[2]), sum = add8(a[1], a[3]), side = quarter8(subtract8(a[1], a[3]));
    a[0] = add8(even, sum);
    a[1] = add8(odd, side);
    a[2] = subtract8(even, sum);
    a[3] = subtract8(odd, side);
}

static inline void butterfly_5(struct complex8 *a)
{
    const float c1 = 0.30901699437494742410f, c2 = -0.80901699437494742410f, s1 = 0.95105651629515357212f, s2 = 0.58778525229247312917f;
    struct complex8 p = add8(a[1], a[4]), m = subtract8(a[1], a[4]), q = add8(a[2], a[3]), n = subtract8(a[2], a[3]);
    struct complex8 first = add8(a[0], add8(scale8(p, c1), scale8(q, c2))), second = add8(a[0], add8(scale8(p, c2), scale8(q, c1)));
    struct complex8 side1 = quarter8(add8(scale8(m, s1), scale8(n, s2))), side2 = quarter8(subtract8(scale8(m, s2), scale8(n, s1)));
    a[0] = add8(a[0], add8(p, q));
    a[1] = add8(first, side1);
    a[2] = add8(second, side2);
    a[3] = subtract8(second, side2);
    a[4] = subtract8(first, side1);
}

/* ---- passes ---- */

/* Every `radix`-th part of a transform together; x to y. The functions are made for their radix by inlining. */
static inline __attribute__((always_inline)) void run_pass(const struct fft_pass *p, const float *x, float *y, uint32_t radix,
                                                           void (*butterfly)(struct complex8 *))
{
    enum { STEP = 2 * FFT_LANES };
    size_t positions = p->length / radix, stride = p->stride;
    for (size_t i = 0; i < positions; i++) {
        const float *w = p->twiddle + i * 2 * (radix - 1);
        for (size_t q = 0; q < stride; q++) {
            struct complex8 a[5];
            for (uint32_t k = 0; k < radix; k++)
                a[k] = load8(x + (q + stride * (i + k * positions)) * STEP);
            butterfly(a);
            float *out = y + (q + stride * radix * i) * STEP;
            store8(out, a[0]);
            for (uint32_t k = 1; k < radix; k++)
                store8(out + k * stride * STEP, i ? turn8(a[k], w + 2 * (k - 1)) : a[k]);
        }
    }
}

/* Any other radix: by its definition. */
static void run_general(const struct fft_pass *p, const float *x, float *y)
{
    enum { STEP = 2 * FFT_LANES };
    size_t positions = p->length / p->radix, stride = p->stride;
    for (size_t i = 0; i < positions; i++)
        for (size_t q = 0; q < stride; q++)
            for (uint32_t k = 0; k < p->radix; k++) {
                struct complex8 sum = load8(x + (q + stride * i) * STEP);
                for (uint32_t j = 1; j < p->radix; j++) {
                    const float *root = p->roots + 2 * ((uint64_t)j * k % p->radix);
                    sum = add8(sum, turn8(load8(x + (q + stride * (i + j * positions)) * STEP), root));
                }
                if (k)
                    sum = turn8(sum, p->twiddle + (i * (p->radix - 1) + k - 1) * 2);
                store8(y + (q + stride * (p->radix * i + k)) * STEP, sum);
            }
}

static void run_any(const struct fft_pass *p, const float *x, float *y)
{
    switch (p->radix) {
    case 2: run_pass(p, x, y, 2, butterfly_2); break;
    case 3: run_pass(p, x, y, 3, butterfly_3); break;
    case 4: run_pass(p, x, y, 4, butterfly_4); break;
    case 5: run_pass(p, x, y, 5, butterfly_5); break;
    default: run_general(p, x, y);
    }
}

/* ---- the halves taken apart ---- */

static inline lanes power8(struct complex8 a)
{
    return a.re * a.re + a.im * a.im;
}

/* Bins k and half - k of the real transform from the same of the complex one. */
static void split_power(const struct fft_plan *p, const float *z, float *power)
{
    enum { STEP = 2 * FFT_LANES };
    size_t half = p->half;
    const lanes quarter = lanes_all(0.25f);
    struct complex8 zero = load8(z);
    lanes_store(power, (zero.re + zero.im) * (zero.re + zero.im));
    lanes_store(power + half * FFT_LANES, (zero.re - zero.im) * (zero.re - zero.im));
    for (size_t k = 1; k <= half / 2; k++) {
        struct complex8 a = load8(z + k * STEP), b = load8(z + (half - k) * STEP);
        struct complex8 even = {a.re + b.re, a.im - b.im}, odd = quarter8((struct complex8){a.re - b.re, a.im + b.im});
        struct complex8 turned = turn8(odd, p->last + 2 * k);
        lanes_store(power + k * FFT_LANES, power8(add8(even, turned)) * quarter);
        lanes_store(power + (half - k) * FFT_LANES, power8(subtract8(even, turned)) * quarter);
    }
}

const float *FFT_NAME(fft_power)(const struct fft_plan *p, float *x, float *y)
{
    for (int i = 0; i < p->pass_count; i++) {
        run_any(&p->pass[i], x, y);
        float *swap = x;
        x = y;
        y = swap;
    }
    split_power(p, x, y);
    return y;
}

#endif
