/* Tar archives as data sets: keys, classes, labels beside images, shards, kept catalogs, and what is refused. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/round_up.h"
#include "dataset/tar/tar_header.h"
#include "../tree.h"

/* ---- archives made by hand ---- */

struct maker {
    char bytes[1 << 16];
    size_t length;
};

static void put_header(struct maker *m, const char *name, size_t size, char type)
{
    uint8_t block[TAR_BLOCK] = {0};
    strncpy((char *)block, name, 100);
    snprintf((char *)block + TAR_AT_MODE, 8, "0000644");
    for (int i = 10; i >= 0; i--, size >>= 3)
        block[TAR_AT_SIZE + i] = (uint8_t)('0' + (size & 7));
    memset(block + TAR_AT_SUM, ' ', 8);
    block[TAR_AT_TYPE] = (uint8_t)type;
    memcpy(block + TAR_AT_MAGIC, "ustar\00000", 8);
    snprintf((char *)block + TAR_AT_SUM, 8, "%06o", tar_sum(block));
    memcpy(m->bytes + m->length, block, sizeof(block));
    m->length += sizeof(block);
}

static void put(struct maker *m, const char *name, const char *content)
{
    size_t n = strlen(content);
    put_header(m, name, n, '0');
    memcpy(m->bytes + m->length, content, n);
    m->length += round_up(n, TAR_BLOCK);
}

static void write_tar(struct tree *t, const char *name, struct maker *m)
{
    m->length += 2 * TAR_BLOCK;
    tree_put_bytes(t, name, m->bytes, m->length);
    tree_age(t);
    memset(m, 0, sizeof(*m));
}

/* ---- what it is ---- */

static void the_archive_of_a_folder_is_the_same_data_set(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    tree_put(t, "f/cat/1.jpg", "one");
    tree_put(t, "f/dog/old/2.png", "three");
    assert_int_equal(tree_open(t, "f"), 0);
    uint64_t fingerprint = catalog_fingerprint(t->d.catalog);
    put_header(&m, "./", 0, '5');
    put(&m, "./dog/old/2.png", "three");
    put(&m, "./cat/1.jpg", "one");
    put(&m, "./cat/notes.md", "left out");
    put(&m, "./.hidden.jpg", "left out");
    write_tar(t, "x.tar", &m);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    EXPECT_KEYS(t, "cat/1.jpg", "dog/old/2.png");
    assert_int_equal(catalog_fingerprint(t->d.catalog), fingerprint);
    assert_string_equal(tree_class_of(t, "dog/old/2.png"), "dog");
    assert_string_equal(t->d.kind, "tar");
    assert_string_equal(catalog_note(t->d.catalog, "left out"), "1 .md, 1 hidden");
    struct catalog_sample s;
    assert_int_equal(catalog_sample(t->d.catalog, 0, &s, NULL), 0);
    assert_string_equal(s.object, "x.tar");
    assert_int_equal(s.length, 3);
    assert_true(s.object_size > s.offset + s.length);
}

static void images_without_folders_have_no_classes(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "b.jpg", "x");
    put(&m, "a.jpg", "y");
    write_tar(t, "x.tar", &m);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    EXPECT_KEYS(t, "a.jpg", "b.jpg");
    assert_int_equal(catalog_field_count(t->d.catalog), 0);
    put(&m, "b.jpg", "x");
    put(&m, "c/a.jpg", "y");
    write_tar(t, "y.tar", &m);
    tree_open(t, "y.tar");
    EXPECT_ERROR(t, FB_E_DATA, "no folder", "b.jpg", "c/a.jpg");
}

/* ---- labels beside images ---- */

static int64_t label_of(struct tree *t, const char *key)
{
    int64_t v;
    memcpy(&v, tree_value(t, key, "label"), sizeof(v));
    return v;
}

static void numbers_in_cls_members_are_labels_in_any_order(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "0002.cls", "10\n");
    put(&m, "0001.jpg", "x");
    put(&m, "0002.jpg", "y");
    put(&m, "0002.json", "{\"caption\": \"two\"}");
    put(&m, "0001.cls", "2");
    put(&m, "0001.json", "{}");
    write_tar(t, "x.tar", &m);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    EXPECT_KEYS(t, "0001.jpg", "0002.jpg");
    assert_int_equal(catalog_field_count(t->d.catalog), 1);
    assert_int_equal(label_of(t, "0001.jpg"), 2);
    assert_int_equal(label_of(t, "0002.jpg"), 10);
    assert_int_equal(catalog_class_count(t->d.catalog), 0); /* numbers stay what they are */
}

static void words_in_cls_members_are_classes(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "a/1.jpg", "x");
    put(&m, "a/1.cls", "tabby cat");
    put(&m, "b/1.jpg", "x");
    put(&m, "b/1.cls", "7");
    write_tar(t, "x.tar", &m);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    assert_string_equal(tree_class_of(t, "a/1.jpg"), "tabby cat");
    assert_string_equal(tree_class_of(t, "b/1.jpg"), "7");
}

