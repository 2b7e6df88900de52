/* Strings, escaping, sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/text/edit_distance.h"
#include "base/text/text.h"
#include "comma_locale.h"

static void a_string_grows_up_to_its_limit_and_then_stops(void **state)
{
    (void)state;
    struct text t = {.limit = 1000};
    for (int i = 0; i < 100; i++)
        text_append(&t, "0123456789", 10);
    assert_false(t.failed);
    assert_int_equal(t.length, 1000);
    assert_int_equal(strlen(t.data), 1000);
    text_append(&t, "x", 1);
    assert_true(t.failed);
    assert_int_equal(t.length, 1000);
    text_append(&t, "", 0);
    text_printf(&t, "%d", 5);
    assert_int_equal(t.length, 1000);
    text_free(&t);
    assert_null(t.data);
}

static void a_whole_piece_fits_or_nothing_of_it(void **state)
{
    (void)state;
    struct text t = {.limit = 10};
    text_append(&t, "12345", 5);
    text_printf(&t, "%s", "1234567");
    assert_true(t.failed);
    assert_string_equal(t.data, "12345");
    text_free(&t);
    struct text huge = {.limit = 10};
    text_append(&huge, "x", SIZE_MAX);
    assert_true(huge.failed);
    text_free(&huge);
}

static void printing_formats_and_appends(void **state)
{
    (void)state;
    struct text t = {.limit = 100000};
    text_printf(&t, "%s", "");
    text_printf(&t, "%d-%s", 42, "a");
    assert_string_equal(t.data, "42-a");
    for (int i = 0; i < 1000; i++)
        text_printf(&t, "%05d", i);
    assert_int_equal(t.length, 5004);
    assert_string_equal(t.data + 4999, "00999");
    text_free(&t);
}

static void numbers_have_a_point_in_every_locale(void **state)
{
    (void)state;
    if (!set_comma_locale())
        skip();
    struct text t = {.limit = 100};
    uint64_t bytes;
    double value;
    const char *end;
    text_printf(&t, "%.2f", 0.5);
    assert_string_equal(t.data, "0.50");
    assert_true(text_parse_size("1.5K", &bytes));
    assert_int_equal(bytes, 1536);
    assert_true(text_parse_double("0.08,1", &value, &end));
    assert_true(value == 0.08);
    assert_string_equal(end, ",1");
    assert_int_equal(*localeconv()->decimal_point, ','); /* and the program's locale is what it was */
    text_free(&t);
    setlocale(LC_ALL, "C");
}

