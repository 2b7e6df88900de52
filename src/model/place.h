/* Where a sample's image goes: its part of a slot. */
#ifndef FB_MODEL_PLACE_H
#define FB_MODEL_PLACE_H

#include "base/error.h"

struct place {
    void *data;             /* 64-byte aligned only for the first place of a slot */
    enum fb_dtype dtype;    /* uint8, float16, bfloat16, float32 */
    enum fb_layout layout;  /* FB_NCHW: planes; otherwise pixels */
    uint32_t height, width; /* channels are 3 */
};

#endif
