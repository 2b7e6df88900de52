/* Batches on their way to a device: the same data, one ahead, and no memory used again before its readers are done, which the emulated device
 * would notice: two tests take the protection away and show that it does. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/rng.h"
#include "device/emulated.h"
#include "feed/feed.h"
#include "../feed/photo_folder.h"

enum { PHOTOS = 60, CLASSES = 3 };
static struct photo_folder photos;
static const char *library_path;

/* ---- helpers ---- */

static fb_loader *open_or_fail(const fb_options *o)
{
    struct fb_error e = {0};
    fb_loader *l;
    if (fb_open(o, &l, &e) < 0)
        fail_msg("%s: %s", e.stage, e.cause);
    return l;
}

static fb_options options(const char *device)
{
    fb_options o = photo_options(&photos);
    o.device = device;
    return o;
}

static struct device *device_of(fb_loader *l)
{
    return ((struct feed *)l)->ship.device;
}

static uint64_t digest_of(const fb_batch *b, uint64_t digest)
{
    for (int f = 0; f < fb_batch_array_count(b); f++) {
        const struct fb_array *a = fb_batch_array(b, f);
        digest = rng_mix(digest, checksum_of(a->data, a->bytes));
    }
    return rng_mix(digest, checksum_of(fb_batch_key(b, 0), strlen(fb_batch_key(b, 0))));
}

static fb_batch *next_or_fail(fb_loader *l)
{
    struct fb_error e = {0};
    fb_batch *b;
    int rc = fb_next_batch(l, &b, &e);
    if (rc < 0)
        fail_msg("%s: %s", e.stage, e.cause);
    return rc == 1 ? b : NULL;
}

static void use_or_fail(fb_batch *b, uintptr_t stream)
{
    struct fb_error e = {0};
    if (fb_use_batch(b, stream, &e) < 0)
        fail_msg("%s: %s", e.stage, e.cause);
}

static void start(fb_loader *l)
{
    struct fb_error e = {0};
    assert_true(fb_start_epoch(l, FB_NEXT_EPOCH, &e) >= 0);
}

static uint64_t run_epochs(fb_loader *l, int epochs)
{
    uint64_t digest = 0;
    for (int i = 0; i < epochs; i++) {
        start(l);
        for (fb_batch *b; (b = next_or_fail(l)); fb_release_batch(b)) {
            use_or_fail(b, 0);
            digest = digest_of(b, digest);
        }
    }
    return digest;
}

static uint64_t digest_without(void)
{
    fb_options o = options(NULL);
    fb_loader *l = open_or_fail(&o);
    uint64_t digest = run_epochs(l, 3);
    fb_close(l);
    return digest;
}

static void settle_or_fail(fb_loader *l)
{
    struct fb_error e = {0};
    if (emulated_settle(device_of(l), &e) < 0)
        fail_msg("%s", e.cause);
}

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
    return atomic_load(&((struct feed *)l)->ship.shipped);
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

/* The program copies from page-locked batches by itself, on a stream that is 20 ms behind, and drops each batch at once. */
static int copy_by_hand(bool (*sabotage)(struct device_ops *ops), struct fb_error *e)
{
    fb_options o = options("emulated:1GB/s,20ms");
    fb_loader *l = open_or_fail(&o);
    struct feed *f = (struct feed *)l;
    f->ship.is_copying = false; /* as pin_memory alone has it */
    struct device_ops ops = *f->ship.device->ops;
    if (sabotage && sabotage(&ops))
        f->ship.device->ops = &ops;
    start(l);
    for (fb_batch *b; (b = next_or_fail(l)); fb_release_batch(b)) {
        assert_int_equal(fb_batch_memory(b, NULL), FB_PINNED);
        const struct fb_array *a = fb_batch_array(b, 0);
        assert_int_equal(emulated_read(f->ship.device, 1, a->data, a->bytes, e), 0);
        use_or_fail(b, 1);
    }
    int rc = emulated_settle(f->ship.device, e);
    fb_close(l);
    return rc;
}

static void a_slot_is_free_only_when_a_late_copy_has_read_it(void **state)
{
    (void)state;
    struct fb_error e = {0};
    if (copy_by_hand(NULL, &e) != 0)
        fail_msg("%s", e.cause);
}

static int says_happened(struct device *d, struct device_event *event, struct fb_error *e)
{
    (void)d, (void)event, (void)e;
    return 1;
}

static bool never_waits(struct device_ops *ops)
{
    ops->query = says_happened;
    return true;
}

/* The program's streams are forgotten; the device's own copies are not. */
static int records_nothing(struct device *d, struct device_event *event, uintptr_t stream, struct fb_error *e)
{
    return stream == DEVICE_COPY_STREAM ? device_emulated.record(d, event, stream, e) : 0;
}

static bool never_records(struct device_ops *ops)
{
    ops->record = records_nothing;
    return true;
}

static void sabotage_of_the_wait_for_a_late_copy_is_caught(void **state)
{
    (void)state;
    struct fb_error e = {0};
    assert_int_equal(copy_by_hand(never_waits, &e), FB_E_DATA);
    assert_non_null(strstr(e.cause, "main memory"));
    struct fb_error again = {0};
    assert_int_equal(copy_by_hand(never_records, &again), FB_E_DATA);
}

