/* Choosing by hash: each thing gets a number from (seed, purpose, name), and the smallest ones are taken. So a choice depends on names
 * alone: what is added later can push a few out at the edge, but never reshuffles. */
#ifndef FB_ORDER_SUBSET_HASH_CHOICE_H
#define FB_ORDER_SUBSET_HASH_CHOICE_H

#include <stdint.h>

/* What is chosen; keeps choices made with the same seed independent of each other. Frozen. */
enum choice_purpose { CHOICE_CLASS = 1, CHOICE_PER_CLASS = 2, CHOICE_FRACTION = 3, CHOICE_SPLIT = 4 };

struct hash_choice {
    uint64_t hash;
    uint64_t index; /* breaks ties */
};

uint64_t hash_choice_of(enum choice_purpose purpose, uint64_t seed, const char *name);
/* Moves the `wanted` smallest to the front, in no order. O(count). */
void hash_choice_smallest(struct hash_choice *p, uint64_t count, uint64_t wanted);

#endif
