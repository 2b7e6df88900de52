/* The random parameters of one sample: what was drawn, so that it can be repeated and shown. */
#ifndef FB_MODEL_DRAW_H
#define FB_MODEL_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "model/image.h"

enum { DRAW_HAS_CROP = 1, DRAW_HAS_HFLIP = 2, DRAW_HAS_VFLIP = 4, DRAW_HAS_JITTER = 8, DRAW_HAS_GRAY = 16 };

struct draw {
    uint32_t has;       /* DRAW_HAS_*: which of the below belong to the pipeline at all */
    struct region crop; /* in source pixels (after EXIF orientation); the whole image if nothing crops */
    bool hflip, vflip, gray;
    uint8_t jitter_order[4]; /* 0 brightness 1 contrast 2 saturation 3 hue; 255: not used */
    float brightness, contrast, saturation, hue;
};

#endif
