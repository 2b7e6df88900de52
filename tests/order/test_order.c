/* The order of an epoch: a permutation, frozen, uniform, with an inverse. FB_TIMING=1 prints what order_at costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "order/alias.h"
#include "order/order.h"

static struct order shuffled(uint64_t n, uint64_t seed, uint64_t epoch)
{
    struct order o;
    order_init(&o, n, seed, epoch, true, NULL);
    return o;
}

static void assert_permutation(const struct order *o, uint8_t *seen)
{
    memset(seen, 0, o->count);
    for (uint64_t i = 0; i < o->count; i++) {
        uint64_t s = order_at(o, i);
        assert_true(s < o->count);
        assert_false(seen[s]++);
        assert_int_equal(order_position_of(o, s), i);
    }
}

static void every_position_is_one_sample_for_all_small_counts(void **state)
{
    (void)state;
    static uint8_t seen[3001];
    for (uint64_t n = 1; n <= 3000; n++) {
        struct order o = shuffled(n, n * 7, n % 5);
        assert_permutation(&o, seen);
    }
}

static void every_position_is_one_sample_for_some_large_counts(void **state)
{
    (void)state;
    static const uint64_t counts[] = {4095, 4096, 4097, 65535, 65536, 65537, 104052, 262143, 262145, 1000003};
    uint8_t *seen = malloc(1000003);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct order o = shuffled(counts[i], 11, i);
        assert_permutation(&o, seen);
    }
    free(seen);
}

static void huge_counts_stay_in_range_and_invert(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 5, 0, 0, 0);
    for (int bits = 20; bits <= 64; bits++)
        for (int k = 0; k < 200; k++) {
            uint64_t n = (UINT64_MAX >> (64 - bits)) - rng_below(&r, UINT64_C(1) << (bits - 2));
            struct order o = shuffled(n, rng_u64(&r), rng_u64(&r));
            uint64_t position = rng_below(&r, n), sample = order_at(&o, position);
            assert_true(sample < n);
            assert_int_equal(order_position_of(&o, sample), position);
        }
}

struct frozen {
    uint64_t count, seed, epoch;
    uint64_t first[6];
};

static void a_seed_means_the_same_order_in_every_version(void **state)
{
    (void)state;
    static const struct frozen table[] = {
        {10u, 0u, 0u, {2u, 1u, 5u, 9u, 0u, 4u}},
        {10u, 0u, 1u, {7u, 1u, 3u, 9u, 6u, 4u}},
        {10u, 1u, 0u, {9u, 0u, 4u, 5u, 2u, 1u}},
        {1000u, 42u, 7u, {220u, 132u, 972u, 852u, 631u, 236u}},
        {1024u, 0u, 0u, {474u, 546u, 401u, 801u, 392u, 12u}},
        {1025u, 0u, 0u, {908u, 142u, 999u, 795u, 79u, 453u}},
        {104052u, 0u, 0u, {8668u, 103134u, 76928u, 92444u, 67020u, 26390u}},
        {1281167u, 0u, 0u, {3659u, 914782u, 767903u, 791607u, 670776u, 335462u}},
        {1281167u, 1234567890123u, 89u, {808111u, 1110276u, 910585u, 599511u, 384041u, 1026760u}},
        {5000000000u, 3u, 2u, {3835679852u, 3624868036u, 941374099u, 3741672490u, 4444957145u, 112545453u}},
        {18446744073709551615u,
         18446744073709551615u,
         18446744073709551615u,
         {9698329342999430075u, 11231064590131513222u, 4768730608924524955u, 14530974946494152021u, 13259801803527267832u,
          764352255450387763u}},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct order o = shuffled(table[i].count, table[i].seed, table[i].epoch);
        for (int k = 0; k < 6; k++)
            assert_int_equal(order_at(&o, (uint64_t)k), table[i].first[k]);
    }
}

static void without_shuffling_the_order_is_the_catalogs(void **state)
{
    (void)state;
    struct order o;
    order_init(&o, 1000, 9, 3, false, NULL);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(order_at(&o, i), i);
        assert_int_equal(order_position_of(&o, i), i);
    }
    assert_int_equal(order_at(&o, 1003), 3);
}

static void positions_beyond_the_end_repeat_the_beginning(void **state)
{
    (void)state;
    struct order o = shuffled(7, 1, 1);
    for (uint64_t i = 0; i < 30; i++)
        assert_int_equal(order_at(&o, i), order_at(&o, i % 7));
}

/* Where a permutation stands among all n! */
static size_t rank_of(const uint64_t *p, size_t n)
{
    size_t rank = 0;
    for (size_t i = 0; i < n; i++) {
        size_t smaller = 0;
        for (size_t j = i + 1; j < n; j++)
            smaller += p[j] < p[i];
        rank = rank * (n - i) + smaller;
    }
    return rank;
}

