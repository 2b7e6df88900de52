/* Layouts and their records: what array_check refuses, what a record keeps, and that hostile ones cost nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/array/array.h"

enum { SIZE = 1 << 20 };

static struct array_chunk table[4096];

static struct array_layout contiguous(void)
{
    return (struct array_layout){
        .name = "x", .dtype = FB_FLOAT32, .stored_bytes = 4, .ndim = 2, .shape = {100, 10}, .offset = 2048, .bytes = 4000};
}

static struct array_layout chunked(void)
{
    struct array_layout a = {.name = "x",
                             .dtype = FB_FLOAT32,
                             .stored_bytes = 4,
                             .ndim = 2,
                             .shape = {100, 10},
                             .storage = ARRAY_CHUNKED,
                             .chunk_shape = {8, 10},
                             .chunk_count = 13,
                             .chunk = table};
    for (uint64_t i = 0; i < a.chunk_count; i++)
        table[i] = (struct array_chunk){.offset = 1000 + 320 * i, .length = 320};
    return a;
}

static void refuses(const struct array_layout *a, int code, const char *words)
{
    struct fb_error e = {0};
    assert_int_equal(array_check(a, SIZE, &e), code);
    if (!strstr(e.cause, words))
        fail_msg("\"%s\" does not say \"%s\"", e.cause, words);
}

static void accepts(const struct array_layout *a)
{
    struct fb_error e = {0};
    if (array_check(a, SIZE, &e) != 0)
        fail_msg("%s", e.cause);
}

static void what_lies_inside_the_file_is_accepted(void **state)
{
    (void)state;
    struct array_layout a = contiguous();
    accepts(&a);
    a.offset = SIZE - 4000;
    accepts(&a);
    a = chunked();
    accepts(&a);
    table[3].offset = ARRAY_NO_CHUNK;
    accepts(&a);
    a = (struct array_layout){.name = "", .dtype = FB_INT8, .stored_bytes = 1, .bytes = 1};
    accepts(&a); /* a single number */
    a = (struct array_layout){.dtype = FB_INT16, .code = ARRAY_ALAW, .stored_bytes = 1, .ndim = 1, .shape = {5}, .bytes = 5};
    accepts(&a);
    a = (struct array_layout){.dtype = FB_FLOAT64, .stored_bytes = 8, .ndim = 2, .shape = {0, 7}};
    accepts(&a);
    assert_int_equal(array_row_bytes(&a), 56);
    assert_int_equal(array_rows(&a), 0);
}

static void what_reaches_beyond_the_file_is_refused(void **state)
{
    (void)state;
    struct array_layout a = contiguous();
    a.offset = SIZE - 3999;
    refuses(&a, FB_E_DATA, "beyond the end");
    a.offset = UINT64_MAX - 10;
    refuses(&a, FB_E_DATA, "beyond the end");
    a = chunked();
    table[12].offset = SIZE - 319;
    refuses(&a, FB_E_DATA, "chunk 12");
}

static void sizes_that_do_not_agree_are_refused(void **state)
{
    (void)state;
    struct array_layout a = contiguous();
    a.bytes = 3996;
    refuses(&a, FB_E_DATA, "size its shape asks for");
    a = contiguous();
    a.stored_bytes = 8;
    refuses(&a, FB_E_DATA, "type that does not exist");
    a = contiguous();
    a.dtype = 0;
    refuses(&a, FB_E_DATA, "type that does not exist");
    a = contiguous();
    a.code = ARRAY_PCM_S24;
    a.stored_bytes = 3;
    a.dtype = FB_INT16;
    refuses(&a, FB_E_DATA, "type that does not exist");
    a = chunked();
    table[5].length = 319;
    refuses(&a, FB_E_DATA, "not of the size");
    a = chunked();
    a.chunk_count = 12;
    refuses(&a, FB_E_DATA, "another number of chunks");
    a = chunked();
    a.chunk_shape[1] = 0;
    refuses(&a, FB_E_DATA, "chunks of size 0");
    a = chunked();
    table[0].skips = 1;
    refuses(&a, FB_E_DATA, "skips filters");
}

static void products_that_overflow_are_refused(void **state)
{
    (void)state;
    struct array_layout a = contiguous();
    a.shape[0] = a.shape[1] = UINT64_C(1) << 32;
    a.bytes = 0;
    refuses(&a, FB_E_DATA, "impossible size");
    a = chunked();
    a.shape[0] = UINT64_C(1) << 40;
    a.chunk_shape[0] = 1;
    a.chunk_count = UINT64_C(1) << 40;
    refuses(&a, FB_E_DATA, "more chunks than such a file");
    a = chunked();
    a.chunk_shape[0] = a.chunk_shape[1] = UINT64_C(1) << 33;
    a.chunk_count = 1;
    refuses(&a, FB_E_DATA, "impossible size");
    a = contiguous();
    a.ndim = 9;
    refuses(&a, FB_E_DATA, "more dimensions");
    a = contiguous();
    memset(a.name, 'x', sizeof(a.name));
    refuses(&a, FB_E_DATA, "name without an end");
}

