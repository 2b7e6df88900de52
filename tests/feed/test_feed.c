/* The engine end to end: every sample once, the same batches for any thread count, states, bad samples, budgets, stopping. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/rng.h"
#include "../codec/jpeg_maker.h"
#include "photo_folder.h"

enum { PHOTOS = 100, CLASSES = 4 };
static struct photo_folder photos;

/* ---- helpers ---- */

static void show(const struct fb_error *e)
{
    char line[3000];
    fb_format_error(e, line, sizeof(line));
    print_message("%s\n", line);
}

static fb_loader *open_or_fail(const fb_options *o)
{
    struct fb_error e = {0};
    fb_loader *l;
    if (fb_open(o, &l, &e) < 0) {
        show(&e);
        fail();
    }
    return l;
}

struct tally {
    int seen[4 * PHOTOS]; /* by sample */
    int repeats, batches;
    uint64_t digest; /* of content, keys and labels, in order */
};

static void count_batch(const fb_batch *b, struct tally *t)
{
    t->batches++;
    for (int i = 0; i < fb_batch_size(b); i++) {
        t->seen[fb_batch_sample(b, i)]++;
        t->repeats += fb_batch_is_repeat(b, i);
        t->digest = rng_mix(t->digest, checksum_of(fb_batch_key(b, i), strlen(fb_batch_key(b, i))));
    }
    for (int f = 0; f < fb_batch_array_count(b); f++) {
        const struct fb_array *a = fb_batch_array(b, f);
        t->digest = rng_mix(t->digest, checksum_of(a->data, a->bytes));
    }
}

/* Takes up to `most` batches; returns the last code of fb_next_batch. */
static int take(fb_loader *l, int most, struct tally *t, struct fb_error *e)
{
    for (int i = 0; i < most; i++) {
        fb_batch *b;
        int rc = fb_next_batch(l, &b, e);
        if (rc <= 0)
            return rc;
        count_batch(b, t);
        fb_release_batch(b);
    }
    return 1;
}

static struct tally run_epoch(fb_loader *l, int64_t epoch)
{
    struct fb_error e = {0};
    struct tally t = {0};
    assert_true(fb_start_epoch(l, epoch, &e) >= 0);
    int rc = take(l, 1 << 20, &t, &e);
    if (rc < 0)
        show(&e);
    assert_int_equal(rc, 0);
    return t;
}

static void assert_each_once(const struct tally *t, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(t->seen[i], 1);
}

