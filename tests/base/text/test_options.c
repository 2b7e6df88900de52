/* Options as data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/text/options.h"

struct target {
    bool flag;
    int64_t count;
    double share;
    uint64_t memory;
    const char *name;
    int filter;
    struct option_numbers size;
    int64_t any;
};

static const char *const filters[] = {"bilinear", "bicubic", NULL};

static const struct option table[] = {
    {"flag", OPTION_FLAG, offsetof(struct target, flag), 0, 0, NULL, NULL, "switches it on"},
    {"batch-size", OPTION_INT, offsetof(struct target, count), 1, 1000, NULL, "N", "samples per batch"},
    {"share", OPTION_DOUBLE, offsetof(struct target, share), 0, 1, NULL, "X", "from 0 to 1"},
    {"memory", OPTION_SIZE, offsetof(struct target, memory), 1024, 1e12, NULL, "SIZE", "bytes"},
    {"name", OPTION_STRING, offsetof(struct target, name), 0, 0, NULL, "TEXT", "any text"},
    {"filter", OPTION_CHOICE, offsetof(struct target, filter), 0, 0, filters, "NAME", "how to resize"},
    {"size", OPTION_NUMBERS, offsetof(struct target, size), 1, 65500, NULL, "H,W", "pixels"},
    {"any", OPTION_INT, offsetof(struct target, any), 0, 0, NULL, "N", "any whole number"},
    {NULL},
};

static void a_spec_sets_every_kind_of_option(void **state)
{
    (void)state;
    struct target t = {0};
    struct fb_error e = {0};
    char spec[] = "  flag batch_size=64\tshare=0.25 memory=64MiB name=x=y filter=bicubic size=224,192\nany=-9223372036854775808 ";
    assert_int_equal(options_parse_spec(table, &t, spec, "transform", "resize", &e), 0);
    assert_true(t.flag);
    assert_int_equal(t.count, 64);
    assert_true(t.share == 0.25);
    assert_int_equal(t.memory, 64 << 20);
    assert_string_equal(t.name, "x=y");
    assert_int_equal(t.filter, 1);
    assert_int_equal(t.size.count, 2);
    assert_true(t.size.value[0] == 224 && t.size.value[1] == 192);
    assert_true(t.any == INT64_MIN);
}

static void an_empty_spec_changes_nothing(void **state)
{
    (void)state;
    struct target t = {.count = 5};
    char spec[] = " \t\n";
    assert_int_equal(options_parse_spec(table, &t, spec, "transform", "resize", NULL), 0);
    assert_int_equal(t.count, 5);
}

static void dashes_and_underscores_are_the_same(void **state)
{
    (void)state;
    assert_ptr_equal(option_find(table, "batch_size"), &table[1]);
    assert_ptr_equal(option_find(table, "batch-size"), &table[1]);
    assert_null(option_find(table, "batch"));
    assert_null(option_find(table, "batch-size-x"));
    assert_null(option_find(table, ""));
}

static void flags_can_be_switched_off(void **state)
{
    (void)state;
    struct target t = {.flag = true};
    static const struct {
        const char *value;
        bool flag;
    } cases[] = {{"0", false}, {"1", true}, {"false", false}, {"true", true}, {NULL, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(option_set(table, &t, "flag", cases[i].value, "cli", "bench", NULL), 0);
        assert_int_equal(t.flag, cases[i].flag);
    }
}

static void expect_refusal(const char *name, const char *value, const char *cause, const char *remedy)
{
    struct target t, before;
    memset(&t, 0x11, sizeof(t));
    before = t;
    struct fb_error e = {0};
    assert_int_equal(option_set(table, &t, name, value, "transform", "resize", &e), FB_E_USAGE);
    assert_int_equal(e.code, FB_E_USAGE);
    assert_string_equal(e.stage, "transform");
    if (!strstr(e.cause, cause) || !strstr(e.remedy, remedy))
        fail_msg("'%s; %s' does not say '%s; %s'", e.cause, e.remedy, cause, remedy);
    assert_memory_equal(&t, &before, sizeof(t));
}

static void wrong_values_are_refused_with_a_remedy_and_change_nothing(void **state)
{
    (void)state;
    expect_refusal("batch-size", "0", "batch-size=0", "from 1 to 1000");
    expect_refusal("batch-size", "1001", "batch-size=1001", "from 1 to 1000");
    expect_refusal("batch-size", "12x", "batch-size=12x", "samples per batch");
    expect_refusal("batch-size", "", "batch-size= is not valid", "samples per batch");
    expect_refusal("batch-size", "1.5", "batch-size=1.5", "samples per batch");
    expect_refusal("any", "9223372036854775808", "any=9223372036854775808", "any whole number");
    expect_refusal("share", "1.5", "share=1.5", "from 0 to 1");
    expect_refusal("share", "nan", "share=nan", "from 0 to 1");
    expect_refusal("share", "0.5 ", "share=0.5 ", "from 0 to 1");
    expect_refusal("memory", "12", "memory=12", "from 1024");
    expect_refusal("memory", "64QB", "memory=64QB", "bytes");
    expect_refusal("filter", "nearest", "filter=nearest", "bilinear, bicubic");
    expect_refusal("filter", "", "filter=", "bilinear, bicubic");
    expect_refusal("size", "224,", "size=224,", "from 1 to 65500");
    expect_refusal("size", "224;224", "size=224;224", "from 1 to 65500");
    expect_refusal("size", "0,224", "size=0,224", "from 1 to 65500");
    expect_refusal("size", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "size=1,2,3", "from 1 to 65500");
    expect_refusal("flag", "maybe", "flag=maybe", "switches it on");
    expect_refusal("name", NULL, "name wants a value", "any text");
    expect_refusal("size", NULL, "size wants a value", "pixels");
}

static void an_unknown_option_is_named_with_the_known_ones(void **state)
{
    (void)state;
    expect_refusal("siez", "224", "resize has no option 'siez'", "flag, batch-size, share");
    expect_refusal("\033[2J", NULL, "'\\x1b[2J'", "its options are");
    static const struct option none[] = {{NULL}};
    struct fb_error e = {0};
    assert_int_equal(option_set(none, NULL, "x", "1", "transform", "hflip", &e), FB_E_USAGE);
    assert_string_equal(e.remedy, "it has no options");
}

static void a_spec_stops_at_its_first_error(void **state)
{
    (void)state;
    struct target t = {0};
    struct fb_error e = {0};
    char spec[] = "batch_size=3 share=7 any=5";
    assert_int_equal(options_parse_spec(table, &t, spec, "transform", "resize", &e), FB_E_USAGE);
    assert_int_equal(t.count, 3);
    assert_int_equal(t.any, 0);
    assert_non_null(strstr(e.cause, "share=7"));
}

static void sixteen_numbers_are_the_most(void **state)
{
    (void)state;
    struct target t = {0};
    assert_int_equal(option_set(table, &t, "size", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "transform", "x", NULL), 0);
    assert_int_equal(t.size.count, 16);
    assert_true(t.size.value[15] == 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spec_sets_every_kind_of_option),
        cmocka_unit_test(an_empty_spec_changes_nothing),
        cmocka_unit_test(dashes_and_underscores_are_the_same),
        cmocka_unit_test(flags_can_be_switched_off),
        cmocka_unit_test(wrong_values_are_refused_with_a_remedy_and_change_nothing),
        cmocka_unit_test(an_unknown_option_is_named_with_the_known_ones),
        cmocka_unit_test(a_spec_stops_at_its_first_error),
        cmocka_unit_test(sixteen_numbers_are_the_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
