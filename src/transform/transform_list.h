#ifndef FB_TRANSFORM_LIST_H
#define FB_TRANSFORM_LIST_H

#include "transform/transform_ops.h"

extern const struct transform_ops transform_center_crop, transform_color_jitter, transform_crop_or_pad, transform_log_mel, transform_mono,
    transform_normalize_numbers, transform_sample_instances, transform_spec_augment, transform_crop_box, transform_digest,
    transform_grayscale, transform_normalize, transform_pad, transform_random_crop, transform_random_grayscale,
    transform_random_horizontal_flip, transform_random_resized_crop, transform_random_vertical_flip, transform_resize;

#endif
