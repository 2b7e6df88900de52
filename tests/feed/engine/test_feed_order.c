/* Which samples come, and when: each once, the same for any number of threads, shared by ranks. */
#include "../tally.h"

#include <stdlib.h>
#include <string.h>

static void every_sample_comes_once_in_every_epoch(void **state)
{
    (void)state;
    for (uint64_t batch = 1; batch <= 130; batch += 43) {
        fb_options o = photo_options(&photos);
        o.batch_size = batch;
        fb_loader *l = open_or_fail(&o);
        for (int epoch = 0; epoch < 3; epoch++) {
            struct tally t = run_epoch(l, FB_NEXT_EPOCH);
            assert_each_once(&t, PHOTOS);
            assert_int_equal(t.batches, fb_batch_count(l));
        }
        fb_close(l);
    }
}

static void the_batches_are_the_same_for_any_number_of_threads(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, 8, 64};
    static const char *const io[] = {"pread", "auto", "slow:latency_us=300,jitter_us=2000,over=pread"};
    uint64_t digest = 0;
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 3; k++) {
            fb_options o = photo_options(&photos);
            o.threads = threads[i];
            o.memory = 256 << 20;
            o.io = io[k];
            fb_loader *l = open_or_fail(&o);
            struct tally t = run_epoch(l, 5);
            if (digest == 0)
                digest = t.digest;
            assert_true(t.digest == digest);
            fb_close(l);
        }
}

static void different_epochs_and_seeds_differ(void **state)
{
    (void)state;
    fb_options o = photo_options(&photos);
    fb_loader *l = open_or_fail(&o);
    struct tally a = run_epoch(l, 0), b = run_epoch(l, 1), again = run_epoch(l, 0);
    assert_true(a.digest != b.digest);
    assert_true(a.digest == again.digest);
    fb_close(l);
    o.seed = 8;
    l = open_or_fail(&o);
    struct tally c = run_epoch(l, 0);
    assert_true(a.digest != c.digest);
    fb_close(l);
}

static void ranks_share_an_epoch_without_overlap(void **state)
{
    (void)state;
    for (int world = 1; world <= 7; world += 3) {
        struct tally t = {0};
        struct fb_error e = {0};
        uint64_t batches = 0;
        for (int rank = 0; rank < world; rank++) {
            fb_options o = photo_options(&photos);
            o.rank = rank;
            o.world_size = world;
            fb_loader *l = open_or_fail(&o);
            if (rank == 0)
                batches = fb_batch_count(l);
            assert_int_equal(fb_batch_count(l), batches);
            assert_true(fb_start_epoch(l, 0, &e) == 0);
            assert_int_equal(take(l, 1 << 20, &t, &e), 0);
            fb_close(l);
        }
        int total = 0;
        for (int i = 0; i < PHOTOS; i++) {
            assert_true(t.seen[i] >= 1);
            total += t.seen[i];
        }
        assert_int_equal(total, PHOTOS + t.repeats);
        assert_int_equal(t.batches, (int)batches * world);
    }
}

static void another_epoch_than_the_one_prepared_is_right_too(void **state)
{
    (void)state;
    fb_options o = photo_options(&photos);
    fb_loader *l = open_or_fail(&o);
    struct tally nine = run_epoch(l, 9);
    run_epoch(l, FB_NEXT_EPOCH); /* 10; the planner is at 11 now */
    struct tally again = run_epoch(l, 9);
    assert_true(nine.digest == again.digest);
    fb_close(l);
}

static void an_abandoned_epoch_leaves_no_trace(void **state)
{
    (void)state;
    fb_options o = photo_options(&photos);
    o.io = "slow:latency_us=500,jitter_us=3000,over=pread";
    fb_loader *l = open_or_fail(&o);
    struct tally one = run_epoch(l, 1);
    for (int i = 0; i < 30; i++) {
        struct tally t = {0};
        struct fb_error e = {0};
        assert_true(fb_start_epoch(l, i, &e) == i);
        assert_int_equal(take(l, i % 5, &t, &e), 1);
    }
    struct tally again = run_epoch(l, 1);
    assert_true(one.digest == again.digest);
    fb_close(l);
}

static void weights_draw_with_replacement_the_same_for_any_threads(void **state)
{
    (void)state;
    double weights[PHOTOS] = {0};
    for (int i = 0; i < 10; i++)
        weights[i * 3] = 1 + i;
    uint64_t digest = 0;
    for (int threads = 1; threads <= 4; threads++) {
        fb_options o = photo_options(&photos);
        o.weights = weights;
        o.weight_count = PHOTOS;
        o.threads = threads;
        fb_loader *l = open_or_fail(&o);
        struct tally t = run_epoch(l, 0);
        for (int i = 0; i < PHOTOS; i++)
            assert_true(weights[i] > 0 || t.seen[i] == 0);
        if (!digest)
            digest = t.digest;
        assert_true(digest == t.digest);
        fb_close(l);
    }
}

static void chosen_classes_are_renumbered(void **state)
{
    (void)state;
    fb_options o = photo_options(&photos);
    o.classes = "class3\nclass1";
    fb_loader *l = open_or_fail(&o);
    assert_int_equal(fb_class_count(l), 2);
    assert_string_equal(fb_label_field(l, fb_class_field(l))->name, "label");
    assert_string_equal(fb_class_name(l, 0), "class1");
    assert_string_equal(fb_class_name(l, 1), "class3");
    struct fb_error e = {0};
    fb_batch *b;
    int seen = 0;
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    while (fb_next_batch(l, &b, &e) == 1) {
        const int64_t *label = fb_batch_array(b, 1)->data;
        for (int i = 0; i < fb_batch_size(b); i++, seen++)
            assert_true(strncmp(fb_batch_key(b, i), label[i] ? "class3/" : "class1/", 7) == 0);
        fb_release_batch(b);
    }
    assert_int_equal(seen, PHOTOS / 2);
    fb_close(l);
}

static void drop_last_that_leaves_nothing_is_explained(void **state)
{
    (void)state;
    struct fb_error e = {0};
    fb_options o = photo_options(&photos);
    o.batch_size = 101;
    o.drop_last = 1;
    fb_loader *l = open_or_fail(&o);
    assert_int_equal(fb_start_epoch(l, 0, &e), FB_E_USAGE);
    assert_non_null(strstr(e.cause, "100 samples"));
    fb_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_once_in_every_epoch),
        cmocka_unit_test(the_batches_are_the_same_for_any_number_of_threads),
        cmocka_unit_test(different_epochs_and_seeds_differ),
        cmocka_unit_test(ranks_share_an_epoch_without_overlap),
        cmocka_unit_test(another_epoch_than_the_one_prepared_is_right_too),
        cmocka_unit_test(an_abandoned_epoch_leaves_no_trace),
        cmocka_unit_test(weights_draw_with_replacement_the_same_for_any_threads),
        cmocka_unit_test(chosen_classes_are_renumbered),
        cmocka_unit_test(drop_last_that_leaves_nothing_is_explained),
    };
    return run_photo_tests(tests);
}
