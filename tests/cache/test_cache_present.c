/* The table of what is believed to be on disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "cache/cache_present.h"

enum { COUNT = 1000, ROUNDS = 2000 };

static void a_billion_units_take_125_megabytes_of_the_budget(void **state)
{
    (void)state;
    struct budget b = {.limit = 125000000};
    struct present p = {0};
    assert_int_equal(present_bytes(1000000000), 125000000);
    assert_true(present_open(&p, &b, 1000000000));
    assert_int_equal(b.used, 125000000);
    present_put(&p, 999999999);
    assert_true(present_has(&p, 999999999));
    assert_false(present_has(&p, 999999998));
    present_close(&p, &b);
    assert_int_equal(b.used, 0);
    assert_false(present_open(&p, &b, 1000000065)); /* a word more than there is room for */
    assert_int_equal(b.used, 0);
}

static void what_is_put_is_there_until_it_is_dropped(void **state)
{
    (void)state;
    struct budget b = {.limit = 1 << 20};
    struct present p = {0};
    for (uint64_t count = 1; count <= 129; count += 64) {
        assert_true(present_open(&p, &b, count));
        for (uint64_t i = 0; i < count; i++) {
            assert_false(present_has(&p, i));
            present_put(&p, i);
            assert_true(present_has(&p, i));
        }
        for (uint64_t i = 0; i < count; i += 2)
            present_drop(&p, i);
        for (uint64_t i = 0; i < count; i++)
            assert_int_equal(present_has(&p, i), i % 2);
        present_close(&p, &b);
    }
}

static void units_without_a_number_and_tables_that_are_not_there_have_nothing(void **state)
{
    (void)state;
    struct budget b = {.limit = 1 << 20};
    struct present p = {0};
    present_put(&p, 3);
    present_drop(&p, 3);
    assert_false(present_has(&p, 3));
    assert_false(present_open(&p, &b, 0));
    assert_true(present_open(&p, &b, COUNT));
    present_put(&p, COUNT);
    present_put(&p, UINT64_MAX);
    present_drop(&p, UINT64_MAX);
    assert_false(present_has(&p, COUNT));
    assert_false(present_has(&p, UINT64_MAX));
    present_close(&p, &b);
}

static struct present shared;

/* Every fourth bit of all words belongs to one thread, which leaves it set. */
static void *flicker(void *arg)
{
    uint64_t own = (uint64_t)(uintptr_t)arg;
    for (int r = 0; r < ROUNDS; r++)
        for (uint64_t i = own; i < COUNT; i += 4) {
            present_put(&shared, i);
            if (r + 1 < ROUNDS)
                present_drop(&shared, i);
        }
    return NULL;
}

static void neighbours_in_a_word_do_not_lose_each_others_bits(void **state)
{
    (void)state;
    struct budget b = {.limit = 1 << 20};
    pthread_t thread[4];
    assert_true(present_open(&shared, &b, COUNT));
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, flicker, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_true(present_has(&shared, i));
    present_close(&shared, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_billion_units_take_125_megabytes_of_the_budget),
        cmocka_unit_test(what_is_put_is_there_until_it_is_dropped),
        cmocka_unit_test(units_without_a_number_and_tables_that_are_not_there_have_nothing),
        cmocka_unit_test(neighbours_in_a_word_do_not_lose_each_others_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
