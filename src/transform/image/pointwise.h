/* Shared by the steps that work pixel by pixel, in place. */
#ifndef FB_TRANSFORM_IMAGE_POINTWISE_H
#define FB_TRANSFORM_IMAGE_POINTWISE_H

#include "model/image.h"

/* An image as as few runs of adjoining pixels as possible: all of it, or its rows. Run i begins at data + i * stride. */
struct runs {
    uint32_t count;
    size_t pixels;
};

static inline struct runs runs_of(const struct image *image)
{
    if (image->stride == (size_t)image->width * 3)
        return (struct runs){1, (size_t)image->width * image->height};
    return (struct runs){image->height, image->width};
}

/* From the part at hand to the part that is wanted of it. */
static inline void narrow(struct image *image, const struct region *at_hand, struct region wanted)
{
    image->data += (wanted.top - at_hand->top) * image->stride + (size_t)(wanted.left - at_hand->left) * 3;
    image->height = wanted.height;
    image->width = wanted.width;
}

#endif
