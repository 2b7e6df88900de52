/* States: a run goes on exactly where it was, or is told why not. */
#include "../tally.h"

#include <stdlib.h>
#include <string.h>

static void a_state_continues_exactly_where_it_was(void **state)
{
    (void)state;
    struct fb_error e = {0};
    fb_options o = photo_options(&photos);
    fb_loader *l = open_or_fail(&o);
    struct tally whole = run_epoch(l, 3);
    fb_close(l);
    for (int stop = 1; stop <= 12; stop += 3) {
        struct tally t = {0};
        char json[1024];
        l = open_or_fail(&o);
        assert_true(fb_start_epoch(l, 3, &e) == 3);
        assert_int_equal(take(l, stop, &t, &e), 1);
        assert_true(fb_save_state(l, json, sizeof(json)) < 1024);
        fb_close(l);
        o.threads = 3; /* another machine */
        l = open_or_fail(&o);
        assert_int_equal(fb_load_state(l, json, &e), 0);
        assert_true(fb_start_epoch(l, FB_NEXT_EPOCH, &e) == 3);
        assert_int_equal(take(l, 1000, &t, &e), 0);
        assert_true(t.digest == whole.digest);
        assert_each_once(&t, PHOTOS);
        fb_close(l);
    }
}

static void a_state_at_the_end_of_an_epoch_starts_the_next(void **state)
{
    (void)state;
    struct fb_error e = {0};
    char json[1024];
    fb_options o = photo_options(&photos);
    fb_loader *l = open_or_fail(&o);
    run_epoch(l, 3);
    fb_save_state(l, json, sizeof(json));
    fb_close(l);
    l = open_or_fail(&o);
    assert_int_equal(fb_load_state(l, json, &e), 0);
    assert_int_equal(fb_batch_count(l), 13);
    assert_true(fb_start_epoch(l, FB_NEXT_EPOCH, &e) == 4);
    fb_close(l);
}

static void a_state_of_another_seed_or_data_set_is_refused(void **state)
{
    (void)state;
    struct fb_error e = {0};
    char json[1024];
    fb_options o = photo_options(&photos);
    fb_loader *l = open_or_fail(&o);
    fb_save_state(l, json, sizeof(json));
    fb_close(l);
    o.seed = 99;
    l = open_or_fail(&o);
    assert_int_equal(fb_load_state(l, json, &e), FB_E_STATE);
    assert_non_null(strstr(e.cause, "seed"));
    fb_close(l);
    o.seed = 7;
    o.classes = "class1";
    memset(&e, 0, sizeof(e));
    l = open_or_fail(&o);
    assert_int_equal(fb_load_state(l, json, &e), FB_E_STATE);
    assert_non_null(strstr(e.cause, "another data set"));
    fb_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_continues_exactly_where_it_was),
        cmocka_unit_test(a_state_at_the_end_of_an_epoch_starts_the_next),
        cmocka_unit_test(a_state_of_another_seed_or_data_set_is_refused),
    };
    return run_photo_tests(tests);
}
