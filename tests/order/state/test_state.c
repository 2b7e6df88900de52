/* Where a run is, as JSON; and whether that fits the loader at hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "order/state/state.h"

static const struct state example = {
    .seed = 7,
    .epoch = 3,
    .position = 25600,
    .skips = {1, {{512, 1024}}},
    .origin = {0xabc, 30000, 0xdef, 40000, 0x123, 0x456, ORDER_SHUFFLED},
};

static int read_text(struct state *s, const char *text, uint32_t *faults, struct fb_error *e)
{
    uint64_t version = 0;
    *faults = 0;
    return state_read(s, text, &version, faults, e);
}

static void the_text_is_as_documented(void **state)
{
    (void)state;
    char text[1024];
    int n = state_write(&example, text, sizeof(text));
    assert_string_equal(text,
                        "{\"version\":2,\"seed\":7,\"epoch\":3,\"position\":25600,\"fingerprint\":\"0000000000000abc\",\"samples\":30000,"
                        "\"data\":\"0000000000000def\",\"data_samples\":40000,\"keys\":\"0000000000000123\","
                        "\"labels\":\"0000000000000456\",\"order\":\"shuffled\",\"skip\":[[512,1024]],\"check\":\"237df31c417bb94b\"}");
    assert_int_equal(n, strlen(text));
}

static struct state random_state(struct rng *r, int shift)
{
    struct state s = {.seed = rng_u64(r) >> shift, .epoch = rng_u64(r) >> 1 >> shift, .position = rng_u64(r) >> 1 >> shift};
    s.origin = (struct data_identity){rng_u64(r),
                                      rng_u64(r) >> 1 >> shift,
                                      rng_u64(r),
                                      rng_u64(r) >> 1 >> shift,
                                      rng_u64(r),
                                      rng_u64(r),
                                      (enum order_kind)rng_below(r, ORDER_KINDS)};
    uint64_t at = 0;
    for (uint64_t k = rng_below(r, SKIPS_MOST + 1); k > 0; k--) {
        uint64_t first = at + 1 + (rng_u64(r) >> 6 >> shift), last = first + 1 + (rng_u64(r) >> 6 >> shift);
        s.skips.range[s.skips.count++] = (struct skip){first, last};
        at = last;
    }
    return s;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 0, 0, 0, 0);
    for (int i = 0; i < 2000; i++) {
        struct state s = random_state(&r, i % 60), back;
        char text[1024];
        uint32_t faults;
        struct fb_error e = {0};
        assert_true(state_write(&s, text, sizeof(text)) < 1024);
        if (read_text(&back, text, &faults, &e) != 0 || faults)
            fail_msg("%s: %s, faults %u", text, e.cause, faults);
        assert_memory_equal(&s, &back, sizeof(s));
    }
}

static void the_largest_values_take_less_than_a_kilobyte(void **state)
{
    (void)state;
    struct state s = {.seed = UINT64_MAX, .epoch = INT64_MAX, .position = INT64_MAX}, back;
    s.origin = (struct data_identity){UINT64_MAX, INT64_MAX, UINT64_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX, ORDER_SHUFFLED};
    for (uint64_t i = 0; i < SKIPS_MOST; i++)
        s.skips.range[s.skips.count++] = (struct skip){INT64_MAX - 40 + 3 * i, INT64_MAX - 39 + 3 * i};
    char text[1024];
    uint32_t faults;
    int n = state_write(&s, text, sizeof(text));
    assert_true(n < 800);
    assert_int_equal(text[n - 1], '}');
    assert_int_equal(read_text(&back, text, &faults, NULL), 0);
    assert_int_equal(faults, 0);
    assert_memory_equal(&s, &back, sizeof(s));
}

static void a_short_buffer_is_told_the_length_it_needs(void **state)
{
    (void)state;
    char text[1024], part[10] = "xxxxxxxxx";
    int n = state_write(&example, text, sizeof(text));
    assert_int_equal(state_write(&example, part, sizeof(part)), n);
    assert_memory_equal(part, text, 9);
    assert_int_equal(part[9], 0);
    assert_int_equal(state_write(&example, NULL, 0), n);
}

static void a_state_of_version_1_is_still_read(void **state)
{
    (void)state;
    struct state s;
    uint64_t version;
    uint32_t faults;
    const char *text = " { \"fingerprint\" : \"00000000000000ff\",\n \"new\": {\"a\": [1, 2.5, null]}, \"position\": 5, \"epoch\": 0,"
                       " \"seed\": \"18446744073709551615\", \"version\": 1 } ";
    assert_int_equal(state_read(&s, text, &version, &faults, NULL), 0);
    assert_true(version == 1 && faults == 0 && s.seed == UINT64_MAX && s.position == 5 && s.origin.fingerprint == 0xff);
    struct state here = {.seed = UINT64_MAX, .origin = {.fingerprint = 0xff, .samples = 9, .order = ORDER_WEIGHTED}};
    assert_int_equal(state_compare(&s, version, &here), 0); /* it does not know the order */
    here.origin.samples = 4;
    assert_int_equal(state_compare(&s, version, &here), STATE_BEYOND);
}