/* ---- tests ---- */

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
    } cases[] = {{"fault:error=EIO,nth=20", EIO}, {"fault:error=EMFILE,at=open,nth=20", EMFILE}, {"fault:error=ENOMEM,nth=20", ENOMEM},
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

static uint64_t number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

static void evict_tails(const struct photo_folder *p, int classes)
{
    sync();
    for (int i = 0; i < p->count; i++) {
        char path[600];
        snprintf(path, sizeof(path), "%s/class%d/%05d.jpg", p->root, i % classes, i);
        int fd = open(path, O_RDONLY);
        assert_true(fd >= 0);
        posix_fadvise(fd, 65536, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

/* Once checkpoints are known, crops of large files read and decode only their part, with the same pixels. */
static void learnt_records_change_the_work_and_not_the_pixels(void **state)
{
    (void)state;
    struct photo_folder p;
    photo_folder_make(&p, 4, 2);
    for (int i = 0; i < 4; i++) {
        struct jpeg_recipe recipe = {"", 3, {i % 2 ? 0x22 : 0x11, 0x11, 0x11}};
        struct bytes b = jpeg_make(&recipe, 1000 + (uint32_t)i, 900);
        assert_true(b.n > 256 << 10);
        photo_folder_spoil(&p, i, 2, b.data, b.n);
        free(b.data);
    }
    static const char *const io[] = {"pread", "slow:latency_us=300,over=pread", "auto", "auto", "pread"};
    fb_options o = photo_options(&p);
    char stats[65536];
    uint64_t digest[4] = {0}, parts = 0;
    for (int round = 0; round < 5; round++) {
        o.io = io[round];
        fb_loader *l = open_or_fail(&o);
        if (round > 2) /* the head is in the page cache, the rest is not: a worker begins and io must go on */
            evict_tails(&p, 2);
        for (int epoch = 0; epoch < 3; epoch++) {
            struct tally t = run_epoch(l, epoch);
            if (round == 0)
                digest[epoch] = t.digest;
            assert_true(t.digest == digest[epoch]);
        }
        fb_get_stats(l, stats, sizeof(stats));
        parts += number_after(stats, "\"part_reads\":");
        if (round > 0)
            assert_true(number_after(stats, "\"by_checkpoints\":") > 0);
        assert_int_equal(number_after(stats, "\"by_fallback\":"), 0);
        fb_close(l);
    }
    assert_true(parts > 0);
    photo_folder_remove(&p);
}

static uint64_t close_ns(fb_loader *l)
{
    uint64_t since = clock_now_ns();
    fb_close(l);
    return clock_now_ns() - since;
}

static void close_returns_within_a_second_from_any_state(void **state)
{
    (void)state;
    static const char *const io[] = {"pread", "auto", "slow:latency_us=3000000,over=pread", "fault:hang,nth=10,forever"};
    for (int i = 0; i < 4; i++)
        for (int batches = 0; batches < 3; batches++) {
            struct tally t = {0};
            struct fb_error e = {0};
            fb_options o = photo_options(&photos);
            o.io = io[i];
            fb_loader *l = open_or_fail(&o);
            if (batches)
                assert_true(fb_start_epoch(l, 0, &e) == 0);
            if (i < 2)
                take(l, batches, &t, &e);
            else
                usleep(20000);
            assert_true(close_ns(l) < 1500000000u); /* a second, and some for a loaded machine */
        }
}

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

static void a_forked_child_is_told(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* ThreadSanitizer cannot follow threads started in a forked child */
#endif
    fb_options o = photo_options(&photos);
    fb_loader *l = open_or_fail(&o);
    struct fb_error e = {0};
    fb_batch *b;
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_int_equal(fb_next_batch(l, &b, &e), 1);
    pid_t child = fork();
    if (child == 0) {
        fb_batch *c;
        struct fb_error told = {0};
        int rc = fb_next_batch(l, &c, &told);
        fb_release_batch(b);
        fb_close(l);
        fb_loader *own; /* the child may open its own */
        struct fb_error none = {0};
        if (fb_open(&o, &own, &none) < 0 || fb_start_epoch(own, 0, &none) != 0 || fb_next_batch(own, &c, &none) != 1)
            _exit(2);
        fb_release_batch(c);
        fb_close(own);
        _exit(rc == FB_E_FORKED && strstr(told.remedy, "fork") ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    fb_release_batch(b);
    struct tally t = {0};
    assert_int_equal(take(l, 1000, &t, &e), 0); /* the parent goes on */
    fb_close(l);
}

static int say_interrupted(void *ctx)
{
    return ++*(int *)ctx >= 2;
}

static void a_wait_can_be_interrupted_and_resumed(void **state)
{
    (void)state;
    int asked = 0;
    fb_options o = photo_options(&photos);
    o.io = "slow:latency_us=700000,over=pread";
    o.batch_size = 2;
    o.interrupted = say_interrupted;
    o.ctx = &asked;
    fb_loader *l = open_or_fail(&o);
    struct fb_error e = {0};
    fb_batch *b;
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_int_equal(fb_next_batch(l, &b, &e), FB_E_INTERRUPTED);
    asked = -1000000;
    memset(&e, 0, sizeof(e));
    assert_int_equal(fb_next_batch(l, &b, &e), 1);
    fb_release_batch(b);
    fb_close(l);
}

struct log_book {
    char lines[8192];
};

static void write_down(void *ctx, int level, const char *line)
{
    struct log_book *book = ctx;
    (void)level;
    strncat(book->lines, line, sizeof(book->lines) - strlen(book->lines) - 2);
    strcat(book->lines, "\n");
}

static void the_watchdog_names_what_is_waited_for(void **state)
{
    (void)state;
    static struct log_book book;
    setenv("FULLBORE_WATCHDOG", "1", 1);
    fb_options o = photo_options(&photos);
    o.io = "slow:latency_us=2600000,over=pread";
    o.batch_size = 1;
    o.log = write_down;
    o.ctx = &book;
    fb_loader *l = open_or_fail(&o);
    struct fb_error e = {0};
    struct tally t = {0};
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_int_equal(take(l, 1, &t, &e), 1);
    fb_close(l);
    unsetenv("FULLBORE_WATCHDOG");
    assert_non_null(strstr(book.lines, ".jpg"));
    assert_non_null(strstr(book.lines, "being read"));
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

static int make_photos(void **state)
{
    (void)state;
    photo_folder_make(&photos, PHOTOS, CLASSES);
    return 0;
}

static int remove_photos(void **state)
{
    (void)state;
    photo_folder_remove(&photos);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_once_in_every_epoch),
        cmocka_unit_test(the_batches_are_the_same_for_any_number_of_threads),
        cmocka_unit_test(different_epochs_and_seeds_differ),
        cmocka_unit_test(a_state_continues_exactly_where_it_was),
        cmocka_unit_test(a_state_at_the_end_of_an_epoch_starts_the_next),
        cmocka_unit_test(a_state_of_another_seed_or_data_set_is_refused),
        cmocka_unit_test(ranks_share_an_epoch_without_overlap),
        cmocka_unit_test(another_epoch_than_the_one_prepared_is_right_too),
        cmocka_unit_test(an_abandoned_epoch_leaves_no_trace),
        cmocka_unit_test(a_bad_file_raises_with_its_name_whatever_the_threads),
        cmocka_unit_test(skipped_samples_have_stand_ins_and_are_named),
        cmocka_unit_test(max_errors_ends_the_epoch_at_the_same_batch),
        cmocka_unit_test(reads_that_fail_carry_the_errno),
        cmocka_unit_test(a_full_table_of_files_is_never_skipped_over),
        cmocka_unit_test(files_that_grow_or_shrink_are_read_as_they_are),
        cmocka_unit_test(learnt_records_change_the_work_and_not_the_pixels),
        cmocka_unit_test(close_returns_within_a_second_from_any_state),
        cmocka_unit_test(a_batch_kept_never_changes),
        cmocka_unit_test(memory_stays_inside_the_budget),
        cmocka_unit_test(too_little_memory_says_what_is_enough_and_that_is),
        cmocka_unit_test(two_loaders_share_workers_and_memory),
        cmocka_unit_test(a_forked_child_is_told),
        cmocka_unit_test(a_wait_can_be_interrupted_and_resumed),
        cmocka_unit_test(the_watchdog_names_what_is_waited_for),
        cmocka_unit_test(mixed_sizes_without_a_transform_are_explained),
        cmocka_unit_test(weights_draw_with_replacement_the_same_for_any_threads),
        cmocka_unit_test(chosen_classes_are_renumbered),
        cmocka_unit_test(drop_last_that_leaves_nothing_is_explained),
    };
    cmocka_set_test_filter(getenv("FB_TEST")); /* one test by name or pattern */
    return cmocka_run_group_tests(tests, make_photos, remove_photos);
}
