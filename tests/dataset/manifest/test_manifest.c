/* Manifests and lists: columns and their types, paths, and every way to get them wrong. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tree.h"

static void make_files(const struct tree *t)
{
    tree_put(t, "cat/1.jpg", "a");
    tree_put(t, "cat/2.jpg", "bb");
    tree_put(t, "dog/3.jpg", "ccc");
}

static int open_text(struct tree *t, const char *name, const char *content)
{
    tree_put(t, name, content);
    return tree_open(t, name);
}

static const struct catalog_field *field(const struct tree *t, int i)
{
    return catalog_field(t->d.catalog, i);
}

static int64_t integer(const struct tree *t, const char *key, const char *name)
{
    return *(const int64_t *)tree_value(t, key, name);
}

static float number(const struct tree *t, const char *key, const char *name)
{
    return *(const float *)tree_value(t, key, name);
}

static void columns_get_the_type_of_what_they_hold(void **state)
{
    struct tree *t = *state;
    make_files(t);
    assert_int_equal(open_text(t, "m.csv",
                               "path,label,age,yaw,pose,box\n"
                               "dog/3.jpg,dog,7,1.5,[1;2;3],4 5\n"
                               "cat/1.jpg,cat,-3,2,\"[-1.5, 2e3, .25]\",6 7\n"
                               "cat/2.jpg,\"a \"\"big\"\"\ncat\",+12,-.5e-1,[7 8 9],8;9\n"),
                     0);
    EXPECT_KEYS(t, "cat/1.jpg", "cat/2.jpg", "dog/3.jpg");
    assert_string_equal(t->d.kind, "manifest");
    assert_int_equal(catalog_field_count(t->d.catalog), 5);
    assert_true(field(t, 0)->is_class);
    assert_string_equal(field(t, 0)->name, "label");
    assert_string_equal(tree_class_of(t, "cat/2.jpg"), "a \"big\"\ncat");
    assert_string_equal(catalog_class_name(t->d.catalog, 1), "cat");
    assert_int_equal(field(t, 1)->dtype, FB_INT64);
    assert_int_equal(integer(t, "cat/1.jpg", "age"), -3);
    assert_int_equal(integer(t, "cat/2.jpg", "age"), 12);
    assert_int_equal(field(t, 2)->dtype, FB_FLOAT32);
    assert_true(number(t, "cat/1.jpg", "yaw") == 2 && number(t, "cat/2.jpg", "yaw") == -.05f);
    assert_int_equal(field(t, 3)->ndim, 1);
    assert_int_equal(field(t, 3)->shape[0], 3);
    const float *pose = tree_value(t, "cat/1.jpg", "pose");
    assert_true(pose[0] == -1.5f && pose[1] == 2000 && pose[2] == .25f);
    const float *box = tree_value(t, "cat/2.jpg", "box");
    assert_true(box[0] == 8 && box[1] == 9);
}

static void csv_comes_with_bom_crlf_blank_lines_and_no_last_newline(void **state)
{
    struct tree *t = *state;
    make_files(t);
    assert_int_equal(open_text(t, "m.csv",
                               "\xEF\xBB\xBF"
                               "Filename , n\r\n\r\n\"cat/1.jpg\",1\r\n\r\ndog/3.jpg,2"),
                     0);
    EXPECT_KEYS(t, "cat/1.jpg", "dog/3.jpg");
    assert_int_equal(integer(t, "dog/3.jpg", "n"), 2);
    assert_int_equal(open_text(t, "m.tsv", "path\tname\ncat/1.jpg\tone, two\ndog/3.jpg\t\"with\ttab\"\n"), 0);
    assert_string_equal(tree_class_of(t, "cat/1.jpg"), "one, two");
    assert_string_equal(tree_class_of(t, "dog/3.jpg"), "with\ttab");
}

static void jsonl_values_have_their_own_types(void **state)
{
    struct tree *t = *state;
    make_files(t);
    assert_int_equal(open_text(t, "m.jsonl",
                               "{\"file_name\": \"cat/1.jpg\", \"id\": \"007\", \"n\": 5, \"v\": [1, 2.5], \"ok\": true}\n"
                               "\n"
                               "{\"n\": 6, \"v\": [3, 4], \"ok\": false, \"file_name\": \"dog/3.jpg\", \"id\": \"8\"}\r\n"),
                     0);
    EXPECT_KEYS(t, "cat/1.jpg", "dog/3.jpg");
    assert_string_equal(tree_class_of(t, "cat/1.jpg"), "007");
    assert_int_equal(integer(t, "dog/3.jpg", "n"), 6);
    assert_int_equal(integer(t, "cat/1.jpg", "ok"), 1);
    const float *v = tree_value(t, "cat/1.jpg", "v");
    assert_true(v[0] == 1 && v[1] == 2.5f);
}

static void the_path_column_is_found_by_name_or_by_its_values(void **state)
{
    struct tree *t = *state;
    make_files(t);
    assert_int_equal(open_text(t, "m.csv", "n,IMAGE\n1,cat/1.jpg\n"), 0);
    EXPECT_KEYS(t, "cat/1.jpg");
    assert_int_equal(open_text(t, "m.csv", "photo,n\ncat/1.jpg,1\n"), 0);
    EXPECT_KEYS(t, "cat/1.jpg");
    assert_int_equal(open_text(t, "m.csv", "file,path\n1,cat/1.jpg\n"), 0); /* "path" goes before "file" */
    EXPECT_KEYS(t, "cat/1.jpg");
    assert_int_equal(open_text(t, "m.csv", ",path,n\n0,cat/1.jpg,5\n1,dog/3.jpg,6\n"), 0); /* as pandas writes it */
    assert_int_equal(catalog_field_count(t->d.catalog), 1);
    open_text(t, "m.csv", "who,n\nann,1\n");
    EXPECT_ERROR(t, FB_E_DATA, "no column holds the paths", "who, n", "call that column 'path'");
    open_text(t, "m.csv", "cat/1.jpg,1\ncat/2.jpg,2\n");
    EXPECT_ERROR(t, FB_E_DATA, "first line holds data");
}