static void a_missing_cls_is_named(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "1.jpg", "x");
    put(&m, "1.cls", "3");
    put(&m, "2.jpg", "x");
    write_tar(t, "x.tar", &m);
    tree_open(t, "x.tar");
    EXPECT_ERROR(t, FB_E_DATA, "1 of 2", "2.jpg", ".cls");
}

static void json_members_give_fields(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "1.jpg", "x");
    put(&m, "1.json", "{\"label\": \"cat\", \"age\": 3, \"pose\": [1, 2.5], \"caption\": \"a cat\", \"w\": 1}");
    put(&m, "2.jpg", "x");
    put(&m, "2.json", "{\"label\": \"dog\", \"age\": 4.5, \"pose\": [3, 4], \"caption\": \"a dog\"}");
    write_tar(t, "x.tar", &m);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    assert_int_equal(catalog_field_count(t->d.catalog), 3); /* not the captions, not w, which one sample has */
    assert_string_equal(tree_class_of(t, "2.jpg"), "dog");
    float age, pose[2];
    memcpy(&age, tree_value(t, "2.jpg", "age"), sizeof(age));
    memcpy(pose, tree_value(t, "1.jpg", "pose"), sizeof(pose));
    assert_true(age == 4.5f && pose[0] == 1 && pose[1] == 2.5f);
}

static void json_that_is_none_is_refused_with_its_place(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "1.jpg", "x");
    put(&m, "1.json", "{\"label\": ");
    write_tar(t, "x.tar", &m);
    tree_open(t, "x.tar");
    EXPECT_ERROR(t, FB_E_DATA, "1.jpg", "not a JSON object", "x.tar");
    assert_int_equal(t->e.offset, 1536);
}

static void words_in_txt_members_are_labels_and_captions_are_not(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "1.jpg", "x");
    put(&m, "1.txt", "5");
    write_tar(t, "x.tar", &m);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    assert_int_equal(label_of(t, "1.jpg"), 5);
    put(&m, "1.jpg", "x");
    put(&m, "1.txt", "a cat on a mat");
    write_tar(t, "y.tar", &m);
    assert_int_equal(tree_open(t, "y.tar"), 0);
    assert_int_equal(catalog_field_count(t->d.catalog), 0);
}

/* ---- shards ---- */

static void braces_and_wildcards_name_several_archives(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    for (int i = 8; i <= 11; i++) {
        char name[32], key[32];
        snprintf(name, sizeof(name), "t-%06d.tar", i);
        snprintf(key, sizeof(key), "c%d/%d.jpg", i % 2, i);
        put(&m, key, "x");
        write_tar(t, name, &m);
    }
    assert_int_equal(tree_open(t, "t-{000008..000011}.tar"), 0);
    EXPECT_KEYS(t, "c0/10.jpg", "c0/8.jpg", "c1/11.jpg", "c1/9.jpg");
    assert_int_equal(tree_open(t, "t-0000{08,11}.tar"), 0);
    EXPECT_KEYS(t, "c0/8.jpg", "c1/11.jpg");
    assert_int_equal(tree_open(t, "t-*.tar"), 0);
    assert_int_equal(catalog_count(t->d.catalog), 4);
    assert_int_equal(tree_open(t, "t-*.tar"), 0);
    assert_false(t->d.is_fresh);
    tree_open(t, "t-{000010..000013}.tar");
    EXPECT_ERROR(t, FB_E_NOT_FOUND, "t-000012.tar");
    tree_open(t, "none-*.tar");
    EXPECT_ERROR(t, FB_E_NOT_FOUND, "no archive matches");
    tree_open(t, "t-{0..99999999}.tar");
    EXPECT_ERROR(t, FB_E_USAGE, "more than");
    tree_open(t, "t-{0..9..-9223372036854775808}.tar"); /* no step, so a name as it stands */
    EXPECT_ERROR(t, FB_E_NOT_FOUND, "");
}

static void the_same_name_in_two_shards_is_two_samples(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "0.jpg", "x");
    put(&m, "0.cls", "1");
    write_tar(t, "s-0.tar", &m);
    put(&m, "0.jpg", "yy");
    put(&m, "0.cls", "2");
    write_tar(t, "s-1.tar", &m);
    assert_int_equal(tree_open(t, "s-{0..1}.tar"), 0);
    EXPECT_KEYS(t, "s-0.tar/0.jpg", "s-1.tar/0.jpg");
    assert_int_equal(label_of(t, "s-1.tar/0.jpg"), 2);
}

/* ---- kept ---- */

