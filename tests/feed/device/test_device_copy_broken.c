/* Devices that fail or lie: what the emulated one notices when its protection is taken away, and what a failing driver leaves. Memory that
 * a device may still read is left behind on purpose, so leaks are not looked for here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device_copy_fixture.h"

static int says_happened(struct device *d, struct device_event *event, struct fb_error *e)
{
    (void)d, (void)event, (void)e;
    return 1;
}

static void never_waits(struct device_ops *ops)
{
    ops->query = says_happened;
}

/* The program's streams are forgotten; the device's own copies are not. */
static int records_nothing(struct device *d, struct device_event *event, uintptr_t stream, struct fb_error *e)
{
    return stream == DEVICE_COPY_STREAM ? device_emulated.record(d, event, stream, e) : 0;
}

static void never_records(struct device_ops *ops)
{
    ops->record = records_nothing;
}

static void sabotage_of_the_wait_for_a_late_copy_is_caught(void **state)
{
    (void)state;
    void (*const broken[])(struct device_ops *) = {never_waits, never_records};
    for (int k = 0; k < 2; k++) {
        struct fb_error e;
        int rc = 0;
        for (int i = 0; i < 10 && rc == 0; i++) {
            e = (struct fb_error){0};
            rc = copy_by_hand(broken[k], &e);
        }
        assert_int_equal(rc, FB_E_DATA);
        assert_non_null(strstr(e.cause, "main memory"));
    }
}

static void sabotage_of_the_wait_for_a_late_kernel_is_caught(void **state)
{
    (void)state;
    struct fb_error e;
    uint64_t most = 0;
    int rc = 0;
    for (int i = 0; i < 10 && rc == 0; i++) { /* a busy machine may be too late to overwrite anything; not every time */
        e = (struct fb_error){0};
        rc = queue_kernels(never_records, &most, &e);
    }
    assert_int_equal(rc, FB_E_DATA);
    assert_non_null(strstr(e.cause, "on the device"));
}

static void a_device_that_notices_ends_the_epoch_in_words(void **state)
{
    (void)state;
    fb_options o = options("emulated:50MB/s,1ms");
    fb_loader *l = open_or_fail(&o);
    struct feed *f = (struct feed *)l;
    struct fb_error e = {0};
    start(l);
    fb_batch *b = next_or_fail(l);
    char *other = calloc(1, 1 << 16);
    assert_int_equal(emulated_read(f->device_copy.device, 1, other, 1 << 16, &e), 0);
    other[100] = 1; /* somebody else's mistake, but the device cannot be trusted any more */
    int rc = 1;
    fb_release_batch(b);
    while ((rc = fb_next_batch(l, &b, &e)) == 1)
        fb_release_batch(b);
    if (rc == 0) { /* it was all on the device already */
        start(l);
        while ((rc = fb_next_batch(l, &b, &e)) == 1)
            fb_release_batch(b);
    }
    assert_int_equal(rc, FB_E_DATA);
    assert_string_equal(e.stage, "device");
    struct fb_error again = {0};
    assert_int_equal(fb_next_batch(l, &b, &again), FB_E_DATA); /* and says so again */
    fb_close(l);
    free(other);
}

static void closing_in_the_middle_of_everything_takes_less_than_a_second(void **state)
{
    (void)state;
    fb_options o = options("emulated:1MB/s,2s"); /* a copy that takes for ever */
    fb_loader *l = open_or_fail(&o);
    start(l);
    fb_batch *b = next_or_fail(l); /* queued, not there */
    clock_sleep_until_ns(clock_now_ns() + 50000000);
    uint64_t since = clock_now_ns();
    fb_close(l);
    assert_true(clock_now_ns() - since < 1000000000);
    since = clock_now_ns();
    fb_release_batch(b); /* waits for the device, but not for ever */
    assert_true(clock_now_ns() - since < 2000000000);
}

/* Whatever fails, whenever: words or nothing, never a hang, and closing works. */
static void every_failure_of_the_driver_is_told_or_harmless(void **state)
{
    (void)state;
    static const char *const names[] = {"cuCtxPushCurrent_v2", "cuStreamWaitEvent", "cuEventCreate",        "cuEventRecord",
                                        "cuEventQuery",        "cuMemAlloc_v2",     "cuMemcpyHtoDAsync_v2", "cuMemHostRegister_v2",
                                        "cuStreamCreate",      "cuMemFree_v2"};
    static const int codes[] = {2, 4, 700, 999};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
        for (int c = 0; c < 4; c++)
            for (int nth = 1; nth <= 40; nth = nth * 3 + 1) {
                char plan[64];
                snprintf(plan, sizeof(plan), "%s=%d@%d", names[n], codes[c], nth);
                begin_cuda(plan, "1");
                fb_options o = options("cuda");
                struct fb_error e = {0};
                fb_loader *l = NULL;
                fb_batch *b;
                int rc = fb_open(&o, &l, &e);
                if (rc == 0) {
                    start(l);
                    while (rc == 0 && (rc = fb_next_batch(l, &b, &e)) == 1) {
                        rc = fb_use_batch(b, 0x7777, &e);
                        fb_release_batch(b);
                    }
                }
                if (rc < 0 && (!e.cause[0] || strcmp(e.stage, "device") != 0))
                    fail_msg("%s: %d without words: '%s' '%s'", plan, rc, e.stage, e.cause);
                uint64_t since = clock_now_ns();
                fb_close(l);
                assert_true(clock_now_ns() - since < 1000000000);
            }
}

static void a_driver_that_is_being_unloaded_is_no_error_at_release(void **state)
{
    (void)state;
    begin_cuda("", "0");
    fb_options o = options("cuda");
    fb_loader *l = open_or_fail(&o);
    start(l);
    fb_batch *b = next_or_fail(l);
    use_or_fail(b, 2);
    setenv("FAKE_CUDA", "cuCtxPushCurrent_v2=4", 1); /* the program ends: torch is gone before us */
    fb_close(l);
    fb_release_batch(b);
}

int main(int argc, char **argv)
{
    device_copy_library(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sabotage_of_the_wait_for_a_late_copy_is_caught),
        cmocka_unit_test(sabotage_of_the_wait_for_a_late_kernel_is_caught),
        cmocka_unit_test(a_device_that_notices_ends_the_epoch_in_words),
        cmocka_unit_test(closing_in_the_middle_of_everything_takes_less_than_a_second),
        cmocka_unit_test(every_failure_of_the_driver_is_told_or_harmless),
        cmocka_unit_test(a_driver_that_is_being_unloaded_is_no_error_at_release),
    };
    return cmocka_run_group_tests(tests, device_copy_set_up, device_copy_tear_down);
}
