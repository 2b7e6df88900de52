/* Folders: what is taken, what is left out, what is an error, and what it says. */
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../tree.h"

static void classes_are_the_first_folders_in_bytewise_order(void **state)
{
    struct tree *t = *state;
    tree_put(t, "zebra/1.jpg", "x");
    tree_put(t, "Ant/deep/er/2.JPEG", "xyz");
    tree_put(t, "cat/3.png", "");
    tree_put(t, "cat.dog/4.webp", "xx");
    assert_int_equal(tree_open(t, ""), 0);
    EXPECT_KEYS(t, "Ant/deep/er/2.JPEG", "cat.dog/4.webp", "cat/3.png", "zebra/1.jpg");
    const char *const names[] = {"Ant", "cat", "cat.dog", "zebra"};
    assert_int_equal(catalog_class_count(t->d.catalog), 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(catalog_class_name(t->d.catalog, i), names[i]);
    assert_string_equal(tree_class_of(t, "Ant/deep/er/2.JPEG"), "Ant");
    assert_string_equal(tree_class_of(t, "cat.dog/4.webp"), "cat.dog");
    assert_int_equal(catalog_field_count(t->d.catalog), 1);
    assert_string_equal(catalog_field(t->d.catalog, 0)->name, "label");
    assert_int_equal(catalog_field(t->d.catalog, 0)->dtype, FB_INT64);
    assert_string_equal(t->d.kind, "folder");
    struct catalog_sample s;
    struct stat st;
    assert_int_equal(catalog_sample(t->d.catalog, 0, &s, NULL), 0);
    assert_int_equal(s.length, 3);
    assert_int_equal(fstatat(t->d.root_fd, s.object, &st, 0), 0);
    assert_int_equal(s.mtime_ns, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
}

static void a_flat_folder_has_no_labels(void **state)
{
    struct tree *t = *state;
    tree_put(t, "b.jpg", "");
    tree_put(t, "a.png", "");
    tree_put(t, "notes/readme.txt", "");
    assert_int_equal(tree_open(t, ""), 0);
    EXPECT_KEYS(t, "a.png", "b.jpg");
    assert_int_equal(catalog_field_count(t->d.catalog), 0);
    assert_int_equal(catalog_class_count(t->d.catalog), 0);
    assert_int_equal(catalog_class_field(t->d.catalog), -1);
}

static void images_beside_class_folders_are_an_error_that_names_them(void **state)
{
    struct tree *t = *state;
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof(name), "stray%d.jpg", i);
        tree_put(t, name, "");
    }
    tree_put(t, "cat/1.jpg", "");
    tree_open(t, "");
    EXPECT_ERROR(t, FB_E_DATA, "5 images", "stray0.jpg, stray1.jpg, stray2.jpg", "cat/1.jpg", "move them");
}

static void files_are_known_by_name_or_by_their_first_bytes(void **state)
{
    struct tree *t = *state;
    tree_put(t, "c/1.jpg", "not even an image: that shows when it is read");
    tree_put(t, "c/2.JpG", "");
    tree_put(t, "c/3.jfif", "");
    tree_put(t, "c/4.jpe", "");
    tree_put(t, "c/5", tree_jpeg);
    tree_put(t, "c/6.xyz", tree_png);
    tree_put_bytes(t, "c/7.gif", "RIFF\x10\0\0\0WEBPVP8 ", 16);
    tree_put(t, "c/8.txt", tree_jpeg); /* known to be something else: not looked into */
    tree_put(t, "c/9", "text");
    tree_put(t, "c/10.gif", "GIF89a");
    tree_put(t, "c/11.mat", "");
    tree_put(t, "c/12.mat", "");
    tree_put(t, "c/13", "");
    tree_put(t, "c/.hidden.jpg", tree_jpeg);
    tree_put(t, ".git/x.jpg", tree_jpeg);
    assert_int_equal(tree_open(t, ""), 0);
    EXPECT_KEYS(t, "c/1.jpg", "c/2.JpG", "c/3.jfif", "c/4.jpe", "c/5", "c/6.xyz", "c/7.gif");
    assert_string_equal(catalog_note(t->d.catalog, "left out"), "2 .mat, 2 hidden, 2 no extension, 1 .gif, 1 .txt");
    assert_non_null(strstr(t->log, "not decoded"));
}