static void an_unknown_filter_is_named(void **state)
{
    (void)state;
    struct array_layout a = chunked();
    a.filter_count = 1;
    a.filter[0].id = 32001;
    refuses(&a, FB_E_UNSUPPORTED, "32001 (Blosc)");
    a.filter[0].id = 12345;
    refuses(&a, FB_E_UNSUPPORTED, "12345");
    a.filter[0].id = ARRAY_SHUFFLE;
    refuses(&a, FB_E_DATA, "0 bytes");
}

static void a_chunk_too_small_for_what_it_claims_is_refused(void **state)
{
    (void)state;
    struct array_layout a = chunked();
    a.filter_count = 2;
    a.filter[0] = (struct array_filter){ARRAY_SHUFFLE, 4};
    a.filter[1].id = ARRAY_DEFLATE;
    a.shape[0] = a.chunk_shape[0] = UINT64_C(1) << 30;
    a.chunk_count = 1;
    refuses(&a, FB_E_DATA, "too small to hold");
    a.filter[1].id = ARRAY_ZSTD; /* no such limit */
    accepts(&a);
}

/* ---- records ---- */

static void same(const struct array_layout *a, const struct array_layout *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->code, b->code);
    assert_int_equal(a->stored_bytes, b->stored_bytes);
    assert_int_equal(a->ndim, b->ndim);
    assert_memory_equal(a->shape, b->shape, sizeof(a->shape));
    assert_int_equal(a->is_fortran, b->is_fortran);
    assert_int_equal(a->storage, b->storage);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->chunk_shape, b->chunk_shape, sizeof(a->chunk_shape));
    assert_int_equal(a->chunk_count, b->chunk_count);
    for (uint64_t i = 0; i < a->chunk_count; i++)
        if (a->chunk[i].offset != b->chunk[i].offset || a->chunk[i].length != b->chunk[i].length || a->chunk[i].skips != b->chunk[i].skips)
            fail_msg("chunk %llu differs", (unsigned long long)i);
    assert_int_equal(a->filter_count, b->filter_count);
    assert_memory_equal(a->filter, b->filter, sizeof(a->filter));
    assert_memory_equal(a->fill, b->fill, sizeof(a->fill));
    assert_int_equal(a->rate, b->rate);
    assert_string_equal(a->why_opaque, b->why_opaque);
    if (a->storage == ARRAY_INLINE)
        assert_memory_equal(a->inline_data, b->inline_data, a->bytes);
}

/* Writes, reads back, compares; returns the record's size. */
static size_t round_trip(struct array_layout *arrays, int count, uint64_t size)
{
    struct array_file f = {.format = "hdf5", .object_size = size, .count = count, .array = arrays}, g;
    struct fb_error e = {0};
    size_t n = array_record_write(&f, NULL, 0);
    uint8_t *record = malloc(n);
    assert_non_null(record);
    assert_int_equal(array_record_write(&f, record, n), n);
    if (array_record_read(&g, record, n, size, &e) < 0)
        fail_msg("%s", e.cause);
    assert_string_equal(g.format, "hdf5");
    assert_int_equal(g.count, count);
    for (int i = 0; i < count; i++)
        same(&arrays[i], &g.array[i]);
    array_file_free(&g);
    for (size_t cut = 0; cut < n; cut++) {
        struct fb_error less = {0};
        assert_int_equal(array_record_read(&g, record, cut, size, &less), FB_E_DATA);
        assert_null(g.memory);
    }
    free(record);
    return n;
}

static void a_record_keeps_every_kind_of_layout(void **state)
{
    (void)state;
    struct array_layout a[4] = {contiguous(), chunked()};
    a[0].is_fortran = true;
    a[1].filter_count = 3;
    a[1].filter[0] = (struct array_filter){ARRAY_SHUFFLE, 4};
    a[1].filter[1].id = ARRAY_LZF;
    a[1].filter[2].id = ARRAY_FLETCHER32;
    memcpy(a[1].fill, "\1\2\3\4", 4);
    table[4] = (struct array_chunk){.offset = ARRAY_NO_CHUNK};
    table[7].skips = 3;
    table[8].length = 77;
    a[2] = (struct array_layout){.name = "inside",
                                 .dtype = FB_UINT8,
                                 .stored_bytes = 1,
                                 .ndim = 1,
                                 .shape = {5},
                                 .storage = ARRAY_INLINE,
                                 .bytes = 5,
                                 .inline_data = (const uint8_t *)"hello"};
    a[3] = (struct array_layout){.name = "sound",
                                 .dtype = FB_FLOAT32,
                                 .stored_bytes = 4,
                                 .ndim = 2,
                                 .shape = {9, 2},
                                 .storage = ARRAY_OPAQUE,
                                 .rate = 48000,
                                 .why_opaque = "FLAC"};
    round_trip(a, 4, SIZE);
}

