#include "transform/sound/log_mel/log_mel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "transform/image/kernels/image_kernels.h"
#include "transform/sound/log_mel/log_mel_internal.h"

void log_mel_defaults(struct log_mel_options *o)
{
    *o = (struct log_mel_options){.rate = 48000,
                                  .n_fft = 1024,
                                  .hop_length = 256,
                                  .n_mels = 64,
                                  .has_area = true,
                                  .is_centered = true,
                                  .power = 2,
                                  .amin = 1e-10f,
                                  .ref = 1,
                                  .top_db = 80,
                                  .is_exact = true};
}

/* ---- preparing ---- */

static int check(const struct log_mel_options *o, struct fb_error *e)
{
    if (o->hop_length < 1)
        return error_set(e, FB_E_USAGE, "transform", "hop_length=0: at least 1 is needed");
    if (o->win_length > o->n_fft)
        return error_set(e, FB_E_USAGE, "transform", "win_length=%u is more than n_fft=%u", o->win_length, o->n_fft);
    if (o->power != 1 && o->power != 2)
        return error_set(e, FB_E_USAGE, "transform", "power=%d: 1 and 2 are possible", o->power);
    if (!(o->amin >= 1e-37f) || !(o->amin < INFINITY)) /* the logarithm wants normal numbers */
        return error_set(e, FB_E_USAGE, "transform", "amin=%g: it must be at least 1e-37", (double)o->amin);
    if (!(o->ref >= 0) || !(o->top_db >= 0) || !(o->offset >= 0))
        return error_set(e, FB_E_USAGE, "transform", "ref, top_db and offset must not be negative");
    return 0;
}

/* win_length samples in the middle of n_fft. */
static void make_window(double *window, const struct log_mel_options *o)
{
    uint32_t length = o->win_length ? o->win_length : o->n_fft, before = (o->n_fft - length) / 2;
    double mean = o->window == LOG_MEL_HANN ? 0.5 : o->window == LOG_MEL_HAMMING ? 0.54 : 1;
    memset(window, 0, o->n_fft * sizeof(*window));
    for (uint32_t i = 0; i < length; i++)
        window[before + i] = mean - (1 - mean) * cos(2 * M_PI * i / length);
}

static int fill(struct log_mel *m, struct fb_error *e)
{
    const struct log_mel_options *o = &m->o;
    FB_TRY(check(o, e));
    FB_TRY(fft_plan_make(&m->fft, o->n_fft, e));
    double f_max = o->f_max > 0 ? o->f_max : o->rate / 2.0;
    FB_TRY(mel_bank_make(&m->bank, o->rate, o->n_fft, o->n_mels, o->f_min, f_max, o->scale, o->has_area, e));
    m->window64 = malloc(o->n_fft * (sizeof(double) + sizeof(float)));
    if (!m->window64)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for a window");
    m->window = (float *)(m->window64 + o->n_fft);
    make_window(m->window64, o);
    for (uint32_t i = 0; i < o->n_fft; i++)
        m->window[i] = (float)m->window64[i];
    double decibels = o->power == 2 ? 10 : 20;
    m->log_scale = (float)(o->log == LOG_MEL_LN ? 1 : o->log == LOG_MEL_LOG10 ? M_LOG10E : decibels * M_LOG10E);
    log_mel_use(m, kernels()->name);
    return 0;
}

bool log_mel_use(struct log_mel *m, const char *name)
{
    if (strcmp(name, "c") == 0) {
        m->block = m->o.is_exact ? log_mel_block64_c : log_mel_block_c;
        return true;
    }
#ifdef FB_HAVE_AVX2
    if (strcmp(name, "avx2") == 0 && kernels_by_name("avx2")) {
        m->block = m->o.is_exact ? log_mel_block64_avx2 : log_mel_block_avx2;
        return true;
    }
#endif
    return false;
}

int log_mel_make(struct log_mel **out, const struct log_mel_options *o, struct fb_error *e)
{
    struct log_mel *m = *out = calloc(1, sizeof(*m));
    if (!m)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for a spectrogram's tables");
    m->o = *o;
    int rc = fill(m, e);
    if (rc < 0) {
        log_mel_free(m);
        *out = NULL;
    }
    return rc;
}

void log_mel_free(struct log_mel *m)
{
    if (!m)
        return;
    fft_plan_free(&m->fft);
    mel_bank_free(&m->bank);
    free(m->window64);
    free(m);
}

/* ---- running ---- */

static uint64_t padding(const struct log_mel *m)
{
    return m->o.is_centered ? m->o.n_fft / 2 : 0;
}

uint64_t log_mel_least(const struct log_mel *m)
{
    return !m->o.is_centered ? m->o.n_fft : m->o.pad == LOG_MEL_REFLECT ? padding(m) + 1 : 1;
}

