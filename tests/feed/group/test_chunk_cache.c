/* The cache of decompressed chunks: what it keeps, for whom it waits, and that the budget comes out even. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "feed/chunk_cache.h"

enum { CHUNK = 4096, ENTRY = CHUNK + 128 };

static struct budget budget;
static struct chunk_cache cache;

static int open_cache(uint64_t limit, uint64_t memory)
{
    struct fb_error e;
    error_clear(&e);
    memset(&budget, 0, sizeof(budget));
    atomic_store(&budget.limit, memory);
    return chunk_cache_open(&cache, &budget, limit, CHUNK, &e);
}

static void close_cache(void)
{
    chunk_cache_close(&cache);
    assert_int_equal(atomic_load(&budget.used), 0);
}

/* Puts a chunk in, filled with its key. False: it was there already. */
static bool put(uint64_t key)
{
    bool is_mine;
    struct chunk_entry *x = chunk_cache_get(&cache, key, CHUNK, &is_mine);
    assert_non_null(x);
    if (is_mine) {
        memset(x->data, (int)key, CHUNK);
        chunk_cache_filled(&cache, x, true);
    }
    assert_int_equal(x->data[CHUNK - 1], key & 255);
    chunk_cache_unpin(&cache, x);
    return is_mine;
}

static void a_chunk_is_decompressed_once(void **state)
{
    (void)state;
    assert_int_equal(open_cache(10 * ENTRY, 1 << 20), 0);
    assert_true(put(1));
    assert_false(put(1));
    assert_true(chunk_cache_has(&cache, 1));
    assert_false(chunk_cache_has(&cache, 2));
    assert_int_equal(cache.misses, 1);
    assert_int_equal(cache.hits, 1);
    close_cache();
}

static void the_one_not_used_for_longest_goes_first(void **state)
{
    (void)state;
    assert_int_equal(open_cache(3 * ENTRY, 1 << 20), 0);
    put(1);
    put(2);
    put(3);
    put(1);
    put(4);
    assert_true(chunk_cache_has(&cache, 1));
    assert_false(chunk_cache_has(&cache, 2));
    assert_true(chunk_cache_has(&cache, 3));
    close_cache();
}

static void pinned_chunks_stay_and_leave_no_room(void **state)
{
    (void)state;
    bool is_mine;
    assert_int_equal(open_cache(ENTRY + 64, 1 << 20), 0);
    struct chunk_entry *x = chunk_cache_get(&cache, 1, CHUNK, &is_mine);
    chunk_cache_filled(&cache, x, true);
    assert_null(chunk_cache_get(&cache, 2, CHUNK, &is_mine));
    assert_false(is_mine);
    assert_null(chunk_cache_get(&cache, 3, 10 * CHUNK, &is_mine));
    chunk_cache_unpin(&cache, x);
    assert_true(put(2));
    assert_false(chunk_cache_has(&cache, 1));
    close_cache();
}

static void nothing_is_kept_beyond_the_budget(void **state)
{
    (void)state;
    assert_int_equal(open_cache(100 * ENTRY, 2 * ENTRY + 128), 0);
    for (uint64_t key = 0; key < 20; key++)
        put(key);
    assert_true(atomic_load(&budget.peak) <= 2 * ENTRY + 128);
    assert_true(chunk_cache_has(&cache, 19));
    assert_false(chunk_cache_has(&cache, 5));
    close_cache();
}

static void a_cache_without_room_refuses(void **state)
{
    (void)state;
    bool is_mine;
    assert_int_equal(open_cache(0, 1 << 20), 0);
    assert_null(chunk_cache_get(&cache, 1, CHUNK, &is_mine));
    close_cache();
}

static void a_bad_chunk_is_forgotten_by_all(void **state)
{
    (void)state;
    bool is_mine;
    assert_int_equal(open_cache(10 * ENTRY, 1 << 20), 0);
    struct chunk_entry *x = chunk_cache_get(&cache, 7, CHUNK, &is_mine);
    assert_true(is_mine);
    chunk_cache_filled(&cache, x, false);
    assert_false(chunk_cache_has(&cache, 7));
    struct chunk_entry *again = chunk_cache_get(&cache, 7, CHUNK, &is_mine);
    assert_true(is_mine && again != x);
    chunk_cache_filled(&cache, again, false);
    chunk_cache_unpin(&cache, x);
    chunk_cache_unpin(&cache, again);
    assert_int_equal(cache.bytes, 0);
    close_cache();
}

static void a_trimmed_cache_holds_what_is_pinned_only(void **state)
{
    (void)state;
    bool is_mine;
    assert_int_equal(open_cache(10 * ENTRY, 1 << 20), 0);
    put(1);
    put(2);
    struct chunk_entry *x = chunk_cache_get(&cache, 1, CHUNK, &is_mine);
    for (uint64_t key = 3; key < 7; key++)
        put(key);
    chunk_cache_trim(&cache, true);
    assert_true(chunk_cache_has(&cache, 5) && chunk_cache_has(&cache, 6));
    assert_false(chunk_cache_has(&cache, 2));
    chunk_cache_trim(&cache, false);
    assert_true(chunk_cache_has(&cache, 1));
    assert_false(chunk_cache_has(&cache, 6));
    chunk_cache_unpin(&cache, x);
    close_cache();
}

/* ---- many threads ---- */

enum { THREADS = 4, KEYS = 40, ROUNDS = 4000 };
static _Atomic int being_filled[KEYS];
static _Atomic int failures;

static void *storm(void *arg)
{
    struct rng rng = rng_stream(RNG_TRANSFORM, (uint64_t)(uintptr_t)arg, 0, 0, 0);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t key = rng_below(&rng, KEYS);
        bool is_mine, is_bad = rng_below(&rng, 10) == 0;
        struct chunk_entry *x = chunk_cache_get(&cache, key, CHUNK, &is_mine);
        if (!x)
            continue;
        if (is_mine) {
            failures += atomic_fetch_add(&being_filled[key], 1) != 0; /* two at once */
            memset(x->data, (int)key, CHUNK);
            atomic_fetch_sub(&being_filled[key], 1);
            chunk_cache_filled(&cache, x, !is_bad);
        }
        failures += x->data[0] != key || x->data[CHUNK - 1] != key;
        chunk_cache_unpin(&cache, x);
        if (rng_below(&rng, 200) == 0)
            chunk_cache_trim(&cache, i % 2);
    }
    return NULL;
}

static void threads_never_fill_one_chunk_twice_at_once(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    assert_int_equal(open_cache(12 * ENTRY, 1 << 20), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, storm, (void *)(uintptr_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(failures, 0);
    assert_true(cache.bytes <= 12 * ENTRY);
    close_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_is_decompressed_once),
        cmocka_unit_test(the_one_not_used_for_longest_goes_first),
        cmocka_unit_test(pinned_chunks_stay_and_leave_no_room),
        cmocka_unit_test(nothing_is_kept_beyond_the_budget),
        cmocka_unit_test(a_cache_without_room_refuses),
        cmocka_unit_test(a_bad_chunk_is_forgotten_by_all),
        cmocka_unit_test(a_trimmed_cache_holds_what_is_pinned_only),
        cmocka_unit_test(threads_never_fill_one_chunk_twice_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
