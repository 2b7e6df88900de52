/* Options of a program that was compiled with another version of the header: fewer fields, or more. */
#include "../tally.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, CANARY = 0xA5 };

/* A block of `size` bytes for options with canaries behind. */
static fb_options *guarded(size_t size)
{
    uint8_t *block = malloc(size + GUARD);
    assert_non_null(block);
    memset(block, CANARY, size + GUARD);
    return (fb_options *)(void *)block;
}

static void assert_guard(const fb_options *o, size_t size)
{
    for (size_t i = size; i < size + GUARD; i++)
        assert_int_equal(((const uint8_t *)o)[i], CANARY);
}

static void nothing_is_written_behind_an_older_callers_struct(void **state)
{
    (void)state;
    for (size_t size = sizeof(size_t); size <= sizeof(fb_options); size++) {
        fb_options *o = guarded(size), now;
        fb_init_options_sized(o, size);
        fb_init_options(&now);
        now.struct_size = size;
        assert_guard(o, size);
        assert_memory_equal(o, &now, size);
        free(o);
    }
}

/* Every field that the older struct lacks has its default, and the loader gives what it gave then. */
static void an_older_callers_options_are_complete(void **state)
{
    (void)state;
    fb_options all = photo_options(&photos);
    fb_loader *l = open_or_fail(&all);
    struct tally expected = run_epoch(l, 0);
    fb_close(l);
    for (size_t size = offsetof(fb_options, column_rows); size < sizeof(fb_options); size += 8) {
        fb_options *o = guarded(size);
        memcpy(o, &all, size);
        o->struct_size = size;
        l = open_or_fail(o);
        struct tally t = run_epoch(l, 0);
        fb_close(l);
        assert_true(t.digest == expected.digest);
        assert_guard(o, size);
        free(o);
    }
}

static void a_newer_callers_unused_fields_do_no_harm_and_used_ones_are_refused(void **state)
{
    (void)state;
    size_t size = sizeof(fb_options) + 40;
    fb_options *o = guarded(size), all = photo_options(&photos);
    struct fb_error e = {0};
    fb_init_options_sized(o, size);
    assert_guard(o, size);
    memcpy(o, &all, sizeof(all));
    o->struct_size = size;
    fb_loader *l = open_or_fail(o);
    fb_close(l);
    ((uint8_t *)o)[size - 1] = 1;
    assert_int_equal(fb_open(o, &l, &e), FB_E_USAGE);
    assert_null(l);
    assert_non_null(strstr(e.cause, "newer"));
    free(o);
}

static void options_that_nobody_made_are_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 7, 1 << 20, SIZE_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fb_options o = {.struct_size = sizes[i]};
        struct fb_error e = {0};
        fb_loader *l;
        assert_int_equal(fb_open(&o, &l, &e), FB_E_USAGE);
        assert_null(l);
    }
}

/* The function itself, which programs call that do not read the header: the fields that it had in its first version. */
static void the_symbol_stays_for_programs_that_have_it(void **state)
{
    (void)state;
    fb_options *o = guarded(sizeof(fb_options)), now;
    (fb_init_options)(o);
    fb_init_options(&now);
    assert_true(o->struct_size == offsetof(fb_options, group_by) + sizeof(void *));
    now.struct_size = o->struct_size;
    assert_memory_equal(o, &now, o->struct_size);
    assert_guard(o, sizeof(fb_options));
    free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_written_behind_an_older_callers_struct),
        cmocka_unit_test(an_older_callers_options_are_complete),
        cmocka_unit_test(a_newer_callers_unused_fields_do_no_harm_and_used_ones_are_refused),
        cmocka_unit_test(options_that_nobody_made_are_refused),
        cmocka_unit_test(the_symbol_stays_for_programs_that_have_it),
    };
    return run_photo_tests(tests);
}