static void an_even_chunk_table_takes_a_few_bytes(void **state)
{
    (void)state;
    struct array_layout a = chunked();
    a.shape[0] = 4096;
    a.chunk_shape[0] = 1;
    a.chunk_count = 4096;
    for (uint64_t i = 0; i < a.chunk_count; i++)
        table[i] = (struct array_chunk){.offset = 5000 + i * 40, .length = 40};
    assert_true(round_trip(&a, 1, SIZE) < 64);
    for (uint64_t i = 0; i < a.chunk_count; i++)
        table[i].offset += i / 64 * 2048; /* index nodes in between */
    assert_true(round_trip(&a, 1, 8 * SIZE) < 64 * 8);
}

static void an_uneven_one_a_few_bytes_per_chunk(void **state)
{
    (void)state;
    struct array_layout a = chunked();
    a.shape[0] = 4096;
    a.chunk_shape[0] = 1;
    a.chunk_count = 4096;
    a.filter_count = 1;
    a.filter[0].id = ARRAY_DEFLATE;
    uint64_t at = 5000;
    for (uint64_t i = 0; i < a.chunk_count; i++) {
        table[i] = (struct array_chunk){.offset = at, .length = (uint32_t)(20 + rng_mix(1, i) % 30)};
        at += table[i].length;
    }
    assert_true(round_trip(&a, 1, SIZE) < 4096 * 2 + 64);
}

static void any_chunk_table_survives_its_record(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct array_layout a = chunked();
        a.filter_count = 1;
        a.filter[0].id = ARRAY_ZSTD;
        a.shape[0] = a.chunk_count = rng_mix(seed, 0) % 40;
        a.chunk_shape[0] = 1;
        for (uint64_t i = 0; i < a.chunk_count; i++) {
            uint64_t r = rng_mix(seed, i + 1);
            if (r % 8 < 4 && i)
                table[i] = (struct array_chunk){table[i - 1].offset + 40, 40, table[i - 1].skips};
            else
                table[i] = (struct array_chunk){r % 8 == 5 ? ARRAY_NO_CHUNK : (r >> 8) % (SIZE - 50), 40, r >> 40 & (r % 8 == 6)};
            if (table[i].offset == ARRAY_NO_CHUNK || table[i].offset > SIZE - 40)
                table[i] = (struct array_chunk){.offset = ARRAY_NO_CHUNK};
        }
        round_trip(&a, 1, SIZE);
    }
}

static void a_record_of_another_file_is_refused(void **state)
{
    (void)state;
    struct array_layout a = contiguous();
    struct array_file f = {.format = "hdf5", .count = 1, .array = &a}, g;
    struct fb_error e = {0};
    uint8_t record[256];
    size_t n = array_record_write(&f, record, sizeof(record));
    assert_int_equal(array_record_read(&g, record, n, 2048, &e), FB_E_DATA); /* a shorter file than it was made for */
    assert_non_null(strstr(e.cause, "beyond the end"));
    assert_null(g.memory);
    assert_int_equal(g.count, 0);
}

static void names_find_their_arrays(void **state)
{
    (void)state;
    struct array_layout a[2] = {contiguous(), contiguous()};
    strcpy(a[1].name, "group/y");
    struct array_file f = {.count = 2, .array = a};
    assert_ptr_equal(array_find(&f, "group/y"), &a[1]);
    assert_null(array_find(&f, "y"));
    assert_null(array_find(&f, ""));
    f.count = 1;
    assert_ptr_equal(array_find(&f, NULL), &a[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_inside_the_file_is_accepted),
        cmocka_unit_test(what_reaches_beyond_the_file_is_refused),
        cmocka_unit_test(sizes_that_do_not_agree_are_refused),
        cmocka_unit_test(products_that_overflow_are_refused),
        cmocka_unit_test(an_unknown_filter_is_named),
        cmocka_unit_test(a_chunk_too_small_for_what_it_claims_is_refused),
        cmocka_unit_test(a_record_keeps_every_kind_of_layout),
        cmocka_unit_test(an_even_chunk_table_takes_a_few_bytes),
        cmocka_unit_test(an_uneven_one_a_few_bytes_per_chunk),
        cmocka_unit_test(any_chunk_table_survives_its_record),
        cmocka_unit_test(a_record_of_another_file_is_refused),
        cmocka_unit_test(names_find_their_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
