/* WebP by libwebp: lossy, lossless, with alpha (dropped), animated (the first frame on a black canvas, as Pillow shows it).
 *
 * A region uses the decoder's cropping, which neither converts the pixels outside nor reads the rows below. Lossy files blend chroma with
 * its neighbours and treat the border of a crop like the border of an image, so for them the crop is two pixels wider on each side, from an
 * even row and column on; then the result is that of a full decode. A file shorter than it says is refused whatever the region.
 * Of lossless files the rows below are read all the same: where their data ends too early, libwebp may notice it only some pixels later,
 * and a region that ends right there would have pixels that are made up.
 */
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "codec/codec_internal.h"

enum { RIFF_HEAD = 12, CHUNK_HEAD = 8, FIRST_BYTES = 30, HAS_XMP = 4, HAS_EXIF = 8 };

static bool is_named(const uint8_t *p, const char *name)
{
    return !memcmp(p, name, 4);
}

static int damaged(struct fb_error *e, const char *what, int64_t at)
{
    error_set(e, FB_E_DATA, "decode", "damaged WebP: %s", what);
    error_at(e, NULL, at);
    return FB_E_DATA;
}

/* Where the file says it ends. */
static uint64_t stated_size(const uint8_t *bytes)
{
    return (uint64_t)little_endian_32(bytes + 4) + CHUNK_HEAD;
}

/* ---- header ---- */

