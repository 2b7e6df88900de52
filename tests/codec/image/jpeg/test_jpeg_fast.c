/* Our JPEG decoder gives libjpeg-turbo's pixels: varied files x scales x random regions, without a record, with the record of another
 * region or scale, with a full one, in C and with SIMD; and wild coefficients that no encoder writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>

#include "../../../sanitizers.h"
#include "base/rng.h"
#include "codec/codec_internal.h"
#include "codec/image/jpeg/kernels/jpeg_kernels.h"
#include "../jpeg_maker.h"

static const uint8_t samplings[][3] = {{0x11, 0x11, 0x11}, {0x21, 0x11, 0x11}, {0x22, 0x11, 0x11}, {0x12, 0x11, 0x11}};

static const uint8_t scales[] = {1, 2, 4, 8};
enum { SCALES = sizeof(scales) };

static long files, regions, ways[CODEC_WAYS];

struct subject {
    struct jpeg_recipe recipe;
    struct bytes file;
    struct image_header header; /* at the scale under test */
    const uint8_t *expected;
    uint8_t *whole[SCALES], *got;
    struct bytes record;
};

static uint32_t below(struct rng *r, uint32_t n)
{
    return (uint32_t)rng_below(r, n);
}

static struct jpeg_recipe random_recipe(struct rng *r)
{
    static const int qualities[] = {5, 20, 50, 75, 85, 90, 95, 98, 100};
    struct jpeg_recipe recipe = {.name = "drawn", .components = below(r, 6) ? 3 : 1, .quality = qualities[below(r, 9)]};
    memcpy(recipe.sampling, samplings[below(r, 4)], 3);
    recipe.is_optimised = below(r, 2);
    recipe.content = (int)below(r, 4);
    recipe.has_wide_quant = below(r, 4) == 0;
    recipe.has_no_jfif = below(r, 4) == 0;
    if (below(r, 4) == 0)
        recipe.restart_rows = 1 + (int)below(r, 3);
    else if (below(r, 4) == 0)
        recipe.restart_mcus = 1 + (int)below(r, 40);
    return recipe;
}

static struct region random_region(struct rng *r, const struct image_header *h)
{
    struct region g = {below(r, h->height), below(r, h->width), 0, 0};
    g.height = 1 + below(r, h->height - g.top);
    g.width = 1 + below(r, h->width - g.left);
    return g;
}

/* Takes rows out of the ring as late as it may. */
struct collector {
    const struct image *out;
    uint8_t *ring;
    uint32_t ready, taken;
};

static void collect(void *ctx, uint32_t first, uint32_t count)
{
    struct collector *c = ctx;
    if (first == 0)
        c->ready = c->taken = 0;
    assert_int_equal(first, c->ready);
    assert_in_range(count, 1, CODEC_RING_ROWS / 2);
    c->ready += count;
    uint32_t may_wait = c->ready == c->out->height ? 0 : CODEC_RING_ROWS / 2;
    for (; c->ready - c->taken > may_wait; c->taken++)
        memcpy(c->out->data + c->taken * c->out->stride, c->ring + c->taken % CODEC_RING_ROWS * c->out->stride, c->out->stride);
}

/* The region into `out`, all at once or row by row. */
static int decode(struct subject *s, struct codec_state *state, const struct region *r, const struct image *out, bool by_rows,
                  struct fb_error *e)
{
    struct collector c = {.out = out};
    struct image ring = *out;
    if (!by_rows)
        return codec_decode(state, &codec_jpeg, s->file.data, s->file.n, &s->header, r, out, e);
    ring.data = c.ring = malloc(out->stride * CODEC_RING_ROWS);
    state->taker = &(struct row_taker){collect, &c};
    int rc = codec_decode(state, &codec_jpeg, s->file.data, s->file.n, &s->header, r, &ring, e);
    state->taker = NULL;
    assert_true(rc == 1 || c.taken == out->height);
    free(c.ring);
    return rc;
}

