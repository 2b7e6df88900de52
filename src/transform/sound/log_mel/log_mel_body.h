/* Eight frames through everything, compiled once in plain C and once for AVX2; see fft_body.h. */
#ifndef FB_TRANSFORM_SOUND_LOG_MEL_LOG_MEL_BODY_H
#define FB_TRANSFORM_SOUND_LOG_MEL_LOG_MEL_BODY_H

#include "transform/sound/fft/lanes.h"
#include "transform/sound/log_mel/log_mel_internal.h"

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

/* Four rows of four become their columns. */
static inline void transpose64(lanes_f64 r[4])
{
    lanes_f64 a = __builtin_shufflevector(r[0], r[1], 0, 4, 2, 6), b = __builtin_shufflevector(r[0], r[1], 1, 5, 3, 7);
    lanes_f64 c = __builtin_shufflevector(r[2], r[3], 0, 4, 2, 6), d = __builtin_shufflevector(r[2], r[3], 1, 5, 3, 7);
    r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    r[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

/* The same in float64, four frames. */
static void gather64(const struct log_mel *m, const float *const frame[FFT_LANES64], double *x)
{
    size_t n = m->o.n_fft, t = 0;
    for (; t + 4 <= n; t += 4) {
        lanes_f64 row[4];
        for (int l = 0; l < 4; l++) {
            lanes_half narrow;
            memcpy(&narrow, frame[l] + t, sizeof(narrow));
            row[l] = __builtin_convertvector(narrow, lanes_f64);
        }
        transpose64(row);
        for (size_t i = 0; i < 4; i++) {
            lanes_f64 windowed = row[i] * m->window64[t + i];
            memcpy(x + (t + i) * FFT_LANES64, &windowed, sizeof(windowed));
        }
    }
    for (; t < n; t++)
        for (size_t l = 0; l < FFT_LANES64; l++)
            x[t * FFT_LANES64 + l] = (double)frame[l][t] * m->window64[t];
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

static void store_row(float *to, lanes v, int lane_count)
{
    if (lane_count == FFT_LANES)
        lanes_store(to, v);
    else
        memcpy(to, &v, (size_t)lane_count * sizeof(float));
}

/* Two sums, for one would wait for itself at each step. */
static inline lanes weigh(const struct mel_filter *f, const float *from)
{
    lanes even = lanes_all(0), odd = lanes_all(0);
    uint32_t k = 0;
    for (; k + 2 <= f->count; k += 2, from += 2 * FFT_LANES) {
        even += lanes_load(from) * lanes_all(f->weight[k]);
        odd += lanes_load(from + FFT_LANES) * lanes_all(f->weight[k + 1]);
    }
    if (k < f->count)
        even += lanes_load(from) * lanes_all(f->weight[k]);
    return even + odd;
}

void LOG_MEL_NAME(log_mel_block)(const struct log_mel *m, const float *const frame[FFT_LANES], void *x, void *y, float *out, size_t stride,
                                 int lane_count)
{
    gather(m, frame, x);
    float *power = (float *)LOG_MEL_NAME(fft_power)(&m->fft, x, y);
    for (size_t i = 0; m->o.power == 1 && i < (size_t)(m->fft.half + 1) * FFT_LANES; i++)
        power[i] = __builtin_sqrtf(power[i]);
    for (uint32_t i = 0; i < m->bank.count; i++) {
        const struct mel_filter *f = &m->bank.filter[i];
        lanes sum = weigh(f, power + (size_t)f->first * FFT_LANES);
        store_row(out + i * stride, finish(m, sum), lane_count);
    }
}

/* Four frames; their mels become half of each row of eight. */
static void mels64(const struct log_mel *m, const float *const frame[FFT_LANES64], double *x, double *y, float *rows)
{
    gather64(m, frame, x);
    double *power = (double *)LOG_MEL_NAME(fft_power64)(&m->fft, x, y);
    for (size_t i = 0; m->o.power == 1 && i < (size_t)(m->fft.half + 1) * FFT_LANES64; i++)
        power[i] = __builtin_sqrt(power[i]);
    for (uint32_t i = 0; i < m->bank.count; i++) {
        const struct mel_filter *f = &m->bank.filter[i];
        const double *from = power + (size_t)f->first * FFT_LANES64;
        lanes_f64 sum = {0}, v;
        for (uint32_t k = 0; k < f->count; k++, from += FFT_LANES64) {
            memcpy(&v, from, sizeof(v));
            sum += v * (double)f->weight[k];
        }
        lanes_half narrow = __builtin_convertvector(sum, lanes_half);
        memcpy(rows + (size_t)i * FFT_LANES, &narrow, sizeof(narrow));
    }
}

void LOG_MEL_NAME(log_mel_block64)(const struct log_mel *m, const float *const frame[FFT_LANES], void *x, void *y, float *out,
                                   size_t stride, int lane_count)
{
    float *rows = (float *)((double *)y + fft_buffer_numbers(&m->fft, FFT_LANES64)); /* behind the buffers */
    mels64(m, frame, x, y, rows);
    if (lane_count > FFT_LANES64)
        mels64(m, frame + FFT_LANES64, x, y, rows + FFT_LANES64);
    for (uint32_t i = 0; i < m->bank.count; i++)
        store_row(out + i * stride, finish(m, lanes_load(rows + (size_t)i * FFT_LANES)), lane_count);
}

#endif
