/* Rows of arrays against the slowest way there is: every number found by its own coordinates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "codec/array/array_rows.h"
#include "codec/array/hdf5/decompress.h"

enum { FILE_BYTES = 1 << 18 };

static uint8_t file[FILE_BYTES], got[FILE_BYTES], want[FILE_BYTES];
static struct array_chunk table[4096];

/* A layout drawn from a seed: shape, chunks that may be larger than it, some of them missing, laid out with gaps now and then. */
static struct array_layout draw(uint64_t seed, enum array_storage storage)
{
    struct array_layout a = {.dtype = FB_UINT16, .stored_bytes = 2, .ndim = 1 + (int)(rng_mix(seed, 0) % 4), .storage = storage};
    uint64_t r = 1, numbers = 1, chunk_bytes = 2, at = 64;
    a.chunk_count = 1;
    a.fill[0] = (uint8_t)(seed % 3 * 7);
    a.fill[1] = (uint8_t)(seed % 2);
    for (int d = 0; d < a.ndim; d++) {
        a.shape[d] = 1 + rng_mix(seed, r++) % 9;
        a.chunk_shape[d] = rng_mix(seed, r++) % 3 == 0 || d == a.ndim - 1 - (int)(seed % 2) ? a.shape[d] : 1 + rng_mix(seed, r++) % 11;
        numbers *= a.shape[d];
        chunk_bytes *= a.chunk_shape[d];
        a.chunk_count *= (a.shape[d] + a.chunk_shape[d] - 1) / a.chunk_shape[d];
    }
    a.bytes = 2 * numbers;
    a.offset = 64;
    a.chunk = table;
    for (uint64_t i = 0; i < a.chunk_count; i++) {
        table[i] = (struct array_chunk){.offset = rng_mix(seed, 100 + i) % 5 ? at : ARRAY_NO_CHUNK, .length = (uint32_t)chunk_bytes};
        at += chunk_bytes + (rng_mix(seed, 200 + i) % 4 == 0 ? 16 : 0);
    }
    assert_true(at < FILE_BYTES || storage != ARRAY_CHUNKED);
    struct fb_error e = {0};
    if (array_check(&a, FILE_BYTES, &e) < 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, e.cause);
    return a;
}

/* Where number `index` (C order) of the array lies; NULL: nowhere, it is the fill value. */
static const uint8_t *number_at(const struct array_layout *a, uint64_t index)
{
    uint64_t chunk = 0, inside = 0, at[FB_MAX_DIMS], offset = 0, step = 1;
    for (int d = a->ndim - 1; d >= 0; d--) {
        at[d] = index % a->shape[d];
        index /= a->shape[d];
    }
    for (int d = 0; d < a->ndim; d++) {
        chunk = chunk * ((a->shape[d] + a->chunk_shape[d] - 1) / a->chunk_shape[d]) + at[d] / a->chunk_shape[d];
        inside = inside * a->chunk_shape[d] + at[d] % a->chunk_shape[d];
    }
    if (a->storage == ARRAY_CHUNKED)
        return a->chunk[chunk].offset == ARRAY_NO_CHUNK ? NULL : file + a->chunk[chunk].offset + 2 * inside;
    for (int i = 0; i < a->ndim; i++) {
        int d = a->is_fortran ? i : a->ndim - 1 - i;
        offset += at[d] * step;
        step *= a->shape[d];
    }
    return file + a->offset + 2 * offset;
}

static uint64_t slow_rows(const struct array_layout *a, uint64_t first, uint64_t rows)
{
    uint64_t per_row = array_row_bytes(a) / 2;
    for (uint64_t i = 0; i < rows * per_row; i++) {
        const uint8_t *from = number_at(a, first * per_row + i);
        memcpy(want + 2 * i, from ? from : a->fill, 2);
    }
    return rows * per_row * 2;
}

static void compare(uint64_t seed, uint64_t bytes)
{
    if (memcmp(got, want, bytes) != 0)
        fail_msg("seed %llu differs", (unsigned long long)seed);
    assert_int_equal(got[bytes], 0xEE);
}

static void draw_rows(const struct array_layout *a, uint64_t seed, uint64_t *first, uint64_t *rows)
{
    *first = rng_mix(seed, 50) % array_rows(a);
    *rows = rng_mix(seed, 51) % (array_rows(a) - *first + 1);
    memset(got, 0xEE, sizeof(got));
}

