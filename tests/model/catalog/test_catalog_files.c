/* Further files of a sample in the catalog, and its parts: they come back, they count in the fingerprint, and hostile ones crash nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "model/catalog/catalog_format.h"
#include "seal.h"

enum { SAMPLES = 40 };

/* Sample i has mask "m/i" and view "v/i"; every third one shares the mask of sample 0. */
static struct catalog_writer *filled(const char *mask_folder)
{
    struct catalog_writer *w;
    assert_int_equal(catalog_writer_open(&w, NULL), 0);
    assert_int_equal(catalog_add_field(w, &(struct catalog_field){.name = "age", .dtype = FB_INT64}, NULL), 0);
    assert_int_equal(catalog_add_file_field(w, "mask", NULL), 0);
    assert_int_equal(catalog_add_file_field(w, "view", NULL), 0);
    for (int i = SAMPLES - 1; i >= 0; i--) {
        char key[32], mask[64], view[32];
        snprintf(key, sizeof(key), "p/%03d.jpg", i);
        snprintf(mask, sizeof(mask), "%s/%03d.png", mask_folder, i % 3 ? i : 0);
        snprintf(view, sizeof(view), "v/%03d.jpg", i);
        int64_t age = 100 + i, masks = catalog_add_file(w, mask, 7, 8, NULL),
                views = catalog_add_file(w, view, 1000u + (unsigned)i, i, NULL);
        assert_true(masks >= 0 && views >= 0 && masks != views);
        struct catalog_sample s = {.key = key, .length = 10u * (unsigned)i, .object_size = 10u * (unsigned)i, .mtime_ns = i + 5};
        assert_int_equal(catalog_add_sample(w, &s, (const void *const[]){&age, &masks, &views}, NULL), 0);
    }
    return w;
}

static struct catalog *made(const char *mask_folder)
{
    struct catalog *c;
    assert_int_equal(catalog_finish(filled(mask_folder), NULL, &c, NULL), 0);
    return c;
}

static void files_come_back_beside_their_samples(void **state)
{
    (void)state;
    struct catalog *c = made("m");
    assert_int_equal(catalog_field_count(c), 1); /* files are no labels */
    assert_int_equal(catalog_file_count(c), 2);
    assert_string_equal(catalog_file_name(c, 0), "mask");
    assert_string_equal(catalog_file_name(c, 1), "view");
    assert_false(catalog_is_one_object(c));
    for (int i = 0; i < SAMPLES; i++) {
        struct catalog_sample own, mask, view;
        char want[32];
        assert_int_equal(catalog_sample(c, (uint64_t)i, &own, NULL), 0);
        assert_true(own.offset == 0 && own.length == 10u * (unsigned)i && own.object_size == own.length && own.mtime_ns == i + 5);
        assert_string_equal(own.object, own.key);
        assert_int_equal(*(const int64_t *)catalog_value(c, (uint64_t)i, 0, NULL), 100 + i);
        assert_int_equal(catalog_file(c, (uint64_t)i, 0, &mask, NULL), 0);
        snprintf(want, sizeof(want), "m/%03d.png", i % 3 ? i : 0);
        assert_string_equal(mask.key, want);
        assert_string_equal(mask.object, want);
        assert_true(mask.length == 7 && mask.object_size == 7 && mask.offset == 0 && mask.mtime_ns == 8);
        assert_int_equal(catalog_file(c, (uint64_t)i, 1, &view, NULL), 0);
        assert_true(view.length == 1000u + (unsigned)i && view.mtime_ns == i);
    }
    catalog_close(c);
}

static void other_files_make_another_data_set(void **state)
{
    (void)state;
    struct catalog *a = made("m"), *b = made("m"), *other = made("n");
    assert_int_equal(catalog_fingerprint(a), catalog_fingerprint(b));
    assert_int_not_equal(catalog_fingerprint(a), catalog_fingerprint(other));
    catalog_close(a);
    catalog_close(b);
    catalog_close(other);
}

/* Sample i is "patient i", of i % 5 + 1 parts "folder/i-k". */
static struct catalog *made_of_parts(const char *folder)
{
    struct catalog_writer *w;
    struct catalog *c;
    assert_int_equal(catalog_writer_open(&w, NULL), 0);
    assert_int_equal(catalog_add_field(w, &(struct catalog_field){.name = "age", .dtype = FB_INT64}, NULL), 0);
    assert_int_equal(catalog_add_parts_field(w, NULL), 0);
    assert_int_equal(catalog_add_parts_field(w, NULL), FB_E_USAGE);
    assert_int_equal(catalog_add_file_field(w, "mask", NULL) == 0, 0);
    for (int i = SAMPLES - 1; i >= 0; i--) {
        char key[32], path[64], first[64];
        int64_t age = i, count = i % 5 + 1;
        for (int k = 0; k < count; k++) {
            snprintf(path, sizeof(path), "%s/%03d-%d", folder, i, k);
            snprintf(first, sizeof(first), "%s/%03d-0", folder, i);
            assert_true(catalog_add_file(w, path, 10u * (unsigned)i + (unsigned)k, k, NULL) >= 0);
        }
        snprintf(key, sizeof(key), "patient %03d", i);
        if (i == 7)
            strcpy(key, first); /* a patient may be called as the file is */
        struct catalog_sample s = {
            .key = key, .object = first, .length = 10u * (unsigned)i, .object_size = 10u * (unsigned)i, .mtime_ns = 0};
        assert_int_equal(catalog_add_sample(w, &s, (const void *const[]){&age, &count}, NULL), 0);
    }
    assert_int_equal(catalog_finish(w, NULL, &c, NULL), 0);
    return c;
}

