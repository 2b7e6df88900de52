#ifndef FB_TRANSFORM_IMAGE_DIGEST_H
#define FB_TRANSFORM_IMAGE_DIGEST_H

#include "base/error.h"
#include "model/image.h"

/* xxh3 of the packed RGB rows (in the given order of pixels), then height and width as little-endian uint64. FB_E_NOMEM. */
int digest_image(const struct image *image, uint64_t *out, struct fb_error *e);

#endif
