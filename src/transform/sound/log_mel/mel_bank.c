#include "transform/sound/log_mel/mel_bank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Slaney's scale: linear up to 1 kHz, then 27 steps for each factor of 6.4. */
static const double slaney_step_hz = 200.0 / 3, slaney_break_hz = 1000, slaney_break_mel = 15;

static double mel_of(double hz, enum mel_scale scale)
{
    if (scale == MEL_HTK)
        return 2595 * log10(1 + hz / 700);
    return hz < slaney_break_hz ? hz / slaney_step_hz : slaney_break_mel + log(hz / slaney_break_hz) * 27 / log(6.4);
}

static double hz_of(double mel, enum mel_scale scale)
{
    if (scale == MEL_HTK)
        return 700 * (pow(10, mel / 2595) - 1);
    return mel < slaney_break_mel ? mel * slaney_step_hz : slaney_break_hz * exp((mel - slaney_break_mel) * log(6.4) / 27);
}

struct triangle {
    double left, top, right; /* Hz */
};

static double height_at(const struct triangle *t, double hz)
{
    double up = (hz - t->left) / (t->top - t->left), down = (t->right - hz) / (t->right - t->top);
    double least = up < down ? up : down;
    return least > 0 ? least : 0;
}

static struct triangle triangle_of(uint32_t i, uint32_t n_mels, double low, double high, enum mel_scale scale)
{
    double step = (high - low) / (n_mels + 1);
    return (struct triangle){hz_of(low + step * i, scale), hz_of(low + step * (i + 1), scale), hz_of(low + step * (i + 2), scale)};
}

/* Fills `f` and its weights; returns how many. */
static uint32_t add_filter(struct mel_filter *f, float *weight, const struct triangle *t, double bin_hz, uint32_t bins, bool has_area)
{
    double scale = has_area ? 2 / (t->right - t->left) : 1;
    *f = (struct mel_filter){.weight = weight};
    for (uint32_t k = 0; k < bins; k++) {
        double height = height_at(t, k * bin_hz);
        if (height <= 0)
            continue;
        if (!f->count)
            f->first = k;
        f->count = k - f->first + 1;
        weight[k - f->first] = (float)(height * scale);
    }
    return f->count;
}

int mel_bank_make(struct mel_bank *b, uint32_t rate, uint32_t n_fft, uint32_t n_mels, double f_min, double f_max, enum mel_scale scale,
                  bool has_area, struct fb_error *e)
{
    uint32_t bins = n_fft / 2 + 1;
    *b = (struct mel_bank){.count = n_mels};
    if (!rate || !n_mels || n_mels > 4096 || !(f_min >= 0) || !(f_max > f_min) || !(f_max <= rate))
        return error_set(e, FB_E_USAGE, "transform", "%u mel filters from %g to %g Hz at %u samples per second make no sense", n_mels,
                         f_min, f_max, rate);
    /* a bin is in at most two triangles, up to the edges */
    size_t weights = 2 * (size_t)bins + 2 * (size_t)n_mels;
    b->memory = malloc(n_mels * sizeof(struct mel_filter) + weights * sizeof(float));
    if (!b->memory)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for mel filters");
    b->filter = b->memory;
    float *weight = (float *)(b->filter + n_mels);
    double low = mel_of(f_min, scale), high = mel_of(f_max, scale);
    for (uint32_t i = 0; i < n_mels; i++) {
        struct triangle t = triangle_of(i, n_mels, low, high, scale);
        weight += add_filter(&b->filter[i], weight, &t, (double)rate / n_fft, bins, has_area);
    }
    return 0;
}

void mel_bank_free(struct mel_bank *b)
{
    free(b->memory);
    memset(b, 0, sizeof(*b));
}
