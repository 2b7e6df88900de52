/* Who takes which positions: properties over many (n, batch, world, start). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "order/ranks/ranks.h"

enum { MAX_COUNT = 400 };

struct layout_case {
    uint64_t count, batch, start;
    uint32_t world;
    bool drop_last;
};

static struct layout_case random_case(struct rng *r)
{
    struct layout_case c = {.count = 1 + rng_below(r, MAX_COUNT), .world = 1 + (uint32_t)rng_below(r, 9), .drop_last = rng_below(r, 2)};
    c.batch = c.world + rng_below(r, 60);
    c.start = rng_below(r, 3) ? 0 : rng_below(r, c.count + 1);
    return c;
}

static struct rank_layout layout_of(const struct layout_case *c, uint32_t rank)
{
    return (struct rank_layout){.count = c->count, .global_batch = c->batch, .rank = rank, .world = c->world, .drop_last = c->drop_last};
}

/* The positions of global batch g, in order, as all ranks together take them; repeats left out. Returns how many; checks the parts. */
static uint64_t collect(const struct layout_case *c, uint64_t g, uint64_t *out, uint64_t *end)
{
    uint64_t n = 0, least = UINT64_MAX, most = 0, repeats = 0;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        struct rank_layout l = layout_of(c, rank);
        struct batch_span s = ranks_batch(&l, c->start, g);
        least = s.count < least ? s.count : least;
        most = s.count > most ? s.count : most;
        assert_true(s.count <= ranks_largest(&l));
        assert_true(s.repeats <= s.count);
        for (uint64_t i = 0; i < s.count; i++) {
            bool is_repeat = i >= s.count - s.repeats;
            assert_int_equal(is_repeat, s.first + i >= c->count);
            if (!is_repeat)
                out[n++] = s.first + i;
        }
        repeats += s.repeats;
        assert_true(rank == 0 || *end == s.end);
        *end = s.end;
    }
    assert_true(most - least <= 1);
    assert_true(least >= 1);
    assert_true(repeats == 0 || n + repeats == c->world);
    return n;
}

static void every_position_comes_once_on_one_rank(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 1, 0, 0, 0);
    for (int k = 0; k < 20000; k++) {
        struct layout_case c = random_case(&r);
        struct rank_layout l = layout_of(&c, 0);
        uint64_t batches = ranks_batch_count(&l, c.start), next = c.start, positions[MAX_COUNT], end = c.start;
        for (uint64_t g = 0; g < batches; g++) {
            uint64_t n = collect(&c, g, positions, &end);
            for (uint64_t i = 0; i < n; i++)
                assert_int_equal(positions[i], next++);
            assert_int_equal(end, next);
        }
        uint64_t left_out = c.count - next;
        assert_true(c.drop_last ? left_out < c.batch : left_out == 0);
    }
}

static void global_batches_do_not_depend_on_the_world(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 2, 0, 0, 0);
    for (int k = 0; k < 5000; k++) {
        struct layout_case c = random_case(&r), alone = c;
        alone.world = 1;
        struct rank_layout l = layout_of(&c, c.world - 1), l1 = layout_of(&alone, 0);
        uint64_t batches = ranks_batch_count(&l, c.start), a[MAX_COUNT], b[MAX_COUNT], end_a, end_b;
        assert_int_equal(batches, ranks_batch_count(&l1, c.start));
        for (uint64_t g = 0; g < batches; g++) {
            uint64_t n = collect(&c, g, a, &end_a);
            assert_int_equal(n, collect(&alone, g, b, &end_b));
            assert_memory_equal(a, b, n * sizeof(*a));
            assert_int_equal(end_a, end_b);
        }
    }
}

static void resuming_gives_the_rest_of_the_uninterrupted_epoch(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 3, 0, 0, 0);
    for (int k = 0; k < 5000; k++) {
        struct layout_case c = random_case(&r);
        c.start = 0;
        struct rank_layout l = layout_of(&c, (uint32_t)rng_below(&r, c.world));
        uint64_t batches = ranks_batch_count(&l, 0), stop = rng_below(&r, batches + 1);
        uint64_t resume = stop == 0 ? 0 : ranks_batch(&l, 0, stop - 1).end;
        assert_int_equal(ranks_batch_count(&l, resume), batches - stop);
        for (uint64_t g = stop; g < batches; g++) {
            struct batch_span whole = ranks_batch(&l, 0, g), rest = ranks_batch(&l, resume, g - stop);
            assert_memory_equal(&whole, &rest, sizeof(whole));
        }
    }
}

