/* Learnt records: kept, verified on use, merged; damage costs time and nothing else. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/learnt/learnt_format.h"

static char dir[256];
static const struct log silent;
static const struct learnt_identity file = {1000, 55};

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/fb-learnt-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[300];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

static struct learnt *open_store(void)
{
    struct learnt *l;
    learnt_open(&l, dir, NULL, &silent);
    assert_non_null(l);
    return l;
}

/* The record of number i: some bytes, `length` of them. */
static void fill(uint64_t i, uint8_t *out, size_t length)
{
    for (size_t k = 0; k < length; k++)
        out[k] = (uint8_t)rng_mix(i + 1, k / 8);
}

static uint64_t key_of(uint64_t i)
{
    char name[32];
    snprintf(name, sizeof(name), "photo%llu.jpg", (unsigned long long)i);
    return learnt_key(name);
}

static size_t length_of(uint64_t i)
{
    return 1 + i * 37 % 9000;
}

static void put(struct learnt *l, uint64_t i, size_t length)
{
    static uint8_t bytes[20000];
    fill(i, bytes, length);
    learnt_put(l, key_of(i), &file, bytes, length);
}

/* How many of the first n records come back, each exactly as it was put. */
static int count_found(struct learnt *l, int n)
{
    static uint8_t bytes[20000];
    struct scratch s = {0};
    int found = 0;
    for (int i = 0; i < n; i++) {
        size_t got = learnt_get(l, key_of((uint64_t)i), &file, &s);
        if (got == 0)
            continue;
        fill((uint64_t)i, bytes, got);
        assert_memory_equal(s.data, bytes, got);
        found++;
    }
    scratch_free(&s);
    return found;
}

static int segments_on_disk(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        n += strstr(e->d_name, ".rec") != NULL;
    closedir(d);
    return n;
}

static int merge(void)
{
    struct learnt_figures f;
    struct fb_error e = {0};
    assert_int_equal(learnt_merge(dir, NULL, NULL, &f, &e), 0);
    return (int)f.records;
}

static void records_come_back_in_this_process_and_the_next(void **state)
{
    (void)state;
    struct learnt *l = open_store();
    assert_int_equal(count_found(l, 10), 0);
    for (uint64_t i = 0; i < 3000; i++)
        put(l, i, length_of(i));
    assert_int_equal(count_found(l, 3000), 3000);
    learnt_close(l);
    l = open_store();
    assert_int_equal(count_found(l, 3000), 3000);
    learnt_close(l);
}

static void a_record_of_a_changed_file_is_not_used(void **state)
{
    (void)state;
    struct learnt *l = open_store();
    struct scratch s = {0};
    put(l, 1, 100);
    assert_int_equal(learnt_get(l, key_of(1), &(struct learnt_identity){1001, 55}, &s), 0);
    assert_int_equal(learnt_get(l, key_of(1), &(struct learnt_identity){1000, 56}, &s), 0);
    assert_int_equal(learnt_get(l, key_of(1), &file, &s), 100);
    struct learnt_figures f;
    learnt_read_figures(l, &f);
    assert_int_equal(f.stale, 2);
    scratch_free(&s);
    learnt_close(l);
}

static void a_later_record_replaces_an_earlier_one(void **state)
{
    (void)state;
    struct learnt *l = open_store();
    struct scratch s = {0};
    put(l, 1, 100);
    put(l, 1, 300);
    assert_int_equal(learnt_get(l, key_of(1), &file, &s), 300);
    learnt_close(l);
    assert_int_equal(merge(), 1);
    l = open_store();
    assert_int_equal(learnt_get(l, key_of(1), &file, &s), 300);
    put(l, 1, 400); /* and a segment's replaces the merged one */
    assert_int_equal(learnt_get(l, key_of(1), &file, &s), 400);
    learnt_close(l);
    assert_int_equal(merge(), 1);
    l = open_store();
    assert_int_equal(learnt_get(l, key_of(1), &file, &s), 400);
    scratch_free(&s);
    learnt_close(l);
}

static void merging_keeps_all_and_removes_the_segments(void **state)
{
    (void)state;
    for (int part = 0; part < 5; part++) {
        struct learnt *l = open_store();
        for (uint64_t i = 0; i < 200; i++)
            put(l, (uint64_t)part * 200 + i, length_of((uint64_t)part * 200 + i));
        learnt_close(l);
    }
    assert_int_equal(segments_on_disk(), 5);
    assert_int_equal(merge(), 1000);
    assert_int_equal(segments_on_disk(), 0);
    struct learnt *l = open_store();
    assert_int_equal(count_found(l, 1000), 1000);
    put(l, 5000, 10);
    assert_int_equal(merge(), 1000); /* a living process's segment is left alone */
    assert_int_equal(segments_on_disk(), 1);
    learnt_close(l);
    assert_int_equal(merge(), 1001);
}

