/* Batches on their way to a device: the same data, one ahead, and no memory used again before its readers are done, which the emulated
 * device would notice: test_device_copy_broken.c takes the protection away and shows that it does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device_copy_fixture.h"

/* ---- the emulated device ---- */

static void the_same_batches_come_out_of_the_device(void **state)
{
    (void)state;
    uint64_t wanted = digest_without();
    static const char *const devices[] = {"emulated", "emulated:50MB/s,1ms", "emulated:12GB/s,3ms"};
    for (int i = 0; i < 3; i++) {
        fb_options o = options(devices[i]);
        fb_loader *l = open_or_fail(&o);
        assert_true(run_epochs(l, 3) == wanted);
        settle_or_fail(l);
        fb_close(l);
    }
}

static void batches_say_where_they_are(void **state)
{
    (void)state;
    fb_options o = options("emulated");
    fb_loader *l = open_or_fail(&o);
    start(l);
    fb_batch *b = next_or_fail(l);
    int index = -1;
    assert_int_equal(fb_batch_memory(b, &index), FB_EMULATED);
    assert_int_equal(index, 0);
    fb_release_batch(b);
    fb_close(l);
    o.device = NULL;
    l = open_or_fail(&o);
    start(l);
    b = next_or_fail(l);
    assert_int_equal(fb_batch_memory(b, NULL), FB_HOST);
    use_or_fail(b, 5); /* nothing to wait for */
    fb_release_batch(b);
    fb_close(l);
}

static uint64_t shipped(fb_loader *l)
{
    return atomic_load(&((struct feed *)l)->device_copy.copied_batches);
}

static void one_batch_is_ahead_on_the_device_and_no_more(void **state)
{
    (void)state;
    fb_options o = options("emulated");
    fb_loader *l = open_or_fail(&o);
    start(l);
    for (uint64_t taken = 1; taken < 5; taken++) {
        fb_batch *b = next_or_fail(l);
        uint64_t until = clock_now_ns() + 2000000000ull;
        while (shipped(l) < taken + 1 && clock_now_ns() < until)
            clock_sleep_until_ns(clock_now_ns() + 1000000);
        clock_sleep_until_ns(clock_now_ns() + 20000000);
        assert_int_equal(shipped(l), taken + 1);
        fb_release_batch(b);
    }
    fb_close(l);
}

static void a_slot_is_free_only_when_a_late_copy_has_read_it(void **state)
{
    (void)state;
    struct fb_error e = {0};
    if (copy_by_hand(NULL, &e) != 0)
        fail_msg("%s", e.cause);
}

static void a_buffer_is_free_only_when_a_late_kernel_has_read_it(void **state)
{
    (void)state;
    struct fb_error e = {0};
    uint64_t most = 0;
    if (queue_kernels(NULL, &most, &e) != 0)
        fail_msg("%s", e.cause);
    uint64_t batch = 8 * (3 * 32 * 32 + 8) + 256;
    /* a program that runs ahead of the device is held back: it has three, and the one it holds */
    assert_in_range(most, 1, (SHIP_BUFFERS + 1) * batch);
}

static void batches_kept_for_ever_stay_as_they_are(void **state)
{
    (void)state;
    fb_options o = options("emulated:4GB/s,100us");
    o.batch_size = 3;
    fb_loader *l = open_or_fail(&o);
    fb_batch *kept[20];
    uint64_t digest[20];
    start(l);
    for (int i = 0; i < 20; i++) {
        kept[i] = next_or_fail(l);
        use_or_fail(kept[i], 0);
        digest[i] = digest_of(kept[i], 0);
    }
    assert_null(next_or_fail(l));
    start(l);
    for (int i = 0; i < 10; i++)
        fb_release_batch(next_or_fail(l));
    for (int i = 0; i < 20; i++)
        assert_true(digest_of(kept[i], 0) == digest[i]);
    for (int i = 0; i < 10; i++)
        fb_release_batch(kept[i]);
    settle_or_fail(l);
    fb_close(l);
    for (int i = 10; i < 20; i++) { /* after the loader is gone */
        assert_true(digest_of(kept[i], 0) == digest[i]);
        fb_release_batch(kept[i]);
    }
}

static void epochs_may_be_left_at_any_time(void **state)
{
    (void)state;
    fb_options o = options("emulated:100MB/s,2ms");
    fb_loader *l = open_or_fail(&o);
    for (int i = 0; i < 12; i++) {
        struct fb_error e = {0};
        assert_true(fb_start_epoch(l, i % 5, &e) >= 0);
        for (int k = 0; k < i % 4; k++)
            fb_release_batch(next_or_fail(l)); /* without having looked at it: the copy may still be under way */
    }
    settle_or_fail(l);
    fb_close(l);
}

static void many_streams_may_use_a_batch(void **state)
{
    (void)state;
    fb_options o = options("emulated:4GB/s,20us");
    fb_loader *l = open_or_fail(&o);
    struct feed *f = (struct feed *)l;
    struct fb_error e = {0};
    start(l);
    for (fb_batch *b; (b = next_or_fail(l)); fb_release_batch(b)) {
        const struct fb_array *a = fb_batch_array(b, 0);
        for (uintptr_t s = 1; s < 8; s++) { /* more than a slot has events */
            use_or_fail(b, s);
            assert_int_equal(emulated_kernel(f->device_copy.device, s, a->data, a->bytes, 1000000, &e), 0);
        }
    }
    settle_or_fail(l);
    fb_close(l);
}

