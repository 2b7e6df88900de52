/* 16-bit floats: every one of them, and what lies between two of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/half.h"

/* The value by its definition. */
static double value_of(uint32_t h)
{
    double exponent = h >> 10 & 31, fraction = h & 1023;
    double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void every_half_comes_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float v = half_to_f32((uint16_t)h);
        uint32_t same = (h & 0x7fff) > 0x7c00 ? h | 0x200 : h; /* NaN is made quiet */
        assert_int_equal(half_from_f32(v), same);
        assert_int_equal(half_from_f64(v), same);
        if ((h & 0x7fff) < 0x7c00)
            assert_true(v == value_of(h) && !signbit(v) == !(h & 0x8000));
        else
            assert_true((h & 0x7fff) == 0x7c00 ? isinf(v) : isnan(v));
    }
}

static void a_tie_goes_to_the_even_one_and_the_rest_to_the_nearest(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double low = value_of(h), high = h == 0x7bff ? 65536 : value_of(h + 1), tie = (low + high) / 2;
        uint32_t even = h % 2 ? h + 1 : h;
        assert_int_equal(half_from_f64(tie), even);
        assert_int_equal(half_from_f32((float)tie), even);
        assert_int_equal(half_from_f64(nextafter(tie, 0)), h); /* by way of a float this would be the tie itself */
        assert_int_equal(half_from_f64(nextafter(tie, 1e9)), h + 1);
        assert_int_equal(half_from_f32(nextafterf((float)tie, 0)), h);
        assert_int_equal(half_from_f32(nextafterf((float)-tie, -1e9f)), 0x8000 | (h + 1));
    }
    assert_int_equal(half_from_f32(1e9f), 0x7c00);
    assert_int_equal(half_from_f64(-1e300), 0xfc00);
    assert_int_equal(half_from_f64(1e-300), 0);
}

static void bfloats_are_the_upper_half_of_a_float_rounded(void **state)
{
    (void)state;
    for (uint32_t b = 0; b < 0x10000; b++) {
        uint32_t same = (b & 0x7fff) > 0x7f80 ? b | 0x40 : b;
        assert_int_equal(bfloat_from_f32(bfloat_to_f32((uint16_t)b)), same);
    }
    assert_true(bfloat_to_f32(0x3f80) == 1 && bfloat_to_f32(0xc000) == -2);
    assert_int_equal(bfloat_from_f32(0x1.01p0f), 0x3f80); /* a tie, to the even one below */
    assert_int_equal(bfloat_from_f32(0x1.03p0f), 0x3f82); /* and above */
    assert_int_equal(bfloat_from_f32(0x1.010002p0f), 0x3f81);
    assert_int_equal(bfloat_from_f32(0x1.fffffep127f), 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_comes_back),
        cmocka_unit_test(a_tie_goes_to_the_even_one_and_the_rest_to_the_nearest),
        cmocka_unit_test(bfloats_are_the_upper_half_of_a_float_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
