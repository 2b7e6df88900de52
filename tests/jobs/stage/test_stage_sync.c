/* What the log of a target says to be there is on the disk by then. The linker puts the system calls below in the place of the real
 * ones. */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "jobs/stage/stage_internal.h"

enum { FILES = 50, LOG_HEAD = 16, LOG_RECORD = 40 };

static char root[64];
static int syncs, data_syncs, renames_without_sync;
static long files_at_sync; /* that had their names when everything was brought to the disk last */
static bool has_early_record;

static long records_in_log(void)
{
    char path[200];
    struct stat st;
    snprintf(path, sizeof(path), "%s/to/" STAGE_LOG_NAME, root);
    return stat(path, &st) == 0 && st.st_size > LOG_HEAD ? (long)(st.st_size - LOG_HEAD) / LOG_RECORD : 0;
}

static long met;
static int meet(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    met += flag == FTW_F && path[ftw->base] != '.';
    return 0;
}

static long files_in_place(void)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/to", root);
    met = 0;
    nftw(path, meet, 16, FTW_PHYS);
    return met;
}

int __real_syncfs(int fd);
int __wrap_syncfs(int fd);
int __wrap_syncfs(int fd)
{
    has_early_record |= records_in_log() > files_at_sync;
    long there = files_in_place();
    int rc = __real_syncfs(fd);
    syncs++;
    files_at_sync = there;
    return rc;
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    data_syncs++;
    return __real_fdatasync(fd);
}

int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    renames_without_sync += strstr(from, ".fullbore-part") && data_syncs == 0;
    return __real_renameat(from_fd, from, to_fd, to);
}

static int make(void **state)
{
    (void)state;
    strcpy(root, "stage-sync-XXXXXX"); /* here: /tmp may be memory */
    syncs = data_syncs = renames_without_sync = 0;
    files_at_sync = 0;
    has_early_record = false;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int unmake(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *name, size_t n)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < n; i += 4096)
        assert_int_equal(fwrite(root, 1, 1, f), 1), fseek(f, (long)i, SEEK_SET);
    fclose(f);
}

static void stage(struct stage_result *out)
{
    char from[200], to[200];
    struct fb_error e = {0};
    snprintf(from, sizeof(from), "%s/from", root);
    snprintf(to, sizeof(to), "%s/to", root);
    struct stage_request q = {.source = from, .target = to, .fraction = 1};
    int rc = stage_run(&q, out, &e);
    if (rc < 0)
        print_error("%s\n", e.cause);
    assert_int_equal(rc, 0);
}

static void a_file_is_on_the_disk_before_the_log_says_that_it_is_there(void **state)
{
    (void)state;
    struct stage_result r;
    char name[64], folder[200];
    snprintf(folder, sizeof(folder), "%s/from", root);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof(name), "from/%d.bin", i);
        put(name, 5000);
    }
    stage(&r);
    bool is_memory = r.is_memory;
    stage_free(&r);
    assert_int_equal(records_in_log(), FILES);
    if (is_memory)
        skip();
    assert_true(syncs >= 1 && files_at_sync == FILES);
    assert_false(has_early_record);
    assert_in_range(syncs, 1, 5); /* for all of them together */
}

static void a_large_file_is_on_the_disk_before_it_has_its_name(void **state)
{
    (void)state;
    struct stage_result r;
    char folder[200];
    snprintf(folder, sizeof(folder), "%s/from", root);
    assert_int_equal(mkdir(folder, 0700), 0);
    put("from/large.bin", 3 * STAGE_PIECE + 12345);
    stage(&r);
    assert_int_equal(r.copied, 1);
    stage_free(&r);
    assert_true(data_syncs > 0);
    assert_int_equal(renames_without_sync, 0);
    assert_false(has_early_record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_is_on_the_disk_before_the_log_says_that_it_is_there, make, unmake),
        cmocka_unit_test_setup_teardown(a_large_file_is_on_the_disk_before_it_has_its_name, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