/* The example's text with its first `from` replaced by `to`. */
static char *changed(const char *from, const char *to)
{
    static char out[2048];
    char text[1024];
    state_write(&example, text, sizeof(text));
    char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(out, sizeof(out), "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

static void spaces_order_and_unknown_fields_do_not_matter(void **state)
{
    (void)state;
    struct state s;
    uint32_t faults;
    assert_int_equal(read_text(&s, changed("\"seed\":7,", " \"new\" : [1, {}] ,\n\"seed\" : 7 , "), &faults, NULL), 0);
    assert_int_equal(faults, 0);
    assert_memory_equal(&s, &example, sizeof(s));
    char *moved = changed("\"seed\":7,", "");
    strcpy(strrchr(moved, '}'), ",\"seed\":7}");
    assert_int_equal(read_text(&s, moved, &faults, NULL), 0);
    assert_int_equal(faults, 0);
}

static void any_change_of_a_field_is_noticed(void **state)
{
    (void)state;
    static const char *const changes[][2] = {
        {"\"seed\":7", "\"seed\":8"},
        {"\"epoch\":3", "\"epoch\":2"},
        {"25600", "25601"},
        {"abc", "abd"},
        {"30000", "30001"},
        {"def", "dee"},
        {"40000", "40001"},
        {"0123", "0122"},
        {"0456", "0457"},
        {"shuffled", "plain"},
        {"[512,1024]", "[512,1025]"},
        {"\"skip\":[[512,1024]],", ""},
        {"\"version\":2", "\"version\":1"},
        {"237d", "237e"},
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct state s;
        uint32_t faults;
        struct fb_error e = {0};
        char *text = changed(changes[i][0], changes[i][1]);
        if (read_text(&s, text, &faults, &e) != 0)
            fail_msg("%s: %s", text, e.cause);
        if (faults != STATE_CHANGED)
            fail_msg("%s was believed", text);
    }
}

static void expect_refusal(const char *text, const char *words)
{
    struct state s, before;
    uint32_t faults;
    memset(&s, 0x5a, sizeof(s));
    before = s;
    struct fb_error e = {0};
    if (read_text(&s, text, &faults, &e) != FB_E_STATE)
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
    expect_refusal("{\"version\":\"1\",\"seed\":7,\"epoch\":3," GOOD_END, "version is not a whole number");
    expect_refusal("{\"version\":99}", "version 99");
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
    expect_refusal("{\"version\":1,\"seed\":7,\"epoch\":3,\"position\":5,\"fingerprint\":\"0000000000000ABC\"}", "fingerprint is not");
    expect_refusal("{\"version\":1,\"version\":1,\"seed\":7,\"epoch\":3," GOOD_END, "not JSON");
    expect_refusal(changed("\"samples\":30000,", ""), "samples is missing");
    expect_refusal(changed("\"data\":", "\"date\":"), "data is missing");
    expect_refusal(changed("40000", "-4"), "data_samples is negative");
    expect_refusal(changed("\"keys\"", "\"kez\""), "keys is missing");
    expect_refusal(changed("\"labels\"", "\"l\""), "labels is missing");
    expect_refusal(changed("\"shuffled\"", "\"odd\""), "order is none of");
    expect_refusal(changed("\"shuffled\"", "1"), "order is none of");
    expect_refusal(changed("[[512,1024]]", "[512,1024]"), "not a pair of positions");
    expect_refusal(changed("[[512,1024]]", "{}"), "skip is not a list");
    expect_refusal(changed("[[512,1024]]", "[[1,2],[3,4],[5,6],[7,8],[9,10],[11,12],[13,14],[15,16],[17,18]]"), "skip is not a list");
    expect_refusal(changed("[[512,1024]]", "[[1024,512]]"), "unsorted or touch");
    expect_refusal(changed("[[512,1024]]", "[[5,9],[9,12]]"), "unsorted or touch");
    expect_refusal(changed("[[512,1024]]", "[[5,-9]]"), "skip is negative");
    expect_refusal(changed(",\"check\":\"237d", ",\"chalk\":\"237d"), "check is missing");
    expect_refusal(changed("\"check\":\"237d", "\"check\":\"237x"), "check is not");
}

static void a_later_version_is_told_apart_from_nonsense(void **state)
{
    (void)state;
    struct state s;
    uint32_t faults;
    assert_int_equal(read_text(&s, "{\"version\":9,\"seed\":7,\"epoch\":3," GOOD_END, &faults, NULL), 0);
    assert_int_equal(faults, STATE_OTHER_VERSION);
    assert_true(s.seed == 7 && s.position == 5);
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

/* ---- does it fit? ---- */

static void expect_difference(struct state here, uint32_t faults, const char *words)
{
    struct fb_error e = {0};
    char consequence[1024];
    uint32_t found = state_compare(&example, 2, &here);
    assert_int_equal(found, faults);
    if (!faults)
        return;
    assert_int_equal(state_refuse(found, &example, 2, &here, &e), FB_E_STATE);
    if (!strstr(e.cause, words) || !e.remedy[0])
        fail_msg("'%s' does not say '%s'", e.cause, words);
    state_consequence(found, &example, 2, &here, consequence, sizeof(consequence));
    if (!strstr(consequence, words) || !strstr(consequence, "force: going on"))
        fail_msg("'%s' does not say '%s' and what follows", consequence, words);
}

static void what_differs_is_named(void **state)
{
    (void)state;
    struct state here = example;
    here.epoch = here.position = 0;
    here.skips.count = 0;
    expect_difference(here, 0, "");
    here.seed = 8;
    expect_difference(here, STATE_OTHER_SEED, "seed 7, this loader has seed 8");
    here.seed = 7;
    here.origin.order = ORDER_PLAIN;
    expect_difference(here, STATE_OTHER_ORDER, "order is shuffled, this loader's is plain");
    here.origin = example.origin;
    here.origin.fingerprint++;
    here.origin.samples = 29000;
    expect_difference(here, STATE_OTHER_DATA, "another selection of it (30000 of its 40000 samples there, 29000 here)");
    here.origin.data_fingerprint++;
    here.origin.data_samples = 40001;
    expect_difference(here, STATE_OTHER_DATA, "another data set (40000 samples there, 40001 here)");
    here.origin.data_samples = 40000;
    expect_difference(here, STATE_OTHER_DATA, "30000 samples selected there, 29000 here");
    here.origin.samples = 30000;
    here.origin.keys++;
    expect_difference(here, STATE_OTHER_DATA, "other names");
    here.origin.keys--;
    here.origin.labels++;
    expect_difference(here, STATE_OTHER_DATA, "the same names, but other labels");
    here.origin.labels--;
    expect_difference(here, STATE_OTHER_DATA, "a few names or labels differ");
    here.origin = example.origin;
    here.origin.samples = 25000;
    expect_difference(here, STATE_BEYOND, "position 25600");
}

static void several_differences_are_named_at_once(void **state)
{
    (void)state;
    struct state here = example;
    struct fb_error e = {0};
    here.seed = 8;
    here.origin.order = ORDER_PLAIN;
    here.origin.fingerprint++;
    state_refuse(state_compare(&example, 2, &here) | STATE_CHANGED, &example, 2, &here, &e);
    assert_non_null(strstr(e.cause, "seed 8"));
    assert_non_null(strstr(e.cause, "order is shuffled"));
    assert_non_null(strstr(e.cause, "another selection"));
    assert_non_null(strstr(e.cause, "changed after it was saved"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_as_documented),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_largest_values_take_less_than_a_kilobyte),
        cmocka_unit_test(a_short_buffer_is_told_the_length_it_needs),
        cmocka_unit_test(a_state_of_version_1_is_still_read),
        cmocka_unit_test(any_change_of_a_field_is_noticed),
        cmocka_unit_test(a_later_version_is_told_apart_from_nonsense),
        cmocka_unit_test(what_differs_is_named),
        cmocka_unit_test(several_differences_are_named_at_once),
        cmocka_unit_test(spaces_order_and_unknown_fields_do_not_matter),
        cmocka_unit_test(each_field_that_is_wrong_is_named),
        cmocka_unit_test(what_is_not_a_state_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
