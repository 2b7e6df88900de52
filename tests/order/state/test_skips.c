/* Positions left out of an epoch. The oracle is a plain array of flags. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "order/ranks/ranks.h"

enum { MOST = 300 };

static void ranges_are_joined_and_sorted(void **state)
{
    (void)state;
    struct skips s = {0};
    assert_true(skips_add(&s, 10, 20, 0));
    assert_true(skips_add(&s, 30, 40, 0));
    assert_true(skips_add(&s, 5, 7, 0));
    assert_int_equal(s.count, 3);
    assert_true(skips_add(&s, 20, 30, 0)); /* touches both */
    assert_int_equal(s.count, 2);
    assert_true(s.range[0].first == 5 && s.range[0].last == 7 && s.range[1].first == 10 && s.range[1].last == 40);
    assert_true(skips_add(&s, 50, 50, 0)); /* nothing */
    assert_int_equal(s.count, 2);
    assert_true(skips_are_sound(&s, 40));
    assert_false(skips_are_sound(&s, 39));
}

static void a_full_table_forgets_what_is_past_and_refuses_what_is_not(void **state)
{
    (void)state;
    struct skips s = {0}, before;
    for (uint64_t i = 0; i < SKIPS_MOST; i++)
        assert_true(skips_add(&s, 10 * i + 1, 10 * i + 2, 0));
    before = s;
    assert_false(skips_add(&s, 500, 501, 0));
    assert_memory_equal(&s, &before, sizeof(s));
    assert_true(skips_add(&s, 500, 501, 2)); /* 1 .. 2 lies before position 2 */
    assert_int_equal(s.count, SKIPS_MOST);
    assert_int_equal(s.range[0].first, 11);
    assert_int_equal(s.range[SKIPS_MOST - 1].first, 500);
}

static struct skips random_skips(struct rng *r, uint64_t n, bool *is_out)
{
    struct skips s = {0};
    for (uint64_t k = rng_below(r, 12); k > 0; k--) {
        uint64_t first = rng_below(r, n + 1), last = first + rng_below(r, n + 1 - first);
        if (!skips_add(&s, first, last, 0))
            continue;
        for (uint64_t i = first; i < last; i++)
            is_out[i] = true;
    }
    return s;
}

static void index_and_position_agree_with_counting(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 1, 0, 0, 0);
    for (int round = 0; round < 3000; round++) {
        bool is_out[MOST] = {false};
        uint64_t n = 1 + rng_below(&r, MOST - 1), index = 0;
        struct skips s = random_skips(&r, n, is_out);
        assert_true(skips_are_sound(&s, n));
        for (uint64_t p = 0; p < n; p++) {
            assert_int_equal(skips_index(&s, p), index);
            if (is_out[p])
                continue;
            assert_int_equal(skips_position(&s, index), p);
            index++;
        }
        assert_int_equal(index, n - skips_total(&s));
        assert_int_equal(skips_index(&s, n), index);
        for (uint64_t beyond = 0; beyond < 5; beyond++) /* repeats that fill up a last batch */
            assert_int_equal(skips_position(&s, index + beyond), n + beyond);
    }
}

/* Every position that is not left out comes once, in order, in full batches, whatever the world. */
static void batches_cover_exactly_what_is_left(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 2, 0, 0, 0);
    for (int round = 0; round < 3000; round++) {
        bool is_out[MOST] = {false};
        uint64_t n = 1 + rng_below(&r, MOST - 1), start = rng_below(&r, n + 1), expected = start;
        struct skips s = random_skips(&r, n, is_out);
        uint32_t world = 1 + (uint32_t)rng_below(&r, 5);
        struct rank_layout l = {.count = n, .global_batch = world + rng_below(&r, 40), .world = world, .drop_last = rng_below(&r, 2)};
        uint64_t batches = ranks_batches_left(&l, &s, start), left = n - skips_total(&s) - skips_index(&s, start);
        assert_int_equal(batches, l.drop_last ? left / l.global_batch : (left + l.global_batch - 1) / l.global_batch);
        for (uint64_t g = 0; g < batches; g++) {
            uint64_t in_batch = 0;
            struct batch_span span = {0};
            for (l.rank = 0; l.rank < world; l.rank++) {
                span = ranks_batch_left(&l, &s, start, g);
                for (uint64_t i = 0; i < span.count; i++) {
                    uint64_t p = skips_position(&s, span.first + i);
                    while (expected < n && is_out[expected])
                        expected++;
                    assert_int_equal(p, expected);
                    expected += p < n || i + span.repeats >= span.count;
                    in_batch += p < n;
                }
            }
            if (g + 1 < batches)
                assert_int_equal(in_batch, l.global_batch);
            uint64_t next = expected > n ? n : expected;
            while (next < n && is_out[next])
                next++;
            assert_int_equal(span.end, next);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_joined_and_sorted),
        cmocka_unit_test(a_full_table_forgets_what_is_past_and_refuses_what_is_not),
        cmocka_unit_test(index_and_position_agree_with_counting),
        cmocka_unit_test(batches_cover_exactly_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
