/* Sound of a loader as log-mel spectrograms, blanked by SpecAugment, normalised: what follows the steps on samples. */
#ifndef FB_FEED_SPECTROGRAM_H
#define FB_FEED_SPECTROGRAM_H

#include "base/rng.h"
#include "transform/sound/log_mel.h"
#include "transform/sound/spec_augment.h"

struct spectrogram {
    bool is_wanted;
    struct log_mel_options options; /* rate 0: that of the first recording */
    struct log_mel *mel;            /* after spectrogram_open */
    bool has_masks;
    struct spec_augment masks;
    uint64_t norm_count;   /* 0: none; 1, or one per mel */
    float *mean, *inv_std; /* the steps' */
};

int spectrogram_add_log_mel(struct spectrogram *s, char *text, struct fb_error *e);
int spectrogram_add_masks(struct spectrogram *s, char *text, struct fb_error *e);
/* For recordings of this rate and length; *frames is what comes out. */
int spectrogram_open(struct spectrogram *s, uint32_t rate, uint64_t samples, uint64_t *frames, struct fb_error *e);
void spectrogram_close(struct spectrogram *s);

/* Bytes of memory for spectrogram_make, 64-byte aligned. */
size_t spectrogram_work_bytes(const struct spectrogram *s, uint64_t samples);
/* One channel; `out` has n_mels x frames numbers. */
int spectrogram_make(const struct spectrogram *s, const float *signal, uint64_t samples, float *out, void *work, struct rng *r,
                     struct fb_error *e);

#endif
