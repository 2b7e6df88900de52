/* JPEG by libjpeg-turbo alone: the codec's fall-back, and what its own decoder is compared with. */
#ifndef FB_CODEC_IMAGE_JPEG_JPEG_TURBO_H
#define FB_CODEC_IMAGE_JPEG_JPEG_TURBO_H

#include "codec/codec_internal.h"

/* As codec_ops.decode; looks at nothing but s->scratch. */
int jpeg_turbo_decode(struct codec_state *s, const uint8_t *bytes, size_t n, const struct image_header *h, const struct region *r,
                      const struct image *out, struct fb_error *e);

#endif