static void utf8_is_told_from_what_only_looks_like_it(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        int length;
    } cases[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\xc3\xa4", 2},
        {"\xe2\x82\xac", 3},
        {"\xf0\x9f\x98\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},
        {"\xbf", 0},
        {"\xc0\x80", 0},
        {"\xc1\xbf", 0}, /* continuation alone, overlong */
        {"\xe0\x80\x80", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"\xed\xa0\x80", 0},
        {"\xed\xbf\xbf", 0},
        {"\xed\x9f\xbf", 3}, /* surrogates */
        {"\xf4\x90\x80\x80", 0},
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0}, /* beyond U+10FFFF */
        {"\xc3", 0},
        {"\xe2\x82", 0},
        {"\xf0\x9f\x98", 0},
        {"\xc3(", 0},
        {"\xe2\x82(", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(text_utf8_length(cases[i].s, strlen(cases[i].s)), cases[i].length);
    assert_int_equal(text_utf8_length("", 0), 0);
}

static void expect_shown(const char *wanted, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void expect_shown(const char *wanted, const char *format, ...)
{
    struct text t = {.limit = 4096};
    char plain[4096];
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    text_vshow(&t, format, ap);
    vsnprintf(plain, sizeof(plain), format, again);
    va_end(again);
    va_end(ap);
    assert_string_equal(t.data ? t.data : "", wanted ? wanted : plain);
    text_free(&t);
}

static void showing_is_printing_where_nothing_is_hostile(void **state)
{
    (void)state;
    expect_shown(NULL, "%s", "");
    expect_shown(NULL, "%-12s|%12s|%.3s|%.*s|%*s|%-*s", "left", "right", "cut", 2, "cut", 7, "wide", -7, "wide");
    expect_shown(NULL, "%d %5d %-5d| %05d %+d % d %i %hd %hhu", -7, 42, 42, 42, 42, 42, 7, (short)-3, (unsigned char)200);
    expect_shown(NULL, "%ld %lld %zu %zd %ju %jd %td", -5L, -6LL, (size_t)7, (ssize_t)-8, (uintmax_t)9, (intmax_t)-10, (ptrdiff_t)-11);
    expect_shown(NULL, "%u %lu %llu %x %#X %o %016llx", 5u, 6ul, 18446744073709551615ull, 0xabcu, 0xdefu, 8u, 0x1234ull);
    expect_shown(NULL, "%f %.3f %10.2f|%-10.1f|%g %.9g %e %+5.0f %.*f %.f", 1.5, 2.25, 3.125, 4.5, 0.1, 1.0 / 3, 12345.678, 6.5, 2, 7.125,
                 8.5);
    expect_shown(NULL, "100 %% of %c%c\n\tand \033[1m the format's own", 'i', 't');
    expect_shown(NULL, "%s \xc3\xa4\xe2\x82\xac %s", "\xf0\x9f\x98\x80", "a\\x1b");
    expect_shown(NULL, "%p", (void *)&expect_shown);
}

static void what_is_shown_is_escaped_and_the_format_is_not(void **state)
{
    (void)state;
    expect_shown("a\\x0ab\n", "%s\n", "a\nb");
    expect_shown("     \\x1b|", "%9s|", "\033");
    expect_shown("\\x1b     |", "%-9s|", "\033");
    expect_shown("\\x1b[|", "%.2s|", "\033[2J");
    expect_shown("\\xc3|", "%.1s|", "\xc3\xa4"); /* cut inside a character */
    expect_shown("\\x07", "%c", 7);
    struct text t = {.limit = 100};
    text_show_lines(&t, "a\033\nb\r\nc\xff");
    assert_string_equal(t.data, "a\\x1b\nb\\x0d\nc\\xff");
    text_free(&t);
}

/* Any bytes at all: what comes out has no control character and is UTF-8, and doing it twice changes nothing. */
static void any_bytes_become_harmless_words(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int i = 0; i < 20000; i++) {
        char raw[64], words[160], again[160], cut[24];
        int n = i % 60;
        for (int k = 0; k < n; k++) {
            seed = seed * 1103515245 + 12345;
            raw[k] = (char)(1 + (seed >> 16) % 255);
        }
        raw[n] = 0;
        text_words(words, sizeof(words), "%s", raw);
        text_words(again, sizeof(again), "%s", words);
        text_words(cut, sizeof(cut), "%s", raw);
        assert_true(text_is_harmless(words) && text_is_harmless(cut));
        if (strlen(words) + 4 < sizeof(words))
            assert_string_equal(words, again);
    }
}

static void expect_escape(const char *name, const char *shown)
{
    char out[200];
    assert_ptr_equal(text_escape(name, out, sizeof(out)), out);
    assert_string_equal(out, shown);
}

static void hostile_names_cannot_steer_a_terminal(void **state)
{
    (void)state;
    expect_escape("photo 1.jpg", "photo 1.jpg");
    expect_escape("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    expect_escape("a\nb\tc\rd\be\x7f", "a\\x0ab\\x09c\\x0dd\\x08e\\x7f");
    expect_escape("\033]0;title\007\033[2J", "\\x1b]0;title\\x07\\x1b[2J");
    expect_escape("\xff\xfe", "\\xff\\xfe");
    expect_escape("\xc2\x9b"
                  "31m",
                  "\\xc2\\x9b31m"); /* CSI as one C1 character */
    expect_escape("\xc2\xa0", "\xc2\xa0");
    expect_escape("a\xe2\x80\xaegpj.exe", "a\\xe2\\x80\\xaegpj.exe"); /* right-to-left override */
    expect_escape("\xe2\x81\xa6x\xe2\x81\xa9", "\\xe2\\x81\\xa6x\\xe2\\x81\\xa9");
    expect_escape("\xe2\x80\xa8\xd8\x9c", "\\xe2\\x80\\xa8\\xd8\\x9c");
    expect_escape("\xe2\x80\x94", "\xe2\x80\x94"); /* an em dash is no mark */
    expect_escape("\xed\xa0\x80", "\\xed\\xa0\\x80");
    expect_escape("\xc3", "\\xc3");
    expect_escape("", "");
}

static void a_name_that_fits_is_whole_and_a_longer_one_is_cut_between_characters(void **state)
{
    (void)state;
    static const char *const names[] = {"abcdefgh", "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", "\x01\x02", "ab\xf0\x9f\x98\x80yz"};
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        char whole[100];
        text_escape(names[k], whole, sizeof(whole));
        for (size_t size = 1; size < 20; size++) {
            char out[24];
            memset(out, '#', sizeof(out));
            text_escape(names[k], out, size);
            size_t n = strlen(out);
            assert_true(n < size);
            for (size_t i = size; i < sizeof(out); i++)
                assert_int_equal(out[i], '#');
            if (size > strlen(whole)) {
                assert_string_equal(out, whole);
            } else if (size >= 4) {
                assert_true(n >= 3 && memcmp(out + n - 3, "...", 3) == 0);
                assert_memory_equal(out, whole, n - 3);
                for (size_t i = 0; i < n;) {
                    int step = text_utf8_length(out + i, n - i);
                    assert_true(step > 0);
                    i += (size_t)step;
                }
            }
        }
    }
    char untouched = '#';
    text_escape("abc", &untouched, 0);
    assert_int_equal(untouched, '#');
}

static void sizes_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},          {"4096", 4096},     {"64MiB", 64 << 20}, {"64M", 64 << 20},
        {"64m", 64 << 20}, {"64mb", 64000000}, {"2GB", 2000000000}, {"1.5G", UINT64_C(3) << 29},
        {"1KiB", 1024},    {"1kB", 1000},      {"1K", 1024},        {"3 TiB", UINT64_C(3) << 40},
        {"10B", 10},       {"1e3", 1000},      {"0.5K", 512},
    };
    static const char *const bad[] = {"", "x", "-1", "1X", "1KiBx", "1Ki", "1MM", "nan", "inf", "M", "1e30", "9000000T", "1 2", "1,5G"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t bytes = 7;
        if (!text_parse_size(good[i].text, &bytes) || bytes != good[i].bytes)
            fail_msg("%s -> %llu", good[i].text, (unsigned long long)bytes);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t bytes = 7;
        if (text_parse_size(bad[i], &bytes))
            fail_msg("%s is not a size", bad[i]);
        assert_int_equal(bytes, 7);
    }
}

