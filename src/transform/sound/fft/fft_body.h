/* The transform, compiled once in plain C and once for AVX2 (FFT_NAME names the functions), each in float32 and float64. The arithmetic is
 * written in vectors of eight, which the compiler splits where the processor has shorter ones; nothing is fused, so both give the same
 * bytes.
 */
#ifndef FB_TRANSFORM_SOUND_FFT_FFT_BODY_H
#define FB_TRANSFORM_SOUND_FFT_FFT_BODY_H

#include "transform/sound/fft/fft.h"
#include "transform/sound/fft/lanes.h"

#ifndef FFT_NAME
#define FFT_NAME(x) x##_c
#endif

#ifdef FFT_IS_DOUBLE
typedef double real;
typedef lanes_f64 vector;
enum { LANES = FFT_LANES64 };
#define FFT_POWER FFT_NAME(fft_power64)
#define FFT_TABLE(T) (T).f64
#else
typedef float real;
typedef lanes vector;
enum { LANES = FFT_LANES };
#define FFT_POWER FFT_NAME(fft_power)
#define FFT_TABLE(T) (T).f32
#endif

static inline vector load(const real *p)
{
    vector v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void store(real *p, vector v)
{
    memcpy(p, &v, sizeof(v));
}

static inline vector all(real f)
{
    return f - (vector){0};
}

struct complex {
    vector re, im;
};

static inline struct complex cload(const real *p)
{
    return (struct complex){load(p), load(p + LANES)};
}

static inline void cstore(real *p, struct complex v)
{
    store(p, v.re);
    store(p + LANES, v.im);
}

static inline struct complex cadd(struct complex a, struct complex b)
{
    return (struct complex){a.re + b.re, a.im + b.im};
}

static inline struct complex csub(struct complex a, struct complex b)
{
    return (struct complex){a.re - b.re, a.im - b.im};
}

static inline struct complex cturn(struct complex a, const real *w)
{
    vector c = all(w[0]), s = all(w[1]);
    return (struct complex){a.re * c - a.im * s, a.re * s + a.im * c};
}

/* Times -i. */
static inline struct complex cquarter(struct complex a)
{
    return (struct complex){a.im, -a.re};
}

static inline struct complex cscale(struct complex a, real f)
{
    return (struct complex){a.re * all(f), a.im * all(f)};
}

/* ---- butterflies: a becomes its transform ---- */

static inline void butterfly_2(struct complex *a)
{
    struct complex sum = cadd(a[0], a[1]);
    a[1] = csub(a[0], a[1]);
    a[0] = sum;
}

static inline void butterfly_3(struct complex *a)
{
    const real sine = 0.86602540378443864676;
    struct complex sum = cadd(a[1], a[2]), middle = csub(a[0], cscale(sum, 0.5));
    struct complex side = cquarter(cscale(csub(a[1], a[2]), sine));
    a[0] = cadd(a[0], sum);
    a[1] = cadd(middle, side);
    a[2] = csub(middle, side);
}

static inline void butterfly_4(struct complex *a)
{
    struct complex even = cadd(a[0], a[2]), odd = csub(a[0], a[2]), sum = cadd(a[1], a[3]), side = cquarter(csub(a[1], a[3]));
    a[0] = cadd(even, sum);
    a[1] = cadd(odd, side);
    a[2] = csub(even, sum);
    a[3] = csub(odd, side);
}

static inline void butterfly_5(struct complex *a)
{
    const real c1 = 0.30901699437494742410, c2 = -0.80901699437494742410, s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;
    struct complex p = cadd(a[1], a[4]), m = csub(a[1], a[4]), q = cadd(a[2], a[3]), n = csub(a[2], a[3]);
    struct complex first = cadd(a[0], cadd(cscale(p, c1), cscale(q, c2))), second = cadd(a[0], cadd(cscale(p, c2), cscale(q, c1)));
    struct complex side1 = cquarter(cadd(cscale(m, s1), cscale(n, s2))), side2 = cquarter(csub(cscale(m, s2), cscale(n, s1)));
    a[0] = cadd(a[0], cadd(p, q));
    a[1] = cadd(first, side1);
    a[2] = cadd(second, side2);
    a[3] = csub(second, side2);
    a[4] = csub(first, side1);
}

/* ---- passes ---- */

/* Every `radix`-th part of a transform together; x to y. The functions are made for their radix by inlining. */
static inline __attribute__((always_inline)) void run_pass(const struct fft_pass *p, const real *x, real *y, uint32_t radix,
                                                           void (*butterfly)(struct complex *))
{
    enum { STEP = 2 * LANES };
    size_t positions = p->length / radix, stride = p->stride;
    for (size_t i = 0; i < positions; i++) {
        const real *w = FFT_TABLE(p->twiddle) + i * 2 * (radix - 1);
        for (size_t q = 0; q < stride; q++) {
            struct complex a[5];
            for (uint32_t k = 0; k < radix; k++)
                a[k] = cload(x + (q + stride * (i + k * positions)) * STEP);
            butterfly(a);
            real *out = y + (q + stride * radix * i) * STEP;
            cstore(out, a[0]);
            for (uint32_t k = 1; k < radix; k++)
                cstore(out + k * stride * STEP, i ? cturn(a[k], w + 2 * (k - 1)) : a[k]);
        }
    }
}

/* Any other radix: by its definition. */
static void run_general(const struct fft_pass *p, const real *x, real *y)
{
    enum { STEP = 2 * LANES };
    size_t positions = p->length / p->radix, stride = p->stride;
    for (size_t i = 0; i < positions; i++)
        for (size_t q = 0; q < stride; q++)
            for (uint32_t k = 0; k < p->radix; k++) {
                struct complex sum = cload(x + (q + stride * i) * STEP);
                for (uint32_t j = 1; j < p->radix; j++) {
                    const real *root = FFT_TABLE(p->roots) + 2 * ((uint64_t)j * k % p->radix);
                    sum = cadd(sum, cturn(cload(x + (q + stride * (i + j * positions)) * STEP), root));
                }
                if (k)
                    sum = cturn(sum, FFT_TABLE(p->twiddle) + (i * (p->radix - 1) + k - 1) * 2);
                cstore(y + (q + stride * (p->radix * i + k)) * STEP, sum);
            }
}

static void run_any(const struct fft_pass *p, const real *x, real *y)
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

static inline vector cpower(struct complex a)
{
    return a.re * a.re + a.im * a.im;
}

/* Bins k and half - k of the real transform from the same of the complex one. */
static void split_power(const struct fft_plan *p, const real *z, real *power)
{
    enum { STEP = 2 * LANES };
    size_t half = p->half;
    const vector quarter = all(0.25);
    struct complex zero = cload(z);
    store(power, (zero.re + zero.im) * (zero.re + zero.im));
    store(power + half * LANES, (zero.re - zero.im) * (zero.re - zero.im));
    for (size_t k = 1; k <= half / 2; k++) {
        struct complex a = cload(z + k * STEP), b = cload(z + (half - k) * STEP);
        struct complex even = {a.re + b.re, a.im - b.im}, odd = cquarter((struct complex){a.re - b.re, a.im + b.im});
        struct complex turned = cturn(odd, FFT_TABLE(p->last) + 2 * k);
        store(power + k * LANES, cpower(cadd(even, turned)) * quarter);
        store(power + (half - k) * LANES, cpower(csub(even, turned)) * quarter);
    }
}

const real *FFT_POWER(const struct fft_plan *p, real *x, real *y)
{
    for (int i = 0; i < p->pass_count; i++) {
        run_any(&p->pass[i], x, y);
        real *swap = x;
        x = y;
        y = swap;
    }
    split_power(p, x, y);
    return y;
}

#endif
