/* Eight frames through everything, compiled once in plain C and once for AVX2; see fft_body.h. */
#ifndef FB_TRANSFORM_LOG_MEL_BODY_H
#define FB_TRANSFORM_LOG_MEL_BODY_H

#include "transform/lanes.h"
#include "transform/log_mel_own.h"

#ifndef LOG_MEL_NAME
#define LOG_MEL_NAME(x) x##_c
#endif

/* Windowed, and sample t of all frames side by side. */
static void gather(const struct log_mel *m, const float *const frame[FFT_LANES], float *x)
{
    size_t n = m->o.n_fft, t = 0;
    for (; t + 8 <= n; t += 8) {
        lanes w = lanes_load(m->window + t), row[8];
        for (int l = 0; l < 8; l++)
            row[l] = lanes_load(frame[l] + t) * w;
        lanes_transpose(row);
        for (int i = 0; i < 8; i++)
            lanes_store(x + (t + (size_t)i) * FFT_LANES, row[i]);
    }
    for (; t < n; t++)
        for (int l = 0; l < 8; l++)
            x[t * FFT_LANES + (size_t)l] = frame[l][t] * m->window[t];
}

/* The natural logarithm of normal positive numbers. x = 2^e * v with v in [sqrt(1/2), sqrt(2)); ln v = 2 atanh((v - 1) / (v + 1)), whose
 * series has a next term below 3e-8. */
static inline lanes lanes_ln(lanes x)
{
    lanes_i32 bits = (lanes_i32)x, shifted = bits - 0x3f3504f3; /* sqrt(1/2) */
    lanes_i32 e = shifted >> 23;
    lanes v = (lanes)((shifted & 0x7fffff) + 0x3f3504f3), exponent = __builtin_convertvector(e, lanes);
    lanes s = (v - lanes_all(1)) / (v + lanes_all(1)), q = s * s;
    lanes series = lanes_all(0.28571428571f);
    series = series * q + lanes_all(0.4f);
    series = series * q + lanes_all(0.66666666667f);
    lanes low = s * q * series + exponent * lanes_all(-2.12194440e-4f);
    return exponent * lanes_all(0.693359375f) + (s + s + low); /* ln 2 in two parts: the first has few bits, so its product is exact */
}

static inline lanes finish(const struct log_mel *m, lanes sum)
{
    if (m->o.log == LOG_MEL_LINEAR)
        return sum + lanes_all(m->o.offset);
    return lanes_ln(lanes_max(sum + lanes_all(m->o.offset), lanes_all(m->o.amin))) * lanes_all(m->log_scale);
}

static void take_roots(float *power, size_t bins)
{
    for (size_t i = 0; i < bins * FFT_LANES; i++)
        power[i] = __builtin_sqrtf(power[i]);
}

void LOG_MEL_NAME(log_mel_block)(const struct log_mel *m, const float *const frame[FFT_LANES], float *x, float *y, float *out,
                                 size_t stride, int lane_count)
{
    gather(m, frame, x);
    float *power = (float *)LOG_MEL_NAME(fft_power)(&m->fft, x, y);
    if (m->o.power == 1)
        take_roots(power, m->fft.half + 1);
    for (uint32_t i = 0; i < m->bank.count; i++) {
        const struct mel_filter *f = &m->bank.filter[i];
        const float *from = power + (size_t)f->first * FFT_LANES;
        lanes sum = lanes_all(0);
        for (uint32_t k = 0; k < f->count; k++, from += FFT_LANES)
            sum += lanes_load(from) * lanes_all(f->weight[k]);
        lanes result = finish(m, sum);
        memcpy(out + i * stride, &result, (size_t)lane_count * sizeof(float));
    }
}

#endif
