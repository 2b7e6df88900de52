/* What every array format owes its caller: a failed read is passed on, nothing is left behind, few reads are made. Values:
 * test_*_oracle.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "array_bytes.h"

/* ---- small files ---- */

static size_t put(uint8_t *to, size_t at, const void *bytes, size_t n)
{
    memcpy(to + at, bytes, n);
    return at + n;
}

static size_t make_npy(uint8_t *to)
{
    static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }\n";
    size_t n = put(to, 0, "\x93NUMPY\x01\x00", 8);
    n = put(to, n, (uint8_t[]){sizeof(text) - 1, 0}, 2);
    n = put(to, n, text, sizeof(text) - 1);
    memset(to + n, 0, 32);
    return n + 32;
}

static size_t make_wav(uint8_t *to)
{
    static const uint8_t head[] = {'R', 'I', 'F', 'F', 52, 0, 0,   0,  'W', 'A', 'V', 'E', 'f', 'm', 't', ' ', 16,  0,   0,  0, 1, 0,
                                   1,   0,   64,  31,  0,  0, 128, 62, 0,   0,   2,   0,   16,  0,   'd', 'a', 't', 'a', 16, 0, 0, 0};
    size_t n = put(to, 0, head, sizeof(head));
    memset(to + n, 1, 16);
    return n + 16;
}

static size_t make_safetensors(uint8_t *to)
{
    static const char text[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}";
    size_t n = put(to, 0, (uint8_t[8]){sizeof(text) - 1}, 8);
    n = put(to, n, text, sizeof(text) - 1);
    memset(to + n, 2, 16);
    return n + 16;
}

/* One stored member. */
static size_t make_npz(uint8_t *to)
{
    uint8_t npy[256];
    uint32_t bytes = (uint32_t)make_npy(npy);
    uint8_t local[30] = {'P', 'K', 3, 4}, entry[46] = {'P', 'K', 1, 2}, end[22] = {'P', 'K', 5, 6};
    local[26] = entry[28] = 5; /* of the name */
    end[10] = 1;
    memcpy(entry + 20, &bytes, 4);
    memcpy(entry + 24, &bytes, 4);
    size_t n = put(to, 0, local, sizeof(local));
    n = put(to, n, "x.npy", 5);
    uint32_t table = (uint32_t)(n = put(to, n, npy, bytes));
    n = put(to, n, entry, sizeof(entry));
    uint32_t table_bytes = (uint32_t)((n = put(to, n, "x.npy", 5)) - table);
    memcpy(end + 12, &table_bytes, 4);
    memcpy(end + 16, &table, 4);
    return put(to, n, end, sizeof(end));
}

static const struct {
    const char *name;
    size_t (*make)(uint8_t *to);
    uint64_t most_reads; /* to describe it */
} formats[] = {{"npy", make_npy, 1}, {"wav", make_wav, 1}, {"safetensors", make_safetensors, 2}, {"npz", make_npz, 6}};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

static int describe(struct array_bytes *b, struct array_file *f, struct fb_error *e)
{
    struct array_source s = array_bytes_source(b);
    const struct array_ops *ops = array_find_format(b->data, b->size < ARRAY_PROBE_BYTES ? b->size : ARRAY_PROBE_BYTES);
    assert_non_null(ops);
    error_clear(e);
    return ops->describe(&s, f, e);
}

static void each_is_described_in_few_reads(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++) {
        uint8_t data[1024];
        struct array_bytes b = {data, formats[i].make(data), UINT64_MAX, 0};
        struct array_file f;
        struct fb_error e;
        assert_int_equal(describe(&b, &f, &e), 0);
        assert_string_equal(f.format, formats[i].name);
        assert_int_equal(f.count, 1);
        assert_int_equal(f.object_size, b.size);
        assert_true(b.reads <= formats[i].most_reads);
        assert_ptr_equal(array_format_by_name(f.format), array_find_format(data, ARRAY_PROBE_BYTES));
        array_file_free(&f);
    }
}

static void a_failed_read_is_passed_on_as_it_is(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++) {
        uint8_t data[1024];
        size_t size = formats[i].make(data), failed = 0;
        for (size_t at = 0; at < size; at++) {
            struct array_bytes b = {data, size, at, 0};
            struct array_file f;
            struct fb_error e;
            int rc = describe(&b, &f, &e);
            if (rc == 0) {
                array_file_free(&f);
                continue;
            }
            failed++;
            assert_int_equal(rc, FB_E_IO);
            assert_non_null(strstr(e.cause, "this read fails"));
        }
        assert_true(failed > 8);
    }
}

static void any_byte_may_be_wrong(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++) {
        uint8_t data[1024];
        size_t size = formats[i].make(data);
        for (size_t at = 0; at < size; at++)
            for (int bit = 0; bit < 8; bit++) {
                uint8_t *copy = malloc(size);
                memcpy(copy, data, size);
                copy[at] ^= (uint8_t)(1 << bit);
                struct array_bytes b = {copy, size, UINT64_MAX, 0};
                struct array_source s = array_bytes_source(&b);
                struct array_file f;
                struct fb_error e;
                const struct array_ops *ops = array_find_format(copy, ARRAY_PROBE_BYTES);
                error_clear(&e);
                if (ops && ops->describe(&s, &f, &e) == 0)
                    array_file_free(&f);
                else if (ops)
                    assert_true(e.code < 0 && e.cause[0]);
                free(copy);
            }
    }
}

static void the_array_has_the_shape_that_was_written(void **state)
{
    (void)state;
    uint8_t data[1024];
    struct array_bytes b = {data, make_npz(data), UINT64_MAX, 0};
    struct array_file f;
    struct fb_error e;
    assert_int_equal(describe(&b, &f, &e), 0);
    const struct array_layout *a = array_find(&f, "x");
    assert_non_null(a);
    assert_true(a->ndim == 2 && a->shape[0] == 4 && a->shape[1] == 2 && a->dtype == FB_FLOAT32 && a->storage == ARRAY_CONTIGUOUS);
    assert_ptr_equal(array_find(&f, ""), a);
    assert_null(array_find(&f, "y"));
    array_file_free(&f);
}

static void other_files_are_none_of_ours(void **state)
{
    (void)state;
    static const char *const starts[] = {"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00",
                                         "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
                                         "RIFF\x10\x00\x00\x00WEBPVP8 ",
                                         "{\"a\": 1, \"b\": 22}",
                                         "\xff\xfe\141\0b\0c\0d\0e\0f\0g\0",
                                         "a,b,c\n1,2,3\n4,5,6"};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        assert_null(array_find_format((const uint8_t *)starts[i], ARRAY_PROBE_BYTES));
    assert_null(array_find_format((const uint8_t *)"", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_described_in_few_reads), cmocka_unit_test(a_failed_read_is_passed_on_as_it_is),
        cmocka_unit_test(any_byte_may_be_wrong),          cmocka_unit_test(the_array_has_the_shape_that_was_written),
        cmocka_unit_test(other_files_are_none_of_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
