/* The compressed pixels of a PNG file, all of them, whatever the region: IDAT chunks -> the filtered bytes of its rows.
 *
 * The rows' decoder is libspng, which stops at the last row it is asked for and never gets to the checksum (Adler-32) that ends the
 * compressed data: a file whose pixels are proved wrong would pass. So decompression is done here. libspng gets the same bytes as "stored"
 * blocks, which cost it a copy; rows below the region are decompressed and thrown away, and then zlib compares the checksum.
 *
 * As in Pillow, pixels are good if they are all there: a missing checksum, and more data than the rows take, are tolerated; then the
 * checksums of the chunks decide.
 */
#ifndef FB_CODEC_IMAGE_PNG_PIXELS_H
#define FB_CODEC_IMAGE_PNG_PIXELS_H

#include <zlib.h>

#include "codec/image/png_chunks.h"

enum { PNG_PIECE = 16384, PNG_PIECE_ROOM = PNG_PIECE + 24 };

struct png_pixels {
    const uint8_t *bytes;
    size_t n;
    struct png_layout layout;
    z_stream *zlib;
    uint64_t next;       /* the chunk behind the one that zlib reads */
    uint64_t rest;       /* the chunk behind the one with the last pixel, once that is there */
    uint64_t all, done;  /* bytes of rows, with their filters */
    uint64_t row_bytes;  /* of a row with its filter; 0: rows differ (interlaced) */
    const char *failure; /* what is wrong, or NULL */
    bool is_cut_off;     /* it is that the file ends */

    /* for libspng: the file as it would be if its pixels were not compressed */
    const uint8_t *from; /* handed out next */
    size_t part;         /* so many bytes of it */
    int stage;
    bool is_indexed;
    uint8_t piece[PNG_PIECE_ROOM];
};

/* `zlib` is ready to inflate from the start. */
void png_pixels_begin(struct png_pixels *p, z_stream *zlib, const uint8_t *bytes, size_t n, const struct png_layout *l);
/* How many bytes the rows have in all; to be called when the header is known, before any pixel is read. */
void png_pixels_expect(struct png_pixels *p, uint64_t all, uint64_t row_bytes, bool is_indexed);

/* Copies the next `count` bytes of the file without compression. False: there are no more, or `failure` tells. */
bool png_pixels_read(struct png_pixels *p, uint8_t *out, size_t count);

/* Decompresses the rest and checks it and what follows. */
int png_pixels_finish(struct png_pixels *p, struct fb_error *e);
/* Says what failed, with its place in the file. */
int png_pixels_report(const struct png_pixels *p, struct fb_error *e);

#endif
