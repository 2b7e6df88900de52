/* Draws by weight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "order/alias.h"
#include "order/order.h"

static struct alias_table *table_of(const double *weights, uint64_t n)
{
    struct alias_table *a;
    struct fb_error e = {0};
    if (alias_open(&a, weights, n, n, &e) != 0)
        fail_msg("%s", e.cause);
    return a;
}

/* Chi square of draws against weights, in standard deviations; zero weights must not occur at all. */
static double deviation_from(const double *weights, int n, int draws)
{
    struct alias_table *a = table_of(weights, (uint64_t)n);
    uint32_t *seen = calloc((size_t)n, sizeof(*seen));
    struct rng r = rng_stream(RNG_SUBSET, 1, 2, 3, 4);
    double sum = 0, chi = 0;
    int possible = 0;
    for (int i = 0; i < draws; i++) {
        uint64_t u = rng_u64(&r);
        seen[alias_draw(a, u, rng_u64(&r))]++;
    }
    for (int i = 0; i < n; i++)
        sum += weights[i];
    for (int i = 0; i < n; i++) {
        double expected = draws * (weights[i] / sum);
        if (weights[i] == 0)
            assert_int_equal(seen[i], 0);
        else
            chi += (seen[i] - expected) * (seen[i] - expected) / expected;
        possible += weights[i] > 0;
    }
    free(seen);
    alias_close(a);
    return possible > 1 ? (chi - (possible - 1)) / sqrt(2.0 * (possible - 1)) : 0;
}

static void draws_follow_the_weights(void **state)
{
    (void)state;
    double ramp[100], mixed[64], one[] = {0, 0, 5, 0};
    const double equal[] = {3, 3, 3, 3, 3, 3, 3};
    for (int i = 0; i < 100; i++)
        ramp[i] = i + 1;
    for (int i = 0; i < 64; i++)
        mixed[i] = i % 3 ? pow(1.15, i) : 0;
    assert_true(fabs(deviation_from(ramp, 100, 200000)) < 4);
    assert_true(fabs(deviation_from(mixed, 64, 2000000)) < 4);
    assert_true(fabs(deviation_from(equal, 7, 100000)) < 4);
    assert_true(fabs(deviation_from(one, 4, 1000)) < 4);
}

static void extreme_weights_neither_overflow_nor_vanish(void **state)
{
    (void)state;
    const double huge[] = {DBL_MAX, DBL_MAX, DBL_MAX / 2, 0}, tiny[] = {DBL_TRUE_MIN, DBL_TRUE_MIN, 0}, apart[] = {DBL_TRUE_MIN, DBL_MAX};
    struct alias_table *a = table_of(huge, 4);
    uint32_t seen[4] = {0};
    struct rng r = rng_stream(RNG_SUBSET, 0, 0, 0, 0);
    for (int i = 0; i < 50000; i++) {
        uint64_t u = rng_u64(&r);
        seen[alias_draw(a, u, rng_u64(&r))]++;
    }
    assert_int_equal(seen[3], 0);
    assert_true(abs((int)seen[0] - 20000) < 600 && abs((int)seen[1] - 20000) < 600 && abs((int)seen[2] - 10000) < 600);
    alias_close(a);
    assert_true(fabs(deviation_from(tiny, 3, 10000)) < 4);
    a = table_of(apart, 2);
    for (uint64_t u = 0; u < UINT64_MAX - (UINT64_C(1) << 60); u += UINT64_C(1) << 60)
        assert_int_equal(alias_draw(a, u, UINT64_MAX / 2), 1);
    alias_close(a);
}

static void the_corners_of_the_random_pair_are_in_range(void **state)
{
    (void)state;
    double weights[1000];
    for (int i = 0; i < 1000; i++)
        weights[i] = i % 7 ? 1.0 / (i + 1) : 0;
    struct alias_table *a = table_of(weights, 1000);
    static const uint64_t corner[] = {0, 1, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            uint64_t s = alias_draw(a, corner[i], corner[j]);
            assert_true(s < 1000 && weights[s] > 0);
        }
    alias_close(a);
}

static void zero_weights_are_never_drawn_from_large_tables(void **state)
{
    (void)state;
    enum { N = 300001 };
    double *weights = malloc(N * sizeof(*weights));
    struct rng r = rng_stream(RNG_SUBSET, 6, 0, 0, 0);
    for (int i = 0; i < N; i++)
        weights[i] = i % 2 ? exp(20 * rng_double(&r)) : 0;
    struct alias_table *a = table_of(weights, N);
    for (uint64_t i = 0; i < N; i++) { /* both sides of every column */
        uint64_t u = (uint64_t)(((unsigned __int128)i << 64) / N) + 1;
        assert_true(weights[alias_draw(a, u, 0)] > 0);
        assert_true(weights[alias_draw(a, u, UINT64_MAX)] > 0);
    }
    alias_close(a);
    free(weights);
}

static void weighted_orders_depend_on_seed_epoch_and_position_only(void **state)
{
    (void)state;
    static const uint64_t frozen[] = {9, 9, 7, 1, 5, 4, 7, 7, 9, 6};
    double weights[10];
    for (int i = 0; i < 10; i++)
        weights[i] = i;
    struct alias_table *a = table_of(weights, 10), *b = table_of(weights, 10);
    struct order o, p, q;
    order_init(&o, 10, 7, 3, true, a);
    order_init(&p, 10, 7, 3, false, b);
    order_init(&q, 10, 7, 4, true, a);
    int differences = 0;
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(order_at(&o, i), frozen[i]);
        assert_int_equal(order_at(&o, i), order_at(&p, i));
        assert_int_equal(order_at(&o, i + 10), order_at(&o, i));
        differences += order_at(&o, i) != order_at(&q, i);
    }
    assert_true(differences > 3);
    alias_close(a);
    alias_close(b);
}

static void expect_refusal(const double *weights, uint64_t n, uint64_t samples, const char *words)
{
    struct fb_error e = {0};
    struct alias_table *a = (void *)1;
    assert_int_equal(alias_open(&a, weights, n, samples, &e), FB_E_USAGE);
    assert_null(a);
    assert_int_equal(e.code, FB_E_USAGE);
    if (!strstr(e.cause, words))
        fail_msg("'%s' does not say '%s'", e.cause, words);
    assert_true(e.remedy[0] != 0);
}

static void bad_weights_are_refused_by_name(void **state)
{
    (void)state;
    const double nan_at_2[] = {1, 2, NAN, -1}, negative[] = {1, -0.5}, infinite[] = {INFINITY, 1}, zeros[] = {0, 0, -0.0}, fine[] = {1, 2};
    expect_refusal(nan_at_2, 4, 4, "weights[2] is nan");
    expect_refusal(negative, 2, 2, "weights[1] is -0.5");
    expect_refusal(infinite, 2, 2, "weights[0] is inf");
    expect_refusal(zeros, 3, 3, "all 3 weights are zero");
    expect_refusal(fine, 2, 3, "2 entries for 3 samples");
    expect_refusal(fine, 0, 0, "0 entries");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_weights),
        cmocka_unit_test(extreme_weights_neither_overflow_nor_vanish),
        cmocka_unit_test(the_corners_of_the_random_pair_are_in_range),
        cmocka_unit_test(zero_weights_are_never_drawn_from_large_tables),
        cmocka_unit_test(weighted_orders_depend_on_seed_epoch_and_position_only),
        cmocka_unit_test(bad_weights_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