static void what_is_known_by_its_name_is_never_opened(void **state)
{
    struct tree *t = *state;
    tree_put(t, "c/1.jpg", "");
    tree_put(t, "c/2.mat", "");
    tree_put(t, "c/3", "");
    int watch = inotify_init1(IN_NONBLOCK);
    assert_true(inotify_add_watch(watch, tree_path(t, "c/1.jpg"), IN_OPEN) > 0);
    assert_true(inotify_add_watch(watch, tree_path(t, "c/2.mat"), IN_OPEN) > 0);
    int unknown = inotify_add_watch(watch, tree_path(t, "c/3"), IN_OPEN);
    assert_int_equal(tree_open(t, ""), 0);
    EXPECT_KEYS(t, "c/1.jpg");
    struct inotify_event event;
    assert_int_equal(read(watch, &event, sizeof(event)), sizeof(event)); /* the one that had to be looked into */
    assert_int_equal(event.wd, unknown);
    assert_int_equal(read(watch, &event, sizeof(event)), -1);
    close(watch);
}

static void fifos_sockets_and_devices_are_never_opened(void **state)
{
    struct tree *t = *state;
    tree_put(t, "c/1.jpg", "");
    assert_int_equal(mkfifo(tree_path(t, "c/fifo"), 0600), 0);
    assert_int_equal(mkfifo(tree_path(t, "c/fifo.jpg"), 0600), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", tree_path(t, "c/socket"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(tree_open(t, ""), 0);
    close(fd);
    EXPECT_KEYS(t, "c/1.jpg");
    assert_string_equal(catalog_note(t->d.catalog, "left out"), "3 not a file");
}

static void links_are_followed_and_loops_end(void **state)
{
    struct tree *t = *state;
    tree_put(t, "data/a/1.jpg", "");
    tree_put(t, "elsewhere/2.jpg", "12345");
    tree_put(t, "elsewhere/sub/3.jpg", "");
    assert_int_equal(symlink("../elsewhere", tree_path(t, "data/b")), 0);
    assert_int_equal(symlink("../../elsewhere/2.jpg", tree_path(t, "data/a/link.jpg")), 0);
    assert_int_equal(symlink("..", tree_path(t, "data/a/up")), 0);
    assert_int_equal(symlink(".", tree_path(t, "elsewhere/sub/here")), 0);
    assert_int_equal(symlink("../data/a", tree_path(t, "elsewhere/round")), 0);
    assert_int_equal(symlink("nowhere.jpg", tree_path(t, "data/a/dangling.jpg")), 0);
    assert_int_equal(symlink("self.jpg", tree_path(t, "data/a/self.jpg")), 0);
    assert_int_equal(tree_open(t, "data"), 0);
    EXPECT_KEYS(t, "a/1.jpg", "a/link.jpg", "b/2.jpg", "b/round/1.jpg", "b/round/link.jpg", "b/sub/3.jpg");
    assert_non_null(strstr(catalog_note(t->d.catalog, "left out"), "link loop"));
    assert_non_null(strstr(catalog_note(t->d.catalog, "left out"), "dangling link"));
    struct catalog_sample s;
    assert_int_equal(catalog_sample(t->d.catalog, 1, &s, NULL), 0);
    assert_int_equal(s.length, 5); /* of the file, not of the link */
}

static void names_that_are_not_utf8_work(void **state)
{
    struct tree *t = *state;
    tree_put(t, "caf\xE9/\xFF\xFE.jpg", "");
    tree_put(t, "caf\xC3\xA9/new\nline.jpg", "");
    assert_int_equal(tree_open(t, ""), 0);
    EXPECT_KEYS(t, "caf\xC3\xA9/new\nline.jpg", "caf\xE9/\xFF\xFE.jpg");
    assert_string_equal(tree_class_of(t, "caf\xE9/\xFF\xFE.jpg"), "caf\xE9");
    struct catalog_sample s;
    assert_int_equal(catalog_sample(t->d.catalog, 1, &s, NULL), 0);
    assert_int_equal(faccessat(t->d.root_fd, s.object, R_OK, 0), 0);
}

static void an_empty_folder_is_an_error(void **state)
{
    struct tree *t = *state;
    tree_open(t, "");
    EXPECT_ERROR(t, FB_E_DATA, "empty", "check the path");
}

static void a_folder_without_images_says_what_was_seen(void **state)
{
    struct tree *t = *state;
    for (int i = 0; i < 1234; i++) {
        char name[32];
        snprintf(name, sizeof(name), "c/%d.mat", i);
        tree_put(t, name, "");
    }
    tree_put(t, "c/notes.md", "");
    tree_open(t, "");
    EXPECT_ERROR(t, FB_E_DATA, "1,235 files, none an image, sound or an array: .mat 1,234, .md 1");
}

static void a_missing_path_says_which_part_exists(void **state)
{
    struct tree *t = *state;
    tree_mkdir(t, "data/sets");
    tree_open(t, "data/sets/no/such/thing");
    EXPECT_ERROR(t, FB_E_NOT_FOUND, "data/sets' exists", "spelling");
    tree_open_request(t, (struct dataset_request){.source = "surely-not-here"});
    EXPECT_ERROR(t, FB_E_NOT_FOUND, "current folder");
}

static void an_unreadable_folder_is_an_error_with_its_path(void **state)
{
    struct tree *t = *state;
    tree_put(t, "c/1.jpg", "");
    tree_put(t, "c/locked/2.jpg", "");
    assert_int_equal(chmod(t->root, 0755), 0);
    assert_int_equal(chmod(tree_path(t, "c/locked"), 0), 0);
    bool is_root = geteuid() == 0;
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    tree_open_request(t, (struct dataset_request){.source = t->root, .catalog_dir = "/nonexistent"});
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(tree_path(t, "c/locked"), 0700), 0);
    EXPECT_ERROR(t, FB_E_IO, "c/locked", "permission");
}

