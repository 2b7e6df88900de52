/* What a JPEG's record is good for and what it cannot do: it grows to the same bytes whatever the way, a damaged or a stale one never
 * changes a pixel or a verdict, and with it only the bytes it names are needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "codec/image/jpeg/jpeg_record.h"
#include "codec/image/jpeg/jpeg_turbo.h"
#include "../jpeg_maker.h"

static const struct jpeg_recipe recipes[] = {
    {.name = "444", .components = 3, .sampling = {0x11, 0x11, 0x11}, .quality = 92},
    {.name = "422", .components = 3, .sampling = {0x21, 0x11, 0x11}, .is_optimised = true},
    {.name = "420", .components = 3, .sampling = {0x22, 0x11, 0x11}, .quality = 90},
    {.name = "440", .components = 3, .sampling = {0x12, 0x11, 0x11}},
    {.name = "grey", .components = 1, .sampling = {0x11}},
    {.name = "420 with restarts in rows", .components = 3, .sampling = {0x22, 0x11, 0x11}, .restart_mcus = 5},
    {.name = "444 with restarts every two rows", .components = 3, .sampling = {0x11, 0x11, 0x11}, .restart_rows = 2},
};
enum { RECIPES = sizeof(recipes) / sizeof(recipes[0]), WIDTH = 333, HEIGHT = 277 };

static struct image_header header = {WIDTH, HEIGHT, 1};
static struct region whole = {0, 0, HEIGHT, WIDTH};

/* From now on decodes are at 1/1, 1/2, 1/4 or 1/8. */
static void use_scale(uint8_t scale)
{
    header = (struct image_header){image_reduced(WIDTH, scale), image_reduced(HEIGHT, scale), 1, true, scale};
    whole = (struct region){0, 0, header.height, header.width};
}

static uint32_t below(struct rng *r, uint32_t n)
{
    return (uint32_t)rng_below(r, n);
}

static struct region random_region(struct rng *r)
{
    struct region g = {below(r, header.height), below(r, header.width), 0, 0};
    g.height = 1 + below(r, header.height - g.top);
    g.width = 1 + below(r, header.width - g.left);
    return g;
}

static struct bytes copy_of(const void *data, size_t n)
{
    struct bytes b = {malloc(n ? n : 1), n}; /* exactly its size: a sanitizer sees what is read beyond */
    memcpy(b.data, data, n);
    return b;
}

struct result {
    int rc;
    enum codec_way way;
    uint8_t *pixels;
    struct bytes record;
};

static void free_result(struct result *r)
{
    free(r->pixels);
    free(r->record.data);
}

static struct result decode(struct bytes file, const struct bytes *known, const struct region *r, bool has_part_only)
{
    struct codec_state s;
    struct fb_error e = {0};
    struct result result = {.pixels = malloc((size_t)3 * r->width * r->height)};
    struct image out = {result.pixels, (size_t)3 * r->width, r->width, r->height};
    codec_state_init(&s, NULL);
    s.known = known ? known->data : NULL;
    s.known_bytes = known ? known->n : 0;
    s.wants_record = true;
    s.has_part_only = has_part_only;
    result.rc = codec_decode(&s, &codec_jpeg, file.data, file.n, &header, r, &out, &e);
    result.way = s.way;
    result.record = copy_of(s.record_bytes ? s.record.data : "", s.record_bytes);
    codec_state_free(&s);
    return result;
}

static struct result decode_by_turbo(struct bytes file, const struct region *r)
{
    struct codec_state s;
    struct fb_error e = {0};
    struct result result = {.pixels = malloc((size_t)3 * r->width * r->height)};
    struct image out = {result.pixels, (size_t)3 * r->width, r->width, r->height};
    codec_state_init(&s, NULL);
    result.rc = jpeg_turbo_decode(&s, file.data, file.n, &header, r, &out, &e);
    codec_state_free(&s);
    return result;
}

static struct bytes full_record(struct bytes file)
{
    struct result r = decode(file, NULL, &whole, false);
    assert_int_equal(r.rc, 0);
    assert_true(r.record.n > JPEG_RECORD_HEADER);
    free(r.pixels);
    return r.record;
}