static void check(struct subject *s, struct codec_state *state, const struct region *r, const char *how)
{
    struct fb_error e = {0};
    struct image out = {s->got, (size_t)3 * r->width, r->width, r->height};
    bool by_rows = regions % 3 == 0 && !s->recipe.is_rgb;
    memset(s->got, 0x5a, out.stride * r->height);
    if (decode(s, state, r, &out, by_rows, &e) != 0)
        fail_msg("%s%s: %s", how, by_rows ? ", by rows" : "", e.cause);
    for (uint32_t y = 0; y < r->height; y++)
        if (memcmp(s->got + y * out.stride, s->expected + 3 * ((size_t)(r->top + y) * s->header.width + r->left), out.stride))
            fail_msg("%s, %s: %u x %u at 1/%d, %d components %02x, quality %d, restart %d/%d, content %d: row %u of %u x %u at left %u, "
                     "top %u differs",
                     how, jpeg_kernels()->name, s->header.width, s->header.height, s->header.scale, s->recipe.components,
                     s->recipe.sampling[0], s->recipe.quality, s->recipe.restart_rows, s->recipe.restart_mcus, s->recipe.content, y,
                     r->width, r->height, r->left, r->top);
    regions++;
    ways[state->way]++;
    assert_int_not_equal(state->way, CODEC_FALLBACK);
}

static void keep_record(struct subject *s, const struct codec_state *state)
{
    if (!state->record_bytes)
        return;
    s->record.data = realloc(s->record.data, state->record_bytes);
    s->record.n = state->record_bytes;
    memcpy(s->record.data, state->record.data, s->record.n);
}

static void use_record(const struct subject *s, struct codec_state *state)
{
    state->known = s->record.n ? s->record.data : NULL;
    state->known_bytes = s->record.n;
}

static void check_file(struct subject *s, struct codec_state *state, struct rng *rng, int count)
{
    struct region whole = {0, 0, s->header.height, s->header.width};
    for (int i = 0; i < count; i++) {
        struct region r = random_region(rng, &s->header);
        s->record.n = 0;
        use_record(s, state);
        check(s, state, &r, "without a record");
        keep_record(s, state);
        use_record(s, state);
        check(s, state, &r, "with its own record");
        r = random_region(rng, &s->header);
        check(s, state, &r, "with the record of another region");
    }
    use_record(s, state);
    check(s, state, &whole, "whole, with a partial record");
    keep_record(s, state);
    use_record(s, state);
    check(s, state, &whole, "whole, with a full record");
    for (int i = 0; i < count; i++) {
        struct region r = random_region(rng, &s->header);
        check(s, state, &r, "with a full record");
        assert_true(s->record.n == 0 || state->way == CODEC_BY_RECORD);
        assert_int_equal(state->record_bytes, 0); /* nothing new */
    }
}

/* Everything at full scale, then a little less at each other, beginning with the record that the scale before has left. */
static void check_scales(struct subject *s, struct codec_state *state, uint32_t width, uint32_t height, struct rng *rng, int count)
{
    for (int i = 0; i < SCALES; i++) {
        s->header = (struct image_header){image_reduced(width, scales[i]), image_reduced(height, scales[i]), 1, true, scales[i]};
        s->expected = s->whole[i];
        struct region r = random_region(rng, &s->header);
        use_record(s, state);
        check(s, state, &r, i ? "with the record of another scale" : "with nothing");
        check_file(s, state, rng, i ? (count + 1) / 2 : count);
    }
    s->record.n = 0;
}

static void check_recipe(const struct jpeg_recipe *recipe, uint32_t width, uint32_t height, struct rng *rng, int count)
{
    static const char *const kernels[] = {"c", "avx2"};
    struct subject s = {.recipe = *recipe, .file = jpeg_make(recipe, width, height), .got = malloc((size_t)3 * width * height)};
    for (int i = 0; i < SCALES; i++)
        s.whole[i] = jpeg_decode_plainly(s.file, scales[i]);
    files++;
    for (int i = 0; i < 2; i++) {
        const struct jpeg_kernels *k = jpeg_kernels_by_name(kernels[i]);
        if (!k)
            continue;
        struct codec_state state;
        codec_state_init(&state, NULL);
        state.wants_record = true;
        jpeg_kernels_use(k);
        check_scales(&s, &state, width, height, rng, count);
        codec_state_free(&state);
    }
    jpeg_kernels_use(NULL);
    for (int i = 0; i < SCALES; i++)
        free(s.whole[i]);
    free(s.file.data);
    free(s.got);
    free(s.record.data);
}

