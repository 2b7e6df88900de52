/* One memory number, counted by kind, under threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/rng.h"

/* Sanitizers end the program at an impossible allocation unless told that it may fail. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void all_is_taken_or_nothing(void **state)
{
    (void)state;
    struct budget b = {.limit = 1000};
    assert_true(budget_take(&b, MEMORY_SLOTS, 600));
    assert_false(budget_take(&b, MEMORY_READS, 401));
    assert_int_equal(b.used, 600);
    assert_int_equal(b.used_by[MEMORY_READS], 0);
    assert_true(budget_take(&b, MEMORY_READS, 400));
    assert_false(budget_take(&b, MEMORY_READS, 1));
    assert_true(budget_take(&b, MEMORY_READS, 0));
    budget_give(&b, MEMORY_SLOTS, 600);
    budget_give(&b, MEMORY_READS, 400);
    assert_int_equal(b.used, 0);
    assert_int_equal(b.peak, 1000);
    assert_int_equal(b.peak_by[MEMORY_SLOTS], 600);
    assert_int_equal(b.peak_by[MEMORY_READS], 400);
}

static void absurd_sizes_do_not_wrap_around(void **state)
{
    (void)state;
    struct budget b = {.limit = 1000};
    assert_true(budget_take(&b, MEMORY_CACHE, 10));
    assert_false(budget_take(&b, MEMORY_CACHE, UINT64_MAX));
    assert_false(budget_take(&b, MEMORY_CACHE, UINT64_MAX - 5));
    assert_int_equal(b.used, 10);
}

static void a_lowered_limit_refuses_until_enough_is_given_back(void **state)
{
    (void)state;
    struct budget b = {.limit = 1000};
    assert_true(budget_take(&b, MEMORY_SLOTS, 900));
    b.limit = 500;
    assert_false(budget_take(&b, MEMORY_SLOTS, 1));
    budget_give(&b, MEMORY_SLOTS, 450);
    assert_true(budget_take(&b, MEMORY_SLOTS, 50));
    assert_false(budget_take(&b, MEMORY_SLOTS, 1));
}

static void every_kind_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < MEMORY_KINDS; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(budget_kind_name((enum memory_kind)i), budget_kind_name((enum memory_kind)k));
}

enum { THREADS = 4, TURNS = 30000 };

struct worker {
    struct budget *budget;
    int number;
    _Atomic uint64_t *real; /* what is truly held, counted apart */
    _Atomic int *overruns;
};

static void *take_and_give(void *arg)
{
    struct worker *w = arg;
    struct rng r = rng_stream(RNG_SUBSET, (uint64_t)w->number, 0, 0, 0);
    for (int i = 0; i < TURNS; i++) {
        uint64_t bytes = 1 + rng_below(&r, 400);
        enum memory_kind kind = (enum memory_kind)rng_below(&r, MEMORY_KINDS);
        uint32_t seen = budget_seen(w->budget);
        if (!budget_take(w->budget, kind, bytes)) {
            budget_wait(w->budget, seen, 1000000000);
            continue;
        }
        if (atomic_fetch_add(w->real, bytes) + bytes > 1000)
            atomic_fetch_add(w->overruns, 1);
        atomic_fetch_sub(w->real, bytes);
        budget_give(w->budget, kind, bytes);
    }
    return NULL;
}

static void threads_never_hold_more_than_the_limit_and_give_all_back(void **state)
{
    (void)state;
    struct budget b = {.limit = 1000};
    _Atomic uint64_t real = 0;
    _Atomic int overruns = 0;
    pthread_t t[THREADS];
    struct worker w[THREADS];
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){&b, i, &real, &overruns};
        assert_int_equal(pthread_create(&t[i], NULL, take_and_give, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(overruns, 0);
    assert_int_equal(b.used, 0);
    assert_int_equal(b.waiters, 0);
    assert_true(b.peak <= 1000);
    for (int i = 0; i < MEMORY_KINDS; i++)
        assert_int_equal(b.used_by[i], 0);
}

/* Hand over hand: one waits for what the other gives, many times; a lost wake-up would cost the timeout. */
static void *give_when_full(void *arg)
{
    struct budget *b = arg;
    for (int i = 0; i < 2000; i++) {
        while (atomic_load(&b->used) == 0)
            budget_wait(b, budget_seen(b), 20000);
        budget_give(b, MEMORY_SLOTS, 100);
    }
    return NULL;
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    struct budget b = {.limit = 100};
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, give_when_full, &b), 0);
    uint64_t begin = clock_now_ns();
    for (int i = 0; i < 2000; i++)
        for (;;) {
            uint32_t seen = budget_seen(&b);
            if (budget_take(&b, MEMORY_SLOTS, 100))
                break;
            budget_wait(&b, seen, UINT64_C(3600) * 1000000000);
        }
    pthread_join(t, NULL);
    assert_true(clock_now_ns() - begin < UINT64_C(600) * 1000000000);
}

