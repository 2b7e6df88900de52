/* What the writer writes, read back by jansson. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_writer.h"
#include "comma_locale.h"

static uint64_t seed;

static uint64_t next_random(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return seed >> 33;
}

static unsigned below(unsigned n)
{
    return (unsigned)(next_random() % n);
}

/* ---- strings ---- */

static void expect_written(const char *s, const char *json)
{
    struct text t = {.limit = 1000};
    json_put(&(struct json_writer){.out = &t}, J(NULL, s));
    assert_string_equal(t.data, json);
    text_free(&t);
}

static void strings_are_valid_and_reversible(void **state)
{
    (void)state;
    expect_written("", "\"\"");
    expect_written(NULL, "null");
    expect_written("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    expect_written("\n\x1f\x7f", "\"\\u000a\\u001f\\u007f\"");
    expect_written("\xc3\xa4\xf0\x9f\x98\x80", "\"\xc3\xa4\xf0\x9f\x98\x80\"");
    expect_written("a\xff"
                   "b\xed\xa0\x80",
                   "\"a\\udcffb\\udced\\udca0\\udc80\""); /* as Python's surrogateescape */
    expect_written("\xc2\x9b\xe2\x80\xae", "\"\\u009b\\u202e\"");
}

/* Any bytes but 0; often whole characters. */
static void make_string(char *s, unsigned most)
{
    static const char *const known[] = {"\"",           "\\",        "\\udc80", "\xc3\xa4", "\xf0\x9f\x98\x80",
                                        "\xe2\x80\xae", "</script>", "\x1b[2J", "\n"};
    unsigned n = below(most);
    for (*s = 0; n > 0; n--) {
        char byte[2] = {(char)(1 + below(255)), 0};
        strcat(s, below(3) ? byte : known[below(sizeof(known) / sizeof(*known))]);
    }
}

/* jansson refuses the halves of pairs that stand for bytes which are not UTF-8. Here \udcNN becomes \u00NN, and such a byte the character
 * of its number. */
static void tame(char *json)
{
    for (char *p = json; *p; p++) {
        if (*p == '\\' && strncmp(p + 1, "udc", 3) == 0)
            memcpy(p + 2, "00", 2);
        p += *p == '\\';
    }
}

static json_t *expected_string(const char *s)
{
    char out[1024];
    size_t used = 0;
    for (size_t n = strlen(s); n > 0;) {
        int length = text_utf8_length(s, n);
        unsigned char c = (unsigned char)*s;
        if (length)
            memcpy(out + used, s, (size_t)length);
        else
            out[used] = (char)(0xC0 | c >> 6), out[used + 1] = (char)(0x80 | (c & 0x3F));
        used += length ? (size_t)length : 2;
        s += length ? length : 1;
        n -= length ? (size_t)length : 1;
    }
    json_t *string = json_stringn(out, used);
    assert_non_null(string);
    return string;
}

/* ---- random documents ---- */

static json_t *write_value(struct json_writer *w, const char *key, int depth);

static json_t *write_level(struct json_writer *w, const char *key, int depth, bool is_array)
{
    json_t *level = is_array ? json_array() : json_object();
    json_begin(w, key, is_array);
    for (unsigned i = 0, n = below(6); i < n; i++) {
        char name[256];
        make_string(name, 8);
        snprintf(name + strlen(name), 16, "%u", i); /* no name twice */
        if (below(4) == 0)
            json_line(w);
        json_t *value = write_value(w, is_array ? NULL : name, depth - 1);
        if (is_array) {
            json_array_append_new(level, value);
        } else {
            json_t *wanted = expected_string(name);
            json_object_set_new(level, json_string_value(wanted), value);
            json_decref(wanted);
        }
    }
    json_end(w);
    return level;
}

static json_t *write_string(struct json_writer *w, const char *key)
{
    char s[256];
    make_string(s, 20);
    json_put(w, J(key, s));
    return expected_string(s);
}

static json_t *write_pairs(struct json_writer *w, const char *key)
{
    int a = (int)below(1000), b = -(int)below(1000);
    if (below(2)) {
        json_put(w, J_ARRAY(key, J(NULL, a), J_OBJECT(NULL, J("b", b)), J_NULL(NULL)));
        return json_pack("[i, {s: i}, n]", a, "b", b);
    }
    json_put(w, J_OBJECT(key, J("a", a), J_ARRAY("c", J(NULL, b)), J_BOOL("d", true)));
    return json_pack("{s: i, s: [i], s: b}", "a", a, "c", b, "d", 1);
}

static json_t *write_value(struct json_writer *w, const char *key, int depth)
{
    switch (below(depth > 0 ? 10 : 6)) {
    case 0: json_put(w, J_BOOL(key, seed & 2)); return json_boolean(seed & 2);
    case 1: json_put(w, J_NULL(key)); return json_null();
    case 2: {
        long long x = (long long)(next_random() << 33 ^ next_random());
        x = below(2) ? x : -(x & INT64_MAX);
        json_put(w, J(key, x));
        return json_integer(x);
    }
    case 3: {
        double x = ((double)next_random() + 0.5) / (double)(next_random() | 1) * (below(2) ? 1e-200 : -1e200);
        json_put(w, J_DIGITS(key, 17, x));
        return json_real(x);
    }
    case 4:
    case 5: return write_string(w, key);
    case 6: return write_pairs(w, key);
    default: return write_level(w, key, depth, below(2));
    }
}

