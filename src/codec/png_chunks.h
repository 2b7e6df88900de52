/* The chunks of a PNG file. */
#ifndef FB_CODEC_PNG_CHUNKS_H
#define FB_CODEC_PNG_CHUNKS_H

#include "codec/codec_parts.h"

enum { PNG_SIGNATURE_BYTES = 8 };

/* The codec's header hook: `bytes` begins with the signature. An orientation that is written behind the pixels is found only when they are
 * all there. */
int png_header(const uint8_t *bytes, size_t n, struct image_header *h, struct fb_error *e);

/* Walks over the whole file. FB_E_DATA: a checksum of what pixels depend on is wrong. `is_complete`: all chunks are there, to the last. */
int png_check(const uint8_t *bytes, size_t n, bool *is_complete, struct fb_error *e);

/* A file as a stream from which the ancillary chunks are left out. The last chunk of a file that is cut off says the length it has, so that
 * the decoder gets to see all of it. Zero-initialised with bytes and n it stands at the start. */
struct png_stream {
    const uint8_t *bytes;
    size_t n;
    size_t at, until;          /* the data being handed out */
    uint8_t head[8];           /* the chunk's length and name, handed out before */
    unsigned head_left;
};

/* Copies the next `count` bytes of the stream. False: it ends before. */
bool png_stream_read(struct png_stream *s, uint8_t *out, size_t count);

#endif
