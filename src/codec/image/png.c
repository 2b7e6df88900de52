/* PNG by libspng, row by row; rows below the region are decompressed, but not decoded.
 *
 * The decoder hands out samples as they are in the file; the conversion to RGB is ours (to_rgb.c), because it has to be Pillow's: 16-bit
 * colour keeps its high bytes, 16-bit grey is clipped at 255, a palette index without an entry is black, transparency is dropped.
 * Interlaced files visit a row several times, so all of the region's rows are kept until the last pass.
 *
 * Whether a file is damaged must not depend on the region: png_pixels.c decompresses all of it and compares its checksum. As in Pillow, a
 * file that is cut off is good if all its pixels are there.
 */
#include <spng.h>
#include <stdlib.h>
#include <string.h>

#include "codec/image/png_pixels.h"
#include "codec/image/to_rgb.h"

struct png_call {
    spng_ctx *ctx;
    struct png_pixels pixels;
    struct png_kind kind;
    size_t row_bytes;
    uint32_t height, last_row; /* of the image; the last row that must be decoded */
    bool is_interlaced;
};

static int on_read(spng_ctx *ctx, void *user, void *out, size_t count)
{
    (void)ctx;
    return png_pixels_read(user, out, count) ? 0 : SPNG_IO_EOF;
}

static int report(const struct png_call *c, int code, struct fb_error *e)
{
    if (code == SPNG_EMEM)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for decoding a PNG");
    if (c->pixels.failure)
        return png_pixels_report(&c->pixels, e);
    error_set(e, FB_E_DATA, "decode", "damaged PNG: %s", spng_strerror(code));
    error_at(e, NULL, c->pixels.done ? c->pixels.zlib->next_in - c->pixels.bytes : PNG_SIGNATURE_BYTES);
    return FB_E_DATA;
}

/* The palette of a mask: every index stands for itself. */
static void number_palette(struct png_call *c)
{
    for (int i = 0; i < 256; i++)
        memset(c->kind.palette[i], i, sizeof(c->kind.palette[i]));
}

static int read_palette(struct png_call *c, bool is_mask, struct fb_error *e)
{
    const struct png_layout *l = &c->pixels.layout;
    if (l->palette_bytes < 3 || l->palette_bytes > sizeof(c->kind.palette)) {
        error_set(e, FB_E_DATA, "decode", "damaged PNG: its palette has %s", l->palette_bytes < 3 ? "no colours" : "more than 256 colours");
        error_at(e, NULL, l->palette ? l->palette - c->pixels.bytes : (int64_t)l->pixels);
        return FB_E_DATA;
    }
    if (is_mask) {
        number_palette(c);
        return 0;
    }
    memset(c->kind.palette, 0, sizeof(c->kind.palette));
    memcpy(c->kind.palette, l->palette, l->palette_bytes / 3 * 3);
    return 0;
}

static int check_mask(const struct png_call *c, struct fb_error *e)
{
    if (c->kind.bit_depth <= 8)
        return 0;
    return error_advise(e, error_set(e, FB_E_DATA, "decode", "a mask of %u bits per pixel does not fit into 8", c->kind.bit_depth),
                        "save it with 8 bits: masks hold numbers from 0 to 255");
}

/* Bytes of all rows with their filters; of the seven passes of an interlaced image, those that have pixels. */
static uint64_t bytes_of_rows(const struct png_call *c, const struct spng_ihdr *h)
{
    static const uint8_t passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    uint64_t all = 0;
    if (!c->is_interlaced)
        return (uint64_t)(png_row_bytes(&c->kind, h->width) + 1) * h->height;
    for (int i = 0; i < 7; i++) { /* left, top, step across, step down */
        const uint8_t *p = passes[i];
        uint32_t width = (h->width + p[2] - 1 - p[0]) / p[2], height = (h->height + p[3] - 1 - p[1]) / p[3];
        if (width && height)
            all += (uint64_t)(png_row_bytes(&c->kind, width) + 1) * height;
    }
    return all;
}

static int start(struct png_call *c, const struct image_header *h, bool is_mask, struct fb_error *e)
{
    struct spng_ihdr ihdr;
    spng_set_image_limits(c->ctx, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
    spng_set_chunk_limits(c->ctx, 1 << 20, 1 << 20);         /* only IHDR and PLTE are kept, IDAT is streamed */
    spng_set_crc_action(c->ctx, SPNG_CRC_USE, SPNG_CRC_USE); /* png_check has done it */
    int rc = spng_set_png_stream(c->ctx, on_read, &c->pixels);
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
    c->row_bytes = png_row_bytes(&c->kind, ihdr.width);
    png_pixels_expect(&c->pixels, bytes_of_rows(c, &ihdr), c->is_interlaced ? 0 : c->row_bytes + 1,
                      ihdr.color_type == SPNG_COLOR_TYPE_INDEXED);
    rc = spng_decode_image(c->ctx, NULL, 0, SPNG_FMT_RAW, SPNG_DECODE_PROGRESSIVE);
    if (rc)
        return report(c, rc, e);
    if (ihdr.color_type == SPNG_COLOR_TYPE_INDEXED)
        FB_TRY(read_palette(c, is_mask, e));
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
        bool is_inside = info.row_num >= r->top && info.row_num - r->top < r->height;
        rc = spng_decode_row(c->ctx, is_inside ? rows + (size_t)(info.row_num - r->top) * c->row_bytes : outside, c->row_bytes);
        if (rc && rc != SPNG_EOI)
            return report(c, rc, e);
    }
    for (uint32_t y = 0; y < r->height; y++)
        rgb_from_png(out->data + y * out->stride, rows + y * c->row_bytes, r->left, r->width, &c->kind);
    return 0;
}

/* A thread keeps its zlib from file to file. NULL: no memory. */
static z_stream *zlib_of(void **own)
{
    if (*own)
        return inflateReset(*own) == Z_OK ? *own : NULL;
    z_stream *z = calloc(1, sizeof(*z));
    if (z && inflateInit(z) != Z_OK) {
        free(z);
        z = NULL;
    }
    *own = z;
    return z;
}

static void close_zlib(void **own)
{
    if (*own)
        inflateEnd(*own);
    free(*own);
    *own = NULL;
}

static int decode(struct codec_state *s, void **own, const uint8_t *bytes, size_t n, const struct image_header *h, const struct region *r,
                  const struct image *out, struct fb_error *e)
{
    struct png_layout layout;
    struct png_call c;
    FB_TRY(png_check(bytes, n, &layout, e));
    z_stream *zlib = zlib_of(own);
    c.ctx = zlib ? spng_ctx_new(SPNG_CTX_IGNORE_ADLER32) : NULL; /* of the stored blocks it gets */
    if (!c.ctx)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for decoding a PNG");
    png_pixels_begin(&c.pixels, zlib, bytes, n, &layout);
    int rc = start(&c, h, s->wants_numbers, e);
    c.last_row = r->top + r->height - 1;
    if (!rc)
        rc = c.is_interlaced ? read_interlaced(&c, s, r, out, e) : read_rows(&c, s, r, out, e);
    if (!rc)
        rc = png_pixels_finish(&c.pixels, e);
    spng_ctx_free(c.ctx);
    return rc;
}

static bool probe(const uint8_t *bytes, size_t n)
{
    return n >= PNG_SIGNATURE_BYTES && !memcmp(bytes, "\x89PNG\r\n\x1a\n", PNG_SIGNATURE_BYTES);
}

const struct codec_ops codec_png = {.name = "png", .probe = probe, .header = png_header, .decode = decode, .close = close_zlib};
