/* Resizing as a step of a pipeline: what resize and random_resized_crop share, most of their hooks. */
#ifndef FB_TRANSFORM_IMAGE_GEOMETRY_RESIZE_STEP_H
#define FB_TRANSFORM_IMAGE_GEOMETRY_RESIZE_STEP_H

#include "transform/image/kernels/resample/resample.h"
#include "transform/transform_ops.h"

/* The params of both begin with this. */
struct resize_step {
    int kind; /* enum resample_kind */
    bool draft;
};

/* step_plan.value: the part of the step's input that becomes the output, taken as an image of its own. `plan` and `draft` set it. */
enum { SOURCE_TOP, SOURCE_LEFT, SOURCE_HEIGHT, SOURCE_WIDTH };

/* The hooks of transform_ops; `params` begin with a struct resize_step. */
void resize_step_for_mask(void *params);
struct region resize_step_back(const void *params, const struct step_plan *s, struct region out);
struct region resize_step_seen(const void *params, const struct step_plan *s, struct region out);
bool resize_step_is_idle(const void *params, const struct step_plan *s, struct region out);
size_t resize_step_memory(const void *params, const struct step_plan *s, struct region out, bool *is_in_place);
void resize_step_resample(const void *params, const struct step_plan *s, struct region out, struct resample *job);
void resize_step_apply(const void *params, const struct step_plan *s, struct region out, struct image *image, const struct step_memory *m);

/* For the hook `draft`: reduces the input, not yet the source. Returns by how much. */
uint32_t resize_step_reduce(const struct resize_step *r, struct step_plan *s);

#endif
