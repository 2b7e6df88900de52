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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/learnt.h"

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
        count_found(l, 60); /* whatever is found is right: checked inside */
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_come_back_in_this_process_and_the_next), TEST(a_record_of_a_changed_file_is_not_used),
        TEST(a_later_record_replaces_an_earlier_one),         TEST(merging_keeps_all_and_removes_the_segments),
        TEST(merging_drops_what_is_no_longer_current),        TEST(damage_is_never_returned),
        TEST(a_killed_writer_loses_at_most_its_last_record),  TEST(a_place_that_cannot_be_written_is_an_empty_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
