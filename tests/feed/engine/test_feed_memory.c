/* Slots and the budget: batches that are kept, memory that is shared, memory that is too little. */
#include "../tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"

static void a_batch_kept_never_changes(void **state)
{
    (void)state;
    enum { KEPT = 10 };
    fb_options o = photo_options(&photos);
    fb_loader *l = open_or_fail(&o);
    struct fb_error e = {0};
    fb_batch *kept[KEPT];
    uint64_t sum[KEPT];
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    for (int i = 0; i < KEPT; i++) {
        assert_int_equal(fb_next_batch(l, &kept[i], &e), 1);
        sum[i] = checksum_of(fb_batch_array(kept[i], 0)->data, fb_batch_array(kept[i], 0)->bytes);
    }
    run_epoch(l, FB_NEXT_EPOCH);
    run_epoch(l, FB_NEXT_EPOCH);
    char stats[65536];
    fb_get_stats(l, stats, sizeof(stats));
    assert_null(strstr(stats, "\"given_away_batches\":0,"));
    fb_close(l); /* they outlive the loader */
    for (int i = 0; i < KEPT; i++) {
        assert_true(sum[i] == checksum_of(fb_batch_array(kept[i], 0)->data, fb_batch_array(kept[i], 0)->bytes));
        assert_non_null(strstr(fb_batch_key(kept[i], 0), ".jpg"));
        fb_release_batch(kept[i]);
    }
}

static void memory_stays_inside_the_budget(void **state)
{
    (void)state;
    static const char *const io[] = {"pread", "slow:latency_us=200,over=pread"};
    for (int i = 0; i < 2; i++) {
        fb_options o = photo_options(&photos);
        o.memory = 12 << 20;
        o.batch_size = 64;
        o.io = io[i];
        fb_loader *l = open_or_fail(&o);
        for (int epoch = 0; epoch < 5; epoch++)
            run_epoch(l, FB_NEXT_EPOCH);
        char stats[65536];
        fb_get_stats(l, stats, sizeof(stats));
        assert_true(number_after(stats, "\"peak_bytes\":") <= (12 << 20));
        fb_close(l);
    }
}

static void too_little_memory_says_what_is_enough_and_that_is(void **state)
{
    (void)state;
    struct fb_error e = {0};
    fb_options o = photo_options(&photos);
    fb_loader *l;
    o.memory = 1 << 20;
    o.batch_size = 64;
    assert_int_equal(fb_open(&o, &l, &e), FB_E_BUDGET);
    assert_null(l);
    o.memory = number_after(e.remedy, "memory=");
    l = open_or_fail(&o);
    struct tally t = run_epoch(l, 0);
    assert_each_once(&t, PHOTOS);
    fb_close(l);
}

static void two_loaders_share_workers_and_memory(void **state)
{
    (void)state;
    fb_options o = photo_options(&photos);
    o.memory = 24 << 20;
    fb_loader *train = open_or_fail(&o);
    o.transforms = "resize size=40; center_crop size=32,32";
    o.shuffle = 0;
    o.memory = 0;
    fb_loader *val = open_or_fail(&o);
    struct tally first = run_epoch(train, 0), check = run_epoch(val, 0);
    for (int i = 0; i < 3; i++) {
        struct fb_error e = {0};
        struct tally a = {0}, b = {0};
        assert_true(fb_start_epoch(train, 0, &e) == 0);
        assert_int_equal(take(train, 5, &a, &e), 1);
        assert_true(fb_start_epoch(val, 0, &e) == 0);
        while (take(val, 1, &b, &e) == 1 && take(train, 1, &a, &e) == 1)
            ;
        take(train, 1000, &a, &e);
        take(val, 1000, &b, &e);
        assert_true(a.digest == first.digest);
        assert_true(b.digest == check.digest);
    }
    fb_close(train);
    struct tally again = run_epoch(val, 0);
    assert_true(again.digest == check.digest);
    fb_close(val);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_kept_never_changes),
        cmocka_unit_test(memory_stays_inside_the_budget),
        cmocka_unit_test(too_little_memory_says_what_is_enough_and_that_is),
        cmocka_unit_test(two_loaders_share_workers_and_memory),
    };
    return run_photo_tests(tests);
}
