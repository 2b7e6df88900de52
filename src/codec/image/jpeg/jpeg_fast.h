/* Decoding regions of common JPEG files, from checkpoints where they are known. */
#ifndef FB_CODEC_IMAGE_JPEG_JPEG_FAST_H
#define FB_CODEC_IMAGE_JPEG_JPEG_FAST_H

#include "codec/codec_internal.h"

/* Decodes like the codec's hook and sets s->way, s->record and s->record_bytes. 0: done. 1: not a file for this decoder, or its data turned
 * out odd (s->way is then CODEC_FALLBACK); the content of `out` is then undefined, and libjpeg-turbo's word counts. Never fails. */
int jpeg_fast_decode(struct codec_state *s, void **own, const uint8_t *bytes, size_t n, const struct image_header *h,
                     const struct region *r, const struct image *out);
void jpeg_fast_close(void **own);

#endif
