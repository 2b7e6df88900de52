/* What codecs promise beside their pixels: refusals in words, limits, budget, no state between images. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/image/codec.h"
#include "jpeg_maker.h"

static const struct jpeg_recipe plain = {.name = "420", .components = 3, .sampling = {0x22, 0x11, 0x11}};
static const struct jpeg_recipe progressive = {.name = "444p", .components = 3, .sampling = {0x11, 0x11, 0x11}, .is_progressive = true};

static void assert_says(const struct fb_error *e, const char *part)
{
    if (!strstr(e->cause, part))
        fail_msg("\"%s\" does not say \"%s\"", e->cause, part);
}

static void refused_bytes(const void *bytes, size_t n, const char *says)
{
    struct image_header h;
    struct fb_error e = {0};
    assert_int_equal(codec_header(bytes, n, &h, NULL, &e), FB_E_DATA);
    assert_string_equal(e.stage, "decode");
    assert_says(&e, says);
}

#define REFUSED(text, says) refused_bytes(text, sizeof(text) - 1, says)

static void what_is_no_image_is_named(void **unused)
{
    (void)unused;
    REFUSED("", "the file is empty");
    REFUSED("\n  <!DOCTYPE html><html><body>404 Not Found", "HTML page");
    REFUSED("<HTML><HEAD>", "HTML page");
    REFUSED("just some words\n", "it is text");
    REFUSED("<svg xmlns=\"x\"></svg>", "SVG");
    REFUSED("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git-lfs");
    REFUSED("GIF89a..........", "GIF");
    REFUSED("BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0", "BMP");
    REFUSED("II*\0\x08\0\0\0\0\0\0\0\0\0\0\0", "TIFF");
    REFUSED("MM\0*\0\0\0\x08\0\0\0\0\0\0\0\0", "TIFF");
    REFUSED("\0\0\0\x20"
            "ftypavif\0\0\0\0",
            "AVIF");
    REFUSED("\0\0\0\x20"
            "ftypheic\0\0\0\0",
            "HEIC");
    REFUSED("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "zero bytes");
    REFUSED("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10", "01 02 03 04");
    REFUSED("\xff\xd8", "beginning of a JPEG");
    REFUSED("\x89PNG\r", "beginning of a PNG");
    REFUSED("RIFF\x10\0\0\0", "beginning of a WebP");
    REFUSED("\xff\xd8\xff\xe0\0\x10JFIF\0", "jpeg file is cut off inside its header");
}

/* A PNG whose header claims width x height; what follows does not matter to the header. */
static size_t claim_png(uint8_t *out, uint32_t width, uint32_t height)
{
    static const uint8_t start[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    memcpy(out, start, 16);
    for (int i = 0; i < 4; i++) {
        out[16 + i] = (uint8_t)(width >> (24 - 8 * i));
        out[20 + i] = (uint8_t)(height >> (24 - 8 * i));
    }
    memcpy(out + 24, "\x08\x02\0\0\0\0\0\0\0\0\0\0\x08IDAT", 17);
    return 41;
}

static void claims_beyond_the_limits_are_refused_with_their_numbers(void **unused)
{
    (void)unused;
    uint8_t file[64];
    refused_bytes(file, claim_png(file, 65500, 65500), "65500 x 65500 pixels; the limits are 65500 on a side and 178956970 in all");
    refused_bytes(file, claim_png(file, 65501, 1), "65501 x 1 pixels");
    refused_bytes(file, claim_png(file, 4294967295u, 4294967295u), "4294967295 x 4294967295");
    refused_bytes(file, claim_png(file, 0, 5), "empty image of 0 x 5");
    struct image_header h;
    assert_int_equal(codec_header(file, claim_png(file, 13377, 13377), &h, NULL, NULL), 0);
    REFUSED("\xff\xd8\xff\xc0\0\x11\x08\xff\xdc\xff\xdc\x03\x01\x22\0\x02\x11\1\x03\x11\1\xff\xda\0\x08", "65500 x 65500");
    REFUSED("\xff\xd8\xff\xc0\0\x11\x08\0\0\0\x05\x03\x01\x22\0\x02\x11\1\x03\x11\1\xff\xda\0\x08", "empty image of 5 x 0");
    REFUSED("RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff", "16777216 x 16777216");
}

static void kinds_of_jpeg_that_cannot_be_read_are_named(void **unused)
{
    (void)unused;
    REFUSED("\xff\xd8\xff\xc3\0\x0b\x08\0\x05\0\x05\x01\x01\x11\0\xff\xda\0\x08", "SOF3");
    REFUSED("\xff\xd8\xff\xc0\0\x0b\x0c\0\x05\0\x05\x01\x01\x11\0\xff\xda\0\x08", "12 bits");
    REFUSED("\xff\xd8\xff\xc0\0\x0e\x08\0\x05\0\x05\x02\x01\x11\0\x02\x11\0\xff\xda\0\x08", "2 components");
    REFUSED("\xff\xd8\xff\xda\0\x08\x01\x01\0\0\x3f\0", "before their size");
    REFUSED("\xff\xd8\xff\xd9............", "ends before its pixels");
    REFUSED("\xff\xd8\xff\xe0\0\x01............", "impossible length");
}

static int decode_whole(struct codec_state *s, struct bytes file, uint8_t *out, struct fb_error *e)
{
    struct image_header h;
    const struct codec_ops *codec;
    FB_TRY(codec_header(file.data, file.n, &h, &codec, e));
    return codec_decode(s, codec, file.data, file.n, &h, &(struct region){0, 0, h.height, h.width},
                        &(struct image){out, (size_t)3 * h.width, h.width, h.height}, e);
}

static void a_truncated_file_is_refused_with_its_offset(void **unused)
{
    (void)unused;
    static uint8_t out[3 * 90 * 70];
    struct codec_state s;
    codec_state_init(&s, NULL);
    struct bytes file = jpeg_make(&plain, 90, 70);
    file.n -= 100;
    struct fb_error e = {0};
    assert_int_equal(decode_whole(&s, file, out, &e), FB_E_DATA);
    assert_says(&e, "cut off");
    assert_int_equal(e.offset, file.n);
    codec_state_free(&s);
    free(file.data);
}

/* Removes the segments with `marker`; every JPEG of the maker has them before its scan. */
static void remove_segments(struct bytes *file, uint8_t marker)
{
    size_t at = 2;
    while (file->data[at + 1] != 0xda) {
        size_t length = 2 + (size_t)(file->data[at + 2] << 8 | file->data[at + 3]);
        if (file->data[at + 1] == marker) {
            memmove(file->data + at, file->data + at + length, file->n - at - length);
            file->n -= length;
        } else {
            at += length;
        }
    }
}

static void tables_of_one_file_do_not_serve_the_next(void **unused)
{
    (void)unused;
    static uint8_t out[3 * 90 * 70];
    struct codec_state s;
    struct fb_error e = {0};
    codec_state_init(&s, NULL);
    struct bytes good = jpeg_make(&plain, 90, 70), bare = jpeg_make(&plain, 90, 70);
    remove_segments(&bare, 0xdb);
    assert_int_equal(decode_whole(&s, good, out, &e), 0);
    assert_int_equal(decode_whole(&s, bare, out, &e), FB_E_DATA);
    assert_says(&e, "Quantization table");
    codec_state_free(&s);
    free(good.data);
    free(bare.data);
}

static void a_failed_image_does_not_spoil_the_next(void **unused)
{
    (void)unused;
    static uint8_t first[3 * 90 * 70], second[3 * 90 * 70];
    struct codec_state s;
    struct fb_error e = {0};
    codec_state_init(&s, NULL);
    struct bytes good = jpeg_make(&plain, 90, 70), bad = {good.data, good.n / 2};
    assert_int_equal(decode_whole(&s, good, first, &e), 0);
    assert_int_equal(decode_whole(&s, bad, second, &e), FB_E_DATA);
    error_clear(&e);
    assert_int_equal(decode_whole(&s, good, second, &e), 0);
    assert_memory_equal(first, second, sizeof(first));
    codec_state_free(&s);
    free(good.data);
}

static void what_a_progressive_file_needs_is_counted_and_given_back(void **unused)
{
    (void)unused;
    static uint8_t out[3 * 400 * 400];
    struct budget budget = {.limit = 16 << 20};
    struct codec_state s;
    struct fb_error e = {0};
    codec_state_init(&s, &budget);
    struct bytes file = jpeg_make(&progressive, 400, 400);
    assert_int_equal(decode_whole(&s, file, out, &e), 0);
    assert_true(budget.peak_by[MEMORY_SCRATCH] >= 400 * 400 * 3 * 2);
    assert_true(budget.used_by[MEMORY_SCRATCH] < 400 * 400);
    budget.limit = 100000;
    assert_int_equal(decode_whole(&s, file, out, &e), FB_E_BUDGET);
    assert_says(&e, "progressive JPEG");
    assert_true(e.remedy[0]);
    codec_state_free(&s);
    assert_int_equal(budget.used, 0);
    free(file.data);
}

/* A progressive file whose last scan is repeated until there are `scans` of them more. */
static struct bytes with_many_scans(int scans)
{
    struct bytes file = jpeg_make(&progressive, 16, 16);
    size_t last = file.n - 2;
    while (file.data[last] != 0xff || file.data[last + 1] != 0xda)
        last--;
    size_t length = file.n - 2 - last;
    struct bytes many = {malloc(file.n + length * (size_t)scans), file.n - 2};
    memcpy(many.data, file.data, many.n);
    for (int i = 0; i < scans; i++, many.n += length)
        memcpy(many.data + many.n, file.data + last, length);
    memcpy(many.data + many.n, "\xff\xd9", 2);
    many.n += 2;
    free(file.data);
    return many;
}

static void a_file_with_a_flood_of_scans_is_refused(void **unused)
{
    (void)unused;
    static uint8_t out[3 * 16 * 16];
    struct codec_state s;
    struct fb_error e = {0};
    codec_state_init(&s, NULL);
    struct bytes some = with_many_scans(100), flood = with_many_scans(600);
    assert_int_equal(decode_whole(&s, some, out, &e), 0);
    assert_int_equal(decode_whole(&s, flood, out, &e), FB_E_DATA);
    assert_says(&e, "more than 500 scans");
    codec_state_free(&s);
    free(some.data);
    free(flood.data);
}

static void a_region_outside_the_image_is_a_usage_error(void **unused)
{
    (void)unused;
    static const struct region wrong[] = {{0, 0, 0, 5},  {0, 0, 5, 0},  {70, 0, 1, 1},         {0, 90, 1, 1},
                                          {0, 1, 1, 90}, {1, 0, 70, 1}, {1, 0, 0xffffffff, 1}, {0, 1, 1, 0xffffffff}};
    static uint8_t out[3 * 91 * 71];
    struct codec_state s;
    codec_state_init(&s, NULL);
    struct bytes file = jpeg_make(&plain, 90, 70);
    struct image_header h;
    const struct codec_ops *codec;
    assert_int_equal(codec_header(file.data, file.n, &h, &codec, NULL), 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fb_error e = {0};
        struct image image = {out, (size_t)3 * wrong[i].width, wrong[i].width, wrong[i].height};
        assert_int_equal(codec_decode(&s, codec, file.data, file.n, &h, &wrong[i], &image, &e), FB_E_USAGE);
    }
    struct fb_error e = {0};
    assert_int_equal(codec_decode(&s, codec, file.data, file.n, &h, &(struct region){0, 0, 4, 4}, &(struct image){out, 9, 3, 4}, &e),
                     FB_E_USAGE);
    codec_state_free(&s);
    free(file.data);
}

static void a_part_of_a_file_asks_for_more(void **unused)
{
    (void)unused;
    struct bytes file = jpeg_make(&plain, 90, 70);
    struct image_header h;
    const struct codec_ops *codec;
    for (size_t n = 0; n < 100; n++)
        assert_int_equal(codec_header_part(file.data, n, &h, &codec, NULL), 1);
    assert_int_equal(codec_header_part(file.data, file.n / 2, &h, &codec, NULL), 0);
    assert_int_equal(h.width, 90);
    assert_string_equal(codec->name, "jpeg");
    free(file.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_image_is_named),
        cmocka_unit_test(claims_beyond_the_limits_are_refused_with_their_numbers),
        cmocka_unit_test(kinds_of_jpeg_that_cannot_be_read_are_named),
        cmocka_unit_test(a_truncated_file_is_refused_with_its_offset),
        cmocka_unit_test(tables_of_one_file_do_not_serve_the_next),
        cmocka_unit_test(a_failed_image_does_not_spoil_the_next),
        cmocka_unit_test(what_a_progressive_file_needs_is_counted_and_given_back),
        cmocka_unit_test(a_file_with_a_flood_of_scans_is_refused),
        cmocka_unit_test(a_region_outside_the_image_is_a_usage_error),
        cmocka_unit_test(a_part_of_a_file_asks_for_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
