/* Names from outside never lead out of the folder. */
#include <fcntl.h>
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

#include "base/file/safe_path.h"

static void only_plain_relative_names_are_clean(void **state)
{
    (void)state;
    static const char *const clean[] = {"a", "a/b", "a b/c", "...", "a/.b", "..a/b..", "\xff/x"};
    static const char *const not_clean[] = {"", "/", "/a", "a/", "a//b", ".", "..", "./a", "../a", "a/..", "a/../b", "a/./b"};
    for (size_t i = 0; i < sizeof(clean) / sizeof(*clean); i++)
        assert_true(safe_path_is_clean(clean[i]));
    for (size_t i = 0; i < sizeof(not_clean) / sizeof(*not_clean); i++)
        assert_false(safe_path_is_clean(not_clean[i]));
    char *endless = malloc(5001);
    memset(endless, 'a', 5000);
    endless[5000] = 0;
    assert_false(safe_path_is_clean(endless));
    free(endless);
}

static void folders_are_made_and_links_are_refused(void **state)
{
    (void)state;
    char root[] = "/tmp/fb-beneath-XXXXXX", command[100];
    assert_non_null(mkdtemp(root));
    int fd = open(root, O_RDONLY | O_DIRECTORY);
    const char *last;
    struct stat st;
    for (int twice = 0; twice < 2; twice++) {
        int parent = safe_path_open_parent(fd, "x/y/z.jpg", &last, NULL);
        assert_true(parent >= 0);
        assert_string_equal(last, "z.jpg");
        close(parent);
    }
    assert_int_equal(fstatat(fd, "x/y", &st, 0), 0);
    assert_int_equal(symlinkat("/tmp", fd, "out"), 0);
    assert_int_equal(symlinkat("x", fd, "in"), 0);
    struct fb_error e;
    static const char *const refused[] = {"out/a", "in/a", "in/new/a", "x/../../a", "/tmp/a"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        error_clear(&e);
        assert_int_equal(safe_path_open_parent(fd, refused[i], &last, &e), FB_E_DATA);
        assert_non_null(strstr(e.cause, "refused"));
    }
    assert_int_equal(fstatat(fd, "x/new", &st, 0), -1);
    close(fd);
    snprintf(command, sizeof(command), "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_plain_relative_names_are_clean),
        cmocka_unit_test(folders_are_made_and_links_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
