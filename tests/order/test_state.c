/* Where a run is, as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "order/state.h"

static void the_text_is_as_documented(void **state)
{
    (void)state;
    const struct state s = {.seed = 7, .epoch = 3, .position = 25600, .fingerprint = 0xabc};
    char text[1024];
    int n = state_write(&s, text, sizeof(text));
    assert_string_equal(text, "{\"version\":1,\"seed\":7,\"epoch\":3,\"position\":25600,\"fingerprint\":\"0000000000000abc\"}");
    assert_int_equal(n, strlen(text));
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 0, 0, 0, 0);
    for (int i = 0; i < 2000; i++) {
        int shift = i % 64;
        struct state s = {rng_u64(&r) >> shift, rng_u64(&r) >> 1 >> shift, rng_u64(&r) >> 1 >> shift, rng_u64(&r)}, back;
        char text[1024];
        struct fb_error e = {0};
        assert_true(state_write(&s, text, sizeof(text)) < 1024);
        if (state_read(&back, text, &e) != 0)
            fail_msg("%s: %s", text, e.cause);
        assert_memory_equal(&s, &back, sizeof(s));
    }
}

static void the_largest_values_take_less_than_a_kilobyte(void **state)
{
    (void)state;
    const struct state s = {UINT64_MAX, INT64_MAX, INT64_MAX, UINT64_MAX};
    struct state back;
    char text[1024];
    assert_true(state_write(&s, text, sizeof(text)) < 200);
    assert_int_equal(state_read(&back, text, NULL), 0);
    assert_memory_equal(&s, &back, sizeof(s));
}

static void a_short_buffer_is_told_the_length_it_needs(void **state)
{
    (void)state;
    const struct state s = {1, 2, 3, 4};
    char text[1024], part[10] = "xxxxxxxxx";
    int n = state_write(&s, text, sizeof(text));
    assert_int_equal(state_write(&s, part, sizeof(part)), n);
    assert_memory_equal(part, text, 9);
    assert_int_equal(part[9], 0);
    assert_int_equal(state_write(&s, NULL, 0), n);
}

static void spaces_order_and_unknown_fields_do_not_matter(void **state)
{
    (void)state;
    struct state s;
    const char *text = " { \"fingerprint\" : \"00000000000000Ff\",\n \"new\": {\"a\": [1, 2.5, null]}, \"position\": 5, \"epoch\": 0,"
                       " \"seed\": \"18446744073709551615\", \"version\": 1 } ";
    char lower[300];
    strcpy(lower, text);
    *strstr(lower, "Ff") = 'f';
    assert_int_equal(state_read(&s, lower, NULL), 0);
    assert_true(s.seed == UINT64_MAX && s.position == 5 && s.fingerprint == 0xff);
    assert_int_equal(state_read(&s, text, NULL), FB_E_STATE); /* upper-case digits are not what we write */
}

static void expect_refusal(const char *text, const char *words)
{
    struct state s, before;
    memset(&s, 0x5a, sizeof(s));
    before = s;
    struct fb_error e = {0};
    if (state_read(&s, text, &e) != FB_E_STATE)
        fail_msg("accepted: %s", text);
    assert_int_equal(e.code, FB_E_STATE);
    if (!strstr(e.cause, words))
        fail_msg("%s: '%s' does not say '%s'", text, e.cause, words);
    assert_true(e.remedy[0] != 0);
    assert_memory_equal(&s, &before, sizeof(s));
}

#define GOOD_END "\"position\":5,\"fingerprint\":\"0000000000000abc\"}"

static void each_field_that_is_wrong_is_named(void **state)
{
    (void)state;
    expect_refusal("{\"seed\":7,\"epoch\":3," GOOD_END, "version is missing");
    expect_refusal("{\"version\":2,\"seed\":7,\"epoch\":3," GOOD_END, "version 2");
    expect_refusal("{\"version\":0,\"seed\":7,\"epoch\":3," GOOD_END, "version 0");
    expect_refusal("{\"version\":\"1\",\"seed\":7,\"epoch\":3," GOOD_END, "version is not a whole number");
    expect_refusal("{\"version\":1,\"epoch\":3," GOOD_END, "seed is missing");
    expect_refusal("{\"version\":1,\"seed\":null,\"epoch\":3," GOOD_END, "seed is not a whole number");
    expect_refusal("{\"version\":1,\"seed\":\"\",\"epoch\":3," GOOD_END, "seed is not a whole number");
    expect_refusal("{\"version\":1,\"seed\":\"12a\",\"epoch\":3," GOOD_END, "seed is not a whole number");
    expect_refusal("{\"version\":1,\"seed\":\"18446744073709551616\",\"epoch\":3," GOOD_END, "seed is not a whole number");
    expect_refusal("{\"version\":1,\"seed\":7,\"epoch\":-3," GOOD_END, "epoch is negative");
    expect_refusal("{\"version\":1,\"seed\":7,\"epoch\":1.5," GOOD_END, "epoch is not a whole number");
    expect_refusal("{\"version\":1,\"seed\":7,\"epoch\":true," GOOD_END, "epoch is not a whole number");
    expect_refusal("{\"version\":1,\"seed\":7,\"epoch\":3,\"fingerprint\":\"0000000000000abc\"}", "position is missing");
    expect_refusal("{\"version\":1,\"seed\":7,\"epoch\":3,\"position\":\"5\",\"fingerprint\":\"0000000000000abc\"}", "position is not");
    expect_refusal("{\"version\":1,\"seed\":7,\"epoch\":3,\"position\":5}", "fingerprint is missing");
    expect_refusal("{\"version\":1,\"seed\":7,\"epoch\":3,\"position\":5,\"fingerprint\":2748}", "fingerprint is not");
    expect_refusal("{\"version\":1,\"seed\":7,\"epoch\":3,\"position\":5,\"fingerprint\":\"abc\"}", "fingerprint is not");
    expect_refusal("{\"version\":1,\"seed\":7,\"epoch\":3,\"position\":5,\"fingerprint\":\"000000000000xabc\"}", "fingerprint is not");
    expect_refusal("{\"version\":1,\"version\":1,\"seed\":7,\"epoch\":3," GOOD_END, "not JSON");
}

static void what_is_not_a_state_is_refused(void **state)
{
    (void)state;
    char *deep = malloc(4200), *huge = malloc(1 << 20);
    memset(deep, '[', 4000);
    deep[4000] = 0;
    memset(huge, ' ', (1 << 20) - 1);
    huge[(1 << 20) - 1] = 0;
    expect_refusal("", "not JSON");
    expect_refusal("nonsense", "not JSON");
    expect_refusal("{\"version\":1", "not JSON");
    expect_refusal("[1]", "not an object");
    expect_refusal("{} x", "not JSON");
    expect_refusal("{\"version\":1,\"seed\":99999999999999999999999}", "not JSON");
    expect_refusal("{\"\xff\xfe\":1}", "not JSON");
    expect_refusal("\033]0;x\007", "not JSON");
    expect_refusal(deep, "not JSON");
    expect_refusal(huge, "longer than 4096 bytes");
    free(deep);
    free(huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_as_documented),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_largest_values_take_less_than_a_kilobyte),
        cmocka_unit_test(a_short_buffer_is_told_the_length_it_needs),
        cmocka_unit_test(spaces_order_and_unknown_fields_do_not_matter),
        cmocka_unit_test(each_field_that_is_wrong_is_named),
        cmocka_unit_test(what_is_not_a_state_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
