/* PNG by libspng, row by row, nothing below the region decoded.
 *
 * The decoder hands out samples as they are in the file; the conversion to RGB is ours (to_rgb.c), because it has to be Pillow's: 16-bit
 * colour keeps its high bytes, 16-bit grey is clipped at 255, a palette index without an entry is black, transparency is dropped.
 * Interlaced files visit a row several times, so all of the region's rows are kept until the last pass.
 *
 * Whether a file is cut off must not depend on the region: without all its chunks it is decoded to the last row. As in Pillow, such a file
 * is good if all its pixels are there.
 */
#include <spng.h>
#include <string.h>

#include "codec/png_chunks.h"
#include "codec/to_rgb.h"

struct png_call {
    spng_ctx *ctx;
    struct png_stream stream;
    struct png_kind kind;
    size_t row_bytes;
    uint32_t height, last_row; /* of the image; the last row that must be decoded */
    bool is_interlaced;
};

static int on_read(spng_ctx *ctx, void *user, void *out, size_t count)
{
    (void)ctx;
    return png_stream_read(user, out, count) ? 0 : SPNG_IO_EOF;
}

static int report(const struct png_call *c, int code, struct fb_error *e)
{
    if (code == SPNG_EMEM)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for decoding a PNG");
    if (code == SPNG_IO_EOF)
        error_set(e, FB_E_DATA, "decode", "the PNG file is cut off: its pixels need more than the %zu bytes that are there", c->stream.n);
    else
        error_set(e, FB_E_DATA, "decode", "damaged PNG: %s", spng_strerror(code));
    error_at(e, NULL, (int64_t)c->stream.at);
    return FB_E_DATA;
}

static void read_palette(struct png_call *c)
{
    struct spng_plte palette;
    memset(c->kind.palette, 0, sizeof(c->kind.palette));
    if (spng_get_plte(c->ctx, &palette))
        return;
    for (uint32_t i = 0; i < palette.n_entries && i < 256; i++) {
        c->kind.palette[i][0] = palette.entries[i].red;
        c->kind.palette[i][1] = palette.entries[i].green;
        c->kind.palette[i][2] = palette.entries[i].blue;
    }
}

/* The palette of a mask: every index stands for itself. */
static void number_palette(struct png_call *c)
{
    for (int i = 0; i < 256; i++)
        memset(c->kind.palette[i], i, sizeof(c->kind.palette[i]));
}

static int check_mask(const struct png_call *c, struct fb_error *e)
{
    if (c->kind.bit_depth <= 8)
        return 0;
    error_set(e, FB_E_DATA, "decode", "a mask of %u bits per pixel does not fit into 8", c->kind.bit_depth);
    error_remedy(e, "save it with 8 bits: masks hold numbers from 0 to 255");
    return FB_E_DATA;
}