static void a_changed_archive_is_noticed(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "a.jpg", "x");
    write_tar(t, "x.tar", &m);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    assert_true(t->d.is_fresh);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    assert_false(t->d.is_fresh);
    put(&m, "b.jpg", "x");
    m.length += 2 * TAR_BLOCK;
    tree_put_bytes(t, "x.tar", m.bytes, m.length);
    memset(&m, 0, sizeof(m));
    assert_int_equal(tree_open(t, "x.tar"), 0);
    EXPECT_KEYS(t, "b.jpg");
    assert_int_equal(tree_open(t, "x.tar"), 0);
    assert_true(t->d.is_fresh); /* too young to be trusted */
}

/* ---- what is refused, or passed over ---- */

static void of_two_members_with_one_name_the_last_counts(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "a.jpg", "old");
    put(&m, "a.jpg", "newer");
    write_tar(t, "x.tar", &m);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    struct catalog_sample s;
    assert_int_equal(catalog_sample(t->d.catalog, 0, &s, NULL), 0);
    assert_int_equal(s.length, 5);
    assert_string_equal(catalog_note(t->d.catalog, "left out"), "1 replaced");
}

static void links_and_devices_are_counted_and_left_out(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "a.jpg", "x");
    put_header(&m, "l.jpg", 0, '2');
    put_header(&m, "h.jpg", 77, '1');
    put_header(&m, "n.jpg", 0, '3');
    put_header(&m, "s.jpg", 0, 'S');
    write_tar(t, "x.tar", &m);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    EXPECT_KEYS(t, "a.jpg");
    assert_string_equal(catalog_note(t->d.catalog, "left out"), "2 link, 1 not a file, 1 sparse");
}

static void a_member_that_claims_too_much_is_refused_with_its_offset(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "a.jpg", "x");
    put_header(&m, "b.jpg", (size_t)7 << 30, '0');
    write_tar(t, "x.tar", &m);
    tree_open(t, "x.tar");
    EXPECT_ERROR(t, FB_E_DATA, "cut off", "b.jpg");
    assert_int_equal(t->e.offset, 1024);
}

static void what_is_no_archive_is_refused(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    tree_put(t, "empty.tar", "");
    tree_open(t, "empty.tar");
    EXPECT_ERROR(t, FB_E_DATA, "empty");
    memset(m.bytes, 'x', 2048);
    tree_put_bytes(t, "text.tar", m.bytes, 2048);
    tree_open(t, "text.tar");
    EXPECT_ERROR(t, FB_E_DATA, "does not begin like a tar");
    tree_put_bytes(t, "gz.tar.gz", "\x1F\x8B\x08", 3);
    tree_open(t, "gz.tar.gz");
    EXPECT_ERROR(t, FB_E_DATA, "cut off");
    tree_put_bytes(t, "xz.tar.xz",
                   "\xFD"
                   "7zXZ",
                   5);
    tree_open(t, "xz.tar.xz");
    EXPECT_ERROR(t, FB_E_UNSUPPORTED, "xz", "plain .tar");
    memset(m.bytes, 0, 2048);
    put(&m, "a.md", "x");
    write_tar(t, "none.tar", &m);
    tree_open(t, "none.tar");
    EXPECT_ERROR(t, FB_E_DATA, "none an image", ".md 1");
}

static void an_archive_behind_an_archive_is_said(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "a.jpg", "x");
    m.length += 2 * TAR_BLOCK;
    put(&m, "b.jpg", "x");
    write_tar(t, "x.tar", &m);
    assert_int_equal(tree_open(t, "x.tar"), 0);
    EXPECT_KEYS(t, "a.jpg");
    assert_non_null(strstr(t->log, "continues after its end, at byte 2048"));
}

static void an_archive_without_an_end_mark_is_read_and_said(void **state)
{
    struct tree *t = *state;
    static struct maker m;
    put(&m, "a.jpg", "x");
    tree_put_bytes(t, "x.tar", m.bytes, m.length);
    memset(&m, 0, sizeof(m));
    assert_int_equal(tree_open(t, "x.tar"), 0);
    EXPECT_KEYS(t, "a.jpg");
    assert_non_null(strstr(t->log, "no end mark"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, tree_make, tree_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_archive_of_a_folder_is_the_same_data_set),
        T(images_without_folders_have_no_classes),
        T(numbers_in_cls_members_are_labels_in_any_order),
        T(words_in_cls_members_are_classes),
        T(a_missing_cls_is_named),
        T(json_members_give_fields),
        T(json_that_is_none_is_refused_with_its_place),
        T(words_in_txt_members_are_labels_and_captions_are_not),
        T(braces_and_wildcards_name_several_archives),
        T(the_same_name_in_two_shards_is_two_samples),
        T(a_changed_archive_is_noticed),
        T(of_two_members_with_one_name_the_last_counts),
        T(links_and_devices_are_counted_and_left_out),
        T(a_member_that_claims_too_much_is_refused_with_its_offset),
        T(what_is_no_archive_is_refused),
        T(an_archive_behind_an_archive_is_said),
        T(an_archive_without_an_end_mark_is_read_and_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