static void sizes_are_shown_with_a_unit(void **state)
{
    (void)state;
    char out[32];
    assert_string_equal(text_size(0, out, sizeof(out)), "0 B");
    assert_string_equal(text_size(1023, out, sizeof(out)), "1023 B");
    assert_string_equal(text_size(1024, out, sizeof(out)), "1.0 KiB");
    assert_string_equal(text_size(64 << 20, out, sizeof(out)), "64.0 MiB");
    assert_string_equal(text_size(UINT64_MAX, out, sizeof(out)), "16777216.0 TiB");
}

static void errnos_have_words(void **state)
{
    (void)state;
    char out[64];
    assert_string_equal(text_errno(ENOENT, out, sizeof(out)), "No such file or directory");
    assert_non_null(strstr(text_errno(99999, out, sizeof(out)), "99999"));
}

static void numbers_are_finite_and_leave_the_rest(void **state)
{
    (void)state;
    double value = 7;
    const char *end;
    assert_true(text_parse_double("-2.5e1rest", &value, &end));
    assert_true(value == -25);
    assert_string_equal(end, "rest");
    static const char *const bad[] = {"", "x", "nan", "inf", "-inf", "1e999", ".", "-"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        value = 7;
        assert_false(text_parse_double(bad[i], &value, &end));
        assert_true(value == 7);
    }
}

static void edit_distance_counts_changes(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int distance;
    } cases[] = {{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(edit_distance(cases[i].a, cases[i].b), cases[i].distance);
    char long_name[2000];
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = 0;
    assert_int_equal(edit_distance(long_name, ""), 255);
    assert_int_equal(edit_distance(long_name, long_name), 0);
}

/* People shorten: what is left out is cheaper than what is wrong. */
static void edits_may_differ_in_cost(void **state)
{
    (void)state;
    const struct edit_costs c = {.insert = 1, .remove = 2, .replace = 5};
    assert_int_equal(edit_distance_weighted("crop", "random_crop", c), 7);
    assert_int_equal(edit_distance_weighted("random_crop", "crop", c), 14);
    assert_int_equal(edit_distance_weighted("cat", "cut", c), 3); /* one removed, one inserted */
    assert_int_equal(edit_distance_weighted("cat", "cut", (struct edit_costs){3, 3, 5}), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(showing_is_printing_where_nothing_is_hostile),
        cmocka_unit_test(what_is_shown_is_escaped_and_the_format_is_not),
        cmocka_unit_test(any_bytes_become_harmless_words),
        cmocka_unit_test(a_string_grows_up_to_its_limit_and_then_stops),
        cmocka_unit_test(a_whole_piece_fits_or_nothing_of_it),
        cmocka_unit_test(printing_formats_and_appends),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(utf8_is_told_from_what_only_looks_like_it),
        cmocka_unit_test(hostile_names_cannot_steer_a_terminal),
        cmocka_unit_test(a_name_that_fits_is_whole_and_a_longer_one_is_cut_between_characters),
        cmocka_unit_test(sizes_are_read_as_people_write_them),
        cmocka_unit_test(sizes_are_shown_with_a_unit),
        cmocka_unit_test(errnos_have_words),
        cmocka_unit_test(numbers_are_finite_and_leave_the_rest),
        cmocka_unit_test(edit_distance_counts_changes),
        cmocka_unit_test(edits_may_differ_in_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
