/* The chunks of a PNG file. */
#ifndef FB_CODEC_IMAGE_PNG_CHUNKS_H
#define FB_CODEC_IMAGE_PNG_CHUNKS_H

#include "codec/codec_internal.h"

enum { PNG_SIGNATURE_BYTES = 8 };

/* The codec's header hook: `bytes` begins with the signature. An orientation that is written behind the pixels is found only when they are
 * all there. */
int png_header(const uint8_t *bytes, size_t n, struct image_header *h, struct fb_error *e);

/* Where the parts are that pixels depend on, besides IHDR. */
struct png_layout {
    const uint8_t *palette; /* the data of the last PLTE chunk; NULL: there is none */
    size_t palette_bytes;
    size_t pixels; /* the first IDAT chunk */
};

/* Checks all chunks before the first IDAT. FB_E_DATA: one is damaged; the offset is that of the chunk. */
int png_check(const uint8_t *bytes, size_t n, struct png_layout *l, struct fb_error *e);

/* Checks the IDAT chunks from `at` on, as far as they are there. */
int png_check_pixels(const uint8_t *bytes, size_t n, uint64_t at, struct fb_error *e);

/* Checks what lies behind the pixels, from the chunk at `at` on: FB_E_DATA if the file ends inside one. */
int png_check_rest(const uint8_t *bytes, size_t n, uint64_t at, struct fb_error *e);

/* The IDAT chunk at `at`: how many bytes of its data are there, where they are, and where the next chunk begins. SIZE_MAX: it is
 * another. */
size_t png_pixel_chunk(const uint8_t *bytes, size_t n, uint64_t at, const uint8_t **data, uint64_t *next);

#endif
