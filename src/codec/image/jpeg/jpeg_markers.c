/* The markers of a JPEG file up to its first scan: size and orientation, without the decoder.
 *
 * Walks segment by segment as libjpeg does: bytes between segments that are no marker are passed over, 0xFF fill bytes too. What libjpeg
 * cannot decode (lossless, hierarchical, 12 bit) and what Pillow does not open (two components, more than four) is refused here in words.
 */
#include "codec/image/jpeg/jpeg_markers.h"

#include <string.h>

enum {
    SOF0 = 0xc0,
    SOF2 = 0xc2,
    DHT = 0xc4,
    JPG = 0xc8,
    SOF9 = 0xc9,
    SOF10 = 0xca,
    DAC = 0xcc,
    SOF15 = 0xcf,
    RST0 = 0xd0,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    APP1 = 0xe1,
    TEM = 0x01
};

struct walk {
    const uint8_t *bytes;
    size_t n, at;
    struct image_header *h;
    uint8_t exif, xmp; /* orientations found, 0: none */
};

static int damaged(struct walk *w, struct fb_error *e, const char *what)
{
    error_set(e, FB_E_DATA, "decode", "damaged JPEG: %s", what);
    error_at(e, NULL, (int64_t)w->at);
    return FB_E_DATA;
}

/* Moves behind the next marker and returns its code, or -1 at the end of the bytes. */
static int next_marker(struct walk *w)
{
    while (w->at < w->n) {
        const uint8_t *ff = memchr(w->bytes + w->at, 0xff, w->n - w->at);
        if (!ff)
            break;
        w->at = (size_t)(ff - w->bytes);
        while (w->at < w->n && w->bytes[w->at] == 0xff)
            w->at++;
        if (w->at < w->n && w->bytes[w->at++] != 0)
            return w->bytes[w->at - 1];
    }
    w->at = w->n;
    return -1;
}

bool jpeg_is_frame(int marker)
{
    return marker >= SOF0 && marker <= SOF15 && marker != DHT && marker != JPG && marker != DAC;
}

static bool is_alone(int marker)
{
    return marker == TEM || (marker >= RST0 && marker <= SOI);
}

static int read_frame(struct walk *w, int marker, const uint8_t *p, size_t length, struct fb_error *e)
{
    if (marker > SOF2 && marker != SOF9 && marker != SOF10)
        return error_set(e, FB_E_DATA, "decode", "this kind of JPEG (lossless or hierarchical, SOF%d) is not supported", marker - SOF0);
    if (length < 6)
        return damaged(w, e, "its frame header is too short");
    if (p[0] != 8)
        return error_set(e, FB_E_DATA, "decode", "JPEG with %d bits per component is not supported", p[0]);
    if (p[5] != 1 && p[5] != 3 && p[5] != 4)
        return error_set(e, FB_E_DATA, "decode", "JPEG with %d components is not supported", p[5]);
    w->h->height = big_endian_16(p + 1);
    w->h->width = big_endian_16(p + 3);
    return codec_check_size(w->h->width, w->h->height, e);
}

static void read_app1(struct walk *w, const uint8_t *p, size_t length)
{
    static const char xap[] = "http://ns.adobe.com/xap/1.0/"; /* with its NUL */
    if (length >= 6 && !memcmp(p, "Exif\0\0", 6)) {
        if (!w->exif)
            w->exif = exif_orientation(p, length);
    } else if (length >= sizeof(xap) && !memcmp(p, xap, sizeof(xap))) {
        w->xmp = xmp_orientation(p + sizeof(xap), length - sizeof(xap));
    }
}

/* One segment at w->at (behind its marker). 1: it is not all there. */
static int read_segment(struct walk *w, int marker, struct fb_error *e)
{
    if (w->n - w->at < 2)
        return 1;
    size_t length = big_endian_16(w->bytes + w->at);
    if (length < 2)
        return damaged(w, e, "a segment has an impossible length");
    if (w->n - w->at < length)
        return 1;
    const uint8_t *p = w->bytes + w->at + 2;
    if (jpeg_is_frame(marker) && !w->h->width)
        FB_TRY(read_frame(w, marker, p, length - 2, e));
    else if (marker == APP1)
        read_app1(w, p, length - 2);
    w->at += length;
    return 0;
}

int jpeg_header(const uint8_t *bytes, size_t n, struct image_header *h, struct fb_error *e)
{
    *h = (struct image_header){.orientation = 1};
    struct walk w = {.bytes = bytes, .n = n, .at = 2, .h = h};
    for (;;) {
        int marker = next_marker(&w);
        if (marker < 0)
            return 1;
        if (marker == EOI)
            return damaged(&w, e, "it ends before its pixels");
        if (marker == SOS)
            break;
        if (is_alone(marker))
            continue;
        int rc = read_segment(&w, marker, e);
        if (rc != 0)
            return rc;
    }
    if (!h->width)
        return damaged(&w, e, "its pixels come before their size");
    h->orientation = w.exif ? w.exif : w.xmp ? w.xmp : 1;
    h->can_scale = true;
    return 0;
}

bool jpeg_ends_here(int unread_marker, const uint8_t *bytes, size_t n)
{
    struct walk w = {.bytes = bytes, .n = n};
    int marker = unread_marker;
    while (marker == 0 || (marker >= RST0 && marker < SOI))
        marker = next_marker(&w);
    return marker == EOI;
}
