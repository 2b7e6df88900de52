#include "order/subset/hash_choice.h"

#include <stdbool.h>
#include <string.h>

#include "base/checksum.h"
#include "base/rng.h"

uint64_t hash_choice_of(enum choice_purpose purpose, uint64_t seed, const char *name)
{
    return rng_mix(rng_mix(rng_mix(seed, RNG_SUBSET), purpose), checksum_of(name, strlen(name)));
}

static bool is_before(struct hash_choice a, struct hash_choice b)
{
    return a.hash < b.hash || (a.hash == b.hash && a.index < b.index);
}

static void swap(struct hash_choice *a, struct hash_choice *b)
{
    struct hash_choice t = *a;
    *a = *b;
    *b = t;
}

/* The middle one of three: its place does not matter, hashes have no order that could be hostile. */
static struct hash_choice pivot_of(const struct hash_choice *p, uint64_t count)
{
    struct hash_choice a = p[0], b = p[count / 2], c = p[count - 1];
    if (is_before(b, a))
        swap(&a, &b);
    if (is_before(c, b))
        b = is_before(c, a) ? a : c;
    return b;
}

/* Quickselect with Hoare's partition: the part that holds the boundary is cut again. No two picks are equal, so it always shrinks. */
void hash_choice_smallest(struct hash_choice *p, uint64_t count, uint64_t wanted)
{
    while (wanted > 0 && wanted < count) {
        struct hash_choice pivot = pivot_of(p, count);
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
