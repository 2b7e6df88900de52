/* Plans: regions stay inside, what is needed suffices, and running on the part equals running on the whole. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "base/text/json_writer.h"
#include "transform/draws.h"
#include "transform/pipeline.h"
#include "transform/pipeline_internal.h"

static struct rng random_numbers;

static uint32_t below(uint32_t n)
{
    return (uint32_t)rng_below(&random_numbers, n);
}

static const char *const specs[] = {
    "random_resized_crop size=20,30",
    "random_resized_crop size=9 interpolation=bicubic; random_horizontal_flip; random_vertical_flip",
    "random_horizontal_flip; random_vertical_flip; random_resized_crop size=9,7; center_crop size=4",
    "resize size=24; center_crop size=20",
    "resize size=24 interpolation=bicubic; random_crop size=16",
    "resize size=50,40; random_crop size=9; resize size=30,20; center_crop size=11,13",
    "center_crop size=15; random_horizontal_flip p=1",
    "random_crop size=30 padding=4 pad_if_needed=1 padding_mode=reflect; resize size=11",
    "pad padding=3,1,0,9 padding_mode=symmetric; center_crop size=8,50; grayscale",
    "color_jitter brightness=0.4 contrast=0.4 saturation=0.4 hue=0.1; center_crop size=9",
    "color_jitter brightness=0.4 hue=0.1; random_resized_crop size=12; random_grayscale p=0.5",
    "resize size=20,21; color_jitter contrast=0.5; random_vertical_flip; center_crop size=10; pad padding=2",
    "",
};
enum { SPECS = sizeof(specs) / sizeof(specs[0]) };

static struct image_header some_header(void)
{
    static const uint32_t sides[] = {1, 2, 3, 17, 40, 90, 200};
    return (struct image_header){sides[below(7)] + below(3), sides[below(7)] + below(3), (uint8_t)below(10)};
}

static struct pipeline *opened(const char *spec, enum fb_layout layout, bool exif)
{
    struct pipeline *p;
    struct fb_error e = {0};
    if (pipeline_open(&p, spec, 0, layout, exif, &e) < 0)
        fail_msg("'%s': %s", spec, e.cause);
    return p;
}

static bool plan_some(const struct pipeline *p, const struct image_header *h, uint64_t position, struct plan *plan)
{
    struct fb_error e = {0};
    int rc = pipeline_plan(p, h, rng_stream(RNG_TRANSFORM, 3, 0, position, 0), plan, &e);
    assert_true(rc == 0 || (rc == FB_E_DATA && e.cause[0] && strcmp(e.stage, "transform") == 0));
    return rc == 0;
}

static bool is_inside(const struct region *r, uint32_t height, uint32_t width)
{
    return r->height > 0 && r->width > 0 && r->top < height && r->left < width && r->height <= height - r->top &&
           r->width <= width - r->left;
}

static void regions_are_inside_the_image(void **state)
{
    (void)state;
    int planned = 0;
    for (int s = 0; s < SPECS; s++) {
        struct pipeline *p = opened(specs[s], FB_NHWC, true);
        for (uint64_t i = 0; i < 3000; i++) {
            struct image_header h = some_header();
            struct plan plan;
            if (!plan_some(p, &h, i, &plan))
                continue;
            planned++;
            assert_true(is_inside(&plan.region, h.height, h.width));
            bool is_turned = h.orientation >= 5 && h.orientation <= 8;
            assert_true(is_inside(&plan.seen, is_turned ? h.width : h.height, is_turned ? h.height : h.width));
            for (int k = 0; k < p->step_count; k++)
                assert_true(is_inside(&plan.step[k].need, plan.step[k].in_height, plan.step[k].in_width));
        }
        pipeline_close(p);
    }
    assert_true(planned > 3000 * SPECS / 2);
}

static uint8_t *run(const struct pipeline *p, const struct plan *plan, const uint8_t *pixels, size_t *bytes)
{
    const struct region *r = &plan->region;
    struct image decoded = {malloc((size_t)r->height * r->width * 3), (size_t)r->width * 3, r->width, r->height};
    for (uint32_t y = 0; y < r->height; y++)
        memcpy(decoded.data + y * decoded.stride, pixels + ((size_t)(r->top + y) * plan->header.width + r->left) * 3, decoded.stride);
    *bytes = (size_t)plan->out_height * plan->out_width * 3;
    struct place out = {malloc(*bytes), FB_UINT8, pipeline_layout(p), plan->out_height, plan->out_width};
    struct scratch scratch = {0};
    struct fb_error e = {0};
    if (pipeline_run(p, plan, &decoded, &out, &scratch, &e) < 0)
        fail_msg("%s", e.cause);
    assert_true(scratch.capacity <= plan->scratch_bytes + 4096); /* asked once, for what was planned */
    scratch_free(&scratch);
    free(decoded.data);
    return out.data;
}

