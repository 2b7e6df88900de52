/* SpecAugment: bands of frequencies and stretches of time of a spectrogram are blanked. Which ones is drawn from the sample's own
 * stream. */
#ifndef FB_TRANSFORM_SOUND_SPEC_AUGMENT_H
#define FB_TRANSFORM_SOUND_SPEC_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/rng.h"

enum { SPEC_MAX_MASKS = 32 };

struct spec_augment {
    int freq_masks, time_masks; /* how many; at most SPEC_MAX_MASKS together */
    uint32_t freq_mask_param;   /* the widest, in mels: each is uniform in 0..freq_mask_param, and so is its place */
    uint32_t time_mask_param;   /* the same in frames */
    double time_share;          /* no stretch is longer than this share of the frames; 1: no limit (p of the paper) */
    bool fills_mean;            /* with the mean of the spectrogram instead of `fill` */
    float fill;
};

struct spec_mask {
    bool is_time;
    uint64_t first, count; /* mels or frames */
};

int spec_augment_check(const struct spec_augment *s, struct fb_error *e);

/* Draws all masks of one spectrogram, frequencies first; returns how many. Depends on nothing but the stream and the size. */
int spec_augment_draw(const struct spec_augment *s, uint32_t mels, uint64_t frames, struct rng *r, struct spec_mask *out);

/* Blanks them in place; number i * stride + f is mel i of frame f. */
void spec_augment_apply(const struct spec_augment *s, const struct spec_mask *mask, int count, float *spectrogram, uint32_t mels,
                        uint64_t frames, size_t stride);

#endif