/* Decodes with the record; verdict and pixels must be libjpeg-turbo's. */
static enum codec_way check(const char *what, struct bytes file, const struct bytes *known, const struct region *r)
{
    struct result ours = decode(file, known, r, false), theirs = decode_by_turbo(file, r);
    if (ours.rc != theirs.rc)
        fail_msg("%s: libjpeg-turbo says %d, we say %d", what, theirs.rc, ours.rc);
    if (ours.rc == 0 && memcmp(ours.pixels, theirs.pixels, (size_t)3 * r->width * r->height))
        fail_msg("%s: %u x %u at left %u, top %u differs", what, r->width, r->height, r->left, r->top);
    enum codec_way way = ours.way;
    free_result(&ours);
    free_result(&theirs);
    return way;
}

static void a_record_grows_to_the_same_bytes_whatever_the_way(void **unused)
{
    (void)unused;
    for (int i = 0; i < RECIPES; i++) {
        struct bytes file = jpeg_make(&recipes[i], WIDTH, HEIGHT), full = full_record(file), grown = {0};
        for (uint32_t bottom = 3; bottom < HEIGHT + 60; bottom += 60) {
            uint32_t end = bottom < HEIGHT ? bottom : HEIGHT;
            struct result r = decode(file, grown.n ? &grown : NULL, &(struct region){end - 2, 40, 2, 50}, false);
            assert_int_equal(r.rc, 0);
            assert_true(r.record.n > grown.n);
            free(grown.data);
            grown = r.record;
            free(r.pixels);
        }
        assert_int_equal(grown.n, full.n);
        assert_memory_equal(grown.data, full.data, full.n);
        free(file.data);
        free(full.data);
        free(grown.data);
    }
}

static void a_record_is_the_same_whatever_the_scale(void **unused)
{
    (void)unused;
    for (int i = 0; i < RECIPES; i++) {
        struct bytes file = jpeg_make(&recipes[i], WIDTH, HEIGHT), full = full_record(file);
        for (uint8_t scale = 2; scale <= 8; scale *= 2) {
            use_scale(scale);
            struct bytes reduced = full_record(file);
            assert_int_equal(reduced.n, full.n);
            assert_memory_equal(reduced.data, full.data, full.n);
            struct result r = decode(file, &full, &whole, false);
            assert_int_equal(r.rc, 0);
            assert_int_equal(r.way, CODEC_BY_RECORD);
            free_result(&r);
            free(reduced.data);
        }
        use_scale(1);
        free(file.data);
        free(full.data);
    }
}

static void a_record_is_not_made_unless_wanted_or_when_nothing_is_new(void **unused)
{
    (void)unused;
    struct bytes file = jpeg_make(&recipes[0], WIDTH, HEIGHT), full = full_record(file);
    struct result r = decode(file, &full, &whole, false);
    assert_int_equal(r.way, CODEC_BY_RECORD);
    assert_int_equal(r.record.n, 0);
    free_result(&r);
    struct codec_state s;
    struct fb_error e = {0};
    uint8_t pixels[3];
    codec_state_init(&s, NULL);
    struct image out = {pixels, 3, 1, 1};
    assert_int_equal(codec_decode(&s, &codec_jpeg, file.data, file.n, &header, &(struct region){0, 0, 1, 1}, &out, &e), 0);
    assert_int_equal(s.record_bytes, 0);
    codec_state_free(&s);
    free(file.data);
    free(full.data);
}

static void a_damaged_record_never_changes_a_pixel(void **unused)
{
    (void)unused;
    for (int i = 0; i < RECIPES; i++) {
        struct rng rng = rng_stream(RNG_TRANSFORM, 1, 0, (uint64_t)i, 0);
        struct bytes file = jpeg_make(&recipes[i], WIDTH, HEIGHT), full = full_record(file);
        for (size_t n = 0; n < full.n; n += 1 + n / 7) {
            struct bytes cut = copy_of(full.data, n);
            struct region r = random_region(&rng);
            assert_int_equal(check("cut record", file, &cut, &r), CODEC_PLAIN);
            free(cut.data);
        }
        for (int k = 0; k < 60; k++) {
            use_scale((uint8_t)(1 << k % 4));
            struct bytes flipped = copy_of(full.data, full.n);
            struct region r = random_region(&rng);
            flipped.data[k < 48 ? (uint32_t)k : below(&rng, (uint32_t)full.n)] ^= (uint8_t)(1u << below(&rng, 8));
            assert_int_equal(check("flipped record", file, &flipped, &r), CODEC_PLAIN);
            free(flipped.data);
        }
        use_scale(1);
        free(file.data);
        free(full.data);
    }
}

