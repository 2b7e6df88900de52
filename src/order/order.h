/* The order of an epoch: a keyed permutation of 0..n-1, evaluated one position at a time, and the same for draws by weight.
 *
 * A Feistel network of 10 rounds over pairs (high, low) with low < 2^k and high < ceil(n / 2^k), walked until the value falls inside n. The
 * domain exceeds n by less than 2^k ~ sqrt(n), so a walk is rare; a power of two alone would need up to 4 evaluations per position. Tiny
 * domains mix slowly (n = 8 over 8: after 10 rounds one order of the 40,320 comes up five times too often), so n <= 1024 walks inside 1024,
 * which costs about 1024 evaluations per epoch. No memory; the inverse exists.
 *
 * The values are frozen: a seed means the same order in every version. Pure functions: any thread.
 */
#ifndef FB_ORDER_ORDER_H
#define FB_ORDER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct alias_table; /* for weights; see alias.h */

enum { ORDER_ROUNDS = 10 };

/* What a Feistel network permutes: 0..count-1, inside pairs (high, low). */
struct order_domain {
    uint64_t count;
    int low_bits;        /* bits of the lower part */
    uint64_t high_count; /* values of the upper part */
};

struct order {
    uint64_t count;
    uint64_t seed, epoch;
    bool is_shuffled;
    const struct alias_table *weights; /* NULL: every sample once; not owned */
    struct order_domain all;
    uint64_t round_key[ORDER_ROUNDS];

    /* by windows: see order_window.h; block 0: not */
    uint64_t block, window; /* samples of a block; blocks of a window */
    struct order_domain blocks, full_window, last_window;
};

void order_init(struct order *o, uint64_t count, uint64_t seed, uint64_t epoch, bool is_shuffled, const struct alias_table *weights);
/* position < count -> sample. Positions >= count (repeats that fill up a last batch) wrap around. */
uint64_t order_at(const struct order *o, uint64_t position);
/* Where in the epoch a sample is; without weights only. */
uint64_t order_position_of(const struct order *o, uint64_t sample);
/* The stand-in for a bad sample: attempt 1, 2, ...; never the same as order_at(position) when count > 1. Uniform over the others, or by
 * weight; when hardly any weight is left besides the bad sample, uniform again. */
uint64_t order_redraw(const struct order *o, uint64_t position, uint32_t attempt);

#endif