static void expect_same(const struct text *t, const json_t *wanted)
{
    json_error_t why;
    tame(t->data);
    json_t *read = json_loads(t->data, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!read || !json_equal(read, wanted))
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed, read ? "differs" : why.text, t->data);
    json_decref(read);
}

static void what_is_written_is_what_jansson_reads(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        struct text t = {.limit = 1 << 20};
        struct json_writer w = {.out = &t};
        seed = i;
        json_t *wanted = write_level(&w, NULL, 6, below(2));
        assert_false(t.failed);
        assert_int_equal(w.depth, 0);
        expect_same(&t, wanted);
        json_decref(wanted);
        text_free(&t);
    }
}

/* ---- numbers ---- */

static void expect_numbers(void)
{
    struct text t = {.limit = 4096};
    struct json_writer w = {.out = &t};
    json_put(&w, J_ARRAY(NULL, J(NULL, UINT64_MAX), J(NULL, INT64_MIN), J(NULL, 200u), J(NULL, -1), J_QUOTED(NULL, UINT64_MAX),
                         J_HEX(NULL, 0xabc), J_FIXED(NULL, 3, 1234.5), J_FIXED(NULL, 0, 2.5), J_DIGITS(NULL, 6, 1234567.8),
                         J_DIGITS(NULL, 9, 0.1f), J_FIXED(NULL, 6, NAN), J_DIGITS(NULL, 6, -INFINITY), J_DIGITS(NULL, 17, DBL_MAX),
                         J_FIXED(NULL, 6, -0.0)));
    assert_string_equal(t.data, "[18446744073709551615,-9223372036854775808,200,-1,\"18446744073709551615\",\"0000000000000abc\","
                                "1234.500,2,1.23457e+06,0.100000001,null,null,1.7976931348623157e+308,-0.000000]");
    text_free(&t);
}

static void numbers_have_a_point_and_their_digits(void **state)
{
    (void)state;
    expect_numbers();
}

static void the_longest_number_is_whole(void **state)
{
    (void)state;
    struct text t = {.limit = 4096};
    json_put(&(struct json_writer){.out = &t}, J_FIXED(NULL, 99, -DBL_MAX));
    assert_int_equal(t.length, 1 + 309 + 1 + 99);
    assert_true(strtod(t.data, NULL) == -DBL_MAX);
    text_free(&t);
}

static void numbers_have_a_point_where_people_write_a_comma(void **state)
{
    (void)state;
    if (!set_comma_locale())
        skip();
    expect_numbers();
    setlocale(LC_ALL, "C");
}

/* ---- limits ---- */

static void a_text_that_is_too_small_fails_and_keeps_to_its_memory(void **state)
{
    (void)state;
    char whole[512];
    struct text all = TEXT_OVER(whole);
    seed = 11;
    json_decref(write_pairs(&(struct json_writer){.out = &all}, NULL));
    assert_false(all.failed);
    for (size_t size = 1; size < all.length + 4; size++) {
        char part[512];
        memset(part, '#', sizeof(part));
        struct text t = {.data = part, .capacity = size, .limit = size - 1};
        seed = 11;
        json_decref(write_pairs(&(struct json_writer){.out = &t}, NULL));
        assert_int_equal(t.failed, size <= all.length);
        assert_memory_equal(part, whole, t.length);
        assert_int_equal(part[size], '#');
    }
}

static void sixty_four_levels_are_written_and_one_more_fails(void **state)
{
    (void)state;
    for (int depth = 64; depth <= 65; depth++) {
        struct text t = {.limit = 4096};
        struct json_writer w = {.out = &t};
        for (int i = 0; i < depth; i++)
            i % 3 ? json_begin_array(&w, i % 3 == 1 ? "a" : NULL) : json_begin_object(&w, NULL);
        for (int i = 0; i < depth; i++)
            json_end(&w);
        assert_int_equal(t.failed, depth > 64);
        json_t *read = t.failed ? NULL : json_loads(t.data, 0, NULL);
        assert_int_equal(read != NULL, depth == 64);
        json_decref(read);
        text_free(&t);
    }
}

static void lines_break_where_they_are_wanted(void **state)
{
    (void)state;
    char line[64];
    struct text t = TEXT_OVER(line);
    struct json_writer w = {.out = &t};
    json_begin_array(&w, NULL);
    json_line(&w);
    json_put(&w, J(NULL, 1), J(NULL, 2));
    json_line(&w);
    json_put(&w, J_OBJECT(NULL, J("a", 3)));
    json_line(&w);
    json_end(&w);
    assert_string_equal(line, "[\n1,2,\n{\"a\":3}\n]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_valid_and_reversible),
        cmocka_unit_test(what_is_written_is_what_jansson_reads),
        cmocka_unit_test(numbers_have_a_point_and_their_digits),
        cmocka_unit_test(the_longest_number_is_whole),
        cmocka_unit_test(numbers_have_a_point_where_people_write_a_comma),
        cmocka_unit_test(a_text_that_is_too_small_fails_and_keeps_to_its_memory),
        cmocka_unit_test(sixty_four_levels_are_written_and_one_more_fails),
        cmocka_unit_test(lines_break_where_they_are_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
