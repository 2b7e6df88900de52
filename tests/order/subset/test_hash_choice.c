/* Choosing by hash, and how far a mistyped name is from a real one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "order/subset/hash_choice.h"

static void choices_are_frozen(void **state)
{
    (void)state;
    assert_int_equal(hash_choice_of(CHOICE_CLASS, 42, "n01440764"), UINT64_C(0xf878e12196ee11f9));
    assert_int_equal(hash_choice_of(CHOICE_PER_CLASS, 42, "n01440764/a.jpg"), UINT64_C(0xcd0981e3b7c3616c));
    assert_int_equal(hash_choice_of(CHOICE_FRACTION, 0, "a.jpg"), UINT64_C(0x7b5a0b2a662aa2d8));
    assert_int_equal(hash_choice_of(CHOICE_SPLIT, 0, "a.jpg"), UINT64_C(0x90835f55f40e21e));
}

static int compare_picks(const void *a, const void *b)
{
    const struct hash_choice *p = a, *q = b;
    return p->hash != q->hash ? (p->hash > q->hash) - (p->hash < q->hash) : (p->index > q->index) - (p->index < q->index);
}

static void picking_equals_sorting(void **state)
{
    (void)state;
    uint64_t x = 1;
    for (int k = 0; k < 4000; k++) {
        struct hash_choice p[70], sorted[70];
        uint64_t n = 1 + (uint64_t)k % 70, kinds = 1 + (uint64_t)k % 9;
        for (uint64_t i = 0; i < n; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            p[i] = (struct hash_choice){k % 3 == 0 ? i : k % 3 == 1 ? (x >> 40) % kinds : x, i}; /* sorted, many ties, random */
        }
        memcpy(sorted, p, sizeof(p));
        qsort(sorted, n, sizeof(*p), compare_picks);
        uint64_t wanted = (x >> 33) % (n + 2);
        hash_choice_smallest(p, n, wanted);
        wanted = wanted < n ? wanted : n;
        qsort(p, wanted, sizeof(*p), compare_picks);
        assert_memory_equal(p, sorted, wanted * sizeof(*p));
        qsort(p, n, sizeof(*p), compare_picks);
        assert_memory_equal(p, sorted, n * sizeof(*p));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_frozen),
        cmocka_unit_test(picking_equals_sorting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