static uint32_t little_endian_24(const uint8_t *p)
{
    return (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static int read_size(const uint8_t *bytes, struct image_header *h, struct fb_error *e)
{
    const uint8_t *p = bytes + RIFF_HEAD + CHUNK_HEAD;
    if (is_named(bytes + RIFF_HEAD, "VP8X")) {
        h->width = little_endian_24(p + 4) + 1;
        h->height = little_endian_24(p + 7) + 1;
    } else if (is_named(bytes + RIFF_HEAD, "VP8L")) {
        if (p[0] != 0x2f)
            return damaged(e, "its lossless data has no signature", RIFF_HEAD + CHUNK_HEAD);
        h->width = (little_endian_32(p + 1) & 0x3fff) + 1;
        h->height = (little_endian_32(p + 1) >> 14 & 0x3fff) + 1;
    } else {
        if (memcmp(p + 3, "\x9d\x01\x2a", 3))
            return damaged(e, "its lossy data has no start code", RIFF_HEAD + CHUNK_HEAD);
        h->width = little_endian_32(p + 6) & 0x3fff;
        h->height = little_endian_32(p + 6) >> 16 & 0x3fff;
    }
    return codec_check_size(h->width, h->height, e);
}

/* Metadata comes after the pixels; the flags of VP8X say whether there is any. 1: it is announced, but not in these bytes. */
static int read_orientation(const uint8_t *bytes, size_t n, uint8_t announced, struct image_header *h)
{
    uint64_t end = stated_size(bytes), at = RIFF_HEAD;
    uint8_t exif = 0, xmp = 0;
    while (announced && at + CHUNK_HEAD <= end) {
        if (at + CHUNK_HEAD > n)
            return 1;
        const uint8_t *p = bytes + at;
        uint64_t length = little_endian_32(p + 4), next = at + CHUNK_HEAD + length + (length & 1);
        bool is_exif = is_named(p, "EXIF"), is_xmp = is_named(p, "XMP ");
        if ((is_exif || is_xmp) && at + CHUNK_HEAD + length > n)
            return 1;
        if (is_exif && (announced & HAS_EXIF))
            exif = exif_orientation(p + CHUNK_HEAD, (size_t)length);
        if (is_xmp && (announced & HAS_XMP))
            xmp = xmp_orientation(p + CHUNK_HEAD, (size_t)length);
        announced &= (uint8_t)~(is_exif ? HAS_EXIF : is_xmp ? HAS_XMP : 0);
        at = next;
    }
    h->orientation = exif ? exif : xmp ? xmp : 1;
    return 0;
}

static int header(const uint8_t *bytes, size_t n, struct image_header *h, struct fb_error *e)
{
    *h = (struct image_header){.orientation = 1};
    if (n < FIRST_BYTES)
        return 1;
    FB_TRY(read_size(bytes, h, e));
    uint8_t flags = is_named(bytes + RIFF_HEAD, "VP8X") ? bytes[RIFF_HEAD + CHUNK_HEAD] : 0;
    return read_orientation(bytes, n, flags & (HAS_EXIF | HAS_XMP), h);
}

/* ---- pixels ---- */

static int report(VP8StatusCode status, size_t n, struct fb_error *e)
{
    if (status == VP8_STATUS_OUT_OF_MEMORY)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for decoding a WebP");
    if (status == VP8_STATUS_NOT_ENOUGH_DATA)
        return damaged(e, "its pixels need more bytes than there are", (int64_t)n);
    if (status == VP8_STATUS_UNSUPPORTED_FEATURE)
        return damaged(e, "it uses a feature that does not exist", -1);
    return damaged(e, "its pixels cannot be decoded", -1);
}

static uint32_t lower(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The part of the frame to decode so that `r` (in frame pixels) comes out exact. */
static struct region crop_for(const WebPBitstreamFeatures *f, const struct region *r)
{
    if (f->format == 2) /* lossless: every pixel stands alone, and the last one proves the others */
        return (struct region){r->top, r->left, (uint32_t)f->height - r->top, r->width};
    uint32_t top = (r->top > 2 ? r->top - 2 : 0) & ~1u, left = (r->left > 2 ? r->left - 2 : 0) & ~1u;
    uint32_t bottom = lower(r->top + r->height + 2, (uint32_t)f->height), right = lower(r->left + r->width + 2, (uint32_t)f->width);
    return (struct region){top, left, bottom - top, right - left};
}

/* Lossless pixels and alpha planes are kept whole by the library, four bytes each at most. */
static uint64_t library_bytes(const WebPBitstreamFeatures *f)
{
    return f->format == 2 || f->has_alpha ? (uint64_t)f->width * (uint64_t)f->height * 4 : 0;
}

static VP8StatusCode decode_crop(WebPDecoderConfig *config, const WebPData *data, const struct region *crop, uint8_t *out, size_t stride)
{
    config->options.use_cropping = 1;
    config->options.crop_left = (int)crop->left;
    config->options.crop_top = (int)crop->top;
    config->options.crop_width = (int)crop->width;
    config->options.crop_height = (int)crop->height;
    config->output.colorspace = MODE_RGB;
    config->output.is_external_memory = 1;
    config->output.u.RGBA.rgba = out;
    config->output.u.RGBA.stride = (int)stride;
    config->output.u.RGBA.size = stride * (crop->height - 1) + (size_t)3 * crop->width;
    VP8StatusCode status = WebPDecode(data->bytes, data->size, config);
    WebPFreeDecBuffer(&config->output);
    return status;
}

/* Decodes `r` of one frame into `out`. */
static int decode_frame(struct codec_state *s, const WebPData *data, const struct region *r, const struct image *out, struct fb_error *e)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return error_set(e, FB_E_UNSUPPORTED, "decode", "the installed libwebp is not compatible");
    VP8StatusCode status = WebPGetFeatures(data->bytes, data->size, &config.input);
    if (status != VP8_STATUS_OK)
        return report(status, data->size, e);
    struct region crop = crop_for(&config.input, r);
    bool is_direct = crop.width == r->width && crop.height == r->height && out->stride <= INT32_MAX;
    size_t stride = is_direct ? out->stride : (size_t)3 * crop.width;
    uint8_t *to = is_direct ? out->data : scratch_need(&s->scratch, stride * crop.height, e);
    if (!to)
        return e ? e->code : FB_E_NOMEM;
    uint64_t bytes = library_bytes(&config.input);
    FB_TRY(codec_borrow(s, bytes, "the pixels of a WebP", e));
    status = decode_crop(&config, data, &crop, to, stride);
    codec_give_back(s, bytes);
    if (status != VP8_STATUS_OK)
        return report(status, data->size, e);
    const uint8_t *from = to + (r->top - crop.top) * stride + (size_t)3 * (r->left - crop.left);
    for (uint32_t y = 0; y < r->height && !is_direct; y++)
        memcpy(out->data + y * out->stride, from + y * stride, (size_t)3 * r->width);
    return 0;
}

/* Places the first frame on the canvas: black, and the part of the frame that lies in the region. */
static int decode_first(struct codec_state *s, const WebPIterator *frame, const struct region *r, const struct image *out,
                        struct fb_error *e)
{
    uint32_t x = (uint32_t)frame->x_offset, y = (uint32_t)frame->y_offset;
    uint32_t left = r->left > x ? r->left : x, top = r->top > y ? r->top : y;
    uint32_t right = lower(r->left + r->width, x + (uint32_t)frame->width), bottom = lower(r->top + r->height, y + (uint32_t)frame->height);
    bool is_inside = left < right && top < bottom;
    if (!is_inside || right - left < r->width || bottom - top < r->height)
        for (uint32_t i = 0; i < r->height; i++)
            memset(out->data + i * out->stride, 0, (size_t)3 * r->width);
    if (!is_inside) { /* still decode something: a damaged frame is damaged whatever the region */
        uint8_t pixel[3];
        return decode_frame(s, &frame->fragment, &(struct region){0, 0, 1, 1}, &(struct image){pixel, 3, 1, 1}, e);
    }
    struct region part = {top - y, left - x, bottom - top, right - left};
    struct image place = {out->data + (top - r->top) * out->stride + (size_t)3 * (left - r->left), out->stride, part.width, part.height};
    return decode_frame(s, &frame->fragment, &part, &place, e);
}

static int decode(struct codec_state *s, void **own, const uint8_t *bytes, size_t n, const struct image_header *h, const struct region *r,
                  const struct image *out, struct fb_error *e)
{
    (void)own;
    if (n < RIFF_HEAD || n < stated_size(bytes)) {
        error_set(e, FB_E_DATA, "decode", "the WebP file is cut off: it says %llu bytes, %zu are there",
                  n < RIFF_HEAD ? 0ull : (unsigned long long)stated_size(bytes), n);
        error_at(e, NULL, (int64_t)n);
        return FB_E_DATA;
    }
    WebPDemuxer *demuxer = WebPDemux(&(WebPData){bytes, n});
    if (!demuxer)
        return damaged(e, "its chunks do not fit together", -1);
    WebPIterator frame = {0};
    int rc;
    if (WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH) != h->width || WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT) != h->height)
        rc = damaged(e, "its canvas and its frame differ in size", -1);
    else if (!WebPDemuxGetFrame(demuxer, 1, &frame) || !frame.complete)
        rc = damaged(e, "it has no complete frame", -1);
    else
        rc = decode_first(s, &frame, r, out, e);
    WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(demuxer);
    return rc;
}

static bool probe(const uint8_t *bytes, size_t n)
{
    return n >= 16 && is_named(bytes, "RIFF") && is_named(bytes + 8, "WEBP") &&
           (is_named(bytes + 12, "VP8 ") || is_named(bytes + 12, "VP8L") || is_named(bytes + 12, "VP8X"));
}

const struct codec_ops codec_webp = {.name = "webp", .probe = probe, .header = header, .decode = decode};