static double chi_square(const uint32_t *seen, size_t bins, double expected)
{
    double sum = 0;
    for (size_t i = 0; i < bins; i++)
        sum += (seen[i] - expected) * (seen[i] - expected) / expected;
    return sum;
}

/* In standard deviations; deterministic, so a limit of 4 never fails by chance. */
static double deviation(double chi, size_t bins)
{
    return (chi - (double)(bins - 1)) / sqrt(2.0 * (double)(bins - 1));
}

static void all_orders_of_a_few_samples_are_equally_likely(void **state)
{
    (void)state;
    static const struct {
        size_t n, orders;
    } cases[] = {{2, 2}, {3, 6}, {4, 24}, {5, 120}, {6, 720}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        uint32_t seen[720] = {0}, runs = cases[k].n < 4 ? 2000 : 20000;
        for (uint32_t seed = 0; seed < runs; seed++) {
            struct order o = shuffled(cases[k].n, seed, seed % 3);
            uint64_t p[6];
            for (size_t i = 0; i < cases[k].n; i++)
                p[i] = order_at(&o, i);
            seen[rank_of(p, cases[k].n)]++;
        }
        double d = deviation(chi_square(seen, cases[k].orders, (double)runs / (double)cases[k].orders), cases[k].orders);
        if (fabs(d) > 4)
            fail_msg("n = %zu: chi square is %.1f standard deviations off", cases[k].n, d);
    }
}

static void each_sample_is_equally_likely_at_each_position(void **state)
{
    (void)state;
    enum { N = 1031, RUNS = 20000, BINS = 32 };
    static const uint64_t positions[] = {0, 1, 2, 31, 32, 33, 500, N - 2, N - 1};
    for (size_t k = 0; k < sizeof(positions) / sizeof(positions[0]); k++) {
        uint32_t seen[BINS] = {0};
        double expected[BINS] = {0}, chi = 0;
        for (uint64_t s = 0; s < N; s++)
            expected[s * BINS / N] += (double)RUNS / N;
        for (uint64_t seed = 0; seed < RUNS; seed++) {
            struct order o = shuffled(N, seed, 0);
            seen[order_at(&o, positions[k]) * BINS / N]++;
        }
        for (int i = 0; i < BINS; i++)
            chi += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
        if (deviation(chi, BINS) > 4)
            fail_msg("position %llu: %.1f standard deviations off", (unsigned long long)positions[k], deviation(chi, BINS));
    }
}

/* Correlation of (x, y) times sqrt(n) is a standard normal for independent ones. */
struct moments {
    double n, x, y, xx, yy, xy;
};

static void add(struct moments *m, double x, double y)
{
    m->n++;
    m->x += x;
    m->y += y;
    m->xx += x * x;
    m->yy += y * y;
    m->xy += x * y;
}

static double correlation(const struct moments *m)
{
    double cov = m->xy - m->x * m->y / m->n;
    return cov / sqrt((m->xx - m->x * m->x / m->n) * (m->yy - m->y * m->y / m->n)) * sqrt(m->n);
}

static void position_neighbours_epochs_seeds_and_sizes_are_uncorrelated(void **state)
{
    (void)state;
    for (uint64_t n = 50; n < 200000; n = n * 3 + 1)
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct order o = shuffled(n, seed, 0), next_epoch = shuffled(n, seed, 1), next_seed = shuffled(n, seed + 1, 0),
                         next_size = shuffled(n + 1, seed, 0);
            struct moments by_position = {0}, by_neighbour = {0}, by_epoch = {0}, by_seed = {0}, by_size = {0};
            for (uint64_t i = 0; i + 1 < n; i++) {
                double s = (double)order_at(&o, i) / (double)n;
                add(&by_position, (double)i / (double)n, s);
                add(&by_neighbour, s, (double)order_at(&o, i + 1) / (double)n);
                add(&by_epoch, s, (double)order_at(&next_epoch, i) / (double)n);
                add(&by_seed, s, (double)order_at(&next_seed, i) / (double)n);
                add(&by_size, s, (double)order_at(&next_size, i) / (double)n);
            }
            assert_true(fabs(correlation(&by_position)) < 4.5);
            assert_true(fabs(correlation(&by_neighbour)) < 4.5);
            assert_true(fabs(correlation(&by_epoch)) < 4.5);
            assert_true(fabs(correlation(&by_seed)) < 4.5);
            assert_true(fabs(correlation(&by_size)) < 4.5);
        }
}