/* A record whose checksum was made right again can lie about brightness consistently; but not about positions, and it is always safe. */
static void a_forged_record_is_safe_and_its_positions_are_checked(void **unused)
{
    (void)unused;
    int noticed = 0, all = 0;
    for (int i = 0; i < RECIPES; i++) {
        struct rng rng = rng_stream(RNG_TRANSFORM, 2, 0, (uint64_t)i, 0);
        struct bytes file = jpeg_make(&recipes[i], WIDTH, HEIGHT), full = full_record(file);
        for (int k = 0; k < 300; k++) {
            use_scale((uint8_t)(1 << k / 2 % 4));
            struct bytes forged = copy_of(full.data, full.n);
            struct region r = k % 2 ? whole : random_region(&rng);
            uint32_t from = k % 3 ? JPEG_RECORD_HEADER : 24;
            for (uint32_t flips = 1 + below(&rng, 3); flips--;)
                forged.data[from + below(&rng, (uint32_t)full.n - from)] ^= (uint8_t)(1u << below(&rng, 8));
            jpeg_record_seal(forged.data, forged.n, file.data, file.n);
            struct result ours = decode(file, &forged, &r, false);
            assert_int_equal(ours.rc, 0);
            assert_int_not_equal(ours.way, CODEC_FALLBACK);
            all += k % 2;
            noticed += k % 2 && ours.way == CODEC_PLAIN;
            free_result(&ours);
            free(forged.data);
        }
        use_scale(1);
        free(file.data);
        free(full.data);
    }
    print_message("%d of %d forged records noticed by whole images\n", noticed, all);
    assert_true(noticed > all * 9 / 10);
}

static void a_record_of_other_bytes_is_not_used(void **unused)
{
    (void)unused;
    for (int i = 0; i < RECIPES; i++) {
        struct rng rng = rng_stream(RNG_TRANSFORM, 3, 0, (uint64_t)i, 0);
        struct bytes file = jpeg_make(&recipes[i], WIDTH, HEIGHT), full = full_record(file);
        for (int k = 0; k < 150; k++) {
            struct bytes changed = copy_of(file.data, file.n);
            struct region r = random_region(&rng);
            changed.data[below(&rng, (uint32_t)file.n - 2) + 2] ^= (uint8_t)(1u << below(&rng, 8));
            struct image_header h;
            if (codec_jpeg.header(changed.data, changed.n, &h, NULL) == 0 && h.width == WIDTH && h.height == HEIGHT)
                assert_int_not_equal(check("stale record", changed, &full, &r), CODEC_BY_RECORD);
            free(changed.data);
        }
        free(file.data);
        free(full.data);
    }
}

static void damaged_files_get_libjpegs_verdict_and_pixels(void **unused)
{
    (void)unused;
    for (int i = 0; i < RECIPES; i++) {
        struct rng rng = rng_stream(RNG_TRANSFORM, 4, 0, (uint64_t)i, 0);
        struct bytes file = jpeg_make(&recipes[i], WIDTH, HEIGHT);
        for (int k = 0; k < 200; k++) {
            use_scale((uint8_t)(1 << k / 4 % 4));
            struct bytes damaged = copy_of(file.data, file.n);
            struct region r = random_region(&rng);
            if (k % 4 == 0)
                damaged.n -= 1 + below(&rng, (uint32_t)file.n / 2);
            else if (k % 4 == 1)
                damaged.data[file.n / 3 + below(&rng, (uint32_t)file.n / 2)] = 0xff; /* often a marker */
            else
                for (int flips = k % 4; flips--;)
                    damaged.data[700 + below(&rng, (uint32_t)file.n - 700)] ^= (uint8_t)(1u << below(&rng, 8));
            check("damaged file", damaged, NULL, &r);
            check("damaged file", damaged, NULL, &whole);
            free(damaged.data);
        }
        use_scale(1);
        free(file.data);
    }
}