static void varied_files_and_regions_equal_libjpeg(void **unused)
{
    (void)unused;
    uint32_t n = 520 / SANITIZED_STRIDE(3);
    for (uint32_t i = 0; i < n; i++) {
        struct rng rng = rng_stream(RNG_TRANSFORM, 7, 0, i, 0);
        struct jpeg_recipe recipe = random_recipe(&rng);
        uint32_t most = i % 13 == 0 ? 900 : i % 3 == 0 ? 24 : 200;
        uint32_t width = 1 + below(&rng, most), height = 1 + below(&rng, most);
        check_recipe(&recipe, width, height, &rng, 3);
    }
    assert_true(files >= n);
    print_message("%ld files, %ld regions: %ld by record, %ld plainly\n", files, regions, ways[CODEC_BY_RECORD], ways[CODEC_PLAIN]);
    assert_true(ways[CODEC_BY_RECORD] > regions / 3);
}

static void every_small_size_equals_libjpeg(void **unused)
{
    (void)unused;
    struct rng rng = rng_stream(RNG_TRANSFORM, 8, 0, 0, 0);
    for (uint32_t size = 1; size <= 34; size++)
        for (int i = 0; i < 4; i++) {
            struct jpeg_recipe recipe = {.name = "small", .components = 3};
            memcpy(recipe.sampling, samplings[i], 3);
            check_recipe(&recipe, size, 35 - size, &rng, 2);
        }
}

static void large_files_equal_libjpeg(void **unused)
{
    (void)unused;
    struct rng rng = rng_stream(RNG_TRANSFORM, 9, 0, 0, 0);
    static const uint32_t sizes[][2] = {{4000, 3000}, {65500, 9}, {7, 20000}, {1, 1}};
    for (int i = 0; i < 4; i++) {
        struct jpeg_recipe recipe = {.name = "large", .components = 3, .quality = 90, .is_optimised = true};
        memcpy(recipe.sampling, samplings[i == 0 ? 2 : i], 3);
        check_recipe(&recipe, sizes[i][0], sizes[i][1], &rng, 1);
    }
}

static void colours_are_told_apart_as_libjpeg_does(void **unused)
{
    (void)unused;
    static const struct jpeg_recipe recipes[] = {
        {.name = "RGB by marker", .components = 3, .sampling = {0x11, 0x11, 0x11}, .is_rgb = true},
        {.name = "RGB by names", .components = 3, .sampling = {0x11, 0x11, 0x11}, .is_rgb = true, .has_no_jfif = true},
        {.name = "YCbCr by Adobe's marker", .components = 3, .sampling = {0x22, 0x11, 0x11}, .has_adobe = true},
        {.name = "YCbCr by names", .components = 3, .sampling = {0x22, 0x11, 0x11}, .has_no_jfif = true},
        {.name = "grey twofold", .components = 1, .sampling = {0x22}},
    };
    struct rng rng = rng_stream(RNG_TRANSFORM, 11, 0, 0, 0);
    for (int i = 0; i < 5; i++) {
        long before = ways[CODEC_BY_RECORD];
        check_recipe(&recipes[i], 70, 50, &rng, 3);
        assert_int_equal(ways[CODEC_BY_RECORD] > before, !recipes[i].is_rgb); /* RGB is libjpeg's */
    }
}

static void what_libjpeg_decodes_is_not_given_row_by_row(void **unused)
{
    (void)unused;
    struct jpeg_recipe recipe = {.name = "progressive", .components = 3, .sampling = {0x22, 0x11, 0x11}, .is_progressive = true};
    struct subject s = {.recipe = recipe, .file = jpeg_make(&recipe, 100, 80), .header = {100, 80, 1}, .got = malloc(100 * 80 * 3)};
    struct codec_state state;
    struct fb_error e = {0};
    codec_state_init(&state, NULL);
    assert_int_equal(decode(&s, &state, &(struct region){0, 0, 80, 100}, &(struct image){s.got, 300, 100, 80}, true, &e), 1);
    assert_int_equal(e.code, 0);
    codec_state_free(&state);
    free(s.file.data);
    free(s.got);
}

static void codes_that_libjpeg_refuses_are_refused(void **unused)
{
    (void)unused;
    static struct jpeg_huffman h;
    uint8_t ones[17] = {1, [15] = 0, 0}, four[20] = {0, 4, [16] = 1, 2, 3, 4}, three[19] = {0, 3, [16] = 1, 2, 3};
    assert_true(jpeg_huffman_make(&h, &(struct jpeg_code){three, 19}, true));
    assert_false(jpeg_huffman_make(&h, &(struct jpeg_code){four, 20}, true)); /* the fourth is all ones */
    assert_true(jpeg_huffman_make(&h, &(struct jpeg_code){ones, 17}, true));
    three[17] = 16;
    assert_true(jpeg_huffman_make(&h, &(struct jpeg_code){three, 19}, false));
    assert_false(jpeg_huffman_make(&h, &(struct jpeg_code){three, 19}, true)); /* no difference has 16 bits */
}