/* A pipeline of one step after the other, each run on whole images. */
static uint8_t *run_whole(const struct pipeline *p, const struct plan *plan, const uint8_t *pixels, size_t *bytes)
{
    uint32_t height = plan->header.height, width = plan->header.width;
    uint8_t *now = malloc((size_t)height * width * 3);
    memcpy(now, pixels, (size_t)height * width * 3);
    for (int i = 0; i < p->step_count; i++) {
        const struct step *step = &p->step[i];
        struct step_plan s = plan->step[i];
        struct region out = region_of_size(s.out_height, s.out_width);
        s.need = step->ops->back ? step->ops->back(step->params, &s, out) : out;
        struct image image = {now + ((size_t)s.need.top * width + s.need.left) * 3, (size_t)width * 3, s.need.width, s.need.height};
        bool is_in_place = true;
        size_t work = step->ops->memory ? step->ops->memory(step->params, &s, out, &is_in_place) : 0;
        struct step_memory m = {malloc((size_t)out.height * out.width * 3), (size_t)out.width * 3,
                                aligned_alloc(64, (work + 127) & ~(size_t)63)};
        if (!(step->ops->is_idle && step->ops->is_idle(step->params, &s, out)))
            step->ops->apply(step->params, &s, out, &image, &m);
        uint8_t *next = malloc((size_t)out.height * out.width * 3);
        for (uint32_t y = 0; y < out.height; y++)
            memcpy(next + (size_t)y * out.width * 3, image.data + y * image.stride, (size_t)out.width * 3);
        free(m.pixels);
        free(m.work);
        free(now);
        now = next;
        height = out.height;
        width = out.width;
    }
    *bytes = (size_t)height * width * 3;
    return now;
}

static void running_on_what_is_needed_equals_running_on_everything(void **state)
{
    (void)state;
    int compared = 0;
    for (int s = 0; s < SPECS; s++) {
        struct pipeline *p = opened(specs[s], FB_NHWC, false);
        for (uint64_t i = 0; i < 60; i++) {
            struct image_header h = some_header();
            struct plan plan;
            if (!plan_some(p, &h, i, &plan))
                continue;
            uint8_t *pixels = malloc((size_t)h.height * h.width * 3);
            for (size_t k = 0; k < (size_t)h.height * h.width * 3; k++)
                pixels[k] = (uint8_t)below(256);
            size_t part_bytes, whole_bytes;
            uint8_t *part = run(p, &plan, pixels, &part_bytes), *whole = run_whole(p, &plan, pixels, &whole_bytes);
            assert_int_equal(part_bytes, whole_bytes);
            if (memcmp(part, whole, part_bytes) != 0)
                fail_msg("'%s' position %llu, %u x %u: the part differs from the whole", specs[s], (unsigned long long)i, h.width,
                         h.height);
            compared++;
            free(part);
            free(whole);
            free(pixels);
        }
        pipeline_close(p);
    }
    assert_true(compared > SPECS * 30);
}

static void a_crop_before_the_resize_is_the_region_to_decode(void **state)
{
    (void)state;
    struct pipeline *p = opened("random_resized_crop size=224; random_horizontal_flip", FB_NCHW, false);
    struct image_header h = {470, 400, 1};
    struct plan plan;
    for (uint64_t i = 0; i < 200; i++) {
        assert_true(plan_some(p, &h, i, &plan));
        assert_memory_equal(&plan.region, &plan.seen, sizeof(plan.region));
    }
    pipeline_close(p);
}

static void resize_and_center_crop_decode_only_what_shows(void **state)
{
    (void)state;
    struct pipeline *p = opened("resize size=256; center_crop size=224", FB_NCHW, false);
    struct image_header h = {1000, 500, 1};
    struct plan plan;
    assert_true(plan_some(p, &h, 0, &plan));
    assert_true(plan.region.width <= 437 + 4 && plan.region.height <= 437 + 4); /* 224 of 256 is 437.5 of 500 */
    assert_true(plan.region.width >= 437 && plan.region.height >= 437);
    pipeline_close(p);
}

static void crops_too_large_are_refused_with_their_sizes(void **state)
{
    (void)state;
    struct pipeline *p = opened("random_crop size=30,40", FB_NCHW, false);
    struct fb_error e = {0};
    struct image_header h = {39, 100, 1};
    struct plan plan;
    assert_int_equal(pipeline_plan(p, &h, rng_stream(RNG_TRANSFORM, 0, 0, 0, 0), &plan, &e), FB_E_DATA);
    assert_non_null(strstr(e.cause, "39 x 100"));
    assert_non_null(strstr(e.cause, "40 x 30"));
    assert_non_null(strstr(e.remedy, "pad_if_needed"));
    pipeline_close(p);
}

