#include "order/pick.h"

#include <stdbool.h>
#include <string.h>

#include "base/checksum.h"
#include "base/rng.h"

uint64_t pick_hash(enum pick_purpose purpose, uint64_t seed, const char *name)
{
    return rng_mix(rng_mix(rng_mix(seed, RNG_SUBSET), purpose), checksum_of(name, strlen(name)));
}

static bool is_before(struct pick a, struct pick b)
{
    return a.hash < b.hash || (a.hash == b.hash && a.index < b.index);
}

static void swap(struct pick *a, struct pick *b)
{
    struct pick t = *a;
    *a = *b;
    *b = t;
}

/* The middle one of three: its place does not matter, hashes have no order that could be hostile. */
static struct pick pivot_of(const struct pick *p, uint64_t count)
{
    struct pick a = p[0], b = p[count / 2], c = p[count - 1];
    if (is_before(b, a))
        swap(&a, &b);
    if (is_before(c, b))
        b = is_before(c, a) ? a : c;
    return b;
}

/* Quickselect with Hoare's partition: the part that holds the boundary is cut again. No two picks are equal, so it always shrinks. */
void pick_smallest(struct pick *p, uint64_t count, uint64_t wanted)
{
    while (wanted > 0 && wanted < count) {
        struct pick pivot = pivot_of(p, count);
        uint64_t i = 0, j = count - 1;
        for (;; i++, j--) {
            while (is_before(p[i], pivot))
                i++;
            while (is_before(pivot, p[j]))
                j--;
            if (i >= j)
                break;
            swap(&p[i], &p[j]);
        }
        /* p[0..i) <= pivot <= p[i..count) */
        if (wanted < i) {
            count = i;
        } else {
            p += i;
            count -= i;
            wanted -= i;
            if (i == 0) { /* the pivot was the smallest: it is in place */
                p++;
                count--;
                wanted--;
            }
        }
    }
}
