/* Bad samples and bad reads: named, replaced, counted; never mistaken for one another. */
#include "../tally.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static void a_bad_file_raises_with_its_name_whatever_the_threads(void **state)
{
    (void)state;
    struct photo_folder p;
    photo_folder_make(&p, 40, 2);
    photo_folder_spoil(&p, 11, 2, "not an image at all", 19);
    photo_folder_spoil(&p, 12, 2, "", 0);
    int64_t failed_after = -1;
    char path[1024] = "";
    for (int threads = 1; threads <= 8; threads *= 2) {
        struct tally t = {0};
        struct fb_error e = {0};
        fb_options o = photo_options(&p);
        o.threads = threads;
        o.batch_size = 4;
        fb_loader *l = open_or_fail(&o);
        assert_true(fb_start_epoch(l, 0, &e) == 0);
        int rc = take(l, 1000, &t, &e);
        assert_int_equal(rc, FB_E_DATA);
        assert_true(strstr(e.path, "00011.jpg") || strstr(e.path, "00012.jpg"));
        assert_string_equal(e.stage, "decode");
        if (failed_after < 0) {
            failed_after = t.batches;
            strcpy(path, e.path);
        }
        assert_int_equal(failed_after, t.batches);
        assert_string_equal(path, e.path);
        fb_batch *b;
        struct fb_error same = {0};
        assert_int_equal(fb_next_batch(l, &b, &same), FB_E_DATA); /* still over */
        assert_string_equal(same.path, e.path);
        fb_close(l);
    }
    photo_folder_remove(&p);
}

static void skipped_samples_have_stand_ins_and_are_named(void **state)
{
    (void)state;
    struct photo_folder p;
    photo_folder_make(&p, 40, 2);
    for (int i = 0; i < 3; i++)
        photo_folder_spoil(&p, 10 + i, 2, "rubbish", 7);
    uint64_t digest = 0;
    for (int threads = 1; threads <= 8; threads *= 2) {
        fb_options o = photo_options(&p);
        o.threads = threads;
        o.on_error = FB_SKIP;
        o.batch_size = 7;
        fb_loader *l = open_or_fail(&o);
        struct tally t = run_epoch(l, 0);
        int total = 0;
        for (int i = 0; i < 40; i++)
            total += t.seen[i];
        assert_int_equal(total, 40);
        if (!digest)
            digest = t.digest;
        assert_true(digest == t.digest);
        char stats[65536];
        assert_true(fb_get_stats(l, stats, sizeof(stats)) < (int)sizeof(stats));
        assert_non_null(strstr(stats, "00010.jpg"));
        assert_non_null(strstr(stats, "00011.jpg"));
        assert_non_null(strstr(stats, "00012.jpg"));
        fb_close(l);
    }
    photo_folder_remove(&p);
}

/* One of ten: every place needs ten tries on average, and some need a hundred. */
static void a_folder_of_which_nine_tenths_are_bad_can_be_used(void **state)
{
    (void)state;
    struct photo_folder p;
    photo_folder_make(&p, 200, 2);
    for (int i = 0; i < 200; i++)
        if (i % 10)
            photo_folder_spoil(&p, i, 2, "rubbish", 7);
    uint64_t digest[2][3] = {0};
    for (int threads = 1; threads <= 4; threads += 3) {
        fb_options o = photo_options(&p);
        o.threads = threads;
        o.on_error = FB_SKIP;
        o.batch_size = 8;
        fb_loader *l = open_or_fail(&o);
        for (int epoch = 0; epoch < 3; epoch++) {
            struct tally t = run_epoch(l, epoch);
            int total = 0;
            for (int i = 0; i < 200; i++) {
                assert_true((i < 100 && i % 5 == 0) || t.seen[i] == 0); /* samples are numbered by class */
                total += t.seen[i];
            }
            assert_int_equal(total, 200);
            digest[threads > 1][epoch] = t.digest;
        }
        fb_close(l);
    }
    assert_memory_equal(digest[0], digest[1], sizeof(digest[0]));
    photo_folder_remove(&p);
}

static void a_folder_without_a_good_file_says_how_many_were_tried(void **state)
{
    (void)state;
    struct photo_folder p;
    photo_folder_make(&p, 40, 2);
    for (int i = 0; i < 40; i++)
        photo_folder_spoil(&p, i, 2, "rubbish", 7);
    char cause[512] = "";
    for (int threads = 1; threads <= 4; threads += 3) {
        struct tally t = {0};
        struct fb_error e = {0};
        fb_options o = photo_options(&p);
        o.threads = threads;
        o.on_error = FB_SKIP;
        fb_loader *l = open_or_fail(&o);
        assert_true(fb_start_epoch(l, 0, &e) == 0);
        assert_int_equal(take(l, 1000, &t, &e), FB_E_DATA);
        assert_non_null(strstr(e.cause, "257 of 257 samples tried for one place were bad, the last one because "));
        assert_non_null(strstr(e.remedy, "bad_samples"));
        assert_true(!cause[0] || strcmp(cause, e.cause) == 0); /* the same on any number of threads */
        strcpy(cause, e.cause);
        fb_close(l);
    }
    photo_folder_remove(&p);
}

