/* Walking over the chunks of a PNG file: length, name, data, checksum.
 *
 * Pixels depend on IHDR, PLTE and IDAT alone (transparency is dropped by convert("RGB")), so nothing else reaches the decoder. What is
 * refused is what Pillow refuses: before the pixels any chunk with a wrong checksum or an impossible name, anything between them, and
 * behind them a chunk that the file does not hold whole; a missing IEND and bytes after it do no harm. The pixels have a checksum of their
 * own (png_pixels.h): where that is right, those of IDAT chunks say nothing more.
 */
#include "codec/image/png_chunks.h"

#include <string.h>
#include <zlib.h>

enum { CHUNK_FRAME = 12, IHDR_BYTES = 13, XMP_HEAD = 22 };

struct chunk {
    const uint8_t *name, *data;
    size_t at, length; /* of the data; `next` is where the following chunk begins, which may lie behind the end of the file */
    uint64_t next;
};

/* False: not even the chunk's length and name are there. */
static bool chunk_at(const uint8_t *bytes, size_t n, uint64_t at, struct chunk *c)
{
    if (at > n || n - at < 8)
        return false;
    c->at = (size_t)at;
    c->length = big_endian_32(bytes + at);
    c->name = bytes + at + 4;
    c->data = bytes + at + 8;
    c->next = at + c->length + CHUNK_FRAME;
    return true;
}

static bool is_named(const struct chunk *c, const char *name)
{
    return !memcmp(c->name, name, 4);
}

static int damaged(const struct chunk *c, struct fb_error *e, const char *what)
{
    error_set(e, FB_E_DATA, "decode", "damaged PNG: %s", what);
    error_at(e, NULL, (int64_t)c->at);
    return FB_E_DATA;
}

static uint8_t xmp_text_orientation(const struct chunk *c)
{
    static const char head[XMP_HEAD + 1] = "XML:com.adobe.xmp\0\0\0\0\0"; /* keyword, not compressed, no language, no translation */
    if (c->length < XMP_HEAD || memcmp(c->data, head, XMP_HEAD))
        return 0;
    return xmp_orientation(c->data + XMP_HEAD, c->length - XMP_HEAD);
}

/* Walks from the chunk after IHDR to IEND. 1: the bytes end before the pixels. */
static int read_orientation(const uint8_t *bytes, size_t n, uint64_t at, struct image_header *h, struct fb_error *e)
{
    bool has_pixels = false;
    uint8_t exif = 0, xmp = 0;
    struct chunk c;
    while (chunk_at(bytes, n, at, &c)) {
        if (is_named(&c, "IEND") && !has_pixels)
            return damaged(&c, e, "it has no pixels (no IDAT chunk)");
        if (is_named(&c, "IEND"))
            break;
        has_pixels = has_pixels || is_named(&c, "IDAT");
        if (c.next > n)
            break;
        if (is_named(&c, "eXIf") && !exif)
            exif = exif_orientation(c.data, c.length);
        else if (is_named(&c, "iTXt") && !xmp)
            xmp = xmp_text_orientation(&c);
        at = c.next;
    }
    h->orientation = exif ? exif : xmp ? xmp : 1;
    return has_pixels ? 0 : 1;
}

int png_header(const uint8_t *bytes, size_t n, struct image_header *h, struct fb_error *e)
{
    *h = (struct image_header){.orientation = 1};
    struct chunk c;
    if (!chunk_at(bytes, n, PNG_SIGNATURE_BYTES, &c) || n < PNG_SIGNATURE_BYTES + CHUNK_FRAME + IHDR_BYTES)
        return 1;
    if (!is_named(&c, "IHDR") || c.length != IHDR_BYTES)
        return damaged(&c, e, "it does not begin with a header chunk (IHDR)");
    FB_TRY(codec_check_size(big_endian_32(c.data), big_endian_32(c.data + 4), e));
    h->width = big_endian_32(c.data);
    h->height = big_endian_32(c.data + 4);
    return read_orientation(bytes, n, c.next, h, e);
}

