/* A window over an image with borders: what crops and pads have in common.
 *
 * An axis of `size` pixels is bordered by `inner` pixels on each side, the result by `outer` pixels again (pad_if_needed pads what was
 * padded before), and the window begins at position `at` of that. Borders are filled as Pillow's ImageOps.expand or numpy.pad do.
 */
#ifndef FB_TRANSFORM_IMAGE_CROP_WINDOW_H
#define FB_TRANSFORM_IMAGE_CROP_WINDOW_H

#include "transform/transform_ops.h"

enum border_mode { BORDER_CONSTANT, BORDER_EDGE, BORDER_REFLECT, BORDER_SYMMETRIC };
extern const char *const border_names[]; /* in this order */

struct window_axis {
    int64_t size;
    int64_t inner_before, inner_after;
    int64_t outer_before;
    int64_t at;
};

struct window {
    struct window_axis y, x;
    enum border_mode mode;
    uint8_t fill[3];
};

/* The source pixel shown at `position` of the window, or -1: the fill. */
int64_t window_source(const struct window_axis *a, enum border_mode mode, int64_t position);

/* The hooks of transform_ops, given the window. */
struct region window_back(const struct window *w, struct region out);
bool window_is_inside(const struct window *w, struct region out);
void window_apply(const struct window *w, const struct region *need, struct region out, struct image *image, const struct step_memory *m);

/* "fill=F" or "fill=R,G,B" into bytes; "padding=" of 1, 2 or 4 numbers into left, top, right, bottom. */
int fill_option(const struct option_numbers *n, uint8_t fill[3], const char *what, struct fb_error *e);
int padding_option(const struct option_numbers *n, uint32_t padding[4], const char *what, struct fb_error *e);

#endif
