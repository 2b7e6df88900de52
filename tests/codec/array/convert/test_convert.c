/* Every step of every set of kernels gives C's bytes, at any length and alignment, and touches nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "codec/array/convert/array_convert.h"
#include "codec/array/convert/array_convert_kernels.h"

enum { MOST = 131, GUARD = 64, MARK = 0xa5 };

static uint8_t input[MOST * 8 + 16];

static void fill_input(uint64_t seed)
{
    struct rng r = rng_stream(RNG_MAP, seed, 0, 0, 0);
    for (size_t i = 0; i < sizeof(input); i++)
        input[i] = (uint8_t)rng_u32(&r);
    for (size_t i = 0; i + 4 <= sizeof(input); i += 28) { /* floats with all bits of the exponent set: infinities and NaNs */
        input[i + 3] |= 0x7f;
        input[i + 2] |= 0x80;
    }
}

/* Runs both steps on `n` numbers at `from`; `what` names the step. */
static void compare_step(array_step *ours, array_step *c, const uint8_t *from, size_t n, const char *what, int which)
{
    _Alignas(64) uint8_t a[MOST * 8 + GUARD], b[MOST * 8 + GUARD];
    memset(a, MARK, sizeof(a));
    memset(b, MARK, sizeof(b));
    ours(a, from, n);
    c(b, from, n);
    if (memcmp(a, b, sizeof(a)))
        fail_msg("%s[%d] of %zu numbers differs from C", what, which, n);
}

static int compare_table(array_step *const *ours, array_step *const *c, int count, const char *what)
{
    int compared = 0;
    for (int k = 0; k < count; k++) {
        assert_true(!ours[k] == !c[k]);
        if (!ours[k] || ours[k] == c[k])
            continue;
        compared++;
        for (uint64_t seed = 0; seed < 20; seed++) {
            fill_input(seed);
            for (size_t n = 0; n <= MOST; n++)
                compare_step(ours[k], c[k], input + seed % 9, n, what, k);
        }
    }
    return compared;
}

static void every_step_of_avx2_gives_the_bytes_of_c(void **state)
{
    (void)state;
    const struct array_kernels *k = array_kernels_by_name("avx2"), *c = &array_kernels_c;
    if (!k)
        skip();
    int compared = compare_table(k->swap, c->swap, 9, "swap") + compare_table(k->copy, c->copy, 9, "copy");
    compared += compare_table(k->widen_i64, c->widen_i64, ARRAY_DTYPES, "widen_i64");
    compared += compare_table(k->widen_f32, c->widen_f32, ARRAY_DTYPES, "widen_f32");
    compared += compare_table(k->widen_f64, c->widen_f64, ARRAY_DTYPES, "widen_f64");
    compared += compare_table(k->narrow_i64, c->narrow_i64, ARRAY_DTYPES, "narrow_i64");
    compared += compare_table(k->narrow_f32, c->narrow_f32, ARRAY_DTYPES, "narrow_f32");
    compared += compare_table(k->narrow_f64, c->narrow_f64, ARRAY_DTYPES, "narrow_f64");
    compared += compare_table(k->sound_i16, c->sound_i16, ARRAY_CODES, "sound_i16");
    compared += compare_table(k->sound_f32, c->sound_f32, ARRAY_CODES, "sound_f32");
    compared += compare_table(k->sound_f64, c->sound_f64, ARRAY_CODES, "sound_f64");
    assert_true(compared >= 18);
}

static void usual_floats(float *x, size_t n, uint64_t seed)
{
    struct rng r = rng_stream(RNG_MAP, seed, 1, 0, 0);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(rng_double(&r) * 4 - 2);
}

static void normalising_and_stereo_by_avx2_give_the_bytes_of_c(void **state)
{
    (void)state;
    const struct array_kernels *k = array_kernels_by_name("avx2"), *c = &array_kernels_c;
    if (!k)
        skip();
    for (size_t n = 0; n <= MOST; n++) {
        float x[2 * MOST], y[2 * MOST], mean[MOST], inv[MOST], out[4][MOST];
        usual_floats(x, 2 * MOST, n);
        usual_floats(mean, MOST, n + 1000);
        usual_floats(inv, MOST, n + 2000);
        memset(out, 0, sizeof(out));
        k->split_2(out[0], out[1], x, n);
        c->split_2(out[2], out[3], x, n);
        assert_memory_equal(out[0], out[2], 2 * sizeof(out[0]));
        k->mix_2(out[0], x, n);
        c->mix_2(out[1], x, n);
        assert_memory_equal(out[0], out[1], sizeof(out[0]));
        memcpy(y, x, sizeof(x));
        k->norm_each(x, mean, inv, n);
        c->norm_each(y, mean, inv, n);
        assert_memory_equal(x, y, sizeof(x));
        k->norm_one(x, 0.3f, 1.7f, n);
        c->norm_one(y, 0.3f, 1.7f, n);
        assert_memory_equal(x, y, sizeof(x));
    }
}

