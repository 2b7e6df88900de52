/* Samples that are images: opening them (image_open.c), loading them (image_load.c). */
#ifndef FB_FEED_SINGLE_IMAGE_LOAD_H
#define FB_FEED_SINGLE_IMAGE_LOAD_H

#include "feed/worker.h"

/* The header of a sample's bytes; *codec is NULL for bare pixels. */
int image_load_header(const struct feed *f, const uint8_t *bytes, size_t n, struct image_header *h, const struct codec_ops **codec,
                      struct fb_error *e);
/* Which region of the image the sample takes; 1: the bytes so far do not tell, or it is decoded at a reduced size. */
int image_load_region(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct region *r,
                      struct fb_error *e);
/* As in load_ops.h. */
int image_fill(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct fb_error *e);

/* When no transform fixes the size of the images, the first readable sample does (first_size.c). */
int first_size(struct feed *f, uint32_t *height, uint32_t *width, struct fb_error *e);

#endif
