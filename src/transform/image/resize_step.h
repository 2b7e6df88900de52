/* Resizing as a step of a pipeline: what resize and random_resized_crop share. */
#ifndef FB_TRANSFORM_IMAGE_RESIZE_STEP_H
#define FB_TRANSFORM_IMAGE_RESIZE_STEP_H

#include "transform/image/kernels/resample.h"
#include "transform/transform_ops.h"

/* `source` (a part of the step's input, taken as an image of its own) becomes out_height x out_width. */
struct resize_step {
    enum resample_kind kind;
    struct region source;
    uint32_t out_height, out_width;
};

struct region resize_step_back(const struct resize_step *r, struct region out);
struct region resize_step_seen(const struct resize_step *r, struct region out);
bool resize_step_is_idle(const struct resize_step *r);
struct resample resize_step_resample(const struct resize_step *r, const struct region *need, struct region out);
size_t resize_step_memory(const struct resize_step *r, const struct region *need, struct region out);
void resize_step_apply(const struct resize_step *r, const struct region *need, struct region out, struct image *image,
                       const struct step_memory *m);

#endif
