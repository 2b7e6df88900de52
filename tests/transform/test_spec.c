/* The text form of pipelines: what is accepted, and what refusals say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transform/pipeline.h"
#include "transform/transform_ops.h"

static void expect_refusal(const char *spec, enum fb_dtype dtype, const char *words)
{
    struct fb_error e = {0};
    struct pipeline *p = (void *)1;
    int rc = pipeline_open(&p, spec, dtype, FB_NCHW, false, &e);
    char line[1400];
    fb_format_error(&e, line, sizeof(line));
    if (rc != FB_E_USAGE || p || strcmp(e.stage, "transform") != 0 || !strstr(line, words))
        fail_msg("'%s' gave %d, \"%s\"; wanted words: \"%s\"", spec, rc, line, words);
}

static void unknown_transforms_are_refused_with_the_nearest_name(void **state)
{
    (void)state;
    expect_refusal("resise size=4", 0, "did you mean resize?");
    expect_refusal("RandomResizedCrop size=4", 0, "did you mean random_resized_crop?");
    expect_refusal("CenterCrop size=4", 0, "did you mean center_crop?");
    expect_refusal("random_hflip", 0, "did you mean random_horizontal_flip?");
    expect_refusal("ColorJitter", 0, "did you mean color_jitter?");
    expect_refusal("normalise mean=0,0,0 std=1,1,1", 0, "did you mean normalize?");
    expect_refusal("resize size=4; \033[31m", 0, "there is no transform '\\x1b[31m'");
}

static void options_are_refused_by_name(void **state)
{
    (void)state;
    expect_refusal("resize", 0, "resize: size= is missing");
    expect_refusal("resize size=", 0, "size= is not valid");
    expect_refusal("resize size=0", 0, "size=0 is not valid");
    expect_refusal("resize size=65501", 0, "65500");
    expect_refusal("resize size=1.5", 0, "whole numbers");
    expect_refusal("resize size=1,2,3", 0, "one or two whole numbers");
    expect_refusal("resize size=4,4 max_size=9", 0, "max_size= needs size= with one number");
    expect_refusal("resize size=9 max_size=9", 0, "must be larger than size=9");
    expect_refusal("resize size=4 interpolation=lanczos", 0, "bilinear, bicubic, nearest");
    expect_refusal("resize size=4 p=1", 0, "resize has no option 'p'");
    expect_refusal("random_resized_crop size=4 scale=1,0.5", 0, "scale=");
    expect_refusal("random_resized_crop size=4 ratio=1", 0, "ratio=");
    expect_refusal("random_resized_crop size=4 scale=nan,1", 0, "scale=nan,1 is not valid");
    expect_refusal("random_horizontal_flip p=1.01", 0, "p=1.01");
    expect_refusal("pad", 0, "padding= is missing");
    expect_refusal("pad padding=1,2,3", 0, "1, 2 or 4 whole numbers");
    expect_refusal("pad padding=-1", 0, "padding=-1");
    expect_refusal("pad padding=1 fill=256", 0, "fill=256");
    expect_refusal("pad padding=1 fill=1,2", 0, "one or three whole numbers");
    expect_refusal("pad padding=1 padding_mode=wrap", 0, "constant, edge, reflect, symmetric");
    expect_refusal("color_jitter brightness=-1", 0, "brightness= is out of range");
    expect_refusal("color_jitter contrast=2,1", 0, "contrast= is out of range");
    expect_refusal("color_jitter hue=0.6", 0, "hue=0.6");
    expect_refusal("grayscale channels=1", 0, "channels=1");
    expect_refusal("normalize mean=1,2 std=1,2,3", 0, "three numbers each");
    expect_refusal("normalize mean=1,2,3 std=1,0,1", 0, "std= must be at least 3e-39 away from 0");
    expect_refusal("normalize mean=1,2,3 std=1,1,-1e-40", 0, "3e-39 away from 0");
}

static void the_last_transform_must_be_last_and_single(void **state)
{
    (void)state;
    const char *n = "normalize mean=0,0,0 std=1,1,1;";
    char spec[256];
    snprintf(spec, sizeof(spec), "%s resize size=4", n);
    expect_refusal(spec, 0, "normalize must be the last transform, but resize follows");
    snprintf(spec, sizeof(spec), "%s %s", n, n);
    expect_refusal(spec, 0, "normalize appears twice");
    expect_refusal("digest; digest", 0, "digest appears twice");
    snprintf(spec, sizeof(spec), "digest; %s", n);
    expect_refusal(spec, 0, "digest must be the last");
}

static void types_that_cannot_hold_the_result_are_refused(void **state)
{
    (void)state;
    expect_refusal("normalize mean=0,0,0 std=1,1,1", FB_UINT8, "uint8 after normalize");
    expect_refusal("resize size=4", FB_INT32, "int32");
    expect_refusal("resize size=4", FB_UINT64, "uint64");
    expect_refusal("digest", FB_FLOAT32, "digest gives uint64");
    expect_refusal("", (enum fb_dtype)99, "that type");
}

static void too_many_steps_are_refused(void **state)
{
    (void)state;
    char spec[1024] = "";
    for (int i = 0; i < PIPELINE_MAX_STEPS; i++)
        strcat(spec, "grayscale;");
    struct pipeline *p;
    struct fb_error e = {0};
    assert_int_equal(pipeline_open(&p, spec, 0, FB_NCHW, false, &e), 0);
    pipeline_close(p);
    strcat(spec, "grayscale");
    expect_refusal(spec, 0, "more than 16 transforms");
}

static struct pipeline *opened(const char *spec, enum fb_dtype dtype)
{
    struct pipeline *p;
    struct fb_error e = {0};
    if (pipeline_open(&p, spec, dtype, FB_NHWC, false, &e) < 0)
        fail_msg("'%s': %s", spec ? spec : "NULL", e.cause);
    return p;
}

static void expect_fixed(const char *spec, bool is_fixed, uint32_t height, uint32_t width)
{
    struct pipeline *p = opened(spec, 0);
    uint32_t h, w;
    bool got = pipeline_fixed_size(p, &h, &w);
    if (got != is_fixed || h != height || w != width)
        fail_msg("'%s': fixed %d, %u x %u", spec ? spec : "NULL", got, h, w);
    pipeline_close(p);
}

static void a_fixed_size_is_known_without_images(void **state)
{
    (void)state;
    expect_fixed(NULL, false, 0, 0);
    expect_fixed("", false, 0, 0);
    expect_fixed(" ; ;", false, 0, 0);
    expect_fixed("resize size=7", false, 0, 0);
    expect_fixed("resize size=7,8", true, 7, 8);
    expect_fixed("resize size=7,8; resize size=9", false, 0, 0);
    expect_fixed("resize size=7; center-crop size=5", true, 5, 5);
    expect_fixed("random_crop size=5,6; pad padding=1,2; random_horizontal_flip; grayscale", true, 9, 8);
    expect_fixed("pad padding=1,2", false, 0, 0);
    expect_fixed("random_resized_crop size=224", true, 224, 224);
    expect_fixed("pad padding=1; digest", true, 1, 1);
}

static void the_type_follows_from_the_last_transform(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        enum fb_dtype wish, got;
    } cases[] = {
        {"resize size=4", 0, FB_UINT8},
        {"resize size=4", FB_FLOAT16, FB_FLOAT16},
        {"normalize mean=0,0,0 std=1,1,1", 0, FB_FLOAT32},
        {"normalize mean=0,0,0 std=1,1,1", FB_BFLOAT16, FB_BFLOAT16},
        {"digest", 0, FB_UINT64},
        {"digest", FB_UINT64, FB_UINT64},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pipeline *p = opened(cases[i].spec, cases[i].wish);
        assert_int_equal(pipeline_dtype(p), cases[i].got);
        assert_int_equal(pipeline_layout(p), FB_NHWC);
        pipeline_close(p);
    }
}

static void every_transform_describes_its_options(void **state)
{
    (void)state;
    for (const struct transform_ops *const *t = transform_list; *t; t++) {
        assert_ptr_equal(transform_find((*t)->name, (*t)->takes), *t);
        for (const struct option *o = (*t)->options; o->name; o++)
            assert_true(o->help && strlen(o->help) > 10);
    }
}

static void any_bytes_are_parsed_or_refused(void **state)
{
    (void)state;
    static const char *const words[] = {"resize",    "size=",       "224",        ",",   ";",   " ",    "=",  "normalize", "mean=0,0,0",
                                        "std=1,1,1", "pad",         "padding=",   "-",   "1e9", "\xff", "p=", "digest",    "color_jitter",
                                        "hue=0.1",   "random_crop", "fill=1,2,3", "nan", "inf", "0x10", "\t"};
    struct rng r = rng_stream(RNG_TRANSFORM, 5, 0, 0, 0);
    for (int i = 0; i < 20000; i++) {
        char spec[256] = "";
        for (uint64_t n = rng_below(&r, 12); n > 0; n--)
            strcat(spec, words[rng_below(&r, sizeof(words) / sizeof(words[0]))]);
        struct pipeline *p;
        struct fb_error e = {0};
        int rc = pipeline_open(&p, spec, 0, FB_NCHW, false, &e);
        assert_true(rc == 0 ? p && !e.code : !p && rc == FB_E_USAGE && e.cause[0]);
        pipeline_close(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_transforms_are_refused_with_the_nearest_name),
        cmocka_unit_test(options_are_refused_by_name),
        cmocka_unit_test(the_last_transform_must_be_last_and_single),
        cmocka_unit_test(types_that_cannot_hold_the_result_are_refused),
        cmocka_unit_test(too_many_steps_are_refused),
        cmocka_unit_test(a_fixed_size_is_known_without_images),
        cmocka_unit_test(the_type_follows_from_the_last_transform),
        cmocka_unit_test(every_transform_describes_its_options),
        cmocka_unit_test(any_bytes_are_parsed_or_refused),
    };
    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