static void running_out_of_file_handles_says_so(void **state)
{
    struct tree *t = *state;
    tree_put(t, "c/1.jpg", "");
    for (rlim_t spare = 0; spare < 2; spare++) { /* none left for the root, or for the first folder */
        int next = dup(0);
        close(next);
        struct rlimit old, few;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
        few = old;
        few.rlim_cur = (rlim_t)next + spare;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        tree_open(t, "");
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        EXPECT_ERROR(t, FB_E_IO, "Too many open files", "ulimit -n");
    }
}

static void a_file_that_is_no_manifest_is_refused(void **state)
{
    struct tree *t = *state;
    tree_put(t, "photo.jpg", tree_jpeg);
    tree_open(t, "photo.jpg");
    EXPECT_ERROR(t, FB_E_USAGE, "neither a folder, a glob, a manifest, a tar archive, an array file nor sound", ".csv");
    tree_open_request(t, (struct dataset_request){.source = ""});
    EXPECT_ERROR(t, FB_E_USAGE, "no source");
}

static void a_folder_of_65500_files_is_scanned_with_progress(void **state)
{
    struct tree *t = *state;
    tree_mkdir(t, "c");
    int dir = open(tree_path(t, "c"), O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 65500; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%d.jpg", i);
        int fd = openat(dir, name, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    close(dir);
    t->is_slow = true;
    assert_int_equal(tree_open(t, ""), 0);
    assert_int_equal(catalog_count(t->d.catalog), 65500);
    assert_true(t->progress_calls > 0);
    assert_true(t->interrupt_calls > 1);
    tree_age(t);
    t->interrupt_at = t->interrupt_calls + 1;
    tree_open(t, "");
    EXPECT_ERROR(t, FB_E_INTERRUPTED, "interrupted while scanning");
}

int main(void)
{
#define WITH_TREE(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)
    const struct CMUnitTest tests[] = {
        WITH_TREE(classes_are_the_first_folders_in_bytewise_order),
        WITH_TREE(a_flat_folder_has_no_labels),
        WITH_TREE(images_beside_class_folders_are_an_error_that_names_them),
        WITH_TREE(files_are_known_by_name_or_by_their_first_bytes),
        WITH_TREE(what_is_known_by_its_name_is_never_opened),
        WITH_TREE(fifos_sockets_and_devices_are_never_opened),
        WITH_TREE(links_are_followed_and_loops_end),
        WITH_TREE(names_that_are_not_utf8_work),
        WITH_TREE(an_empty_folder_is_an_error),
        WITH_TREE(a_folder_without_images_says_what_was_seen),
        WITH_TREE(a_missing_path_says_which_part_exists),
        WITH_TREE(an_unreadable_folder_is_an_error_with_its_path),
        WITH_TREE(running_out_of_file_handles_says_so),
        WITH_TREE(a_file_that_is_no_manifest_is_refused),
        WITH_TREE(a_folder_of_65500_files_is_scanned_with_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
