/* Counter-based randomness: known answers, frozen streams, uniformity. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

/* The vectors that Random123 publishes for philox4x32-10. */
static void philox_gives_the_published_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rng r = {.key = {cases[i].key[0], cases[i].key[1]}};
        for (int k = 0; k < 4; k++)
            r.counter[k] = cases[i].counter[k];
        for (int k = 0; k < 4; k++)
            assert_int_equal(rng_u32(&r), cases[i].out[k]);
    }
}

static void streams_are_frozen(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_TRANSFORM, 7, 3, 12345, 0);
    assert_int_equal(rng_u64(&r), UINT64_C(0x89b929f63c845dd0));
    assert_int_equal(rng_u64(&r), UINT64_C(0xfba61ea8535f242d));
    assert_int_equal(rng_u64(&r), UINT64_C(0xf8b0bac23e3b980d));
    r = rng_stream(RNG_ORDER, 0, 0, 0, 0);
    assert_int_equal(rng_u64(&r), UINT64_C(0x730a2cf38fd8bb6a));
    assert_int_equal(rng_mix(0, 0), UINT64_C(0x48218226ff3cd4bf));
    assert_int_equal(rng_mix(1, 2), UINT64_C(0x81a5c1377856b73));
}

/* Names that differ in one part give streams that have nothing in common. */
static void every_part_of_a_name_matters(void **state)
{
    (void)state;
    enum { VALUES = 4, NAMES = 5 * VALUES * VALUES * VALUES * VALUES };
    uint64_t *seen = malloc(NAMES * sizeof(*seen)), count = 0;
    for (uint32_t i = 0; i < NAMES; i++) {
        uint32_t k = i;
        enum rng_purpose purpose = (enum rng_purpose)(1 + k % 5);
        uint64_t seed = (k /= 5) % VALUES, epoch = (k /= VALUES) % VALUES, position = (k /= VALUES) % VALUES;
        uint32_t attempt = (k / VALUES) % VALUES;
        struct rng r = rng_stream(purpose, seed, epoch, position, attempt);
        uint64_t first = rng_u64(&r);
        for (uint64_t j = 0; j < count; j++)
            assert_true(seen[j] != first);
        seen[count++] = first;
    }
    struct rng low = rng_stream(RNG_ORDER, 1, 1, 5, 0), high = rng_stream(RNG_ORDER, 1, 1, 5 + (UINT64_C(1) << 32), 0);
    assert_true(rng_u64(&low) != rng_u64(&high));
    free(seen);
}

static void a_copy_goes_on_like_its_original(void **state)
{
    (void)state;
    struct rng a = rng_stream(RNG_ORDER, 1, 2, 3, 4);
    rng_u32(&a);
    struct rng b = a;
    for (int i = 0; i < 100; i++)
        assert_int_equal(rng_u32(&a), rng_u32(&b));
}

static double deviation(const uint32_t *seen, size_t bins, double expected)
{
    double chi = 0;
    for (size_t i = 0; i < bins; i++)
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
    return (chi - (double)(bins - 1)) / sqrt(2.0 * (double)(bins - 1));
}

static void numbers_below_n_are_uniform(void **state)
{
    (void)state;
    static const uint64_t limits[] = {1, 2, 3, 7, 10, 64, 1000};
    struct rng r = rng_stream(RNG_SUBSET, 1, 0, 0, 0);
    for (size_t k = 0; k < sizeof(limits) / sizeof(limits[0]); k++) {
        uint32_t seen[1000] = {0};
        for (int i = 0; i < 200000; i++) {
            uint64_t x = rng_below(&r, limits[k]);
            assert_true(x < limits[k]);
            seen[x]++;
        }
        if (limits[k] > 1)
            assert_true(fabs(deviation(seen, limits[k], 200000.0 / (double)limits[k])) < 4);
    }
}

/* For n = 3/4 of 2^64 a plain modulus, or a product without rejection, favours a third of the values by two to one. */
static void large_limits_are_unbiased(void **state)
{
    (void)state;
    const uint64_t n = UINT64_C(3) << 62;
    uint32_t modulo_three[3] = {0}, thirds[3] = {0};
    struct rng r = rng_stream(RNG_SUBSET, 2, 0, 0, 0);
    for (int i = 0; i < 90000; i++) {
        uint64_t x = rng_below(&r, n);
        assert_true(x < n);
        modulo_three[x % 3]++;
        thirds[x / (UINT64_C(1) << 62)]++;
    }
    assert_true(fabs(deviation(modulo_three, 3, 30000)) < 4);
    assert_true(fabs(deviation(thirds, 3, 30000)) < 4);
}

static void doubles_are_uniform_and_below_one(void **state)
{
    (void)state;
    uint32_t seen[100] = {0};
    struct rng r = rng_stream(RNG_SUBSET, 3, 0, 0, 0);
    for (int i = 0; i < 200000; i++) {
        double x = rng_double(&r);
        assert_true(x >= 0 && x < 1);
        seen[(int)(x * 100)]++;
    }
    assert_true(fabs(deviation(seen, 100, 2000)) < 4);
}

/* The first number of neighbouring streams: what one sample draws must say nothing about the next. */
static void first_numbers_of_neighbouring_positions_are_uniform_and_uncorrelated(void **state)
{
    (void)state;
    uint32_t pairs[100] = {0};
    double before = 0;
    for (uint64_t position = 0; position < 100001; position++) {
        struct rng r = rng_stream(RNG_TRANSFORM, 0, 0, position, 0);
        double x = rng_double(&r);
        if (position)
            pairs[(int)(before * 10) * 10 + (int)(x * 10)]++;
        before = x;
    }
    assert_true(fabs(deviation(pairs, 100, 1000)) < 4);
}

static void mixing_changes_half_the_bits(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        int by_value = 0, by_key = 0;
        for (uint64_t i = 0; i < 200; i++) {
            by_value += __builtin_popcountll(rng_mix(i, i) ^ rng_mix(i, i ^ UINT64_C(1) << bit));
            by_key += __builtin_popcountll(rng_mix(i, i) ^ rng_mix(i ^ UINT64_C(1) << bit, i));
        }
        assert_in_range(by_value, 200 * 32 - 300, 200 * 32 + 300);
        assert_in_range(by_key, 200 * 32 - 300, 200 * 32 + 300);
    }
}

static void small_keys_and_values_do_not_meet(void **state)
{
    (void)state;
    enum { SIDE = 40 };
    uint64_t seen[SIDE * SIDE];
    for (uint64_t i = 0; i < SIDE * SIDE; i++) {
        seen[i] = rng_mix(i / SIDE, i % SIDE);
        for (uint64_t j = 0; j < i; j++)
            assert_true(seen[j] != seen[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(streams_are_frozen),
        cmocka_unit_test(every_part_of_a_name_matters),
        cmocka_unit_test(a_copy_goes_on_like_its_original),
        cmocka_unit_test(numbers_below_n_are_uniform),
        cmocka_unit_test(large_limits_are_unbiased),
        cmocka_unit_test(doubles_are_uniform_and_below_one),
        cmocka_unit_test(first_numbers_of_neighbouring_positions_are_uniform_and_uncorrelated),
        cmocka_unit_test(mixing_changes_half_the_bits),
        cmocka_unit_test(small_keys_and_values_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