static void the_remedy_for_a_bad_file_is_one_that_helps(void **state)
{
    (void)state;
    struct photo_folder p;
    struct tally t = {0};
    struct fb_error e = {0};
    photo_folder_make(&p, 20, 2);
    photo_folder_spoil(&p, 3, 2, "\377\330\377\340 cut", 8);
    fb_options o = photo_options(&p);
    fb_loader *l = open_or_fail(&o);
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_int_equal(take(l, 1000, &t, &e), FB_E_DATA);
    assert_null(strstr(e.remedy, "bad_samples")); /* that list is empty */
    assert_non_null(strstr(e.remedy, "on_error=\"skip\""));
    fb_close(l);
    photo_folder_remove(&p);
}

static void max_errors_ends_the_epoch_at_the_same_batch(void **state)
{
    (void)state;
    struct photo_folder p;
    photo_folder_make(&p, 60, 2);
    for (int i = 0; i < 12; i++)
        photo_folder_spoil(&p, 5 * i, 2, "rubbish", 7);
    int batches = -1;
    for (int threads = 1; threads <= 8; threads *= 2) {
        struct tally t = {0};
        struct fb_error e = {0};
        fb_options o = photo_options(&p);
        o.threads = threads;
        o.on_error = FB_SKIP;
        o.max_errors = 5;
        o.batch_size = 4;
        fb_loader *l = open_or_fail(&o);
        assert_true(fb_start_epoch(l, 0, &e) == 0);
        assert_int_equal(take(l, 1000, &t, &e), FB_E_DATA);
        assert_non_null(strstr(e.cause, "max_errors=5"));
        if (batches < 0)
            batches = t.batches;
        assert_int_equal(batches, t.batches);
        fb_close(l);
    }
    photo_folder_remove(&p);
}

static void reads_that_fail_carry_the_errno(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int sys_errno;
    } cases[] = {{"fault:error=EIO,nth=20", EIO},
                 {"fault:error=EMFILE,at=open,nth=20", EMFILE},
                 {"fault:error=ENOMEM,nth=20", ENOMEM},
                 {"fault:error=EACCES,at=open,nth=20", EACCES}};
    for (int i = 0; i < 4; i++) {
        struct tally t = {0};
        struct fb_error e = {0};
        fb_options o = photo_options(&photos);
        o.io = cases[i].spec;
        fb_loader *l = open_or_fail(&o);
        assert_true(fb_start_epoch(l, 0, &e) == 0);
        assert_true(take(l, 1000, &t, &e) < 0);
        assert_int_equal(e.sys_errno, cases[i].sys_errno);
        assert_true(strlen(e.path) > 0);
        assert_true(strlen(e.remedy) > 0);
        fb_close(l);
    }
}

static void a_full_table_of_files_is_never_skipped_over(void **state)
{
    (void)state;
    struct tally t = {0};
    struct fb_error e = {0};
    fb_options o = photo_options(&photos);
    o.io = "fault:error=EMFILE,at=open,nth=20,forever";
    o.on_error = FB_SKIP;
    fb_loader *l = open_or_fail(&o);
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_true(take(l, 1000, &t, &e) < 0);
    assert_int_equal(e.sys_errno, EMFILE);
    assert_non_null(strstr(e.remedy, "ulimit"));
    fb_close(l);
}

static void files_that_grow_or_shrink_are_read_as_they_are(void **state)
{
    (void)state;
    struct photo_folder p;
    photo_folder_make(&p, 20, 2);
    fb_options o = photo_options(&p);
    fb_loader *l = open_or_fail(&o);
    struct tally before = run_epoch(l, 0);
    char longer[60000];
    memset(longer, 'x', sizeof(longer));
    photo_folder_spoil(&p, 3, 2, longer, sizeof(longer)); /* catalogued as a small JPEG; now a long text */
    struct fb_error e = {0};
    struct tally t = {0};
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_int_equal(take(l, 1000, &t, &e), FB_E_DATA);
    assert_non_null(strstr(e.path, "00003.jpg"));
    assert_true(before.batches == 3);
    fb_close(l);
    photo_folder_remove(&p);
}

static void mixed_sizes_without_a_transform_are_explained(void **state)
{
    (void)state;
    struct tally t = {0};
    struct fb_error e = {0};
    fb_options o = photo_options(&photos);
    o.transforms = NULL;
    fb_loader *l = open_or_fail(&o);
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_int_equal(take(l, 1000, &t, &e), FB_E_DATA);
    assert_non_null(strstr(e.remedy, "CenterCrop"));
    fb_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_file_raises_with_its_name_whatever_the_threads),
        cmocka_unit_test(skipped_samples_have_stand_ins_and_are_named),
        cmocka_unit_test(a_folder_of_which_nine_tenths_are_bad_can_be_used),
        cmocka_unit_test(a_folder_without_a_good_file_says_how_many_were_tried),
        cmocka_unit_test(the_remedy_for_a_bad_file_is_one_that_helps),
        cmocka_unit_test(max_errors_ends_the_epoch_at_the_same_batch),
        cmocka_unit_test(reads_that_fail_carry_the_errno),
        cmocka_unit_test(a_full_table_of_files_is_never_skipped_over),
        cmocka_unit_test(files_that_grow_or_shrink_are_read_as_they_are),
        cmocka_unit_test(mixed_sizes_without_a_transform_are_explained),
    };
    return run_photo_tests(tests);
}
