/* The transforms of arrays and sound, from their text: "crop_or_pad samples=24000 random=1; mono; log_mel n_mels=64;
 * normalize mean=0 std=1". */
#ifndef FB_FEED_ARRAY_STEPS_H
#define FB_FEED_ARRAY_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "feed/spectrogram.h"

enum { ARRAY_NORM_MAX = 1 << 16 };

struct array_steps {
    bool is_cropped; /* every clip gets crop_samples frames, which may be 0; else recordings keep their length */
    uint64_t crop_samples;
    bool crop_is_random, is_mono;
    uint64_t instances; /* drawn from each bag; 0: all */
    bool has_norm;
    uint64_t norm_count;            /* 1, or one per channel or column */
    float *mean, *inv_std;          /* `norm_count` of each */
    struct spectrogram spectrogram; /* of sound; it then has the norm */
};

void array_steps_free(struct array_steps *s);
/* On failure as well there may be something to be freed. */
int array_steps_parse(struct array_steps *s, const char *spec, bool is_sound, struct fb_error *e);

#endif