uint64_t log_mel_frames(const struct log_mel *m, uint64_t samples)
{
    return samples < log_mel_least(m) ? 0 : 1 + (samples + 2 * padding(m) - m->o.n_fft) / m->o.hop_length;
}

static size_t buffer_bytes(const struct log_mel *m)
{
    if (m->o.is_exact)
        return fft_buffer_numbers(&m->fft, FFT_LANES64) * sizeof(double);
    return fft_buffer_numbers(&m->fft, FFT_LANES) * sizeof(float);
}

/* Two buffers of the transform, then the mels of eight frames, then eight frames that reach beyond an end. */
size_t log_mel_work_bytes(const struct log_mel *m)
{
    return 2 * buffer_bytes(m) + (size_t)FFT_LANES * (m->o.n_mels + m->o.n_fft) * sizeof(float);
}

/* Sample i, outside of a recording that goes on beyond its ends as asked for. */
static float sample_beyond(const struct log_mel *m, const float *signal, int64_t samples, int64_t i)
{
    if (m->o.pad == LOG_MEL_ZEROS)
        return 0;
    return signal[i < 0 ? -i : 2 * (samples - 1) - i];
}

/* Where frame f lies: in the recording itself, or copied to `edge`. */
static const float *frame_at(const struct log_mel *m, const float *signal, uint64_t samples, uint64_t f, float *edge)
{
    int64_t n = (int64_t)samples, start = (int64_t)(f * m->o.hop_length) - (int64_t)padding(m), end = start + m->o.n_fft;
    if (start >= 0 && end <= n)
        return signal + start;
    int64_t first = start < 0 ? 0 : start, last = end < n ? end : n; /* what is inside, if anything */
    last = last < first ? first : last;
    for (int64_t i = start; i < first && i < end; i++)
        edge[i - start] = sample_beyond(m, signal, n, i);
    if (last > first)
        memcpy(edge + (first - start), signal + first, (size_t)(last - first) * sizeof(*edge));
    for (int64_t i = last; i < end; i++)
        edge[i - start] = sample_beyond(m, signal, n, i);
    return edge;
}

static void for_all(const struct log_mel *m, float *out, size_t stride, uint64_t frames, float least, float minus)
{
    for (uint32_t i = 0; i < m->o.n_mels; i++)
        for (uint64_t f = 0; f < frames; f++) {
            float v = out[i * stride + f];
            out[i * stride + f] = (v > least ? v : least) - minus;
        }
}

static float largest(const struct log_mel *m, const float *out, size_t stride, uint64_t frames)
{
    float most = -INFINITY;
    for (uint32_t i = 0; i < m->o.n_mels; i++)
        for (uint64_t f = 0; f < frames; f++)
            most = out[i * stride + f] > most ? out[i * stride + f] : most;
    return most;
}

/* Subtracts the reference, and limits values to top_db below the largest of the recording. */
static void relate(const struct log_mel *m, float *out, size_t stride, uint64_t frames)
{
    if (m->o.log != LOG_MEL_DB || (m->o.ref == 1 && m->o.top_db == 0))
        return;
    float most = largest(m, out, stride, frames);
    float floored = m->o.ref > m->o.amin ? m->o.ref : m->o.amin;
    float minus = m->o.ref == 0 ? most : m->o.ref == 1 ? 0 : logf(floored) * m->log_scale;
    for_all(m, out, stride, frames, m->o.top_db > 0 ? most - m->o.top_db : -INFINITY, minus);
}

int log_mel_run(const struct log_mel *m, const float *signal, uint64_t samples, float *out, size_t stride, void *work, struct fb_error *e)
{
    uint64_t frames = log_mel_frames(m, samples);
    if (!frames || samples > INT64_MAX / 4)
        return error_set(e, FB_E_DATA, "transform", "the recording has %llu samples; log_mel needs at least %llu",
                         (unsigned long long)samples, (unsigned long long)log_mel_least(m));
    uint8_t *x = work, *y = x + buffer_bytes(m);
    float *edges = (float *)(y + buffer_bytes(m)) + (size_t)FFT_LANES * m->o.n_mels;
    for (uint64_t f = 0; f < frames; f += FFT_LANES) {
        const float *frame[FFT_LANES];
        int count = frames - f < FFT_LANES ? (int)(frames - f) : FFT_LANES;
        for (int l = 0; l < FFT_LANES; l++) /* lanes to spare repeat the last frame */
            frame[l] = l < count ? frame_at(m, signal, samples, f + (uint64_t)l, edges + (size_t)l * m->o.n_fft) : frame[count - 1];
        m->block(m, frame, x, y, out + f, stride, count);
    }
    relate(m, out, stride, frames);
    return 0;
}
