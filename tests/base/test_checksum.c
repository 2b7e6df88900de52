/* Checksums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/checksum.h"
#include "base/rng.h"

/* xxh3's published value for no input with seed 0, and what every version of the library must keep giving. */
static void values_are_frozen(void **state)
{
    (void)state;
    assert_int_equal(checksum_of("", 0), UINT64_C(0x2d06800538d394c2));
    assert_int_equal(checksum_of("fullbore", 8), UINT64_C(0xa8f2959a0c3aada7));
}

static void pieces_give_the_same_as_the_whole(void **state)
{
    (void)state;
    static uint8_t bytes[10000];
    struct rng r = rng_stream(RNG_SUBSET, 0, 0, 0, 0);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)rng_u32(&r);
    for (size_t n = 0; n <= sizeof(bytes); n = n * 2 + 3) {
        struct checksum *c = checksum_open();
        assert_non_null(c);
        for (size_t at = 0; at < n;) {
            size_t step = 1 + rng_below(&r, 700);
            step = step < n - at ? step : n - at;
            checksum_add(c, bytes + at, step);
            at += step;
        }
        assert_int_equal(checksum_value(c), checksum_of(bytes, n));
        assert_int_equal(checksum_value(c), checksum_of(bytes, n)); /* asking changes nothing */
        checksum_close(c);
    }
}

static void one_flipped_bit_is_noticed(void **state)
{
    (void)state;
    uint8_t bytes[300] = {0};
    uint64_t before = checksum_of(bytes, sizeof(bytes));
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(checksum_of(bytes, sizeof(bytes)) != before);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_frozen),
        cmocka_unit_test(pieces_give_the_same_as_the_whole),
        cmocka_unit_test(one_flipped_bit_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