static int start(struct png_call *c, const struct image_header *h, bool is_mask, struct fb_error *e)
{
    struct spng_ihdr ihdr;
    spng_set_image_limits(c->ctx, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
    spng_set_chunk_limits(c->ctx, 1 << 20, 1 << 20); /* only IHDR and PLTE are kept, IDAT is streamed */
    spng_set_crc_action(c->ctx, SPNG_CRC_USE, SPNG_CRC_USE); /* png_check has done it */
    int rc = spng_set_png_stream(c->ctx, on_read, &c->stream);
    if (!rc)
        rc = spng_get_ihdr(c->ctx, &ihdr);
    if (rc)
        return report(c, rc, e);
    if (ihdr.width != h->width || ihdr.height != h->height)
        return error_set(e, FB_E_DATA, "decode", "damaged PNG: its size changed while it was read");
    c->kind.color_type = ihdr.color_type;
    c->kind.bit_depth = ihdr.bit_depth;
    c->height = ihdr.height;
    c->is_interlaced = ihdr.interlace_method != 0;
    rc = spng_decode_image(c->ctx, NULL, 0, SPNG_FMT_RAW, SPNG_DECODE_PROGRESSIVE);
    if (rc)
        return report(c, rc, e);
    c->row_bytes = png_row_bytes(&c->kind, ihdr.width);
    if (ihdr.color_type == SPNG_COLOR_TYPE_INDEXED)
        is_mask ? number_palette(c) : read_palette(c);
    return is_mask ? check_mask(c, e) : 0;
}

static bool is_rgb8(const struct png_kind *k)
{
    return k->color_type == SPNG_COLOR_TYPE_TRUECOLOR && k->bit_depth == 8;
}

static int read_rows(struct png_call *c, struct codec_state *s, const struct region *r, const struct image *out, struct fb_error *e)
{
    uint8_t *row = scratch_need(&s->scratch, c->row_bytes, e);
    if (!row)
        return e ? e->code : FB_E_NOMEM;
    bool is_direct = is_rgb8(&c->kind) && c->row_bytes == (size_t)3 * r->width;
    for (uint32_t y = 0; y <= c->last_row; y++) {
        bool is_inside = y >= r->top && y - r->top < r->height;
        uint8_t *to = is_inside ? out->data + (size_t)(y - r->top) * out->stride : NULL;
        int rc = spng_decode_row(c->ctx, is_inside && is_direct ? to : row, c->row_bytes);
        if (rc && !(rc == SPNG_EOI && y == c->height - 1))
            return report(c, rc, e);
        if (is_inside && !is_direct)
            rgb_from_png(to, row, r->left, r->width, &c->kind);
    }
    return 0;
}

static int read_interlaced(struct png_call *c, struct codec_state *s, const struct region *r, const struct image *out, struct fb_error *e)
{
    uint8_t *rows = scratch_need(&s->scratch, c->row_bytes * ((size_t)r->height + 1), e);
    if (!rows)
        return e ? e->code : FB_E_NOMEM;
    uint8_t *outside = rows + c->row_bytes * r->height;
    if (c->kind.bit_depth < 8) /* the decoder ORs such pixels into their bytes */
        memset(rows, 0, c->row_bytes * ((size_t)r->height + 1));
    for (int rc = 0; rc != SPNG_EOI;) {
        struct spng_row_info info;
        rc = spng_get_row_info(c->ctx, &info);
        if (rc == SPNG_EOI) /* small images have no last pass */
            break;
        if (rc)
            return report(c, rc, e);
        if (info.pass == 6 && info.row_num > c->last_row)
            break;
        bool is_inside = info.row_num >= r->top && info.row_num - r->top < r->height;
        rc = spng_decode_row(c->ctx, is_inside ? rows + (size_t)(info.row_num - r->top) * c->row_bytes : outside, c->row_bytes);
        if (rc && rc != SPNG_EOI)
            return report(c, rc, e);
    }
    for (uint32_t y = 0; y < r->height; y++)
        rgb_from_png(out->data + y * out->stride, rows + y * c->row_bytes, r->left, r->width, &c->kind);
    return 0;
}

static int decode(struct codec_state *s, void **own, const uint8_t *bytes, size_t n, const struct image_header *h, const struct region *r,
                  const struct image *out, struct fb_error *e)
{
    (void)own;
    bool is_complete;
    FB_TRY(png_check(bytes, n, &is_complete, e));
    struct png_call c = {.ctx = spng_ctx_new(0), .stream = {.bytes = bytes, .n = n}};
    if (!c.ctx)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for decoding a PNG");
    int rc = start(&c, h, s->wants_numbers, e);
    if (!rc) {
        c.last_row = is_complete ? r->top + r->height - 1 : h->height - 1;
        rc = c.is_interlaced ? read_interlaced(&c, s, r, out, e) : read_rows(&c, s, r, out, e);
    }
    spng_ctx_free(c.ctx);
    return rc;
}

static bool probe(const uint8_t *bytes, size_t n)
{
    return n >= PNG_SIGNATURE_BYTES && !memcmp(bytes, "\x89PNG\r\n\x1a\n", PNG_SIGNATURE_BYTES);
}

const struct codec_ops codec_png = {.name = "png", .probe = probe, .header = png_header, .decode = decode};
