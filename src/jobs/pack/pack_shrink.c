#include "jobs/pack/pack_shrink.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

struct pixels {
    uint8_t *data;
    int height, width;
};

/* ---- what a JPEG says about itself ---- */

enum { APP1 = 0xE1, APP2 = 0xE2 };

static bool goes_along(int marker, const uint8_t *data, size_t n)
{
    return (marker == APP1 && n >= 6 && memcmp(data, "Exif\0", 6) == 0) ||
           (marker == APP2 && n >= 12 && memcmp(data, "ICC_PROFILE", 12) == 0);
}

static void copy_markers(struct jpeg_compress_struct *c, const uint8_t *bytes, size_t n)
{
    if (n < 4 || bytes[0] != 0xFF || bytes[1] != 0xD8)
        return;
    for (size_t at = 2; at + 4 <= n && bytes[at] == 0xFF && bytes[at + 1] != 0xDA;) {
        size_t length = (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (length < 2 || length > n - at - 2)
            return;
        if (goes_along(bytes[at + 1], bytes + at + 4, length - 2))
            jpeg_write_marker(c, bytes[at + 1], bytes + at + 4, (unsigned)(length - 2));
        at += 2 + length;
    }
}

/* ---- writing ---- */

struct failing {
    struct jpeg_error_mgr base;
    jmp_buf back;
    char what[JMSG_LENGTH_MAX];
};

static void fail(j_common_ptr c)
{
    struct failing *f = (struct failing *)c->err;
    c->err->format_message(c, f->what);
    longjmp(f->back, 1);
}

static void stay_silent(j_common_ptr c)
{
    (void)c;
}

/* Into `room`, which is large enough: the library only grows a buffer of its own, and loses track of it when it fails. */
static int encode_into(unsigned char *room, unsigned long room_bytes, const struct pixels *p, int quality, const uint8_t *original,
                       size_t original_bytes, struct text *out, struct fb_error *e)
{
    struct jpeg_compress_struct c;
    struct failing failing;
    unsigned char *memory = room;
    unsigned long length = room_bytes;
    c.err = jpeg_std_error(&failing.base);
    failing.base.error_exit = fail;
    failing.base.output_message = stay_silent;
    jpeg_create_compress(&c);
    if (setjmp(failing.back)) {
        jpeg_destroy_compress(&c);
        return error_set(e, FB_E_DATA, "pack", "it cannot be written as a JPEG: %s", failing.what);
    }
    jpeg_mem_dest(&c, &memory, &length);
    c.image_width = (JDIMENSION)p->width;
    c.image_height = (JDIMENSION)p->height;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, quality, TRUE);
    c.optimize_coding = TRUE;
    jpeg_start_compress(&c, TRUE);
    copy_markers(&c, original, original_bytes);
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = p->data + (size_t)c.next_scanline * 3 * (size_t)p->width;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    text_append(out, (const char *)memory, length);
    jpeg_destroy_compress(&c);
    if (memory != room)
        free(memory);
    return out->failed ? error_set(e, FB_E_NOMEM, "pack", "no memory for a smaller picture") : 1;
}

static int encode(const struct pixels *p, int quality, const uint8_t *original, size_t original_bytes, struct text *out, struct fb_error *e)
{
    size_t room_bytes = (size_t)p->height * (size_t)p->width * 3 + original_bytes + (64 << 10);
    unsigned char *room = malloc(room_bytes);
    if (!room)
        return error_set(e, FB_E_NOMEM, "pack", "no memory for a smaller picture");
    int rc = encode_into(room, room_bytes, p, quality, original, original_bytes, out, e);
    free(room);
    return rc;
}

/* ---- resizing ---- */

/* As torchvision's Resize has it: the longer side is cut to whole pixels. */
static struct pixels smaller_size(const struct pixels *from, int shorter)
{
    int64_t h = from->height, w = from->width;
    return h <= w ? (struct pixels){.height = shorter, .width = (int)(shorter * w / h)}
                  : (struct pixels){.height = (int)(shorter * h / w), .width = shorter};
}

static int decode_and_resize(const uint8_t *bytes, size_t n, struct pixels *from, struct pixels *to, struct fb_error *e)
{
    from->data = malloc((size_t)from->height * (size_t)from->width * 3);
    to->data = malloc((size_t)to->height * (size_t)to->width * 3);
    if (!from->data || !to->data)
        return error_set(e, FB_E_NOMEM, "pack", "no memory for a picture of %d x %d", from->height, from->width);
    FB_TRY(fb_decode_image(bytes, n, 0, from->data, e));
    return fb_resize_image(from->data, from->height, from->width, 3, FB_BILINEAR, to->height, to->width, to->data, e);
}

int pack_shrink(const struct pack_shrink *how, const uint8_t *bytes, size_t n, struct text *out, struct fb_error *e)
{
    struct pixels from = {0};
    FB_TRY(fb_image_size(bytes, n, 0, &from.height, &from.width, e));
    if (from.height <= how->shorter || from.width <= how->shorter)
        return 0;
    struct pixels to = smaller_size(&from, how->shorter);
    int rc = decode_and_resize(bytes, n, &from, &to, e);
    if (rc == 0)
        rc = encode(&to, how->quality, bytes, n, out, e);
    free(from.data);
    free(to.data);
    return rc;
}
