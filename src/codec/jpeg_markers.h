/* What the markers of a JPEG file say. */
#ifndef FB_CODEC_JPEG_MARKERS_H
#define FB_CODEC_JPEG_MARKERS_H

#include "codec/codec_parts.h"

/* The codec's header hook: `bytes` begins with SOI. */
int jpeg_header(const uint8_t *bytes, size_t n, struct image_header *h, struct fb_error *e);

/* Is there an end-of-image marker near the end of the coded data `bytes`? Coded data never contains one: its 0xFF are followed by 0 or a
 * restart marker. */
bool jpeg_has_end(const uint8_t *bytes, size_t n);

#endif
