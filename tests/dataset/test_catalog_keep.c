/* Kept catalogs: used while the source is unchanged, noticed to be stale, never in the way. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tree.h"

static void make_photos(struct tree *t)
{
    tree_put(t, "cat/1.jpg", "x");
    tree_put(t, "dog/2.jpg", "yy");
    tree_put(t, "dog/old/3.jpg", "zzz");
    tree_age(t);
}

/* The only file in the cache directory. */
static const char *kept_file(const struct tree *t)
{
    static char path[400];
    DIR *d = opendir(t->cache);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(d));)
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", t->cache, entry->d_name);
            n++;
        }
    closedir(d);
    assert_int_equal(n, 1);
    return path;
}

static void an_unchanged_folder_is_not_scanned_again(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    assert_int_equal(tree_open(t, ""), 0);
    assert_true(t->d.is_fresh);
    uint64_t fingerprint = catalog_fingerprint(t->d.catalog);
    assert_int_equal(tree_open(t, ""), 0);
    assert_false(t->d.is_fresh);
    assert_int_equal(catalog_fingerprint(t->d.catalog), fingerprint);
    EXPECT_KEYS(t, "cat/1.jpg", "dog/2.jpg", "dog/old/3.jpg");
    char other_name[200];
    snprintf(other_name, sizeof(other_name), "%s/./cat/../", t->root);
    assert_int_equal(tree_open_request(t, (struct dataset_request){.source = other_name}), 0);
    assert_false(t->d.is_fresh); /* the same folder by another name */
}

static void any_change_of_a_folder_is_noticed(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    assert_int_equal(tree_open(t, ""), 0);
    tree_put(t, "dog/old/4.jpg", "");
    assert_int_equal(tree_open(t, ""), 0);
    assert_true(t->d.is_fresh);
    assert_int_equal(catalog_count(t->d.catalog), 4);
    assert_non_null(strstr(t->log, "dog/old has changed"));
    tree_age(t);
    assert_int_equal(tree_open(t, ""), 0);
    assert_true(t->d.is_fresh); /* the times differ from those in the catalog */
    assert_int_equal(unlink(tree_path(t, "cat/1.jpg")), 0);
    assert_int_equal(tree_open(t, ""), 0);
    EXPECT_KEYS(t, "dog/2.jpg", "dog/old/3.jpg", "dog/old/4.jpg");
    tree_age(t);
    assert_int_equal(tree_open(t, ""), 0);
    assert_int_equal(rename(tree_path(t, "dog/old"), tree_path(t, "new")), 0);
    assert_int_equal(tree_open(t, ""), 0);
    EXPECT_KEYS(t, "dog/2.jpg", "new/3.jpg", "new/4.jpg");
}

static void a_folder_changed_within_two_seconds_of_the_scan_counts_as_changed(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    struct timespec recent[2];
    clock_gettime(CLOCK_REALTIME, &recent[0]);
    recent[0].tv_sec -= 1;
    recent[1] = recent[0];
    assert_int_equal(utimensat(AT_FDCWD, tree_path(t, "dog"), recent, 0), 0);
    assert_int_equal(tree_open(t, ""), 0);
    assert_int_equal(tree_open(t, ""), 0);
    assert_true(t->d.is_fresh);
    recent[0].tv_sec -= 60;
    recent[1] = recent[0];
    assert_int_equal(utimensat(AT_FDCWD, tree_path(t, "dog"), recent, 0), 0);
    assert_int_equal(tree_open(t, ""), 0);
    assert_int_equal(tree_open(t, ""), 0);
    assert_false(t->d.is_fresh);
}

static void a_damaged_kept_catalog_is_replaced(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    assert_int_equal(tree_open(t, ""), 0);
    int fd = open(kept_file(t), O_WRONLY);
    assert_int_equal(pwrite(fd, "damage", 6, 40), 6);
    close(fd);
    assert_int_equal(tree_open(t, ""), 0);
    assert_true(t->d.is_fresh);
    assert_non_null(strstr(t->log, "damaged"));
    assert_int_equal(tree_open(t, ""), 0);
    assert_false(t->d.is_fresh);
    assert_int_equal(truncate(kept_file(t), 100), 0);
    assert_int_equal(tree_open(t, ""), 0);
    assert_true(t->d.is_fresh);
}