static void only_the_bytes_that_the_record_names_are_needed(void **unused)
{
    (void)unused;
    for (int i = 0; i < RECIPES; i++) {
        struct rng rng = rng_stream(RNG_TRANSFORM, 5, 0, (uint64_t)i, 0);
        struct bytes file = jpeg_make(&recipes[i], WIDTH, HEIGHT), full = full_record(file);
        uint64_t needed = 0, all = 0;
        for (int k = 0; k < 60; k++) {
            use_scale((uint8_t)(1 << k / 2 % 4));
            struct region r = random_region(&rng), in_file = r;
            uint32_t head, first, last;
            struct bytes part = copy_of(file.data, file.n);
            if (header.scale > 1)
                in_file = image_region_in_file(r, header.scale, WIDTH, HEIGHT);
            assert_true(jpeg_record_range(full.data, full.n, &in_file, &head, &first, &last));
            assert_true(head <= first && first < last && last <= file.n);
            memset(part.data + head, k % 2 ? 0 : 0xff, first - head);
            memset(part.data + last, k % 2 ? 0 : 0xff, file.n - last);
            struct result ours = decode(part, &full, &r, true), theirs = decode_by_turbo(file, &r);
            assert_int_equal(ours.rc, 0);
            assert_int_equal(ours.way, CODEC_BY_RECORD);
            assert_memory_equal(ours.pixels, theirs.pixels, (size_t)3 * r.width * r.height);
            needed += last - first + head;
            all += file.n;
            free_result(&ours);
            memset(part.data + first, 0, last - first); /* nothing of it is there: that is noticed */
            ours = decode(part, &full, &r, true);
            assert_int_equal(ours.rc, 1);
            free_result(&ours);
            free_result(&theirs);
            free(part.data);
        }
        use_scale(1);
        assert_true(needed < all * 3 / 4);
        free(file.data);
        free(full.data);
    }
}

static void a_range_is_refused_where_the_record_does_not_know(void **unused)
{
    (void)unused;
    struct bytes file = jpeg_make(&recipes[2], WIDTH, HEIGHT);
    struct result top = decode(file, NULL, &(struct region){0, 0, 40, WIDTH}, false);
    uint32_t head, first, last;
    assert_true(jpeg_record_range(top.record.data, top.record.n, &(struct region){10, 10, 20, 20}, &head, &first, &last));
    assert_false(jpeg_record_range(top.record.data, top.record.n, &(struct region){100, 10, 20, 20}, &head, &first, &last));
    assert_false(jpeg_record_range(top.record.data, top.record.n, &(struct region){10, 10, 20, WIDTH}, &head, &first, &last));
    assert_false(jpeg_record_range(top.record.data, top.record.n / 2, &(struct region){10, 10, 20, 20}, &head, &first, &last));
    struct result part = decode(file, &top.record, &(struct region){100, 10, 20, 20}, true);
    assert_int_equal(part.rc, 1);
    free_result(&part);
    part = decode((struct bytes){file.data, file.n - 1}, &top.record, &(struct region){10, 10, 20, 20}, true); /* of another size */
    assert_int_equal(part.rc, 1);
    free_result(&part);
    free_result(&top);
    free(file.data);
}

static void records_of_large_files_stay_below_two_percent(void **unused)
{
    (void)unused;
    for (int i = 0; i < 4; i++)
        for (int quality = 40; quality <= 100; quality += 15) {
            struct jpeg_recipe recipe = recipes[i];
            recipe.quality = quality;
            struct bytes file = jpeg_make(&recipe, WIDTH, HEIGHT), full = full_record(file);
            if (full.n * 50 > file.n)
                fail_msg("%s, quality %d: a record of %zu bytes for %zu", recipe.name, quality, full.n, file.n);
            free(file.data);
            free(full.data);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_grows_to_the_same_bytes_whatever_the_way),
        cmocka_unit_test(a_record_is_the_same_whatever_the_scale),
        cmocka_unit_test(a_record_is_not_made_unless_wanted_or_when_nothing_is_new),
        cmocka_unit_test(a_damaged_record_never_changes_a_pixel),
        cmocka_unit_test(a_forged_record_is_safe_and_its_positions_are_checked),
        cmocka_unit_test(a_record_of_other_bytes_is_not_used),
        cmocka_unit_test(damaged_files_get_libjpegs_verdict_and_pixels),
        cmocka_unit_test(only_the_bytes_that_the_record_names_are_needed),
        cmocka_unit_test(a_range_is_refused_where_the_record_does_not_know),
        cmocka_unit_test(records_of_large_files_stay_below_two_percent),
    };
    if (!jpeg_kernels()) /* a processor for which the decoder is not meant */
        jpeg_kernels_use(jpeg_kernels_by_name("c"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
