/* The chunks of a PNG file. */
#ifndef FB_CODEC_PNG_CHUNKS_H
#define FB_CODEC_PNG_CHUNKS_H

#include "codec/codec_parts.h"

enum { PNG_SIGNATURE_BYTES = 8 };

/* The codec's header hook: `bytes` begins with the signature. An orientation that is written behind the pixels is found only when they are
 * all there. */
int png_header(const uint8_t *bytes, size_t n, struct image_header *h, struct fb_error *e);

/* A file as a stream from which the ancillary chunks are left out. Zero-initialised with bytes and n it stands at the start. */
struct png_stream {
    const uint8_t *bytes;
    size_t n;
    size_t at;   /* next byte to hand out */
    size_t until; /* end of the run that is being handed out */
};

/* Copies the next `count` bytes of the stream. False: it ends before. */
bool png_stream_read(struct png_stream *s, uint8_t *out, size_t count);

/* Does the file end with its end chunk? */
bool png_has_end(const uint8_t *bytes, size_t n);

#endif
