/* A window over an image with borders: what crops and pads have in common.
 *
 * An axis of `size` pixels is bordered by `inner` pixels on each side, the result by `outer` pixels again (pad_if_needed pads what was
 * padded before), and the window begins at position `at` of that. Borders are filled as Pillow's ImageOps.expand or numpy.pad do.
 */
#ifndef FB_TRANSFORM_IMAGE_GEOMETRY_CROP_WINDOW_H
#define FB_TRANSFORM_IMAGE_GEOMETRY_CROP_WINDOW_H

#include "transform/transform_ops.h"

enum border_mode { BORDER_CONSTANT, BORDER_EDGE, BORDER_REFLECT, BORDER_SYMMETRIC };
extern const char *const border_names[]; /* in this order */

/* The params of crops and pads begin with this. */
struct border {
    struct option_numbers padding_text, fill_text;
    int64_t mask_fill;
    int mode;            /* enum border_mode */
    uint32_t padding[4]; /* left, top, right, bottom */
    uint8_t fill[3];
};

/* step_plan.value: where the window begins, and the outer borders before it. */
enum { AT_TOP, AT_LEFT, OUTER_TOP, OUTER_LEFT };

/* The hooks of transform_ops; `params` begin with a struct border. */
void window_for_mask(void *params);
struct region window_back(const void *params, const struct step_plan *s, struct region out);
bool window_is_idle(const void *params, const struct step_plan *s, struct region out);
size_t window_memory(const void *params, const struct step_plan *s, struct region out, bool *is_in_place);
void window_apply(const void *params, const struct step_plan *s, struct region out, struct image *image, const struct step_memory *m);

/* "fill=F" or "fill=R,G,B" into bytes; "padding=" of 1, 2 or 4 numbers into left, top, right, bottom. */
int fill_option(const struct option_numbers *n, uint8_t fill[3], const char *what, struct fb_error *e);
int padding_option(const struct option_numbers *n, uint32_t padding[4], const char *what, struct fb_error *e);

#endif
