/* What the markers of a JPEG file say. */
#ifndef FB_CODEC_IMAGE_JPEG_JPEG_MARKERS_H
#define FB_CODEC_IMAGE_JPEG_JPEG_MARKERS_H

#include "codec/codec_internal.h"

/* The codec's header hook: `bytes` begins with SOI. */
int jpeg_header(const uint8_t *bytes, size_t n, struct image_header *h, struct fb_error *e);

/* Does this marker begin a frame (SOF0 to SOF15)? */
bool jpeg_is_frame(int marker);

/* Does the end-of-image marker follow the rest of a scan's data? `unread_marker` is one that the decoder has met already, or 0. Nothing
 * else may: in coded data 0xFF is followed by 0 or is a restart marker. */
bool jpeg_ends_here(int unread_marker, const uint8_t *bytes, size_t n);

#endif
