/* The last step: 8-bit pixels into the sample's place, in its type and layout, mirrored on the way if flips were drawn. */
#ifndef FB_TRANSFORM_IMAGE_STORE_H
#define FB_TRANSFORM_IMAGE_STORE_H

#include "model/image.h"
#include "model/place.h"
#include "transform/image/levels.h"

/* image and place have the same size; they may be the same memory only if nothing is left to do. */
void store_image(const struct image *image, const struct place *out, bool hflip, bool vflip, const struct levels *l);

/* One number per pixel; FB_E_DATA if the channels differ somewhere. */
int store_mask(const struct image *image, const struct place *out, bool hflip, bool vflip, struct fb_error *e);

#endif
