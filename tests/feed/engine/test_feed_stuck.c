/* A read that can never be cancelled (a dead NFS server): close leaves it behind, with its memory, and returns in time. Leaks by design, so
 * this test runs without leak detection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "../photo_folder.h"

static void a_stuck_read_does_not_hold_up_close(void **state)
{
    (void)state;
    struct photo_folder p;
    photo_folder_make(&p, 100, 4);
    for (int i = 0; i < 3; i++) {
        fb_options o = photo_options(&p);
        struct fb_error e = {0};
        fb_loader *l;
        fb_batch *b;
        o.io = "fault:stuck,nth=40";
        assert_int_equal(fb_open(&o, &l, &e), 0);
        assert_true(fb_start_epoch(l, 0, &e) == 0);
        assert_int_equal(fb_next_batch(l, &b, &e), 1); /* what came before it is delivered */
        fb_release_batch(b);
        usleep(20000);
        uint64_t since = clock_now_ns();
        fb_close(l);
        assert_true(clock_now_ns() - since < 1500000000u); /* a second, and some for a loaded machine */
    }
    fb_options o = photo_options(&p); /* and the next loader works */
    struct fb_error e = {0};
    fb_loader *l;
    fb_batch *b;
    assert_int_equal(fb_open(&o, &l, &e), 0);
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_int_equal(fb_next_batch(l, &b, &e), 1);
    fb_release_batch(b);
    fb_close(l);
    photo_folder_remove(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_stuck_read_does_not_hold_up_close)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
