/* Errors in words, and where the library talks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text/text.h"

static void the_first_error_is_kept(void **state)
{
    (void)state;
    struct fb_error e = {0};
    assert_int_equal(error_set(&e, FB_E_DATA, "decode", "the stream ends in row %d", 7), FB_E_DATA);
    assert_int_equal(error_set(&e, FB_E_IO, "read", "later"), FB_E_IO); /* its own code is returned, the record stays */
    assert_int_equal(error_set_errno(&e, "read", EIO, "read"), FB_E_IO);
    assert_int_equal(e.code, FB_E_DATA);
    assert_string_equal(e.stage, "decode");
    assert_string_equal(e.cause, "the stream ends in row 7");
    assert_int_equal(e.sample, -1);
    assert_int_equal(e.offset, -1);
    assert_int_equal(e.sys_errno, 0);
}

static void a_record_may_be_missing(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, FB_E_USAGE, "order", "x"), FB_E_USAGE);
    assert_int_equal(error_set_errno(NULL, "read", ENOENT, "x"), FB_E_NOT_FOUND);
    error_remedy(NULL, "x");
    error_at(NULL, "x", 1);
    error_clear(NULL);
}

static void failed_system_calls_become_codes_words_and_remedies(void **state)
{
    (void)state;
    static const struct {
        int sys_errno, code;
        const char *remedy;
    } cases[] = {
        {ENOENT, FB_E_NOT_FOUND, ""},   {ENOTDIR, FB_E_NOT_FOUND, ""},    {ENOMEM, FB_E_NOMEM, "memory="}, {EIO, FB_E_IO, "dmesg"},
        {EMFILE, FB_E_IO, "ulimit -n"}, {EACCES, FB_E_IO, "permissions"}, {ENOSPC, FB_E_IO, "space"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fb_error e = {0};
        char reason[128], expected[256];
        assert_int_equal(error_set_errno(&e, "read", cases[i].sys_errno, "open %s", "a.jpg"), cases[i].code);
        assert_int_equal(e.code, cases[i].code);
        assert_int_equal(e.sys_errno, cases[i].sys_errno);
        snprintf(expected, sizeof(expected), "cannot open a.jpg: %s", text_errno(cases[i].sys_errno, reason, sizeof(reason)));
        assert_string_equal(e.cause, expected);
        assert_non_null(strstr(e.remedy, cases[i].remedy));
    }
}

static void callers_add_only_what_is_not_known_yet(void **state)
{
    (void)state;
    struct fb_error e = {0};
    error_remedy(&e, "no error yet");
    error_at(&e, "x", 5);
    assert_true(e.remedy[0] == 0 && e.path[0] == 0);
    error_set(&e, FB_E_DATA, "decode", "bad");
    error_at(&e, NULL, 99);
    error_at(&e, "a\033.jpg", 100);
    error_at(&e, "b.jpg", 101);
    error_remedy(&e, "first %d", 1);
    error_remedy(&e, "second");
    assert_string_equal(e.path, "a\\x1b.jpg");
    assert_int_equal(e.offset, 99);
    assert_string_equal(e.remedy, "first 1");
    error_reword(&e, "second", "--second");
    assert_string_equal(e.remedy, "first 1");
    error_reword(&e, "first", "the --first");
    assert_string_equal(e.remedy, "the --first 1");
}

static void an_error_is_one_line(void **state)
{
    (void)state;
    struct fb_error e = {0};
    char out[4096];
    error_set(&e, FB_E_DATA, "decode", "cause");
    assert_int_equal(fb_format_error(&e, out, sizeof(out)), strlen("decode: cause"));
    assert_string_equal(out, "decode: cause");
    error_remedy(&e, "remedy");
    error_at(&e, "photos/a.jpg", 1234);
    fb_format_error(&e, out, sizeof(out));
    assert_string_equal(out, "decode: photos/a.jpg at byte 1234: cause; remedy");
    e.offset = -1;
    e.stage[0] = 0;
    int n = fb_format_error(&e, out, sizeof(out));
    assert_string_equal(out, "fullbore: photos/a.jpg: cause; remedy");
    assert_int_equal(fb_format_error(&e, NULL, 0), n);
    assert_int_equal(fb_format_error(&e, out, 5), n);
    assert_string_equal(out, "full");
}

static void assert_utf8(const char *s)
{
    for (size_t n = strlen(s); n > 0;) {
        int step = text_utf8_length(s, n);
        assert_true(step > 0);
        s += step;
        n -= (size_t)step;
    }
}

static void long_texts_are_cut_between_characters(void **state)
{
    (void)state;
    static const char *const characters[] = {"x", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t k = 0; k < 4; k++)
        for (int shift = 0; shift < 5; shift++) {
            char text[3000] = "";
            for (int i = 0; i < shift; i++)
                strcat(text, "-");
            while (strlen(text) < 2000)
                strcat(text, characters[k]);
            struct fb_error e = {0};
            error_set(&e, FB_E_DATA, "a stage with a very long name", "%s", text);
            error_remedy(&e, "%s", text);
            error_at(&e, text, 1);
            assert_in_range(strlen(e.cause), sizeof(e.cause) - 4, sizeof(e.cause) - 1);
            assert_utf8(e.cause);
            assert_utf8(e.remedy);
            assert_utf8(e.path);
            assert_int_equal(strlen(e.stage), sizeof(e.stage) - 1);
            struct fb_error from_errno = {0};
            error_set_errno(&from_errno, "read", EIO, "open %s", text);
            assert_utf8(from_errno.cause);
            assert_non_null(strstr(from_errno.cause, "Input/output error"));
        }
}

static void clearing_makes_a_record_usable_again(void **state)
{
    (void)state;
    struct fb_error e;
    memset(&e, 0x55, sizeof(e));
    error_clear(&e);
    assert_int_equal(e.code, 0);
    assert_int_equal(e.sample, -1);
    assert_int_equal(e.offset, -1);
    error_set(&e, FB_E_IO, "read", "x");
    assert_int_equal(e.code, FB_E_IO);
}

/* Escapes, a title, C1 in UTF-8, a new line, a mark that turns the writing, and bytes that are no UTF-8. */
#define HOSTILE                             \
    "x\033]0;owned\007\033[31m\r\n\xc2\x9b" \
    "2J\xe2\x80\xae\xff\xc3"

static void nothing_in_a_record_steers_a_terminal(void **state)
{
    (void)state;
    struct fb_error e = {0};
    char out[4096];
    error_set(&e, FB_E_DATA, "decode", "the array '%s'", HOSTILE);
    error_remedy(&e, "%s", HOSTILE);
    error_at(&e, HOSTILE, 1);
    fb_format_error(&e, out, sizeof(out));
    assert_true(text_is_harmless(e.cause) && text_is_harmless(e.remedy) && text_is_harmless(e.path) && text_is_harmless(out));
    assert_non_null(strstr(e.cause, "the array 'x\\x1b]0;owned\\x07"));
    assert_null(strstr(out, "\\x5c")); /* escaped once */
    struct fb_error from_errno = {0};
    error_set_errno(&from_errno, "read", EIO, "read %s", HOSTILE);
    assert_true(text_is_harmless(from_errno.cause));
    struct fb_error foreign = {.code = FB_E_DATA, .cause = HOSTILE, .remedy = HOSTILE, .path = HOSTILE, .stage = "a\033[1m"};
    fb_format_error(&foreign, out, sizeof(out));
    assert_true(text_is_harmless(out));
}

static int written;

static void write_line(void *ctx, int level, const char *line)
{
    written++;
    snprintf(ctx, 2048, "%d %s", level, line);
}

static void a_log_line_reaches_its_listener_or_nobody(void **state)
{
    (void)state;
    char got[2048], *long_text = malloc(5001);
    struct log l = {write_line, got}, silent = {0};
    memset(long_text, 'x', 5000);
    long_text[5000] = 0;
    log_line(&l, LOG_WARN, "io_uring is %s", "forbidden");
    assert_string_equal(got, "1 io_uring is forbidden");
    log_line(&l, LOG_ERROR, "%s", long_text);
    assert_true(strlen(got) > 2000);
    log_line(&l, LOG_WARN, "the column %s", HOSTILE);
    assert_true(text_is_harmless(got));
    assert_non_null(strstr(got, "the column x\\x1b]0;owned"));
    log_line(&silent, LOG_ERROR, "nobody hears");
    assert_int_equal(written, 3);
    free(long_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_error_is_kept),
        cmocka_unit_test(a_record_may_be_missing),
        cmocka_unit_test(failed_system_calls_become_codes_words_and_remedies),
        cmocka_unit_test(callers_add_only_what_is_not_known_yet),
        cmocka_unit_test(an_error_is_one_line),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(nothing_in_a_record_steers_a_terminal),
        cmocka_unit_test(clearing_makes_a_record_usable_again),
        cmocka_unit_test(a_log_line_reaches_its_listener_or_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