static void images_that_would_explode_are_refused(void **state)
{
    (void)state;
    struct pipeline *p = opened("resize size=30000", FB_NCHW, false);
    struct fb_error e = {0};
    struct image_header wide = {65500, 1, 1}, square = {100, 100, 1}, empty = {0, 5, 1};
    struct plan plan;
    assert_int_equal(pipeline_plan(p, &wide, rng_stream(RNG_TRANSFORM, 0, 0, 0, 0), &plan, &e), FB_E_DATA);
    assert_non_null(strstr(e.cause, "would become"));
    error_clear(&e);
    assert_int_equal(pipeline_plan(p, &square, rng_stream(RNG_TRANSFORM, 0, 0, 0, 0), &plan, &e), FB_E_DATA);
    assert_non_null(strstr(e.cause, "beyond the limit"));
    error_clear(&e);
    assert_int_equal(pipeline_plan(p, &empty, rng_stream(RNG_TRANSFORM, 0, 0, 0, 0), &plan, &e), FB_E_DATA);
    pipeline_close(p);
}

static void only_untouched_pixels_are_an_identity(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        enum fb_layout layout;
        uint8_t orientation;
        bool is_identity;
    } cases[] = {
        {"", FB_NHWC, 1, true},
        {"", FB_CHANNELS_LAST, 1, true},
        {"", FB_NCHW, 1, false},
        {"", FB_NHWC, 6, false},
        {"center_crop size=10", FB_NHWC, 1, true},
        {"center_crop size=100", FB_NHWC, 1, false},
        {"resize size=20", FB_NHWC, 1, true},
        {"resize size=21", FB_NHWC, 1, false},
        {"random_horizontal_flip p=0", FB_NHWC, 1, true},
        {"random_horizontal_flip p=1", FB_NHWC, 1, false},
        {"grayscale", FB_NHWC, 1, false},
        {"digest", FB_NHWC, 1, false},
        {"color_jitter", FB_NHWC, 1, true},
        {"color_jitter hue=0.1", FB_NHWC, 1, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pipeline *p = opened(cases[i].spec, cases[i].layout, true);
        struct image_header h = {30, 20, cases[i].orientation};
        struct plan plan;
        assert_true(plan_some(p, &h, 0, &plan));
        if (pipeline_is_identity(p, &plan) != cases[i].is_identity)
            fail_msg("case %zu: '%s'", i, cases[i].spec);
        pipeline_close(p);
    }
}

static void a_place_or_region_of_another_size_is_refused(void **state)
{
    (void)state;
    struct pipeline *p = opened("resize size=4,4", FB_NHWC, false);
    struct image_header h = {8, 8, 1};
    struct plan plan;
    assert_true(plan_some(p, &h, 0, &plan));
    uint8_t pixels[8 * 8 * 3] = {0}, out[5 * 4 * 3];
    struct image decoded = {pixels, 24, 8, 8}, small = {pixels, 24, 8, 7};
    struct place good = {out, FB_UINT8, FB_NHWC, 4, 4}, bad = {out, FB_UINT8, FB_NHWC, 5, 4};
    struct scratch scratch = {0};
    struct fb_error e = {0};
    assert_int_equal(pipeline_run(p, &plan, &decoded, &bad, &scratch, &e), FB_E_STATE);
    error_clear(&e);
    assert_int_equal(pipeline_run(p, &plan, &small, &good, &scratch, &e), FB_E_STATE);
    error_clear(&e);
    assert_int_equal(pipeline_run(p, &plan, &decoded, &good, &scratch, &e), 0);
    scratch_free(&scratch);
    pipeline_close(p);
}

static void a_budget_too_small_is_said(void **state)
{
    (void)state;
    struct pipeline *p = opened("resize size=400,400", FB_NCHW, false);
    struct image_header h = {300, 300, 1};
    struct plan plan;
    assert_true(plan_some(p, &h, 0, &plan));
    uint8_t *pixels = calloc(300 * 300, 3), *out = malloc(400 * 400 * 3);
    struct image decoded = {pixels, 900, 300, 300};
    struct place place = {out, FB_UINT8, FB_NCHW, 400, 400};
    struct budget budget = {.limit = 1 << 16};
    struct scratch scratch = {.budget = &budget};
    struct fb_error e = {0};
    assert_int_equal(pipeline_run(p, &plan, &decoded, &place, &scratch, &e), FB_E_BUDGET);
    free(pixels);
    free(out);
    pipeline_close(p);
}

static int show(struct pipeline *p, const struct plan *plan, char *out, size_t out_size)
{
    double record[4 + PIPELINE_MAX_STEPS * STEP_VALUES];
    struct text t = {.data = out, .capacity = out_size, .limit = out_size - 1};
    struct json_writer w = {.out = &t};
    pipeline_keep_draws(&p, 0, plan, record);
    json_begin_object(&w, NULL);
    pipeline_show_draws(&p, 1, record, &w);
    json_end(&w);
    return (int)t.length;
}