static void parts_come_back_in_their_order(void **state)
{
    (void)state;
    struct catalog *c = made_of_parts("a");
    assert_true(catalog_has_parts(c));
    assert_int_equal(catalog_field_count(c), 1);
    assert_int_equal(catalog_file_count(c), 0);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        int age = (int)*(const int64_t *)catalog_value(c, i, 0, NULL);
        uint64_t count;
        assert_int_equal(catalog_part_count(c, i, &count, NULL), 0);
        assert_int_equal(count, age % 5 + 1);
        for (uint64_t k = 0; k < count; k++) {
            struct catalog_sample s;
            char want[64];
            snprintf(want, sizeof(want), "a/%03d-%d", age, (int)k);
            assert_int_equal(catalog_part(c, i, k, &s, NULL), 0);
            assert_string_equal(s.key, want);
            assert_string_equal(s.object, want);
            assert_true(s.length == 10u * (unsigned)age + k && s.object_size == s.length && s.mtime_ns == (int64_t)k);
        }
    }
    struct catalog *other = made_of_parts("b"), *ordinary = made("m");
    assert_int_not_equal(catalog_fingerprint(c), catalog_fingerprint(other));
    uint64_t count;
    struct catalog_sample part, own;
    assert_false(catalog_has_parts(ordinary));
    assert_int_equal(catalog_part_count(ordinary, 3, &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_int_equal(catalog_part(ordinary, 3, 0, &part, NULL), 0);
    assert_int_equal(catalog_sample(ordinary, 3, &own, NULL), 0);
    assert_string_equal(part.key, own.key);
    catalog_close(c);
    catalog_close(other);
    catalog_close(ordinary);
}

static void labels_come_before_files(void **state)
{
    (void)state;
    struct catalog_writer *w;
    assert_int_equal(catalog_writer_open(&w, NULL), 0);
    assert_int_equal(catalog_add_file_field(w, "mask", NULL), 0);
    assert_int_equal(catalog_add_field(w, &(struct catalog_field){.name = "age", .dtype = FB_INT64}, NULL), FB_E_USAGE);
    assert_int_equal(catalog_add_file_field(w, "mask", NULL), FB_E_USAGE);
    assert_int_equal(catalog_add_file(w, "", 1, 1, NULL), FB_E_DATA);
    catalog_writer_discard(w);
}

/* True if nothing was found wrong. */
static bool read_everything(const struct catalog *c)
{
    bool is_right = true;
    for (uint64_t i = 0; i < catalog_count(c); i++)
        for (int k = 0; k < catalog_file_count(c); k++) {
            struct catalog_sample s;
            is_right &= catalog_file(c, i, k, &s, NULL) == 0;
        }
    for (uint64_t i = 0, parts = 0; i < catalog_count(c); i++) {
        is_right &= catalog_part_count(c, i, &parts, NULL) == 0;
        for (uint64_t k = 0; is_right && k < parts; k++) {
            struct catalog_sample s;
            is_right &= catalog_part(c, i, k, &s, NULL) == 0;
        }
    }
    return is_right;
}

static int open_bytes(const void *bytes, size_t n, struct catalog **out)
{
    int fd = memfd_create("catalog", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    int rc = catalog_open_fd(fd, "catalog", out, NULL);
    close(fd);
    return rc;
}

static void try_hostile(struct catalog *c)
{
    size_t size;
    const void *good = catalog_bytes(c, &size);
    uint8_t *bytes = malloc(size);
    struct rng r = rng_stream(RNG_SUBSET, 5, 6, 7, 8);
    static const uint64_t values[] = {0, 1, 7, 8, 0xFF, SAMPLES * 2, SAMPLES * 3, INT64_MAX, UINT64_MAX, UINT64_C(1) << 32, 1000};
    uint64_t refused = 0;
    for (int round = 0; round < 4000; round++) {
        memcpy(bytes, good, size);
        for (uint64_t k = rng_below(&r, 3) + 1; k > 0; k--)
            memcpy(bytes + rng_below(&r, size / 8) * 8, &values[rng_below(&r, sizeof(values) / sizeof(values[0]))], 8);
        seal_again(bytes, size);
        struct catalog *hostile;
        if (open_bytes(bytes, size, &hostile) < 0) {
            refused++;
            continue;
        }
        refused += !read_everything(hostile);
        catalog_close(hostile);
    }
    assert_true(refused > 400);
    free(bytes);
    catalog_close(c);
}

static void hostile_files_with_right_checksums_never_crash(void **state)
{
    (void)state;
    try_hostile(made("m"));
    try_hostile(made_of_parts("a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_come_back_beside_their_samples),
        cmocka_unit_test(other_files_make_another_data_set),
        cmocka_unit_test(parts_come_back_in_their_order),
        cmocka_unit_test(labels_come_before_files),
        cmocka_unit_test(hostile_files_with_right_checksums_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