static void resuming_with_another_world_and_batch_misses_nothing(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 4, 0, 0, 0);
    for (int k = 0; k < 5000; k++) {
        uint64_t count = 1 + rng_below(&r, MAX_COUNT), position = 0, positions[MAX_COUNT], end;
        while (position < count) {
            struct layout_case c = {.count = count, .start = position, .world = 1 + (uint32_t)rng_below(&r, 9)};
            c.batch = c.world + rng_below(&r, 40);
            struct rank_layout l = layout_of(&c, 0);
            uint64_t go_on = 1 + rng_below(&r, ranks_batch_count(&l, position));
            for (uint64_t g = 0; g < go_on; g++) {
                uint64_t n = collect(&c, g, positions, &end);
                for (uint64_t i = 0; i < n; i++)
                    assert_int_equal(positions[i], position++);
                assert_int_equal(end, position);
            }
        }
        assert_int_equal(position, count);
    }
}

static void a_last_batch_smaller_than_the_world_is_filled_up_by_flagged_repeats(void **state)
{
    (void)state;
    uint64_t repeats = 0;
    for (uint32_t rank = 0; rank < 8; rank++) {
        struct rank_layout l = {.count = 35, .global_batch = 16, .rank = rank, .world = 8};
        assert_int_equal(ranks_batch_count(&l, 0), 3);
        struct batch_span s = ranks_batch(&l, 0, 2);
        assert_int_equal(s.count, 1);
        assert_int_equal(s.first, 32 + rank);
        assert_int_equal(s.repeats, rank >= 3);
        assert_int_equal(s.end, 35);
        repeats += s.repeats;
        l.drop_last = true;
        assert_int_equal(ranks_batch_count(&l, 0), 2);
    }
    assert_int_equal(repeats, 5);
}

static void the_largest_part_is_reached(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 5, 0, 0, 0);
    for (int k = 0; k < 2000; k++) {
        struct layout_case c = random_case(&r);
        c.drop_last = false;
        uint64_t most = 0;
        for (uint32_t rank = 0; rank < c.world; rank++) {
            struct rank_layout l = layout_of(&c, rank);
            uint64_t n = ranks_batch(&l, 0, 0).count;
            most = n > most ? n : most;
        }
        struct rank_layout l = layout_of(&c, 0);
        assert_int_equal(most, ranks_largest(&l));
    }
}

static void nothing_is_left_at_or_after_the_end(void **state)
{
    (void)state;
    struct rank_layout l = {.count = 10, .global_batch = 4, .rank = 0, .world = 2};
    assert_int_equal(ranks_batch_count(&l, 10), 0);
    assert_int_equal(ranks_batch_count(&l, 11), 0);
    l.count = 0;
    assert_int_equal(ranks_batch_count(&l, 0), 0);
    assert_int_equal(ranks_largest(&l), 0);
}

static void the_largest_numbers_do_not_overflow(void **state)
{
    (void)state;
    struct rank_layout l = {.count = UINT64_MAX, .global_batch = UINT64_MAX - 1, .rank = UINT32_MAX - 1, .world = UINT32_MAX};
    assert_int_equal(ranks_check(&l, NULL), 0);
    assert_int_equal(ranks_batch_count(&l, 0), 2);
    struct batch_span s = ranks_batch(&l, 0, 0);
    assert_int_equal(s.first + s.count, UINT64_MAX - 1);
    assert_int_equal(s.repeats, 0);
    s = ranks_batch(&l, UINT64_MAX - 5, 0);
    assert_int_equal(s.end, UINT64_MAX);
}

static void impossible_layouts_are_refused_in_words(void **state)
{
    (void)state;
    static const struct {
        struct rank_layout l;
        const char *words;
    } cases[] = {
        {{.count = 9, .global_batch = 3, .rank = 0, .world = 4}, "global batch of 3 samples cannot be shared by 4 ranks"},
        {{.count = 9, .global_batch = 0, .rank = 0, .world = 4}, "batch of 0"},
        {{.count = 9, .global_batch = 8, .rank = 4, .world = 4}, "rank 4 of 4"},
        {{.count = 9, .global_batch = 8, .rank = 0, .world = 0}, "rank 0 of 0"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fb_error e = {0};
        assert_int_equal(ranks_check(&cases[i].l, &e), FB_E_USAGE);
        assert_non_null(strstr(e.cause, cases[i].words));
        assert_true(e.remedy[0] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_comes_once_on_one_rank),
        cmocka_unit_test(global_batches_do_not_depend_on_the_world),
        cmocka_unit_test(resuming_gives_the_rest_of_the_uninterrupted_epoch),
        cmocka_unit_test(resuming_with_another_world_and_batch_misses_nothing),
        cmocka_unit_test(a_last_batch_smaller_than_the_world_is_filled_up_by_flagged_repeats),
        cmocka_unit_test(the_largest_part_is_reached),
        cmocka_unit_test(nothing_is_left_at_or_after_the_end),
        cmocka_unit_test(the_largest_numbers_do_not_overflow),
        cmocka_unit_test(impossible_layouts_are_refused_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