/* ---- what no encoder writes ---- */

static void write_wild(struct jpeg_compress_struct *c, jvirt_barray_ptr *arrays, struct rng *rng)
{
    for (int i = 0; i < 3; i++) {
        JBLOCKARRAY rows = c->mem->access_virt_barray((j_common_ptr)c, arrays[i], 0, 1, TRUE);
        for (int b = 0; b < 8; b++) {
            memset(rows[0][b], 0, sizeof(JBLOCK));
            int count = b % 4 == 0 ? 1 : b % 4 == 1 ? 8 : 64; /* DC alone, first row, all */
            for (int k = 0; k < count; k++)
                if (k == 0 || below(rng, 3))
                    rows[0][b][k] = (JCOEF)((int)below(rng, 2046) - 1023);
        }
    }
}

/* A file of 8 x 1 blocks (4:4:4) with coefficients up to the format's limits and steps of up to 65535: everything overflows. */
static struct bytes make_wild(struct rng *rng)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long n = 0;
    jvirt_barray_ptr arrays[3];
    c.err = jpeg_std_error(&errors);
    errors.output_message = jpeg_say_nothing;
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &data, &n);
    c.image_width = 64;
    c.image_height = 8;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    c.comp_info[0].h_samp_factor = c.comp_info[0].v_samp_factor = 1;
    for (int t = 0; t < 2; t++)
        for (int k = 0; k < 64; k++)
            c.quant_tbl_ptrs[t]->quantval[k] = (UINT16)(1 + below(rng, below(rng, 2) ? 255 : 65535));
    for (int i = 0; i < 3; i++) {
        c.comp_info[i].width_in_blocks = 8;
        c.comp_info[i].height_in_blocks = 1;
        arrays[i] = c.mem->request_virt_barray((j_common_ptr)&c, JPOOL_IMAGE, TRUE, 8, 1, 1);
    }
    jpeg_write_coefficients(&c, arrays);
    write_wild(&c, arrays, rng);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return (struct bytes){data, n};
}

static void check_wild(struct bytes file, const char *kernels, uint32_t scale)
{
    struct codec_state state;
    struct fb_error e = {0};
    uint32_t width = 64 / scale, height = 8 / scale;
    uint8_t *got = malloc(64 * 8 * 3), *expected = jpeg_decode_plainly(file, scale);
    struct image out = {got, (size_t)3 * width, width, height};
    codec_state_init(&state, NULL);
    jpeg_kernels_use(jpeg_kernels_by_name(kernels));
    assert_int_equal(codec_decode(&state, &codec_jpeg, file.data, file.n, &(struct image_header){width, height, 1, true, (uint8_t)scale},
                                  &(struct region){0, 0, height, width}, &out, &e),
                     0);
    assert_int_equal(state.way, CODEC_PLAIN);
    assert_memory_equal(got, expected, (size_t)3 * width * height);
    codec_state_free(&state);
    free(got);
    free(expected);
}

static void coefficients_beyond_all_limits_equal_libjpeg(void **unused)
{
    (void)unused;
    struct rng rng = rng_stream(RNG_TRANSFORM, 10, 0, 0, 0);
    for (int i = 0; i < 200; i++) {
        struct bytes file = make_wild(&rng);
        for (int k = 0; k < SCALES; k++) {
            check_wild(file, "c", scales[k]);
            if (jpeg_kernels_by_name("avx2"))
                check_wild(file, "avx2", scales[k]);
        }
        free(file.data);
    }
    jpeg_kernels_use(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varied_files_and_regions_equal_libjpeg),
        cmocka_unit_test(every_small_size_equals_libjpeg),
        cmocka_unit_test(large_files_equal_libjpeg),
        cmocka_unit_test(colours_are_told_apart_as_libjpeg_does),
        cmocka_unit_test(what_libjpeg_decodes_is_not_given_row_by_row),
        cmocka_unit_test(codes_that_libjpeg_refuses_are_refused),
        cmocka_unit_test(coefficients_beyond_all_limits_equal_libjpeg),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
