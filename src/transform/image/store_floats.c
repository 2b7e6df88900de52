/* Numbers that are ready as they are (a function of the caller's made them) into a place. */
#include <string.h>

#include "base/half.h"
#include "transform/pipeline.h"

static void store_one(const struct place *out, size_t at, float v)
{
    uint16_t half;
    switch (out->dtype) {
    case FB_FLOAT32: memcpy((float *)out->data + at, &v, sizeof(v)); return;
    case FB_FLOAT16: half = half_from_f32(v); break;
    default: half = bfloat_from_f32(v); break;
    }
    memcpy((uint16_t *)out->data + at, &half, sizeof(half));
}

void pipeline_store_floats(const float *in, const struct place *out)
{
    size_t pixels = (size_t)out->height * out->width;
    if (out->dtype == FB_FLOAT32 && out->layout != FB_NCHW) {
        memcpy(out->data, in, pixels * 3 * sizeof(*in));
        return;
    }
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < 3; c++)
            store_one(out, out->layout == FB_NCHW ? c * pixels + i : 3 * i + c, in[3 * i + c]);
}