/* Letters, digits and underscores, as Pillow takes them. */
static bool has_name(const struct chunk *c)
{
    for (int i = 0; i < 4; i++) {
        bool is_letter = (c->name[i] | 0x20) >= 'a' && (c->name[i] | 0x20) <= 'z';
        if (!is_letter && !(c->name[i] >= '0' && c->name[i] <= '9') && c->name[i] != '_')
            return false;
    }
    return true;
}

static bool has_right_checksum(const struct chunk *c)
{
    return (uint32_t)crc32_z(0, c->name, (z_size_t)c->length + 4) == big_endian_32(c->data + c->length);
}

/* A colour that stands for transparency is one sample of two bytes in grey images and three in coloured ones. */
static bool has_short_transparency(const struct chunk *c, uint8_t color_type)
{
    return is_named(c, "tRNS") && c->length < (color_type == 0 ? 2 : color_type == 2 ? 6 : 0);
}

static int check_before_pixels(const struct chunk *c, uint8_t color_type, struct fb_error *e)
{
    bool is_critical = !(c->name[0] & 0x20); /* the capital first letter says that no decoder may do without it */
    if (!has_name(c))
        return damaged(c, e, "a chunk has an impossible name");
    if (!has_right_checksum(c))
        return damaged(c, e, "the checksum of a chunk is wrong");
    if (has_short_transparency(c, color_type))
        return damaged(c, e, "its transparency (tRNS) is too short");
    if (is_critical && c->at != PNG_SIGNATURE_BYTES && !is_named(c, "PLTE"))
        return damaged(c, e, "a chunk that decoders must understand is unknown, or in the wrong place");
    return 0;
}

int png_check(const uint8_t *bytes, size_t n, struct png_layout *l, struct fb_error *e)
{
    struct chunk c;
    *l = (struct png_layout){0};
    uint64_t at = PNG_SIGNATURE_BYTES;
    for (; chunk_at(bytes, n, at, &c) && c.next <= n && !is_named(&c, "IDAT"); at = c.next) {
        FB_TRY(check_before_pixels(&c, bytes[PNG_SIGNATURE_BYTES + 17], e));
        if (is_named(&c, "PLTE")) {
            l->palette = c.data;
            l->palette_bytes = c.length;
        }
    }
    l->pixels = (size_t)at;
    return 0;
}

int png_check_pixels(const uint8_t *bytes, size_t n, uint64_t at, struct fb_error *e)
{
    struct chunk c;
    for (; chunk_at(bytes, n, at, &c) && c.next <= n && is_named(&c, "IDAT"); at = c.next)
        if (!has_right_checksum(&c))
            return damaged(&c, e, "the checksum of a chunk is wrong");
    return 0;
}

int png_check_rest(const uint8_t *bytes, size_t n, uint64_t at, struct fb_error *e)
{
    struct chunk c;
    for (; chunk_at(bytes, n, at, &c) && has_name(&c) && !is_named(&c, "IEND") && !is_named(&c, "fcTL"); at = c.next)
        if (c.length > n - c.at - 8) {
            error_set(e, FB_E_DATA, "decode", "the PNG file is cut off inside the %.4s chunk that follows its pixels",
                      (const char *)c.name);
            error_at(e, NULL, (int64_t)n);
            return FB_E_DATA;
        }
    return 0;
}

size_t png_pixel_chunk(const uint8_t *bytes, size_t n, uint64_t at, const uint8_t **data, uint64_t *next)
{
    struct chunk c;
    if (!chunk_at(bytes, n, at, &c) || !is_named(&c, "IDAT"))
        return SIZE_MAX;
    size_t there = n - c.at - 8;
    *data = c.data;
    *next = c.next;
    return c.length < there ? c.length : there;
}
