/* Locks as NFS has them: an exclusive one only on a descriptor that is open for writing. The linker puts this flock in the place of the
 * real one. */
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
#include <unistd.h>

#include <cmocka.h>

#include "model/learnt.h"

static bool has_no_locks; /* as Lustre without -o flock */

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    if (has_no_locks) {
        errno = ENOSYS;
        return -1;
    }
    bool may_write = (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
    if ((operation & LOCK_EX) && !may_write) {
        errno = EBADF;
        return -1;
    }
    return __real_flock(fd, operation);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(segments_are_merged_where_a_lock_wants_a_writer, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(where_there_are_no_locks_nothing_is_merged_and_nothing_lost, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
