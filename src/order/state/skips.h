/* Positions of an epoch that are left out on purpose: batches jumped over after a loss spike.
 *
 * A few ranges, sorted and apart. What is left of the epoch is counted by an index without holes: batches are cut from indices, so every
 * batch is full although a hole lies inside it, and a sample's draws still belong to its position. Nothing else is remembered: which
 * samples come is a pure function of (seed, epoch, ranges, index).
 */
#ifndef FB_ORDER_STATE_SKIPS_H
#define FB_ORDER_STATE_SKIPS_H

#include <stdbool.h>
#include <stdint.h>

enum { SKIPS_MOST = 8 };

struct skips {
    uint32_t count;
    struct skip {
        uint64_t first, last; /* positions first .. last - 1 */
    } range[SKIPS_MOST];
};

/* Adds positions first .. last - 1; what touches is joined. When there is no room left, the earliest range that ends at or before
 * `position` is forgotten: nothing before it is read again. False: no room, nothing changed. */
bool skips_add(struct skips *s, uint64_t first, uint64_t last, uint64_t position);
/* Sorted, apart, none empty, all below `count`? What comes from outside must be. */
bool skips_are_sound(const struct skips *s, uint64_t count);
/* How many positions are left out. */
uint64_t skips_total(const struct skips *s);
/* How many positions before `position` are not left out. */
uint64_t skips_index(const struct skips *s, uint64_t position);
/* The other way round: the position with that index; the first one that is not left out. */
uint64_t skips_position(const struct skips *s, uint64_t index);

#endif
