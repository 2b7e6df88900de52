/* Real Fourier transforms of eight signals at once, one in each lane of a vector.
 *
 * Signals side by side need no shuffling: every step is the same arithmetic on eight of them. A real transform of n is a complex one of n /
 * 2 with a last step that takes the halves apart (Stockham's form: passes between two buffers, results in order). Any even n; fast when n /
 * 2 is made of 2, 3, 4 and 5, correct and slow else. Written here because FFTW is GPL, and because a library that does one signal at a time
 * leaves three quarters of a vector's work to shuffles at these sizes.
 *
 * Float32 arithmetic, twiddles rounded once from float64: the error of a bin is below 4e-7 of the signal's norm (n <= 4096).
 */
#ifndef FB_TRANSFORM_SOUND_FFT_FFT_H
#define FB_TRANSFORM_SOUND_FFT_FFT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { FFT_LANES = 8, FFT_LANES64 = 4, FFT_MAX_PASSES = 16, FFT_MAX_SIZE = 1 << 16 };

/* Cosines and sines, pair by pair, in both precisions. */
struct fft_table {
    const double *f64;
    const float *f32;
};

struct fft_pass {
    uint32_t radix, length, stride; /* length: of the transforms that this pass splits; stride: how many are interleaved */
    struct fft_table twiddle;       /* (radix - 1) pairs for each of length / radix positions */
    struct fft_table roots;         /* radix pairs, of a radix without a form of its own */
};

struct fft_plan {
    uint32_t n, half; /* of the real transform; n / 2 */
    int pass_count;
    struct fft_pass pass[FFT_MAX_PASSES];
    struct fft_table last; /* pairs for k = 0..n/4: the last step's */
    void *memory;
};

/* FB_E_USAGE: n is odd, less than 2 or more than FFT_MAX_SIZE. */
int fft_plan_make(struct fft_plan *p, uint32_t n, struct fb_error *e);
void fft_plan_free(struct fft_plan *p);

/* The numbers of each of the two buffers below. */
static inline size_t fft_buffer_numbers(const struct fft_plan *p, int lane_count)
{
    return (size_t)(p->n + 2) * (size_t)lane_count;
}

/* Sample t of lane l is x[t * 8 + l]; y is for its use. The result is in one of them: number k * 8 + l, k = 0..n/2, is the squared
 * magnitude of bin k of lane l. The versions give the same bytes. */
typedef const float *fft_power_fn(const struct fft_plan *p, float *x, float *y);
fft_power_fn fft_power_c, fft_power_avx2;

/* The same of four signals in float64 (sample t of lane l is x[t * 4 + l]): within 1e-15 of the norm. */
typedef const double *fft_power64_fn(const struct fft_plan *p, double *x, double *y);
fft_power64_fn fft_power64_c, fft_power64_avx2;

#endif
