/* A file server: an exclusive lock only on a descriptor that is open for writing, and files that another machine cuts off. And a merge in
 * the moment before a lock. The linker puts this flock and fstatfs in the place of the real ones. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/catalog/catalog.h"
#include "model/learnt/learnt.h"

static bool has_no_locks; /* as Lustre without -o flock */
static bool merges_first; /* another process merges just before the next lock */
static int merge(void);

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    if (has_no_locks) {
        errno = ENOSYS;
        return -1;
    }
    if (merges_first) {
        merges_first = false;
        assert_true(merge() >= 0);
    }
    bool may_write = (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
    if ((operation & LOCK_EX) && !may_write) {
        errno = EBADF;
        return -1;
    }
    return __real_flock(fd, operation);
}

int __wrap_fstatfs(int fd, struct statfs *s);
int __wrap_fstatfs(int fd, struct statfs *s)
{
    (void)fd;
    *s = (struct statfs){.f_type = 0x6969}; /* NFS */
    return 0;
}
int __wrap_fstatfs64(int fd, struct statfs *s) __attribute__((alias("__wrap_fstatfs"))); /* its name with 64-bit offsets */

static char dir[64];
static const struct log silent;

static int make_dir(void **state)
{
    (void)state;
    has_no_locks = false;
    strcpy(dir, "/tmp/fb-learnt-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

static void learn_one(uint64_t key, struct learnt **keep)
{
    struct learnt *l;
    learnt_open(&l, dir, NULL, &silent);
    assert_non_null(l);
    learnt_put(l, key, &(struct learnt_identity){1, 1}, "record", 6);
    if (keep)
        *keep = l;
    else
        learnt_close(l);
}

static int segments(void)
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
    int rc = learnt_merge(dir, NULL, NULL, &f, &e);
    return rc < 0 ? rc : (int)f.records;
}

static void segments_are_merged_where_a_lock_wants_a_writer(void **state)
{
    (void)state;
    struct learnt *living;
    for (uint64_t i = 1; i <= 5; i++)
        learn_one(i, NULL);
    learn_one(6, &living);
    assert_int_equal(merge(), 5);
    assert_int_equal(segments(), 1); /* of the living process */
    learnt_close(living);
    assert_int_equal(merge(), 6);
    assert_int_equal(segments(), 0);
}

static void where_there_are_no_locks_nothing_is_merged_and_nothing_lost(void **state)
{
    (void)state;
    has_no_locks = true;
    for (uint64_t i = 1; i <= 70; i++)
        learn_one(i, NULL);
    assert_true(merge() < 0);
    assert_int_equal(segments(), 70);
    struct learnt *l;
    struct scratch s = {0};
    learnt_open(&l, dir, NULL, &silent);
    for (uint64_t i = 1; i <= 70; i++)
        assert_int_equal(learnt_get(l, i, &(struct learnt_identity){1, 1}, &s), 6);
    scratch_free(&s);
    learnt_close(l);
}

static int found(uint64_t count)
{
    struct learnt *l;
    struct scratch s = {0};
    int n = 0;
    learnt_open(&l, dir, NULL, &silent);
    for (uint64_t i = 1; i <= count; i++)
        n += learnt_get(l, i, &(struct learnt_identity){1, 1}, &s) == 6;
    scratch_free(&s);
    learnt_close(l);
    return n;
}

static void a_merge_while_a_segment_begins_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 3; i++) {
        merges_first = true;
        learn_one(i, NULL);
        assert_false(merges_first);
    }
    assert_int_equal(found(3), 3);
}

static void a_merge_without_descriptors_for_all_segments_loses_none(void **state)
{
    (void)state;
    enum { SEGMENTS = 60 }; /* fewer than are merged at every start */
    for (uint64_t i = 1; i <= SEGMENTS; i++)
        learn_one(i, NULL);
    struct rlimit all, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    for (rlim_t more = 0; more < 2; more++) { /* one of them ends between the two files of a segment */
        few = all;
        few.rlim_cur = 24 + more;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        int rc = merge();
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
        assert_true(rc > 0);
    }
    assert_int_equal(found(SEGMENTS), SEGMENTS);
    assert_true(segments() < SEGMENTS);
}

/* A mapped one would be a SIGBUS here. */
static void a_kept_catalog_that_another_machine_cuts_off_stays_readable(void **state)
{
    (void)state;
    enum { SAMPLES = 5000 };
    char path[100], key[32];
    struct fb_error e = {0};
    struct catalog_writer *w;
    struct catalog *c, *made;
    struct catalog_sample s = {.key = key, .length = 7, .object_size = 7, .mtime_ns = 1};
    snprintf(path, sizeof(path), "%s/x.catalog", dir);
    assert_int_equal(catalog_writer_open(&w, &e), 0);
    for (int i = 0; i < SAMPLES; i++) {
        snprintf(key, sizeof(key), "%06d.jpg", i);
        assert_int_equal(catalog_add_sample(w, &s, NULL, &e), 0);
    }
    assert_int_equal(catalog_finish(w, path, &made, &e), 0);
    assert_int_equal(catalog_open(path, &c, &e), 0);
    assert_int_equal(truncate(path, 0), 0);
    for (int i = 0; i < SAMPLES; i++) {
        snprintf(key, sizeof(key), "%06d.jpg", i);
        assert_int_equal(catalog_sample(i % 2 ? c : made, (uint64_t)i, &s, &e), 0);
        assert_string_equal(s.key, key);
    }
    catalog_close(c);
    catalog_close(made);
}

static void learnt_records_that_another_machine_cuts_off_are_not_found(void **state)
{
    (void)state;
    char path[100];
    struct learnt *l;
    struct scratch s = {0};
    for (uint64_t i = 1; i <= 5; i++)
        learn_one(i, NULL);
    assert_int_equal(merge(), 5);
    learnt_open(&l, dir, NULL, &silent);
    assert_int_equal(learnt_get(l, 1, &(struct learnt_identity){1, 1}, &s), 6);
    snprintf(path, sizeof(path), "%s/merged", dir);
    assert_int_equal(truncate(path, 0), 0);
    for (uint64_t i = 1; i <= 5; i++)
        assert_int_equal(learnt_get(l, i, &(struct learnt_identity){1, 1}, &s), 0);
    scratch_free(&s);
    learnt_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(segments_are_merged_where_a_lock_wants_a_writer, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(where_there_are_no_locks_nothing_is_merged_and_nothing_lost, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_merge_while_a_segment_begins_loses_nothing, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_merge_without_descriptors_for_all_segments_loses_none, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_kept_catalog_that_another_machine_cuts_off_stays_readable, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(learnt_records_that_another_machine_cuts_off_are_not_found, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