static bool is_even(void *ctx, uint64_t key, const struct learnt_identity *id)
{
    (void)ctx;
    (void)id;
    return key % 2 == 0;
}

static void merging_drops_what_is_no_longer_current(void **state)
{
    (void)state;
    struct learnt *l = open_store();
    int even = 0;
    for (uint64_t i = 0; i < 100; i++) {
        put(l, i, 50);
        even += key_of(i) % 2 == 0;
    }
    learnt_close(l);
    struct learnt_figures f;
    struct fb_error e = {0};
    assert_int_equal(learnt_merge(dir, is_even, NULL, &f, &e), 0);
    assert_int_equal(f.records, even);
}

static void for_each_file(void (*damage)(const char *path, struct rng *r), struct rng *r)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));) {
        char path[600];
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.' && strcmp(e->d_name, "merge.lock") != 0)
            damage(path, r);
    }
    closedir(d);
}

static void flip_bits(const char *path, struct rng *r)
{
    struct stat st;
    int fd = open(path, O_RDWR);
    fstat(fd, &st);
    for (int i = 0; i < 20; i++) {
        uint8_t byte;
        off_t at = (off_t)rng_below(r, (uint64_t)st.st_size);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= (uint8_t)(1u << rng_below(r, 8));
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
}

static void cut_off(const char *path, struct rng *r)
{
    struct stat st;
    stat(path, &st);
    assert_int_equal(truncate(path, (off_t)rng_below(r, (uint64_t)st.st_size)), 0);
}

static void damage_is_never_returned(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_ORDER, 1, 2, 3, 4);
    for (int round = 0; round < 40; round++) {
        struct learnt *l = open_store();
        for (uint64_t i = 0; i < 60; i++)
            put(l, i, length_of(i));
        learnt_close(l);
        if (round % 2)
            merge();
        for_each_file(round % 4 < 2 ? flip_bits : cut_off, &r);
        l = open_store();
        count_found(l, 60);      /* whatever is found is right: checked inside */
        put(l, 7, length_of(7)); /* and the store goes on working */
        struct scratch s = {0};
        assert_int_equal(learnt_get(l, key_of(7), &file, &s), length_of(7));
        scratch_free(&s);
        learnt_close(l);
        merge();
    }
}

static void a_killed_writer_loses_at_most_its_last_record(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) {
            struct learnt *l;
            learnt_open(&l, dir, NULL, &silent);
            for (uint64_t i = 0;; i++)
                put(l, i % 500, length_of(i % 500));
        }
        usleep(3000 + 500 * (useconds_t)round);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        struct learnt *l = open_store();
        count_found(l, 500);
        learnt_close(l);
        if (round % 5 == 4)
            merge();
    }
    struct learnt *l = open_store();
    assert_true(count_found(l, 500) > 0);
    learnt_close(l);
}

static void a_place_that_cannot_be_written_is_an_empty_store(void **state)
{
    (void)state;
    struct learnt *l;
    learnt_open(&l, "/proc/nothing/here", NULL, &silent);
    assert_null(l);
}

/* ---- many segments ---- */

/* A run each that learns one record. The lock keeps them from being merged meanwhile. */
static void make_segments(int n)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/merge.lock", dir);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    for (int i = 0; i < n; i++) {
        struct learnt *l = open_store();
        put(l, (uint64_t)i, length_of((uint64_t)i));
        learnt_close(l);
    }
    assert_int_equal(segments_on_disk(), n);
    close(lock);
}

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    for (; readdir(d); n++)
        ;
    closedir(d);
    return n;
}

static void hundreds_of_segments_take_few_descriptors(void **state)
{
    (void)state;
    make_segments(300);
    char path[300];
    snprintf(path, sizeof(path), "%s/merge.lock", dir);
    int lock = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX), 0); /* somebody else merges: they stay as they are */
    int before = descriptors();
    struct learnt *l = open_store();
    assert_in_range(descriptors() - before, 0, 40);
    assert_int_equal(count_found(l, 300), 300);
    assert_in_range(descriptors() - before, 0, 40);
    learnt_close(l);
    assert_int_equal(descriptors(), before);
    close(lock);
    assert_int_equal(segments_on_disk(), 300);
}

static void many_segments_are_merged_at_the_next_start(void **state)
{
    (void)state;
    make_segments(100);
    struct learnt *living = open_store();
    put(living, 100, length_of(100));
    assert_int_equal(segments_on_disk(), 1); /* the living one's */
    struct learnt *l = open_store();
    assert_int_equal(count_found(l, 101), 101);
    learnt_close(l);
    learnt_close(living);
}