static void kept_catalogs_are_private(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    assert_int_equal(tree_open(t, ""), 0);
    struct stat st;
    assert_int_equal(stat(t->cache, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(kept_file(t), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void without_a_place_to_write_it_works_from_memory_and_says_so_once(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tree_open_request(t, (struct dataset_request){.source = t->root, .catalog_dir = "/proc/nowhere"}), 0);
        assert_true(t->d.is_fresh);
        assert_int_equal(t->log_lines, 1);
        assert_non_null(strstr(t->log, "could not be saved"));
        EXPECT_KEYS(t, "cat/1.jpg", "dog/2.jpg", "dog/old/3.jpg");
    }
}

static void the_xdg_directory_is_used(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    char *old = getenv("XDG_CACHE_HOME"), *kept = old ? strdup(old) : NULL;
    setenv("XDG_CACHE_HOME", t->cache, 1);
    struct dataset d;
    struct dataset_request r = {.source = t->root};
    assert_int_equal(dataset_open(&d, &r, NULL), 0);
    dataset_close(&d);
    assert_int_equal(dataset_open(&d, &r, NULL), 0);
    assert_false(d.is_fresh);
    dataset_close(&d);
    setenv("XDG_CACHE_HOME", "relative", 1); /* the standard says: ignore it */
    setenv("HOME", t->cache, 1);
    assert_int_equal(dataset_open(&d, &r, NULL), 0);
    assert_true(d.is_fresh);
    dataset_close(&d);
    if (kept)
        setenv("XDG_CACHE_HOME", kept, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    free(kept);
    char path[200];
    snprintf(path, sizeof(path), "%s/.cache/fullbore/catalogs", t->cache);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof(path), "%s/fullbore/catalogs", t->cache);
    assert_int_equal(access(path, F_OK), 0);
}

static void several_processes_may_open_at_once(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    pid_t child[6];
    for (int i = 0; i < 6; i++)
        if ((child[i] = fork()) == 0) {
            struct dataset_request r = {.source = t->root, .catalog_dir = t->cache};
            int failures = 0;
            for (int k = 0; k < 50; k++) {
                struct dataset d;
                failures += dataset_open(&d, &r, NULL) < 0 || catalog_count(d.catalog) != 3;
                dataset_close(&d);
                if (k % 7 == i) { /* everyone makes the others scan now and then */
                    char command[200];
                    snprintf(command, sizeof(command), "rm -f %s/*.catalog", t->cache);
                    failures += system(command) != 0;
                }
            }
            _exit(failures != 0);
        }
    for (int i = 0; i < 6; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void leftovers_of_killed_writers_are_removed_after_an_hour(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    assert_int_equal(tree_open(t, ""), 0);
    char young[500], old[500];
    snprintf(young, sizeof(young), "%s.tmp.young1", kept_file(t));
    snprintf(old, sizeof(old), "%s.tmp.old001", kept_file(t));
    close(open(young, O_CREAT | O_WRONLY, 0600));
    close(open(old, O_CREAT | O_WRONLY, 0600));
    struct timespec then[2] = {{time(NULL) - 7200, 0}, {time(NULL) - 7200, 0}};
    assert_int_equal(utimensat(AT_FDCWD, old, then, 0), 0);
    tree_put(t, "cat/9.jpg", "");
    assert_int_equal(tree_open(t, ""), 0);
    assert_int_equal(access(old, F_OK), -1);
    assert_int_equal(access(young, F_OK), 0);
}

/* A catalog says which files are the samples: whoever can write one chooses what is read. */
static void a_folder_that_others_may_write_to_is_not_used_and_that_is_said_once(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    assert_int_equal(tree_open(t, ""), 0);
    assert_int_equal(chmod(t->cache, 0777), 0);
    t->log[0] = 0;
    t->log_lines = 0;
    assert_int_equal(tree_open(t, ""), 0);
    assert_true(t->d.is_fresh);
    assert_null(t->d.learnt_dir);
    assert_non_null(strstr(t->log, "everybody may write to it"));
    assert_non_null(strstr(t->log, "catalog_dir"));
    assert_int_equal(t->log_lines, 1);
    assert_int_equal(chmod(t->cache, 0770), 0); /* a group is trusted */
    assert_int_equal(tree_open(t, ""), 0);
    assert_false(t->d.is_fresh);
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(t->cache, 12345, 12345), 0);
    t->log[0] = 0;
    assert_int_equal(tree_open(t, ""), 0);
    assert_true(t->d.is_fresh);
    assert_non_null(strstr(t->log, "it belongs to another user"));
}

static void a_catalog_that_another_user_made_is_replaced(void **state)
{
    struct tree *t = *state;
    make_photos(t);
    assert_int_equal(tree_open(t, ""), 0);
    const char *kept = kept_file(t);
    assert_int_equal(chmod(kept, 0666), 0);
    assert_int_equal(tree_open(t, ""), 0);
    assert_true(t->d.is_fresh);
    assert_non_null(strstr(t->log, "not trusted"));
    assert_int_equal(tree_open(t, ""), 0); /* the new one is ours alone */
    assert_false(t->d.is_fresh);
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(kept, 12345, 12345), 0);
    assert_int_equal(tree_open(t, ""), 0);
    assert_true(t->d.is_fresh);
}

int main(void)
{
#define WITH_TREE(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)
    const struct CMUnitTest tests[] = {
        WITH_TREE(an_unchanged_folder_is_not_scanned_again),
        WITH_TREE(any_change_of_a_folder_is_noticed),
        WITH_TREE(a_folder_changed_within_two_seconds_of_the_scan_counts_as_changed),
        WITH_TREE(a_damaged_kept_catalog_is_replaced),
        WITH_TREE(kept_catalogs_are_private),
        WITH_TREE(without_a_place_to_write_it_works_from_memory_and_says_so_once),
        WITH_TREE(the_xdg_directory_is_used),
        WITH_TREE(several_processes_may_open_at_once),
        WITH_TREE(a_folder_that_others_may_write_to_is_not_used_and_that_is_said_once),
        WITH_TREE(a_catalog_that_another_user_made_is_replaced),
        WITH_TREE(leftovers_of_killed_writers_are_removed_after_an_hour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
