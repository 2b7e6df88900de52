/* Globs: patterns, the folder they start in, and what they mean for classes. */
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/folder/pattern.h"
#include "../tree.h"

/* Walks the path through the pattern as a scan would. */
static bool is_match(const char *pattern, const char *path)
{
    struct pattern p;
    assert_int_equal(pattern_open(&p, pattern, NULL), 0);
    char copy[256], *save = NULL;
    strcpy(copy, path);
    uint64_t set = pattern_start(&p);
    for (char *name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save))
        set = pattern_step(&p, set, name);
    bool found = pattern_is_matched(&p, set);
    pattern_close(&p);
    return found;
}

static void patterns_match_what_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *path;
        bool is_match;
    } cases[] = {
        {"*.jpg", "a.jpg", true},
        {"*.jpg", ".jpg", true},
        {"*.jpg", "a.jpeg", false},
        {"*.jpg", "b/a.jpg", false},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXbYbZ", false},
        {"?.jpg", "a.jpg", true},
        {"?.jpg", "\xC3\xA9.jpg", true},
        {"?.jpg", "\xE9.jpg", true},
        {"?.jpg", "ab.jpg", false},
        {"[abc].png", "b.png", true},
        {"[a-c].png", "d.png", false},
        {"[!a-c].png", "d.png", true},
        {"[^a-c].png", "a.png", false},
        {"[]].png", "].png", true},
        {"[a-].png", "-.png", true},
        {"[ab", "[ab", true},
        {"[ab", "a", false},
        {"**/*.jpg", "a.jpg", true},
        {"**/*.jpg", "x/y/z/a.jpg", true},
        {"**", "x/y", true},
        {"**", "x", true},
        {"a/**/b/*.jpg", "a/b/1.jpg", true},
        {"a/**/b/*.jpg", "a/x/b/y/b/1.jpg", true},
        {"a/**/b/*.jpg", "a/x/1.jpg", false},
        {"*/*/*.jpg", "a/b/c.jpg", true},
        {"*/*/*.jpg", "a/c.jpg", false},
        {"a/**", "a/b/c", true},
        {"a/**", "b/c", false},
        {"*/**", "a", false},
        {"*/**", "a/b", true},
        {"./a//*.jpg", "a/x.jpg", true},
        {"**/**/**/*", "a", true},
        {"*", "", false},
        {"a.jpg", "a.jpg", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (is_match(cases[i].pattern, cases[i].path) != cases[i].is_match)
            fail_msg("'%s' and '%s': expected %d", cases[i].pattern, cases[i].path, cases[i].is_match);
}

static void a_pattern_of_many_stars_takes_no_time(void **state)
{
    (void)state;
    char name[241];
    memset(name, 'a', 240);
    name[240] = 0;
    assert_false(is_match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", name));
    assert_false(is_match("**/**/**/**/**/**/**/**/**/**/**/**/**/**/b", "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a"));
}

static void patterns_that_cannot_be_are_refused(void **state)
{
    struct tree *t = *state;
    tree_open(t, "*/../x.jpg");
    EXPECT_ERROR(t, FB_E_USAGE, "'..'");
}

static void a_glob_takes_what_matches_and_labels_it_as_a_folder_does(void **state)
{
    struct tree *t = *state;
    tree_put(t, "photos/cat/1.jpg", "");
    tree_put(t, "photos/cat/2.png", "");
    tree_put(t, "photos/dog/deep/3.jpg", "");
    tree_put(t, "photos/4.jpg", "");
    tree_put(t, "photos/cat/5.jpg.txt", "");
    assert_int_equal(tree_open(t, "photos/*.jpg"), 0);
    EXPECT_KEYS(t, "4.jpg");
    assert_int_equal(catalog_field_count(t->d.catalog), 0);
    assert_string_equal(t->d.kind, "glob");
    assert_int_equal(tree_open(t, "photos/*/*.jpg"), 0);
    EXPECT_KEYS(t, "cat/1.jpg");
    assert_string_equal(tree_class_of(t, "cat/1.jpg"), "cat");
    assert_int_equal(tree_open(t, "photos/*/**/*.jpg"), 0);
    EXPECT_KEYS(t, "cat/1.jpg", "dog/deep/3.jpg");
    assert_int_equal(tree_open(t, "photos/*/**"), 0);
    EXPECT_KEYS(t, "cat/1.jpg", "cat/2.png", "dog/deep/3.jpg");
    assert_string_equal(catalog_note(t->d.catalog, "left out"), "1 .txt");
    tree_open(t, "photos/**/*.jpg");
    EXPECT_ERROR(t, FB_E_DATA, "1 image lies directly in the folder", "4.jpg");
    assert_int_equal(tree_open(t, "*/cat/?.*g"), 0);
    EXPECT_KEYS(t, "photos/cat/1.jpg", "photos/cat/2.png");
}

static void a_glob_that_matches_nothing_says_so(void **state)
{
    struct tree *t = *state;
    tree_put(t, "photos/1.jpg", "");
    tree_put(t, "photos/1.txt", "");
    tree_open(t, "photos/*.webp");
    EXPECT_ERROR(t, FB_E_DATA, "nothing matches");
    tree_open(t, "photos/*.txt");
    EXPECT_ERROR(t, FB_E_DATA, "1 file, none an image, sound or an array: .txt 1");
    tree_open(t, "nowhere/*.jpg");
    EXPECT_ERROR(t, FB_E_NOT_FOUND, "nowhere");
}

static void a_folder_with_a_star_in_its_name_is_a_folder(void **state)
{
    struct tree *t = *state;
    tree_put(t, "a*b/1.jpg", "");
    tree_put(t, "aXb/2.jpg", "");
    assert_int_equal(tree_open(t, "a*b"), 0);
    EXPECT_KEYS(t, "1.jpg");
}

static void globs_are_kept_and_do_not_read_folders_that_cannot_match(void **state)
{
    struct tree *t = *state;
    tree_put(t, "a/1.jpg", "");
    tree_put(t, "b/2.jpg", "");
    tree_age(t);
    assert_int_equal(tree_open(t, "a/*.jpg"), 0);
    assert_int_equal(tree_open(t, "a/*.jpg"), 0);
    assert_false(t->d.is_fresh);
    assert_int_equal(tree_open(t, "[a]/*.jpg"), 0);
    assert_true(t->d.is_fresh);
    assert_int_equal(catalog_dir_count(t->d.catalog), 2); /* the root and a, not b */
    tree_put(t, "b/3.jpg", "");
    assert_int_equal(tree_open(t, "[a]/*.jpg"), 0);
    assert_false(t->d.is_fresh);
    assert_int_equal(tree_open(t, "a/*.png"), FB_E_DATA); /* another pattern, another catalog */
}

int main(void)
{
#define WITH_TREE(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_what_they_say),
        cmocka_unit_test(a_pattern_of_many_stars_takes_no_time),
        WITH_TREE(patterns_that_cannot_be_are_refused),
        WITH_TREE(a_glob_takes_what_matches_and_labels_it_as_a_folder_does),
        WITH_TREE(a_glob_that_matches_nothing_says_so),
        WITH_TREE(a_folder_with_a_star_in_its_name_is_a_folder),
        WITH_TREE(globs_are_kept_and_do_not_read_folders_that_cannot_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
