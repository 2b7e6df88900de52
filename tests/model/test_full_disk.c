/* A disk that is full: what was there stays, what does not fit leaves nothing behind, and it is said once.
 *
 * The disk is a tmpfs of a few pages in a mount namespace of this process. Where that is not allowed the test is skipped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/catalog/catalog.h"
#include "model/learnt/learnt.h"

static char disk[64] = "/tmp/fb-full-disk-XXXXXX";
static const struct learnt_identity file = {1000, 55};
static int warnings;
static char last_warning[512];

static const char *on_disk(const char *name)
{
    static char path[2][160];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof(path[0]), "%s/%s", disk, name);
    return path[turn];
}

static int empty_disk(void **state)
{
    (void)state;
    umount2(disk, MNT_DETACH);
    warnings = 0;
    return mount("none", disk, "tmpfs", 0, "size=128k");
}

/* Takes what is left but `spare` bytes, a whole number of pages. */
static void fill_disk(off_t spare)
{
    static const char zeros[4096];
    int fd = open(on_disk("filler"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    off_t size = 0;
    for (ssize_t n; (n = write(fd, zeros, sizeof(zeros))) > 0; size += n)
        ;
    assert_int_equal(errno, ENOSPC);
    assert_true(size > spare);
    assert_int_equal(ftruncate(fd, size - spare), 0);
    close(fd);
}

static int count_files(const char *dir, const char *part)
{
    int count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        count += e->d_name[0] != '.' && strstr(e->d_name, part) != NULL;
    closedir(d);
    return count;
}

static void on_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    warnings += level <= LOG_WARN;
    snprintf(last_warning, sizeof(last_warning), "%s", line);
}

static const struct log counted = {on_log, NULL};

/* ---- catalogs ---- */

static struct catalog_writer *catalog_of(int samples)
{
    struct catalog_writer *w;
    assert_int_equal(catalog_writer_open(&w, NULL), 0);
    for (int i = 0; i < samples; i++) {
        char key[32];
        snprintf(key, sizeof(key), "photo%06d.jpg", i);
        struct catalog_sample s = {.key = key, .length = 5, .object_size = 5};
        assert_int_equal(catalog_add_sample(w, &s, NULL, NULL), 0);
    }
    return w;
}

static void a_catalog_that_does_not_fit_leaves_the_old_one_and_nothing_else(void **state)
{
    (void)state;
    struct catalog *c;
    struct fb_error e;
    error_clear(&e);
    assert_int_equal(catalog_finish(catalog_of(10), on_disk("catalog"), &c, NULL), 0);
    catalog_close(c);
    assert_int_equal(catalog_finish(catalog_of(20000), on_disk("catalog"), &c, &e), FB_E_IO);
    assert_int_equal(e.sys_errno, ENOSPC);
    assert_non_null(strstr(e.path, "catalog"));
    assert_null(c);
    assert_int_equal(count_files(disk, ""), 1);
    assert_int_equal(catalog_open(on_disk("catalog"), &c, NULL), 0);
    assert_int_equal(catalog_count(c), 10);
    catalog_close(c);
}

/* ---- learnt records ---- */

enum { RECORD = 3000, RECORDS = 200 };

static uint64_t key_of(int i)
{
    char name[32];
    snprintf(name, sizeof(name), "photo%d.jpg", i);
    return learnt_key(name);
}

static struct learnt *open_store(void)
{
    struct learnt *l;
    learnt_open(&l, on_disk("learnt"), NULL, &counted);
    assert_non_null(l);
    return l;
}

static void put(struct learnt *l, int i)
{
    uint8_t bytes[RECORD];
    memset(bytes, i + 1, sizeof(bytes));
    learnt_put(l, key_of(i), &file, bytes, sizeof(bytes));
}

static int count_found(struct learnt *l)
{
    struct scratch s = {0};
    int found = 0;
    for (int i = 0; i < RECORDS; i++) {
        size_t n = learnt_get(l, key_of(i), &file, &s);
        found += n > 0;
        assert_true(n == 0 || (n == RECORD && ((const uint8_t *)s.data)[RECORD - 1] == (uint8_t)(i + 1)));
    }
    scratch_free(&s);
    return found;
}

static off_t size_of(const char *suffix)
{
    DIR *d = opendir(on_disk("learnt"));
    off_t size = -1;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (strstr(e->d_name, suffix) && fstatat(dirfd(d), e->d_name, &st, 0) == 0)
            size = st.st_size;
    }
    closedir(d);
    return size;
}