static void a_device_without_room_says_how_much_it_takes(void **state)
{
    (void)state;
    fb_options o = options("emulated:1GB/s,1us,60KB"); /* room for two batches of 25 KB */
    fb_loader *l = open_or_fail(&o);
    struct fb_error e = {0};
    fb_batch *kept[8] = {0};
    start(l);
    int rc = 1, n = 0;
    while (n < 8 && (rc = fb_next_batch(l, &kept[n], &e)) == 1)
        n++;
    assert_int_equal(rc, FB_E_NOMEM);
    assert_int_equal(n, 2);
    assert_non_null(strstr(e.remedy, "batch_size="));
    for (int i = 0; i < n; i++)
        fb_release_batch(kept[i]);
    fb_close(l);
}

static void a_bad_sample_ends_the_epoch_as_without_a_device(void **state)
{
    (void)state;
    struct photo_folder spoilt;
    photo_folder_make(&spoilt, 12, 2);
    photo_folder_spoil(&spoilt, 5, 2, "no image", 8);
    fb_options o = photo_options(&spoilt);
    o.device = "emulated";
    fb_loader *l = open_or_fail(&o);
    struct fb_error e = {0};
    fb_batch *b;
    start(l);
    int rc;
    while ((rc = fb_next_batch(l, &b, &e)) == 1)
        fb_release_batch(b);
    assert_int_equal(rc, FB_E_DATA);
    assert_string_not_equal(e.stage, "device");
    fb_close(l);
    photo_folder_remove(&spoilt);
}

/* ---- the stand-in for CUDA ---- */

/* The stand-in's memory can be read here; a copy is there when the event behind it has happened. */
static void look(fb_loader *l, const fb_batch *b)
{
    struct fb_error e = {0};
    struct slot *s = (struct slot *)b;
    while (device_of(l)->ops->query(device_of(l), s->device.copied, &e) == 0)
        ;
}

static void batches_on_cuda_are_the_same(void **state)
{
    (void)state;
    uint64_t wanted = digest_without(), digest = 0;
    static const char *const late[] = {"0", "1", "7"};
    for (int k = 0; k < 3; k++, digest = 0) {
        begin_cuda("", late[k]);
        fb_options o = options("cuda:0");
        fb_loader *l = open_or_fail(&o);
        for (int i = 0; i < 3; i++) {
            start(l);
            for (fb_batch *b; (b = next_or_fail(l)); fb_release_batch(b)) {
                assert_int_equal(fb_batch_memory(b, NULL), FB_CUDA);
                use_or_fail(b, 0x7777);
                look(l, b);
                digest = digest_of(b, digest);
            }
        }
        assert_true(digest == wanted);
        assert_true(calls_of("cuStreamWaitEvent") >= 24);
        fb_close(l);
        assert_string_equal(complaints(), "");
        assert_int_equal(live(), 0);
    }
}

static void pinned_batches_are_locked_and_unlocked(void **state)
{
    (void)state;
    begin_cuda("", "2");
    fb_options o = options(NULL);
    o.pin_memory = 1;
    fb_loader *l = open_or_fail(&o);
    uint64_t digest = 0;
    for (int i = 0; i < 3; i++) {
        start(l);
        for (fb_batch *b; (b = next_or_fail(l)); fb_release_batch(b)) {
            assert_int_equal(fb_batch_memory(b, NULL), FB_PINNED);
            use_or_fail(b, 1);
            digest = digest_of(b, digest);
        }
    }
    assert_true(digest == digest_without());
    assert_true(calls_of("cuEventRecord") >= 24); /* one for every release */
    assert_int_equal(calls_of("cuMemcpyHtoDAsync_v2"), 0);
    fb_close(l);
    assert_string_equal(complaints(), "");
    assert_int_equal(live(), 0);
}

static char warned[512];

static void take_warning(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level <= 1)
        snprintf(warned, sizeof(warned), "%s", line);
}

static void without_pages_to_lock_batches_are_ordinary_and_that_is_said(void **state)
{
    (void)state;
    static const char *const plans[] = {"cuInit=100", "cuDeviceGetCount=999", "cuMemHostRegister_v2=1"};
    for (int i = 0; i < 3; i++) {
        begin_cuda(plans[i], "0");
        fb_options o = options(NULL);
        o.pin_memory = 1;
        o.log = take_warning;
        warned[0] = 0;
        fb_loader *l = open_or_fail(&o);
        start(l);
        fb_batch *b = next_or_fail(l);
        assert_int_equal(fb_batch_memory(b, NULL), FB_HOST);
        fb_release_batch(b);
        char stats[16384];
        fb_get_stats(l, stats, sizeof(stats));
        assert_non_null(strstr(stats, "\"is_pinned\":false"));
        assert_non_null(strstr(warned, "not page-locked"));
        fb_close(l);
        assert_int_equal(live(), 0);
    }
}

int main(int argc, char **argv)
{
    device_copy_library(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_batches_come_out_of_the_device),
        cmocka_unit_test(batches_say_where_they_are),
        cmocka_unit_test(one_batch_is_ahead_on_the_device_and_no_more),
        cmocka_unit_test(a_slot_is_free_only_when_a_late_copy_has_read_it),
        cmocka_unit_test(a_buffer_is_free_only_when_a_late_kernel_has_read_it),
        cmocka_unit_test(batches_kept_for_ever_stay_as_they_are),
        cmocka_unit_test(epochs_may_be_left_at_any_time),
        cmocka_unit_test(many_streams_may_use_a_batch),
        cmocka_unit_test(a_device_without_room_says_how_much_it_takes),
        cmocka_unit_test(a_bad_sample_ends_the_epoch_as_without_a_device),
        cmocka_unit_test(batches_on_cuda_are_the_same),
        cmocka_unit_test(pinned_batches_are_locked_and_unlocked),
        cmocka_unit_test(without_pages_to_lock_batches_are_ordinary_and_that_is_said),
    };
    return cmocka_run_group_tests(tests, device_copy_set_up, device_copy_tear_down);
}
