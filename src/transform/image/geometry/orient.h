/* EXIF orientation: the picture as it should be seen, and back to the pixels as they are stored. Equal to Pillow's ImageOps.exif_transpose.
 */
#ifndef FB_TRANSFORM_IMAGE_GEOMETRY_ORIENT_H
#define FB_TRANSFORM_IMAGE_GEOMETRY_ORIENT_H

#include <stdbool.h>

#include "model/image.h"

/* True: rows become columns. */
bool orient_is_transposed(int orientation);
/* The stored region that shows as `seen`, a part of the upright image. */
struct region orient_back(int orientation, uint32_t stored_height, uint32_t stored_width, struct region seen);
/* Turns all of `in` upright; out has the upright size. Orientation 1 to 8. */
void orient_apply(int orientation, const struct image *in, const struct image *out);

#endif