static void a_wait_ends_when_its_time_is_over_or_something_was_given_before(void **state)
{
    (void)state;
    struct budget b = {.limit = 100};
    uint64_t begin = clock_now_ns();
    budget_wait(&b, budget_seen(&b), 20000000);
    assert_true(clock_now_ns() - begin >= 20000000);
    uint32_t seen = budget_seen(&b);
    assert_true(budget_take(&b, MEMORY_SLOTS, 1));
    budget_give(&b, MEMORY_SLOTS, 1);
    budget_wait(&b, seen, UINT64_C(3600) * 1000000000); /* returns at once, or the test hangs */
    assert_int_equal(b.waiters, 0);
}

static void scratch_grows_is_aligned_and_is_counted(void **state)
{
    (void)state;
    struct budget b = {.limit = 1 << 20};
    struct scratch s = {.budget = &b};
    unsigned char *p = scratch_need(&s, 100, NULL);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_in_range(b.used_by[MEMORY_SCRATCH], 100, 8192);
    assert_ptr_equal(scratch_need(&s, 50, NULL), p);
    p = scratch_need(&s, 500000, NULL);
    assert_non_null(p);
    memset(p, 1, 500000);
    assert_in_range(b.used_by[MEMORY_SCRATCH], 500000, 510000);
    assert_in_range(b.peak, 500000, 510000); /* the old one is given back first */
    scratch_free(&s);
    assert_int_equal(b.used, 0);
    scratch_free(&s);
}

static void scratch_over_the_budget_is_refused_with_both_sizes(void **state)
{
    (void)state;
    struct budget b = {.limit = 1 << 20};
    struct scratch s = {.budget = &b};
    struct fb_error e = {0};
    assert_non_null(scratch_need(&s, 1000, &e));
    assert_null(scratch_need(&s, 3 << 20, &e));
    assert_int_equal(e.code, FB_E_BUDGET);
    assert_non_null(strstr(e.cause, "3.0 MiB"));
    assert_non_null(strstr(e.cause, "1.0 MiB"));
    assert_non_null(strstr(e.remedy, "memory="));
    assert_int_equal(b.used, 0);
    assert_non_null(scratch_need(&s, 1000, &e)); /* and works again afterwards */
    scratch_free(&s);
    assert_int_equal(b.used, 0);
}

static void scratch_of_impossible_sizes_fails_cleanly(void **state)
{
    (void)state;
    struct scratch s = {0};
    struct fb_error e = {0};
    assert_null(scratch_need(&s, SIZE_MAX, &e));
    assert_int_equal(e.code, FB_E_NOMEM);
    error_clear(&e);
    assert_null(scratch_need(&s, SIZE_MAX / 2 - 8192, &e));
    assert_int_equal(e.code, FB_E_NOMEM);
    assert_non_null(scratch_need(&s, 0, &e));
    scratch_free(&s);
}

static void mapped_memory_is_zero_and_page_aligned(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20 };
    unsigned char *p = memory_map(BYTES);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 4096, 0);
    for (size_t i = 0; i < BYTES; i += 1000)
        assert_int_equal(p[i], 0);
    p[BYTES - 1] = 1;
    memory_unmap(p, BYTES);
    memory_unmap(NULL, 5);
    assert_null(memory_map(SIZE_MAX / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_taken_or_nothing),
        cmocka_unit_test(absurd_sizes_do_not_wrap_around),
        cmocka_unit_test(a_lowered_limit_refuses_until_enough_is_given_back),
        cmocka_unit_test(every_kind_has_a_name_of_its_own),
        cmocka_unit_test(threads_never_hold_more_than_the_limit_and_give_all_back),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(a_wait_ends_when_its_time_is_over_or_something_was_given_before),
        cmocka_unit_test(scratch_grows_is_aligned_and_is_counted),
        cmocka_unit_test(scratch_over_the_budget_is_refused_with_both_sizes),
        cmocka_unit_test(scratch_of_impossible_sizes_fails_cleanly),
        cmocka_unit_test(mapped_memory_is_zero_and_page_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