static void a_merge_takes_every_segment_however_few_descriptors_there_are(void **state)
{
    (void)state;
    struct rlimit old, low;
    make_segments(400);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){(rlim_t)descriptors() + 160, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    struct learnt_figures f;
    struct fb_error e = {0};
    int rc = learnt_merge(dir, NULL, NULL, &f, &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    if (rc < 0)
        print_error("%s\n", e.cause);
    assert_int_equal(rc, 0);
    assert_int_equal(f.records, 400);
    assert_int_equal(segments_on_disk(), 0);
    struct learnt *l = open_store();
    assert_int_equal(count_found(l, 400), 400);
    learnt_close(l);
}

static void a_merge_that_knows_no_catalog_keeps_the_newest_record(void **state)
{
    (void)state;
    struct learnt *l;
    static uint8_t bytes[500];
    fill(7, bytes, sizeof(bytes));
    const struct learnt_identity old = {1000, 50};
    for (int i = 0; i < 2; i++) { /* the old record is the longer one, and comes first or last */
        l = open_store();
        learnt_put(l, key_of(7), i ? &file : &old, bytes, i ? 300 : 500);
        learnt_close(l);
    }
    assert_int_equal(merge(), 1);
    l = open_store();
    struct scratch s = {0};
    assert_int_equal(learnt_get(l, key_of(7), &file, &s), 300);
    scratch_free(&s);
    learnt_close(l);
}

/* ---- file servers ---- */

static bool everything_is_remote(int fd)
{
    (void)fd;
    return true;
}

static bool nothing_is_remote(int fd)
{
    (void)fd;
    return false;
}

static void an_index_that_is_read_is_the_one_that_is_mapped(void **state)
{
    (void)state;
    make_segments(50);
    assert_int_equal(merge(), 50);
    struct learnt_merged mapped, was_read;
    struct budget budget = {0};
    atomic_store(&budget.limit, 1 << 20);
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    learnt_merged_open_as(&mapped, dir_fd, nothing_is_remote, NULL);
    learnt_merged_open_as(&was_read, dir_fd, everything_is_remote, &budget);
    assert_true(mapped.map && !mapped.read && was_read.read && !was_read.map);
    assert_int_equal(was_read.count, mapped.count);
    assert_memory_equal(was_read.entry, mapped.entry, mapped.count * sizeof(*mapped.entry));
    learnt_merged_close(&mapped);
    char path[300];
    snprintf(path, sizeof(path), "%s/merged", dir);
    assert_int_equal(truncate(path, 0), 0); /* by another machine: the index is in memory, records are not found */
    for (uint64_t i = 0; i < 50; i++)
        assert_int_not_equal(learnt_merged_find(&was_read, key_of(i)), 0);
    learnt_merged_close(&was_read);
    learnt_merged_open_as(&was_read, dir_fd, everything_is_remote, &budget);
    assert_int_equal(was_read.fd, -1);
    close(dir_fd);
}

/* ---- whose folder ---- */

static void a_folder_that_others_may_write_to_is_not_used(void **state)
{
    (void)state;
    struct learnt *l = open_store();
    put(l, 1, 100);
    learnt_close(l);
    assert_int_equal(chmod(dir, 0777), 0);
    learnt_open(&l, dir, NULL, &silent);
    assert_null(l);
    assert_int_equal(chmod(dir, 0770), 0); /* a group is trusted */
    l = open_store();
    assert_int_equal(count_found(l, 2), 1);
    learnt_close(l);
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(dir, 12345, 12345), 0);
    learnt_open(&l, dir, NULL, &silent);
    assert_null(l);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_come_back_in_this_process_and_the_next),
        TEST(a_record_of_a_changed_file_is_not_used),
        TEST(a_later_record_replaces_an_earlier_one),
        TEST(merging_keeps_all_and_removes_the_segments),
        TEST(merging_drops_what_is_no_longer_current),
        TEST(damage_is_never_returned),
        TEST(a_killed_writer_loses_at_most_its_last_record),
        TEST(a_place_that_cannot_be_written_is_an_empty_store),
        TEST(hundreds_of_segments_take_few_descriptors),
        TEST(many_segments_are_merged_at_the_next_start),
        TEST(a_merge_takes_every_segment_however_few_descriptors_there_are),
        TEST(a_merge_that_knows_no_catalog_keeps_the_newest_record),
        TEST(an_index_that_is_read_is_the_one_that_is_mapped),
        TEST(a_folder_that_others_may_write_to_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