static void paths_are_relative_to_the_manifest_or_absolute(void **state)
{
    struct tree *t = *state;
    make_files(t);
    char text[600];
    snprintf(text, sizeof(text), "path\n./cat//1.jpg\n%s/cat/2.jpg\ndog/../dog/3.jpg\n", t->root);
    assert_int_equal(open_text(t, "m.csv", text), 0);
    EXPECT_KEYS(t, "cat/1.jpg", "cat/2.jpg", "dog/../dog/3.jpg");
    snprintf(text, sizeof(text), "path\n../cat/1.jpg\n%s/cat/2.jpg\n", t->root);
    assert_int_equal(open_text(t, "lists/m.csv", text), 0);
    assert_int_equal(catalog_count(t->d.catalog), 2);
    for (uint64_t i = 0; i < 2; i++) {
        struct catalog_sample s;
        assert_int_equal(catalog_sample(t->d.catalog, i, &s, NULL), 0);
        assert_int_equal(faccessat(t->d.root_fd, s.object, R_OK, 0), 0);
    }
}

static void a_manifest_and_a_folder_with_the_same_labels_are_the_same_data_set(void **state)
{
    struct tree *t = *state;
    make_files(t);
    assert_int_equal(tree_open(t, ""), 0);
    uint64_t fingerprint = catalog_fingerprint(t->d.catalog);
    assert_int_equal(open_text(t, "m.csv", "path,species\ndog/3.jpg,dog\ncat/2.jpg,cat\ncat/1.jpg,cat\n"), 0);
    assert_int_equal(catalog_fingerprint(t->d.catalog), fingerprint);
    assert_int_equal(open_text(t, "m.jsonl",
                               "{\"path\":\"dog/3.jpg\",\"s\":\"dog\"}\n{\"path\":\"cat/2.jpg\",\"s\":\"cat\"}\n"
                               "{\"path\":\"cat/1.jpg\",\"s\":\"cat\"}\n"),
                     0);
    assert_int_equal(catalog_fingerprint(t->d.catalog), fingerprint);
    assert_int_equal(tree_open(t, "*/*.jpg"), 0);
    assert_int_equal(catalog_fingerprint(t->d.catalog), fingerprint);
    assert_int_equal(open_text(t, "m.csv", "path,species\ndog/3.jpg,dog\ncat/2.jpg,cat\ncat/1.jpg,dog\n"), 0);
    assert_int_not_equal(catalog_fingerprint(t->d.catalog), fingerprint);
    assert_int_equal(open_text(t, "m.csv", "path,species\ndog/3.jpg,1\ncat/2.jpg,0\ncat/1.jpg,0\n"), 0);
    assert_int_not_equal(catalog_fingerprint(t->d.catalog), fingerprint); /* numbers are not names */
}

