/* Walking over the chunks of a PNG file: length, name, data, checksum.
 *
 * Pixels depend on IHDR, PLTE and IDAT alone (transparency is dropped by convert("RGB")), so only critical chunks reach the decoder: broken
 * or huge profiles and texts, common in the wild, cost nothing and harm nothing. Checksums are verified here and not by the decoder, which
 * would see only those up to the last row it is asked for: whether a file is damaged shall not depend on the region.
 */
#include "codec/png_chunks.h"

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

/* Does the capital first letter say that no decoder may do without it? */
static bool is_critical(const struct chunk *c)
{
    return !(c->name[0] & 0x20);
}

static bool has_letters(const struct chunk *c)
{
    for (int i = 0; i < 4; i++)
        if ((c->name[i] | 0x20) < 'a' || (c->name[i] | 0x20) > 'z')
            return false;
    return true;
}

static uint32_t checksum(const struct chunk *c)
{
    return (uint32_t)crc32_z(0, c->name, (z_size_t)c->length + 4);
}

int png_check(const uint8_t *bytes, size_t n, bool *is_complete, struct fb_error *e)
{
    struct chunk c;
    *is_complete = false;
    for (uint64_t at = PNG_SIGNATURE_BYTES; chunk_at(bytes, n, at, &c) && has_letters(&c) && c.next <= n && !*is_complete; at = c.next) {
        if (is_critical(&c) && checksum(&c) != big_endian_32(c.data + c.length))
            return damaged(&c, e, "the checksum of a chunk is wrong");
        *is_complete = is_named(&c, "IEND");
    }
    return 0;
}

/* Moves to the next critical chunk. False: there is none. */
static bool next_run(struct png_stream *s)
{
    struct chunk c;
    for (uint64_t at = s->until; chunk_at(s->bytes, s->n, at, &c); at = c.next) {
        if (!is_critical(&c))
            continue;
        size_t there = s->n - (size_t)at - 8, length = c.length < there ? c.length : there;
        s->at = (size_t)at + 8;
        s->until = c.next < s->n ? (size_t)c.next : s->n;
        s->head_left = sizeof(s->head);
        memcpy(s->head, (uint8_t[]){(uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length}, 4);
        memcpy(s->head + 4, c.name, 4);
        return true;
    }
    s->at = s->until = s->n;
    return false;
}

/* Hands out what is left of the head, or of the data: `count` bytes at most. Returns how many. */
static size_t hand_out(struct png_stream *s, uint8_t *out, size_t count)
{
    const uint8_t *from = s->head_left ? s->head + sizeof(s->head) - s->head_left : s->bytes + s->at;
    size_t left = s->head_left ? s->head_left : s->until - s->at, part = left < count ? left : count;
    memcpy(out, from, part);
    if (s->head_left)
        s->head_left -= (unsigned)part;
    else
        s->at += part;
    return part;
}

bool png_stream_read(struct png_stream *s, uint8_t *out, size_t count)
{
    if (s->until == 0)
        s->until = PNG_SIGNATURE_BYTES < s->n ? PNG_SIGNATURE_BYTES : s->n;
    while (count) {
        if (!s->head_left && s->at == s->until && !next_run(s))
            return false;
        size_t part = hand_out(s, out, count);
        out += part;
        count -= part;
    }
    return true;
}
