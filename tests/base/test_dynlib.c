/* Libraries that are opened on first use: what is missing is an error in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/dynlib.h"

struct table {
    DYNLIB_MEMBER(version, zlibVersion);
    DYNLIB_MEMBER(sum, crc32);
};

static const struct dynlib_call calls[] = {DYNLIB_CALL(table, version, zlibVersion), DYNLIB_CALL(table, sum, crc32), {0}};

static void a_library_is_found_under_any_of_its_names(void **state)
{
    (void)state;
    static const char *const names[] = {"libno-such-library.so.7", "libz.so.1", NULL};
    static const struct dynlib library = {"zlib", names, "decode", "install zlib", calls};
    struct table t = {0};
    struct fb_error e = {0};
    assert_int_equal(dynlib_open(&library, &t, &e), 0);
    assert_int_equal(e.code, 0);
    assert_int_equal(t.version()[0], '1');
    assert_int_equal(t.sum(0, (const unsigned char *)"123456789", 9), 0xCBF43926);
}

static void an_absent_library_is_named_with_a_remedy(void **state)
{
    (void)state;
    static const char *const names[] = {"libno-such-library.so.7", NULL};
    static const struct dynlib library = {"libnothing", names, "decode", "install libnothing", calls};
    struct table t = {0};
    struct fb_error e = {0};
    assert_int_equal(dynlib_open(&library, &t, &e), FB_E_UNSUPPORTED);
    assert_int_equal(e.code, FB_E_UNSUPPORTED);
    assert_non_null(strstr(e.cause, "libnothing"));
    assert_non_null(strstr(e.cause, "libno-such-library.so.7"));
    assert_string_equal(e.remedy, "install libnothing");
    assert_null(t.version);
}

static void a_library_without_a_function_is_refused_by_its_name(void **state)
{
    (void)state;
    static const struct dynlib_call odd[] = {
        DYNLIB_CALL(table, version, zlibVersion), {"crc32_of_tomorrow", offsetof(struct table, sum), false}, {0}};
    static const char *const names[] = {"libz.so.1", NULL};
    static const struct dynlib library = {"zlib", names, "decode", "install zlib", odd};
    struct table t = {0};
    struct fb_error e = {0};
    assert_int_equal(dynlib_open(&library, &t, &e), FB_E_UNSUPPORTED);
    assert_non_null(strstr(e.cause, "crc32_of_tomorrow"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_is_found_under_any_of_its_names),
        cmocka_unit_test(an_absent_library_is_named_with_a_remedy),
        cmocka_unit_test(a_library_without_a_function_is_refused_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
