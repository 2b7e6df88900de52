/* Choosing by hash: each thing gets a number from (seed, purpose, name), and the smallest ones are taken. So a choice depends on names
 * alone: what is added later can push a few out at the edge, but never reshuffles. */
#ifndef FB_ORDER_PICK_H
#define FB_ORDER_PICK_H

#include <stdint.h>

/* What is chosen; keeps choices made with the same seed independent of each other. Frozen. */
enum pick_purpose { PICK_CLASS = 1, PICK_PER_CLASS = 2, PICK_FRACTION = 3, PICK_SPLIT = 4 };

struct pick {
    uint64_t hash;
    uint64_t index; /* breaks ties */
};

uint64_t pick_hash(enum pick_purpose purpose, uint64_t seed, const char *name);
/* Moves the `wanted` smallest to the front, in no order. O(count). */
void pick_smallest(struct pick *p, uint64_t count, uint64_t wanted);

#endif
