#include "codec/image/png_pixels.h"

#include <string.h>

enum { IHDR_END = PNG_SIGNATURE_BYTES + 25, HEADER_STAGE = 0, PALETTE_STAGE, FIRST_PIECE, OTHER_PIECES };

void png_pixels_begin(struct png_pixels *p, z_stream *zlib, const uint8_t *bytes, size_t n, const struct png_layout *l)
{
    memset(p, 0, offsetof(struct png_pixels, piece));
    p->bytes = bytes;
    p->n = n;
    p->layout = *l;
    p->zlib = zlib;
    p->next = l->pixels;
    zlib->avail_in = 0;
}

void png_pixels_expect(struct png_pixels *p, uint64_t all, uint64_t row_bytes, bool is_indexed)
{
    p->is_indexed = is_indexed;
    p->all = all;
    p->row_bytes = row_bytes;
}

static bool fail(struct png_pixels *p, const char *what)
{
    p->failure = what;
    return false;
}

/* Lets zlib read on in the next chunk that is not empty. False: there is none. */
static bool next_chunk(struct png_pixels *p)
{
    const uint8_t *data;
    size_t there = 0;
    while (there == 0) {
        there = png_pixel_chunk(p->bytes, p->n, p->next, &data, &p->next);
        if (there == SIZE_MAX)
            return false;
    }
    p->zlib->next_in = (uint8_t *)(uintptr_t)data; /* zlib's own type lacks const */
    p->zlib->avail_in = (uInt)there;               /* a chunk's length has 32 bits */
    return true;
}

static const char *damage(const struct png_pixels *p)
{
    bool is_sum = p->zlib->msg && !strcmp(p->zlib->msg, "incorrect data check");
    return is_sum ? "the checksum (Adler-32) of its pixels is wrong" : "its compressed pixels cannot be decompressed";
}

/* Each row begins with its filter, 0 to 4. */
static bool has_filters(const struct png_pixels *p, const uint8_t *bytes, size_t count)
{
    if (!p->row_bytes)
        return true;
    uint64_t into = p->done % p->row_bytes;
    for (uint64_t at = into ? p->row_bytes - into : 0; at < count; at += p->row_bytes)
        if (bytes[at] > 4)
            return false;
    return true;
}

/* The next `count` bytes of rows. When the last of them comes out, zlib goes on to the checksum by itself, if that is in the same chunk. */
static bool decompress(struct png_pixels *p, uint8_t *out, size_t count)
{
    z_stream *z = p->zlib;
    z->next_out = out;
    z->avail_out = (uInt)count;
    while (z->avail_out) {
        if (!z->avail_in && !next_chunk(p)) {
            p->is_cut_off = p->next + 8 > p->n;
            return fail(p, "its pixels end too early");
        }
        int rc = inflate(z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END && z->avail_out)
            return fail(p, "its pixels end too early");
        if (rc == Z_NEED_DICT || (rc < 0 && rc != Z_BUF_ERROR))
            return fail(p, damage(p));
    }
    if (!has_filters(p, out, count))
        return fail(p, "a row has a filter that does not exist");
    p->done += count;
    if (p->done == p->all)
        p->rest = p->next;
    return true;
}

/* Makes an IDAT chunk with one stored block. False: all rows have been handed out, or `failure` tells. */
static bool make_piece(struct png_pixels *p)
{
    size_t count = p->all - p->done < PNG_PIECE ? (size_t)(p->all - p->done) : PNG_PIECE, header = p->stage == FIRST_PIECE ? 2 : 0;
    uint8_t *at = p->piece;
    if (!count)
        return false;
    size_t length = header + 5 + count;
    memcpy(at, (uint8_t[]){0, 0, (uint8_t)(length >> 8), (uint8_t)length, 'I', 'D', 'A', 'T'}, 8);
    memcpy(at + 8, "\x78\x01", header); /* of the zlib format */
    at += 8 + header;
    memcpy(at, (uint8_t[]){p->done + count == p->all, (uint8_t)count, (uint8_t)(count >> 8), (uint8_t)~count, (uint8_t)(~count >> 8)}, 5);
    at += 5;
    if (!decompress(p, at, count))
        return false;
    memset(at + count, 0, 4); /* a checksum that libspng is told not to look at */
    p->from = p->piece;
    p->part = 8 + length + 4;
    return true;
}

static bool next_part(struct png_pixels *p)
{
    static const uint8_t palette[15] = "\0\0\0\3PLTE"; /* libspng wants one, but the colours are put in by png.c */
    int stage = p->stage;
    if (stage >= FIRST_PIECE && !make_piece(p))
        return false;
    if (stage == HEADER_STAGE) {
        p->from = p->bytes;
        p->part = IHDR_END;
    } else if (stage == PALETTE_STAGE) {
        p->from = palette;
        p->part = p->is_indexed ? sizeof(palette) : 0;
    }
    p->stage += stage < OTHER_PIECES;
    return true;
}

bool png_pixels_read(struct png_pixels *p, uint8_t *out, size_t count)
{
    while (count) {
        if (!p->part && !next_part(p))
            return false;
        size_t some = p->part < count ? p->part : count;
        memcpy(out, p->from, some);
        p->from += some;
        p->part -= some;
        out += some;
        count -= some;
    }
    return true;
}

/* All rows are there, and zlib has no room for more: what it can still come to is the checksum. */
static int check_end(struct png_pixels *p, struct fb_error *e)
{
    int rc = Z_OK;
    while (rc == Z_OK || (rc == Z_BUF_ERROR && !p->zlib->avail_in && next_chunk(p))) {
        p->zlib->next_out = p->piece;
        p->zlib->avail_out = 0;
        rc = inflate(p->zlib, Z_NO_FLUSH);
    }
    if (rc == Z_STREAM_END)
        return 0;
    if (rc == Z_BUF_ERROR) /* there is none */
        return png_check_pixels(p->bytes, p->n, p->layout.pixels, e);
    p->failure = damage(p);
    return png_pixels_report(p, e);
}

int png_pixels_finish(struct png_pixels *p, struct fb_error *e)
{
    while (p->done < p->all) {
        uint64_t left = p->all - p->done;
        if (!decompress(p, p->piece, left < PNG_PIECE ? (size_t)left : PNG_PIECE))
            return png_pixels_report(p, e);
    }
    FB_TRY(check_end(p, e));
    return png_check_rest(p->bytes, p->n, p->rest, e);
}

int png_pixels_report(const struct png_pixels *p, struct fb_error *e)
{
    int64_t at = p->is_cut_off ? (int64_t)p->n : p->zlib->next_in ? p->zlib->next_in - p->bytes : (int64_t)p->layout.pixels;
    if (p->is_cut_off)
        error_set(e, FB_E_DATA, "decode", "the PNG file is cut off: its pixels need more than the %zu bytes that are there", p->n);
    else
        error_set(e, FB_E_DATA, "decode", "damaged PNG: %s", p->failure);
    error_at(e, NULL, at);
    return FB_E_DATA;
}
