/* Shuffling by windows: a permutation, with an inverse, whose batches stay inside their window's blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "order/order_window.h"

static struct order order_of(uint64_t count, uint64_t block, uint64_t blocks, uint64_t epoch)
{
    struct order o;
    order_init(&o, count, 7, epoch, true, NULL);
    order_use_window(&o, block, blocks);
    return o;
}

static void check_permutation(uint64_t count, uint64_t block, uint64_t blocks)
{
    struct order o = order_of(count, block, blocks, 3);
    uint8_t *seen = calloc(count, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t sample = order_at(&o, i);
        assert_true(sample < count);
        assert_false(seen[sample]);
        seen[sample] = 1;
        assert_int_equal(order_position_of(&o, sample), i);
    }
    free(seen);
}

static void every_sample_comes_once_for_any_size(void **unused)
{
    (void)unused;
    for (uint64_t count = 1; count < 300; count += 7)
        for (uint64_t block = 1; block < 20; block += 3)
            for (uint64_t blocks = 1; blocks < 9; blocks++)
                check_permutation(count, block, blocks);
    check_permutation(100003, 64, 16);
    check_permutation(100000, 1, 1000);
    check_permutation(65536, 64, 16);
}

static void a_window_draws_from_its_own_blocks_only(void **unused)
{
    (void)unused;
    enum { COUNT = 64 * 160, BLOCK = 64, BLOCKS = 16 };
    struct order o = order_of(COUNT, BLOCK, BLOCKS, 0);
    for (uint64_t w = 0; w < COUNT / (BLOCK * BLOCKS); w++) {
        uint8_t seen[COUNT / BLOCK] = {0};
        int blocks = 0;
        for (uint64_t i = 0; i < BLOCK * BLOCKS; i++) {
            uint64_t b = order_at(&o, w * BLOCK * BLOCKS + i) / BLOCK;
            blocks += !seen[b];
            seen[b] = 1;
        }
        assert_int_equal(blocks, BLOCKS);
    }
}

static void epochs_and_windows_have_orders_of_their_own(void **unused)
{
    (void)unused;
    enum { COUNT = 64 * 160, SIZE = 64 * 16 };
    struct order a = order_of(COUNT, 64, 16, 0), b = order_of(COUNT, 64, 16, 1);
    int same_epoch = 0, same_window = 0;
    for (uint64_t i = 0; i < SIZE; i++) {
        same_epoch += order_at(&a, i) == order_at(&b, i);
        same_window += order_at(&a, i) % 64 == order_at(&a, SIZE + i) % 64; /* chance: 1 in 64 */
    }
    assert_true(same_epoch < 10);
    assert_true(same_window < 40);
}

/* Companions: how often two samples of one block are neighbours in the order; complete mixing of a window has 1 in `blocks`. */
static void samples_of_a_block_are_spread_over_the_window(void **unused)
{
    (void)unused;
    enum { COUNT = 64 * 1600, BLOCKS = 16 };
    struct order o = order_of(COUNT, 64, BLOCKS, 0);
    int together = 0;
    for (uint64_t i = 1; i < COUNT; i++)
        together += order_at(&o, i) / 64 == order_at(&o, i - 1) / 64;
    double share = (double)together / COUNT;
    assert_true(share > 0.8 / BLOCKS && share < 1.2 / BLOCKS);
}

/* Frozen: a seed means the same order in every version. */
static void the_order_of_a_seed_never_changes(void **unused)
{
    (void)unused;
    struct order o = order_of(1000, 10, 5, 2);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 1000; i++)
        sum = sum * 31 + order_at(&o, i);
    assert_int_equal(sum, UINT64_C(0xf434f6935bb935a6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_once_for_any_size),        cmocka_unit_test(a_window_draws_from_its_own_blocks_only),
        cmocka_unit_test(epochs_and_windows_have_orders_of_their_own), cmocka_unit_test(samples_of_a_block_are_spread_over_the_window),
        cmocka_unit_test(the_order_of_a_seed_never_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
