/* A region of a JPEG equals the same pixels of a whole decode: every left x width, every top x height, for every kind of file, at full
 * scale and at 1/2, 1/4 and 1/8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../sanitizers.h"
#include "codec/image/codec.h"
#include "jpeg_maker.h"

static const struct jpeg_recipe recipes[] = {
    {.name = "444", .components = 3, .sampling = {0x11, 0x11, 0x11}},
    {.name = "422", .components = 3, .sampling = {0x21, 0x11, 0x11}},
    {.name = "420", .components = 3, .sampling = {0x22, 0x11, 0x11}},
    {.name = "440", .components = 3, .sampling = {0x12, 0x11, 0x11}},
    {.name = "411", .components = 3, .sampling = {0x41, 0x11, 0x11}},
    {.name = "410", .components = 3, .sampling = {0x42, 0x11, 0x11}},
    {.name = "441", .components = 3, .sampling = {0x14, 0x11, 0x11}},
    {.name = "chroma finer than luma", .components = 3, .sampling = {0x11, 0x22, 0x11}},
    {.name = "each its own", .components = 3, .sampling = {0x22, 0x12, 0x21}},
    {.name = "three wide", .components = 3, .sampling = {0x31, 0x11, 0x11}},
    {.name = "three high", .components = 3, .sampling = {0x13, 0x11, 0x11}},
    {.name = "all twice as wide", .components = 3, .sampling = {0x21, 0x21, 0x21}},
    {.name = "grey", .components = 1, .sampling = {0x11}},
    {.name = "grey twofold", .components = 1, .sampling = {0x22}},
    {.name = "420 with restarts", .components = 3, .sampling = {0x22, 0x11, 0x11}, .restart_rows = 1},
    {.name = "422 arithmetic", .components = 3, .sampling = {0x21, 0x11, 0x11}, .is_arithmetic = true},
    {.name = "420 progressive", .components = 3, .sampling = {0x22, 0x11, 0x11}, .is_progressive = true},
    {.name = "422 progressive", .components = 3, .sampling = {0x21, 0x11, 0x11}, .is_progressive = true},
    {.name = "440 progressive", .components = 3, .sampling = {0x12, 0x11, 0x11}, .is_progressive = true},
    {.name = "411 progressive", .components = 3, .sampling = {0x41, 0x11, 0x11}, .is_progressive = true},
    {.name = "grey progressive", .components = 1, .sampling = {0x22}, .is_progressive = true},
    {.name = "each its own, progressive", .components = 3, .sampling = {0x22, 0x12, 0x21}, .is_progressive = true},
    {.name = "420 progressive, arithmetic", .components = 3, .sampling = {0x22, 0x11, 0x11}, .is_progressive = true, .is_arithmetic = true},
    {.name = "420 in separate scans", .components = 3, .sampling = {0x22, 0x11, 0x11}, .is_separate = true},
    {.name = "420 progressive, cut short", .components = 3, .sampling = {0x22, 0x11, 0x11}, .is_progressive = true, .stops_early = true},
};

static struct codec_state state;
static long regions;
static uint32_t stride = 1;

struct subject {
    const struct jpeg_recipe *recipe;
    struct bytes file;
    struct image_header header;
    const uint8_t *expected;
    uint8_t *got;
};

static void check_region(const struct subject *s, const struct region *r)
{
    struct fb_error e = {0};
    struct image out = {s->got, (size_t)3 * r->width, r->width, r->height};
    if (codec_decode(&state, codec_find(s->file.data, s->file.n), s->file.data, s->file.n, &s->header, r, &out, &e) < 0)
        fail_msg("%s: %s", s->recipe->name, e.cause);
    for (uint32_t y = 0; y < r->height; y++)
        if (memcmp(s->got + y * out.stride, s->expected + 3 * ((size_t)(r->top + y) * s->header.width + r->left), out.stride))
            fail_msg("%s %u x %u at 1/%d: row %u of the region %u x %u at left %u, top %u differs", s->recipe->name, s->header.width,
                     s->header.height, s->header.scale, y, r->width, r->height, r->left, r->top);
    regions++;
}

/* With a stride, what touches an edge is still whole, and of the rest every place and every length has its turn. */
static bool is_sampled(uint32_t first, uint32_t length, uint32_t size)
{
    return first == 0 || first + length == size || (first + 2 * length) % stride == 0;
}

static void check_columns(const struct subject *s, uint32_t top, uint32_t height)
{
    for (uint32_t left = 0; left < s->header.width; left++)
        for (uint32_t width = 1; width <= s->header.width - left; width++)
            if (is_sampled(left, width, s->header.width))
                check_region(s, &(struct region){top, left, height, width});
}

static void check_rows(const struct subject *s, uint32_t left, uint32_t width)
{
    for (uint32_t top = 0; top < s->header.height; top++)
        for (uint32_t height = 1; height <= s->header.height - top; height++)
            if (is_sampled(top, height, s->header.height))
                check_region(s, &(struct region){top, left, height, width});
}

static void check_size(const struct jpeg_recipe *recipe, uint32_t width, uint32_t height)
{
    struct fb_error e = {0};
    struct subject s = {.recipe = recipe, .file = jpeg_make(recipe, width, height), .got = malloc((size_t)3 * width * height)};
    if (codec_header(s.file.data, s.file.n, &s.header, NULL, &e) < 0)
        fail_msg("%s: %s", recipe->name, e.cause);
    assert_int_equal(s.header.width, width);
    assert_int_equal(s.header.height, height);
    assert_true(s.header.can_scale);
    for (uint8_t scale = 1; scale <= 8; scale *= 2) {
        uint8_t *expected = jpeg_decode_plainly(s.file, scale);
        s.header = (struct image_header){image_reduced(width, scale), image_reduced(height, scale), 1, true, scale};
        s.expected = expected;
        check_columns(&s, s.header.height / 3, 1 + s.header.height / 7);
        check_rows(&s, s.header.width / 3, 1 + s.header.width / 7);
        free(expected);
    }
    free(s.file.data);
    free(s.got);
}

/* `width` crosses two iMCUs of every sampling and is no multiple of any; the sampled run leaves out most sizes, not most regions. */
static void every_region_equals_the_whole_decode(void **unused)
{
    (void)unused;
    static const uint32_t sizes[][2] = {{1, 1}, {2, 3}, {5, 40}, {33, 17}, {67, 51}, {80, 64}};
    stride = SANITIZED_STRIDE(3);
    codec_state_init(&state, NULL);
    for (size_t i = 0; i < sizeof(recipes) / sizeof(recipes[0]); i++)
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
            check_size(&recipes[i], sizes[k][0], sizes[k][1]);
    codec_state_free(&state);
    print_message("%ld regions\n", regions);
    assert_true(regions > 100000 / stride);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_region_equals_the_whole_decode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
