/* The order of an epoch: a keyed permutation of 0..n-1, evaluated one position at a time, and the same for draws by weight.
 *
 * A Feistel network (10 rounds: 4 are visibly biased for small n) over the smallest even-bit domain that holds n, walked until the value
 * falls inside. Expected walks < 4; no memory; the inverse exists. The values are frozen: a seed means the same order in every version.
 */
#ifndef FB_ORDER_ORDER_H
#define FB_ORDER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct alias_table; /* for weights; see alias.h */

struct order {
    uint64_t count;
    uint64_t seed, epoch;
    bool is_shuffled;
    const struct alias_table *weights; /* NULL: every sample once */
    int half_bits;                     /* Feistel: bits of each half */
    uint64_t round_key[10];
};

void order_init(struct order *o, uint64_t count, uint64_t seed, uint64_t epoch, bool is_shuffled, const struct alias_table *weights);
/* position < count -> sample. Positions >= count (repeats that fill up a last batch) wrap around. */
uint64_t order_at(const struct order *o, uint64_t position);
/* Where in the epoch a sample is; without weights only. */
uint64_t order_position_of(const struct order *o, uint64_t sample);
/* The stand-in for a bad sample: attempt 1, 2, ...; never the same as order_at(position) when count > 1. */
uint64_t order_redraw(const struct order *o, uint64_t position, uint32_t attempt);

#endif