static void missing_files_are_counted_and_named_with_their_lines(void **state)
{
    struct tree *t = *state;
    make_files(t);
    mkfifo(tree_path(t, "fifo.jpg"), 0600);
    open_text(t, "m.csv", "path\ncat/1.jpg\nx/a.jpg\nx/b.jpg\n\ncat/2.jpg\nfifo.jpg\ncat\n");
    EXPECT_ERROR(t, FB_E_DATA, "4 of the files named are missing", "x/a.jpg (line 3)", "x/b.jpg (line 4)", "fifo.jpg (line 7, not a file)",
                 "relative to");
}

static void a_file_named_twice_is_an_error_with_both_lines(void **state)
{
    struct tree *t = *state;
    make_files(t);
    open_text(t, "m.csv", "path\ncat/2.jpg\ncat/1.jpg\n\n./cat/2.jpg\n");
    EXPECT_ERROR(t, FB_E_DATA, "line 2 and 5", "cat/2.jpg");
}

static void every_mistake_in_a_table_names_its_line(void **state)
{
    struct tree *t = *state;
    make_files(t);
    static const struct {
        const char *name, *text, *words[4];
    } cases[] = {
        {"m.csv", "", {"line 1", "empty"}},
        {"m.csv", "path,n\n", {"names no files"}},
        {"m.csv", "path,n\ncat/1.jpg,1\ncat/2.jpg,\n", {"line 3", "column 'n' is empty"}},
        {"m.csv", "path,n\ncat/1.jpg,1\n,2\n", {"line 3", "no path"}},
        {"m.csv", "path,n\ncat/1.jpg,1\ncat/2.jpg,2,3\n", {"line 3", "3 cells", "2 columns"}},
        {"m.csv", "path,n\ncat/1.jpg\n", {"line 2", "1 cell,"}},
        {"m.csv", "path,n\n\"cat/1.jpg,1\n", {"line 2", "no end"}},
        {"m.csv", "path,n\n\"cat/1.jpg\"x,1\n", {"line 2", "closing quote"}},
        {"m.csv", "path,a,b\ncat/1.jpg,x,y\n", {"'a' and 'b'", "both hold text"}},
        {"m.csv", "path,v\ncat/1.jpg,1 2\ncat/2.jpg,1 2 3\n", {"line 3", "3 numbers, but 2 at line 2"}},
        {"m.csv", "path,v\ncat/1.jpg,1 2\ncat/2.jpg,5\n", {"'v'", "a whole number at line 3", "a list of numbers at line 2"}},
        {"m.csv", "path,n\ncat/1.jpg,99999999999999999999\n", {"line 2", "too large"}},
        {"m.csv", "path,n\ncat/1.jpg,1e99\n", {"line 2", "too large for float32"}},
        {"m.csv", "path,n\ncat/1.jpg,1e99 1\n", {"line 2", "too large"}},
        {"m.csv", "path,n,n\ncat/1.jpg,1,2\n", {"line 1", "two columns are called 'n'"}},
        {"m.csv", "path,image\ncat/1.jpg,2\n", {"cannot be called 'image'"}},
        {"m.csv", "path,n,\ncat/1.jpg,1,2\n", {"column 3 has no name"}},
        {"m.jsonl", "[1]\n", {"line 1", "not a JSON object"}},
        {"m.jsonl", "{\"path\":\"cat/1.jpg\"}\n{\"path\":\n", {"line 2", "not JSON"}},
        {"m.jsonl", "{\"path\":\"cat/1.jpg\",\"n\":1}\n{\"path\":\"cat/2.jpg\"}\n", {"line 2", "has no 'n'"}},
        {"m.jsonl", "{\"path\":\"cat/1.jpg\"}\n{\"path\":\"cat/2.jpg\",\"n\":1}\n", {"line 2", "first line does not have"}},
        {"m.jsonl", "{\"path\":\"cat/1.jpg\",\"n\":{}}\n", {"line 1", "neither text, a number nor a list"}},
        {"m.jsonl", "{\"path\":\"cat/1.jpg\",\"n\":[1,\"x\"]}\n", {"line 1", "neither text, a number nor a list"}},
        {"m.jsonl", "{\"path\":\"cat/1.jpg\",\"n\":null}\n", {"line 1", "column 'n' is empty"}},
        {"m.jsonl", "{\"path\":\"cat/1.jpg\",\"n\":[]}\n", {"line 1", "column 'n' is empty"}},
        {"m.jsonl",
         "{\"path\":\"cat/1.jpg\",\"n\":\"x\"}\n{\"path\":\"cat/2.jpg\",\"n\":1}\n",
         {"text at line 1", "a whole number at line 2"}},
        {"m.jsonl", "{\"path\":5}\n", {"line 1", "no path"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_text(t, cases[i].name, cases[i].text);
        tree_expect_error(t, FB_E_DATA, cases[i].words);
        assert_non_null(strstr(t->e.path, cases[i].name));
    }
}

static void records_and_columns_have_limits(void **state)
{
    struct tree *t = *state;
    make_files(t);
    static char text[(1 << 20) + 200];
    size_t n = (1 << 20) + 100;
    size_t head = (size_t)sprintf(text, "path,n\n");
    memset(text + head, 'x', n);
    strcpy(text + head + n, ",1\n");
    open_text(t, "m.csv", text);
    EXPECT_ERROR(t, FB_E_DATA, "line 2", "longer than 1048576 bytes");
    text[head] = '"';
    open_text(t, "m.csv", text);
    EXPECT_ERROR(t, FB_E_DATA, "line 2");
    head = (size_t)sprintf(text, "{\"path\":\"");
    memset(text + head, 'x', n);
    strcpy(text + head + n, "\"}\n");
    open_text(t, "m.jsonl", text);
    EXPECT_ERROR(t, FB_E_DATA, "line 1", "longer than 1048576 bytes");
    char *end = text + sprintf(text, "path");
    for (int i = 0; i < 40; i++)
        end += sprintf(end, ",c%d", i);
    open_text(t, "m.csv", text);
    EXPECT_ERROR(t, FB_E_DATA, "more than 32 columns");
    end = text + sprintf(text, "{\"path\":");
    memset(end, '[', 100000);
    strcpy(end + 100000, "\n");
    open_text(t, "m.jsonl", text);
    EXPECT_ERROR(t, FB_E_DATA, "line 1", "depth");
    tree_put_bytes(t, "m.csv", "path\ncat/1.jpg\0x\n", 17);
    tree_open(t, "m.csv");
    EXPECT_ERROR(t, FB_E_DATA, "line 2", "NUL");
}

static void mixed_csv_columns_are_text_and_words_for_numbers_are_numbers(void **state)
{
    struct tree *t = *state;
    make_files(t);
    assert_int_equal(open_text(t, "m.csv", "path,c,f\ncat/1.jpg,1,nan\ncat/2.jpg,1 2,-inf\ndog/3.jpg,n/a,0x10\n"), FB_E_DATA);
    EXPECT_ERROR(t, FB_E_DATA, "'c' and 'f'"); /* 0x10 is not a number here */
    assert_int_equal(open_text(t, "m.csv", "path,c,f\ncat/1.jpg,1,nan\ncat/2.jpg,1 2,-inf\ndog/3.jpg,n/a,1\n"), 0);
    assert_string_equal(tree_class_of(t, "cat/1.jpg"), "1");
    assert_string_equal(tree_class_of(t, "cat/2.jpg"), "1 2");
    assert_true(isnan(number(t, "cat/1.jpg", "f")) && isinf(number(t, "cat/2.jpg", "f")) && number(t, "dog/3.jpg", "f") == 1);
}

static void manifests_are_kept_until_they_or_their_folders_change(void **state)
{
    struct tree *t = *state;
    make_files(t);
    tree_put(t, "lists/m.csv", "path\n../cat/1.jpg\n../dog/3.jpg\n");
    tree_age(t);
    assert_int_equal(tree_open(t, "lists/m.csv"), 0);
    assert_true(t->d.is_fresh);
    assert_int_equal(tree_open(t, "lists/m.csv"), 0);
    assert_false(t->d.is_fresh);
    tree_put(t, "dog/4.jpg", "");
    assert_int_equal(tree_open(t, "lists/m.csv"), 0);
    assert_true(t->d.is_fresh);
    tree_age(t);
    assert_int_equal(tree_open(t, "lists/m.csv"), 0);
    assert_int_equal(tree_open(t, "lists/m.csv"), 0);
    assert_false(t->d.is_fresh);
    tree_put(t, "lists/m.csv", "path\n../cat/2.jpg\n../dog/3.jpg\n"); /* the same size, in place */
    assert_int_equal(tree_open(t, "lists/m.csv"), 0);
    EXPECT_KEYS(t, "../cat/2.jpg", "../dog/3.jpg");
    tree_age(t);
    assert_int_equal(tree_open(t, "lists/m.csv"), 0);
    assert_int_equal(unlink(tree_path(t, "dog/3.jpg")), 0);
    tree_open(t, "lists/m.csv");
    EXPECT_ERROR(t, FB_E_DATA, "1 of the files named is missing", "../dog/3.jpg (line 3)");
}

/* ---- lists ---- */

static void a_list_takes_labels_as_arrays(void **state)
{
    struct tree *t = *state;
    make_files(t);
    char absolute[200];
    snprintf(absolute, sizeof(absolute), "%s/cat/2.jpg", t->root);
    const char *const paths[] = {"dog/3.jpg", "cat/1.jpg", absolute};
    const int32_t ages[] = {30, 10, 20};
    const double points[] = {3, 3.5, 1, 1.5, 2, 2.5};
    const struct fb_column columns[] = {{.name = "age", .dtype = FB_INT32, .data = ages},
                                        {.name = "points", .dtype = FB_FLOAT64, .ndim = 1, .shape = {2}, .data = points}};
    assert_int_equal(tree_open_list(t, paths, 3, columns, 2), 0);
    EXPECT_KEYS(t, "cat/1.jpg", "cat/2.jpg", "dog/3.jpg");
    assert_string_equal(t->d.kind, "list");
    assert_true(t->d.is_fresh);
    assert_int_equal(*(const int32_t *)tree_value(t, "cat/2.jpg", "age"), 20);
    assert_int_equal(*(const int32_t *)tree_value(t, "dog/3.jpg", "age"), 30);
    const double *point = tree_value(t, "cat/1.jpg", "points");
    assert_true(point[0] == 1 && point[1] == 1.5);
    assert_int_equal(field(t, 0)->dtype, FB_INT32);
    assert_int_equal(access(t->cache, F_OK), -1); /* lists are not kept */
}

static void mistakes_in_a_list_are_named(void **state)
{
    struct tree *t = *state;
    make_files(t);
    const char *const missing[] = {"cat/1.jpg", "no.jpg", "neither.jpg"}, *const twice[] = {"cat/1.jpg", "dog/3.jpg", "./cat/1.jpg"};
    tree_open_list(t, missing, 3, NULL, 0);
    EXPECT_ERROR(t, FB_E_DATA, "2 of the files named are missing", "no.jpg (number 1)", "neither.jpg (number 2)");
    tree_open_list(t, twice, 3, NULL, 0);
    EXPECT_ERROR(t, FB_E_DATA, "named twice", "number 0 and 2", "cat/1.jpg");
    tree_open_list(t, twice, 0, NULL, 0);
    EXPECT_ERROR(t, FB_E_DATA, "empty");
    struct fb_column wrong = {.name = "x", .dtype = FB_INT64, .ndim = 2, .shape = {1, 1}, .data = missing};
    tree_open_list(t, missing, 1, &wrong, 1);
    EXPECT_ERROR(t, FB_E_USAGE, "label field");
    wrong = (struct fb_column){.name = "image", .dtype = FB_INT64, .data = missing};
    tree_open_list(t, missing, 1, &wrong, 1);
    EXPECT_ERROR(t, FB_E_USAGE, "cannot be called 'image'");
    wrong = (struct fb_column){.name = NULL, .dtype = FB_INT64, .data = missing};
    tree_open_list(t, missing, 1, &wrong, 1);
    EXPECT_ERROR(t, FB_E_USAGE, "no name");
}

int main(void)
{
#define WITH_TREE(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)
    const struct CMUnitTest tests[] = {
        WITH_TREE(columns_get_the_type_of_what_they_hold),
        WITH_TREE(csv_comes_with_bom_crlf_blank_lines_and_no_last_newline),
        WITH_TREE(jsonl_values_have_their_own_types),
        WITH_TREE(the_path_column_is_found_by_name_or_by_its_values),
        WITH_TREE(paths_are_relative_to_the_manifest_or_absolute),
        WITH_TREE(a_manifest_and_a_folder_with_the_same_labels_are_the_same_data_set),
        WITH_TREE(missing_files_are_counted_and_named_with_their_lines),
        WITH_TREE(a_file_named_twice_is_an_error_with_both_lines),
        WITH_TREE(every_mistake_in_a_table_names_its_line),
        WITH_TREE(records_and_columns_have_limits),
        WITH_TREE(mixed_csv_columns_are_text_and_words_for_numbers_are_numbers),
        WITH_TREE(manifests_are_kept_until_they_or_their_folders_change),
        WITH_TREE(a_list_takes_labels_as_arrays),
        WITH_TREE(mistakes_in_a_list_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