/* Positions that share a half of the network, or differ in one bit, must not come out in a pattern. */
static void differences_of_positions_at_a_distance_are_spread_evenly(void **state)
{
    (void)state;
    enum { N = 120000, COARSE = 100, FINE = 97 };
    static const uint64_t distances[] = {1, 2, 16, 128, 255, 256, 257, 512, 1024, 65536};
    for (size_t k = 0; k < sizeof(distances) / sizeof(distances[0]); k++) {
        uint32_t coarse[COARSE] = {0}, fine[FINE] = {0};
        uint64_t pairs = N - distances[k];
        struct order o = shuffled(N, 42, k);
        for (uint64_t i = 0; i < pairs; i++) {
            uint64_t delta = (order_at(&o, i + distances[k]) + N - order_at(&o, i)) % N;
            coarse[delta * COARSE / N]++;
            fine[delta % FINE]++;
        }
        assert_true(fabs(deviation(chi_square(coarse, COARSE, (double)pairs / COARSE), COARSE)) < 4.5);
        assert_true(fabs(deviation(chi_square(fine, FINE, (double)pairs / FINE), FINE)) < 4.5);
    }
}

static void a_redraw_is_another_sample_and_always_the_same(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 40; n++)
        for (uint64_t position = 0; position < 2 * n; position++)
            for (uint32_t attempt = 1; attempt < 6; attempt++) {
                struct order o = shuffled(n, 4, 2), again = shuffled(n, 4, 2);
                uint64_t x = order_redraw(&o, position, attempt);
                assert_true(x < n);
                assert_true(n == 1 || x != order_at(&o, position));
                assert_int_equal(x, order_redraw(&again, position, attempt));
            }
}

static void redraws_are_spread_over_all_other_samples(void **state)
{
    (void)state;
    enum { N = 50, RUNS = 49000 };
    uint32_t seen[N] = {0};
    struct order o = shuffled(N, 8, 0);
    uint64_t bad = order_at(&o, 17);
    for (uint32_t attempt = 1; attempt <= RUNS; attempt++)
        seen[order_redraw(&o, 17, attempt)]++;
    assert_int_equal(seen[bad], 0);
    seen[bad] = seen[N - 1];
    assert_true(fabs(deviation(chi_square(seen, N - 1, (double)RUNS / (N - 1)), N - 1)) < 4);
}

static void a_weighted_redraw_follows_the_weights(void **state)
{
    (void)state;
    const double weights[] = {1, 0, 3, 0, 1};
    struct alias_table *a;
    assert_int_equal(alias_open(&a, weights, 5, 5, NULL), 0);
    struct order o;
    order_init(&o, 5, 1, 0, true, a);
    for (uint64_t position = 0; position < 5; position++) {
        uint64_t bad = order_at(&o, position);
        uint32_t seen[5] = {0};
        for (uint32_t attempt = 1; attempt <= 4000; attempt++)
            seen[order_redraw(&o, position, attempt)]++;
        assert_int_equal(seen[bad] + seen[1] + seen[3], 0);
        for (int i = 0; i < 5; i += 2) {
            double expected = 4000 * weights[i] / (5 - weights[bad]);
            assert_true((uint64_t)i == bad || fabs(seen[i] - expected) < 5 * sqrt(expected));
        }
    }
    alias_close(a);
}

static void a_redraw_ends_when_all_weight_is_on_the_bad_sample(void **state)
{
    (void)state;
    const double weights[] = {0, 0, 7, 0};
    struct alias_table *a;
    assert_int_equal(alias_open(&a, weights, 4, 4, NULL), 0);
    struct order o;
    order_init(&o, 4, 1, 0, true, a);
    assert_int_equal(order_at(&o, 0), 2);
    for (uint32_t attempt = 1; attempt < 20; attempt++)
        assert_int_not_equal(order_redraw(&o, 0, attempt), 2);
    alias_close(a);
}

static void print_cost(void)
{
    struct order o = shuffled(1200000, 1, 0);
    uint64_t sum = 0, begin = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t i = 0; i < o.count; i++)
        sum += order_at(&o, i);
    double ns = (double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)o.count;
    printf("order_at: %.1f ns of CPU time for n = 1.2 million (sum %llu)\n", ns, (unsigned long long)sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_is_one_sample_for_all_small_counts),
        cmocka_unit_test(every_position_is_one_sample_for_some_large_counts),
        cmocka_unit_test(huge_counts_stay_in_range_and_invert),
        cmocka_unit_test(a_seed_means_the_same_order_in_every_version),
        cmocka_unit_test(without_shuffling_the_order_is_the_catalogs),
        cmocka_unit_test(positions_beyond_the_end_repeat_the_beginning),
        cmocka_unit_test(all_orders_of_a_few_samples_are_equally_likely),
        cmocka_unit_test(each_sample_is_equally_likely_at_each_position),
        cmocka_unit_test(position_neighbours_epochs_seeds_and_sizes_are_uncorrelated),
        cmocka_unit_test(differences_of_positions_at_a_distance_are_spread_evenly),
        cmocka_unit_test(a_redraw_is_another_sample_and_always_the_same),
        cmocka_unit_test(redraws_are_spread_over_all_other_samples),
        cmocka_unit_test(a_weighted_redraw_follows_the_weights),
        cmocka_unit_test(a_redraw_ends_when_all_weight_is_on_the_bad_sample),
    };
    if (getenv("FB_TIMING"))
        print_cost();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