static void every_pair_of_dtypes_converts(void **state)
{
    (void)state;
    struct array_conversion c;
    uint8_t out[64 * 8];
    memset(input, 0, sizeof(input));
    for (int from = FB_UINT8; from <= FB_BOOL; from++)
        for (int to = FB_UINT8; to <= FB_BOOL; to++)
            for (int code = ARRAY_PLAIN; code <= ARRAY_SWAPPED; code++) {
                assert_int_equal(array_conversion_init(&c, (enum array_code)code, (enum fb_dtype)from, (enum fb_dtype)to, NULL, NULL), 0);
                memset(out, MARK, sizeof(out));
                array_convert(&c, input, out, 64);
                for (size_t i = 0; i < 64 * c.to_bytes; i++)
                    assert_int_equal(out[i], 0);
                bool is_same = from == to && from != FB_BOOL && (code == ARRAY_PLAIN || c.from_bytes == 1);
                assert_int_equal(array_conversion_is_copy(&c), is_same);
            }
}

static void parts_of_a_row_are_normalised_as_the_row_is(void **state)
{
    (void)state;
    enum { ROW = 1000 };
    float mean[ROW], inv[ROW], whole[ROW], parts[ROW];
    int16_t row[ROW];
    usual_floats(mean, ROW, 5);
    usual_floats(inv, ROW, 6);
    for (int i = 0; i < ROW; i++)
        row[i] = (int16_t)(i * 31);
    static const struct {
        uint64_t period, repeat;
    } cases[] = {{1, 1}, {ROW, 1}, {3, 1}, {10, 100}, {4, 7}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct array_norm norm = {mean, inv, cases[k].period, cases[k].repeat};
        struct array_conversion c;
        assert_int_equal(array_conversion_init(&c, ARRAY_PLAIN, FB_INT16, FB_FLOAT32, &norm, NULL), 0);
        array_convert(&c, row, whole, ROW);
        for (size_t at = 0, n = 1; at < ROW; at += n, n = n * 2 + 1) {
            n = n < ROW - at ? n : ROW - at;
            array_convert_from(&c, at, row + at, parts + at, n);
        }
        assert_memory_equal(whole, parts, sizeof(whole));
        int16_t fill = 77, filled[ROW];
        for (int i = 0; i < ROW; i++)
            filled[i] = fill;
        array_convert(&c, filled, whole, ROW);
        array_convert_fill(&c, 0, &fill, parts, ROW);
        assert_memory_equal(whole, parts, sizeof(whole));
        memset(filled, 0, sizeof(filled));
        array_convert(&c, filled, whole, ROW);
        array_convert_fill(&c, 0, NULL, parts, ROW);
        assert_memory_equal(whole, parts, sizeof(whole));
    }
}

static void what_is_no_dtype_or_code_is_refused(void **state)
{
    (void)state;
    struct array_conversion c;
    struct fb_error e = {0};
    assert_int_equal(array_conversion_init(&c, ARRAY_PLAIN, (enum fb_dtype)0, FB_FLOAT32, NULL, &e), FB_E_USAGE);
    assert_int_equal(array_conversion_init(&c, ARRAY_PLAIN, FB_UINT8, (enum fb_dtype)99, NULL, NULL), FB_E_USAGE);
    assert_int_equal(array_conversion_init(&c, (enum array_code)77, FB_UINT8, FB_FLOAT32, NULL, NULL), FB_E_USAGE);
    assert_int_equal(array_conversion_init(&c, ARRAY_PLAIN, FB_UINT8, FB_FLOAT32, &(struct array_norm){0}, NULL), FB_E_USAGE);
    assert_int_equal(array_stored_bytes(ARRAY_PCM_S24, FB_FLOAT32), 3);
    assert_int_equal(array_stored_bytes((enum array_code)77, FB_FLOAT32), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_of_avx2_gives_the_bytes_of_c), cmocka_unit_test(normalising_and_stereo_by_avx2_give_the_bytes_of_c),
        cmocka_unit_test(every_pair_of_dtypes_converts),           cmocka_unit_test(parts_of_a_row_are_normalised_as_the_row_is),
        cmocka_unit_test(what_is_no_dtype_or_code_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