/* A program that queues a kernel of 10 ms on each batch, and drops the batch at once. */
static int queue_kernels(bool (*sabotage)(struct device_ops *ops), uint64_t *most_memory, struct fb_error *e)
{
    fb_options o = options("emulated:4GB/s,20us");
    fb_loader *l = open_or_fail(&o);
    struct feed *f = (struct feed *)l;
    struct device_ops ops = *f->ship.device->ops;
    if (sabotage && sabotage(&ops))
        f->ship.device->ops = &ops;
    start(l);
    for (fb_batch *b; (b = next_or_fail(l)); fb_release_batch(b)) {
        const struct fb_array *a = fb_batch_array(b, 0);
        use_or_fail(b, 2);
        if (emulated_kernel(f->ship.device, 2, a->data, a->bytes, 10000000, e) < 0)
            fail_msg("%s", e->cause);
        struct device_figures g;
        f->ship.device->ops->figures(f->ship.device, &g);
        *most_memory = g.memory_bytes > *most_memory ? g.memory_bytes : *most_memory;
    }
    int rc = emulated_settle(f->ship.device, e);
    fb_close(l);
    return rc;
}

static void a_buffer_is_free_only_when_a_late_kernel_has_read_it(void **state)
{
    (void)state;
    struct fb_error e = {0};
    uint64_t most = 0;
    if (queue_kernels(NULL, &most, &e) != 0)
        fail_msg("%s", e.cause);
    uint64_t batch = 8 * (3 * 32 * 32 + 8) + 256; /* a program that runs ahead of the device is held back: it has three, and the one it holds */
    assert_in_range(most, 1, (SHIP_BUFFERS + 1) * batch);
}

static void sabotage_of_the_wait_for_a_late_kernel_is_caught(void **state)
{
    (void)state;
    struct fb_error e = {0};
    uint64_t most = 0;
    assert_int_equal(queue_kernels(never_records, &most, &e), FB_E_DATA);
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
    assert_int_equal(emulated_read(f->ship.device, 1, other, 1 << 16, &e), 0);
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
            assert_int_equal(emulated_kernel(f->ship.device, s, a->data, a->bytes, 1000000, &e), 0);
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

static const char *(*complaints)(void);
static int (*calls_of)(const char *name);
static int (*live)(void);
static void (*reset)(void);

static void begin_cuda(const char *plan, const char *late)
{
    reset();
    setenv("FULLBORE_CUDA", library_path, 1);
    setenv("FAKE_CUDA", plan, 1);
    setenv("FAKE_CUDA_LATE", late, 1);
}

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

/* Whatever fails, whenever: words or nothing, never a hang, and closing works. */
static void every_failure_of_the_driver_is_told_or_harmless(void **state)
{
    (void)state;
    static const char *const names[] = {"cuCtxPushCurrent_v2", "cuStreamWaitEvent", "cuEventCreate", "cuEventRecord", "cuEventQuery",
                                        "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuMemHostRegister_v2", "cuStreamCreate", "cuMemFree_v2"};
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

static int set_up(void **state)
{
    (void)state;
    photo_folder_make(&photos, PHOTOS, CLASSES);
    void *l = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    if (!l)
        return -1;
    *(void **)&complaints = dlsym(l, "fake_cuda_complaints");
    *(void **)&calls_of = dlsym(l, "fake_cuda_calls");
    *(void **)&live = dlsym(l, "fake_cuda_live");
    *(void **)&reset = dlsym(l, "fake_cuda_reset");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    photo_folder_remove(&photos);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    library_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_batches_come_out_of_the_device),
        cmocka_unit_test(batches_say_where_they_are),
        cmocka_unit_test(one_batch_is_ahead_on_the_device_and_no_more),
        cmocka_unit_test(a_slot_is_free_only_when_a_late_copy_has_read_it),
        cmocka_unit_test(sabotage_of_the_wait_for_a_late_copy_is_caught),
        cmocka_unit_test(a_buffer_is_free_only_when_a_late_kernel_has_read_it),
        cmocka_unit_test(sabotage_of_the_wait_for_a_late_kernel_is_caught),
        cmocka_unit_test(a_device_that_notices_ends_the_epoch_in_words),
        cmocka_unit_test(batches_kept_for_ever_stay_as_they_are),
        cmocka_unit_test(epochs_may_be_left_at_any_time),
        cmocka_unit_test(many_streams_may_use_a_batch),
        cmocka_unit_test(a_device_without_room_says_how_much_it_takes),
        cmocka_unit_test(closing_in_the_middle_of_everything_takes_less_than_a_second),
        cmocka_unit_test(a_bad_sample_ends_the_epoch_as_without_a_device),
        cmocka_unit_test(batches_on_cuda_are_the_same),
        cmocka_unit_test(pinned_batches_are_locked_and_unlocked),
        cmocka_unit_test(without_pages_to_lock_batches_are_ordinary_and_that_is_said),
        cmocka_unit_test(every_failure_of_the_driver_is_told_or_harmless),
        cmocka_unit_test(a_driver_that_is_being_unloaded_is_no_error_at_release),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