static void records_that_do_not_fit_leave_those_before_and_no_half_one(void **state)
{
    (void)state;
    struct learnt *l = open_store();
    for (int i = 0; i < RECORDS; i++)
        put(l, i);
    struct learnt_figures f;
    learnt_read_figures(l, &f);
    print_message("%d of %d records fitted; \"%s\"\n", (int)f.written, RECORDS, last_warning);
    assert_true(f.written > 10 && f.written < RECORDS);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "No space left on device"));
    assert_int_equal(count_found(l), f.written);
    learnt_close(l);
    off_t whole = size_of(".rec"), entries = size_of(".idx");
    assert_int_equal(entries % (off_t)f.written, 0); /* as many entries as records, all whole */
    l = open_store();
    assert_int_equal(count_found(l), f.written);
    learnt_close(l);
    assert_int_equal(size_of(".rec"), whole);
    assert_true((uint64_t)whole < f.written * (RECORD + 200));
}

static void a_store_that_cannot_begin_leaves_no_file(void **state)
{
    (void)state;
    assert_int_equal(mkdir(on_disk("learnt"), 0700), 0);
    fill_disk(0);
    struct learnt *l = open_store();
    for (int i = 0; i < 5; i++)
        put(l, i);
    assert_int_equal(count_found(l), 0);
    learnt_close(l);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "No space left on device"));
    assert_int_equal(count_files(on_disk("learnt"), "seg-"), 0);
}

static void a_segment_without_any_record_is_taken_away(void **state)
{
    (void)state;
    assert_int_equal(mkdir(on_disk("learnt"), 0700), 0);
    fill_disk(4096); /* the head fits, the first record and its entry do not */
    struct learnt *l = open_store();
    for (int i = 0; i < 5; i++)
        put(l, i);
    learnt_close(l);
    assert_int_equal(warnings, 1);
    assert_int_equal(count_files(on_disk("learnt"), "seg-"), 0);
}

static void a_merge_that_does_not_fit_leaves_the_segments(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct learnt *l = open_store();
        for (int i = 0; i < 5; i++)
            put(l, 5 * k + i);
        learnt_close(l);
    }
    int files = count_files(on_disk("learnt"), "");
    fill_disk(4096);
    struct learnt_figures f;
    struct fb_error e;
    error_clear(&e);
    assert_true(learnt_merge(on_disk("learnt"), NULL, NULL, &f, &e) < 0);
    assert_int_equal(e.sys_errno, ENOSPC);
    assert_int_equal(unlink(on_disk("filler")), 0);
    struct learnt *l = open_store();
    assert_int_equal(count_found(l), 10);
    learnt_close(l);
    assert_int_equal(count_files(on_disk("learnt"), ""), files + 1); /* the lock */
    assert_int_equal(count_files(on_disk("learnt"), "merged"), 0);
    assert_int_equal(learnt_merge(on_disk("learnt"), NULL, NULL, &f, NULL), 0);
    assert_int_equal(f.records, 10);
}

static bool has_own_disk(void)
{
    if (!mkdtemp(disk) || unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return false;
    return mount("none", disk, "tmpfs", 0, "size=128k") == 0;
}

int main(void)
{
    if (!has_own_disk()) {
        printf("skipped: this process may not mount a small disk (%s)\n", strerror(errno));
        rmdir(disk);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_catalog_that_does_not_fit_leaves_the_old_one_and_nothing_else, empty_disk),
        cmocka_unit_test_setup(records_that_do_not_fit_leave_those_before_and_no_half_one, empty_disk),
        cmocka_unit_test_setup(a_store_that_cannot_begin_leaves_no_file, empty_disk),
        cmocka_unit_test_setup(a_segment_without_any_record_is_taken_away, empty_disk),
        cmocka_unit_test_setup(a_merge_that_does_not_fit_leaves_the_segments, empty_disk),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    umount2(disk, MNT_DETACH);
    rmdir(disk);
    return rc;
}
