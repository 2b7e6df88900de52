/* Triangular filters on the mel scale, each a run of weights: of 513 bins a filter of 64 uses about 16. */
#ifndef FB_TRANSFORM_SOUND_LOG_MEL_MEL_BANK_H
#define FB_TRANSFORM_SOUND_LOG_MEL_MEL_BANK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum mel_scale { MEL_SLANEY, MEL_HTK };

struct mel_filter {
    uint32_t first, count; /* bins */
    const float *weight;
};

struct mel_bank {
    uint32_t count;
    struct mel_filter *filter;
    void *memory;
};

/* As librosa.filters.mel and torchaudio's melscale_fbanks define it; has_area: each filter is divided by its width in Hz
 * (norm="slaney"). */
int mel_bank_make(struct mel_bank *b, uint32_t rate, uint32_t n_fft, uint32_t n_mels, double f_min, double f_max, enum mel_scale scale,
                  bool has_area, struct fb_error *e);
void mel_bank_free(struct mel_bank *b);

#endif