static void draws_are_shown_by_their_steps(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *shown;
    } cases[] = {
        {"center_crop size=4,3", "{\"top\":3,\"left\":4,\"height\":4,\"width\":3}"},
        {"random_horizontal_flip p=1; random_vertical_flip p=0; random_grayscale p=0",
         "{\"top\":0,\"left\":0,\"height\":10,\"width\":11,\"hflip\":true,\"vflip\":false,\"gray\":false}"},
        {"random_horizontal_flip p=1; random_grayscale p=1; random_horizontal_flip p=1; random_grayscale p=0",
         "{\"top\":0,\"left\":0,\"height\":10,\"width\":11,\"hflip\":false,\"gray\":true}"},
        {"color_jitter hue=-0.25,-0.25; color_jitter; color_jitter brightness=1.5,1.5",
         "{\"top\":0,\"left\":0,\"height\":10,\"width\":11,\"jitter\":[[\"hue\",-0.25],[\"brightness\",1.5]]}"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pipeline *p = opened(cases[i].spec, FB_NCHW, false);
        struct image_header h = {11, 10, 1};
        struct plan plan;
        char out[256];
        assert_true(plan_some(p, &h, i, &plan));
        show(p, &plan, out, sizeof(out));
        assert_string_equal(out, cases[i].shown);
        pipeline_close(p);
    }
}

/* The values themselves are frozen: another number here is another training run for everybody. */
#define FROZEN_DRAWS 0xffdab2632a1cfe4cu

static void draws_are_the_same_for_ever(void **state)
{
    (void)state;
    struct rng sample = {.key = {1, 2}, .counter = {0, 3, 4, 5}};
    struct rng r = draw_stream(&sample, 0), again = draw_stream(&sample, 0), other = draw_stream(&sample, 1);
    uint64_t first = rng_u64(&r);
    assert_true(first == rng_u64(&again));
    assert_true(first != rng_u64(&other));
    assert_true(fixed_exp(0) == 1 && fixed_log(1) == 0);
    struct pipeline *p =
        opened("random_resized_crop size=224; random_horizontal_flip; color_jitter brightness=0.4 contrast=0.4 saturation=0.4 hue=0.1",
               FB_NCHW, false);
    struct image_header h = {470, 400, 1};
    struct checksum *sum = checksum_open();
    for (uint64_t i = 0; i < 1000; i++) {
        struct plan plan;
        char json[512];
        assert_true(plan_some(p, &h, i, &plan));
        checksum_add(sum, json, (size_t)show(p, &plan, json, sizeof(json)));
    }
    assert_int_equal(checksum_value(sum), FROZEN_DRAWS);
    checksum_close(sum);
    pipeline_close(p);
    assert_true(round_half_even(0.5) == 0 && round_half_even(1.5) == 2 && round_half_even(2.5) == 2 && round_half_even(2.51) == 3);
}

static double units_apart(double a, double b)
{
    return fabs(a - b) / (fabs(b) * 0x1p-52);
}

static void our_exp_and_log_are_libms_but_for_the_last_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 100000; i++) {
        double x = draw_uniform(&random_numbers, -20, 20), y = exp(draw_uniform(&random_numbers, -20, 20));
        if (units_apart(fixed_exp(x), exp(x)) > 2)
            fail_msg("exp(%.17g): %g units apart", x, units_apart(fixed_exp(x), exp(x)));
        if (fabs(fixed_log(y) - log(y)) > 4 * 0x1p-52 * fmax(1, fabs(log(y))))
            fail_msg("log(%.17g): %g", y, fixed_log(y) - log(y));
    }
}

int main(void)
{
    random_numbers = rng_stream(RNG_TRANSFORM, 11, 0, 0, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_are_inside_the_image),
        cmocka_unit_test(running_on_what_is_needed_equals_running_on_everything),
        cmocka_unit_test(a_crop_before_the_resize_is_the_region_to_decode),
        cmocka_unit_test(resize_and_center_crop_decode_only_what_shows),
        cmocka_unit_test(crops_too_large_are_refused_with_their_sizes),
        cmocka_unit_test(images_that_would_explode_are_refused),
        cmocka_unit_test(only_untouched_pixels_are_an_identity),
        cmocka_unit_test(a_place_or_region_of_another_size_is_refused),
        cmocka_unit_test(a_budget_too_small_is_said),
        cmocka_unit_test(draws_are_shown_by_their_steps),
        cmocka_unit_test(draws_are_the_same_for_ever),
        cmocka_unit_test(our_exp_and_log_are_libms_but_for_the_last_bits),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