static void runs_are_the_rows(void **state)
{
    (void)state;
    int straight = 0;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        struct array_layout a = draw(seed, seed % 4 ? ARRAY_CHUNKED : ARRAY_CONTIGUOUS);
        struct array_runs r;
        struct array_run run;
        uint64_t first, rows, at = 0, last = 0;
        if (!array_is_straight(&a))
            continue;
        straight++;
        draw_rows(&a, seed, &first, &rows);
        array_runs_start(&r, &a, first, rows);
        while (array_runs_next(&r, &run)) {
            assert_int_equal(run.at, at); /* in order, without gaps */
            assert_true(run.length > 0);
            assert_true(at == 0 || run.offset != last); /* neighbours are merged */
            if (run.offset == ARRAY_NO_CHUNK)
                array_fill(&a, got + at, run.length);
            else
                memcpy(got + at, file + run.offset, run.length);
            last = run.offset == ARRAY_NO_CHUNK ? ARRAY_NO_CHUNK : run.offset + run.length;
            at += run.length;
        }
        compare(seed, slow_rows(&a, first, rows));
    }
    assert_true(straight > 1000);
}

static void chunks_give_the_rows(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        struct array_layout a = draw(seed, ARRAY_CHUNKED);
        uint64_t first, rows, chunk, count;
        draw_rows(&a, seed, &first, &rows);
        array_chunks_of_rows(&a, first, rows, &chunk, &count);
        for (uint64_t i = chunk; i < chunk + count; i++) {
            uint64_t low, others;
            array_chunks_of_rows(&a, first, 1, &low, &others);
            assert_true(i >= low); /* none too many */
            array_chunks_of_rows(&a, first + rows - 1, 1, &low, &others);
            assert_true(i < low + others);
            array_copy_from_chunk(&a, i, table[i].offset == ARRAY_NO_CHUNK ? NULL : file + table[i].offset, first, rows, got);
        }
        compare(seed, slow_rows(&a, first, rows));
    }
}

static void whole_arrays_give_the_rows_in_either_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct array_layout a = draw(seed, ARRAY_CONTIGUOUS);
        uint64_t first, rows;
        a.is_fortran = seed % 2;
        draw_rows(&a, seed, &first, &rows);
        array_copy_from_whole(&a, file + a.offset, first, rows, got);
        compare(seed, slow_rows(&a, first, rows));
    }
}

static void a_fortran_chunk_gives_the_rows(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct array_layout a = draw(seed, ARRAY_CONTIGUOUS), c = a;
        uint64_t first, rows;
        a.is_fortran = c.is_fortran = true;
        c.storage = ARRAY_CHUNKED;
        c.chunk_count = 1;
        memcpy(c.chunk_shape, c.shape, sizeof(c.shape));
        draw_rows(&a, seed, &first, &rows);
        array_copy_from_chunk(&c, 0, file + a.offset, first, rows, got);
        compare(seed, slow_rows(&a, first, rows));
    }
}

static void merged_runs_are_few(void **state)
{
    (void)state;
    struct array_layout a = {.dtype = FB_FLOAT32,
                             .stored_bytes = 4,
                             .ndim = 2,
                             .shape = {4000, 10},
                             .storage = ARRAY_CHUNKED,
                             .chunk_shape = {1, 10},
                             .chunk_count = 4000,
                             .chunk = table};
    struct array_runs r;
    struct array_run run, last = {0};
    int runs = 0;
    for (uint64_t i = 0; i < a.chunk_count; i++)
        table[i] = (struct array_chunk){.offset = 1000 + 40 * i + i / 64 * 2048, .length = 40};
    array_runs_start(&r, &a, 0, 4000);
    for (; array_runs_next(&r, &run); last = run, runs++)
        assert_true(!runs || last.length == 64 * 40);
    assert_int_equal(runs, 63); /* 4000 chunks, 63 index nodes */
}

static void a_single_number_is_a_row(void **state)
{
    (void)state;
    struct array_layout a = {.dtype = FB_INT32, .stored_bytes = 4, .offset = 8, .bytes = 4};
    struct array_runs r;
    struct array_run run;
    array_runs_start(&r, &a, 0, 1);
    assert_true(array_runs_next(&r, &run));
    assert_int_equal(run.offset, 8);
    assert_int_equal(run.length, 4);
    assert_false(array_runs_next(&r, &run));
}

int main(void)
{
    for (size_t i = 0; i < sizeof(file); i++)
        file[i] = (uint8_t)rng_mix(77, i);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_the_rows),
        cmocka_unit_test(chunks_give_the_rows),
        cmocka_unit_test(whole_arrays_give_the_rows_in_either_order),
        cmocka_unit_test(a_fortran_chunk_gives_the_rows),
        cmocka_unit_test(merged_runs_are_few),
        cmocka_unit_test(a_single_number_is_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
