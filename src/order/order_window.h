/* Shuffling by windows: for data of which neighbours should be used together (compressed chunks, packs on disks that seek).
 *
 * Samples are cut into blocks of `block` neighbours. The blocks come in random order; so many of them at a time are a window, and inside it
 * samples are mixed completely. A last block that is shorter belongs to the last window. A position's sample is a pure function here as
 * well, without memory: which window, where in it by that window's own permutation, which block by that of the blocks.
 *
 * How well it mixes: a sample can be anywhere in the epoch (as its block can), but its companions of a batch come from the `window` blocks
 * of its window only. See docs/order.md for what that means. The values are frozen like those of order.h.
 */
#ifndef FB_ORDER_ORDER_WINDOW_H
#define FB_ORDER_ORDER_WINDOW_H

#include "order/order.h"

/* After order_init of a shuffled order without weights. `block` and `blocks` are at least 1. */
void order_use_window(struct order *o, uint64_t block, uint64_t blocks);

uint64_t window_at(const struct order *o, uint64_t position);
uint64_t window_position_of(const struct order *o, uint64_t sample);

/* order.c: x -> the permuted x inside a domain, and back. */
struct order_domain order_domain_of(uint64_t count);
uint64_t order_walk(const struct order *o, const struct order_domain *d, uint64_t tweak, uint64_t x);
uint64_t order_walk_back(const struct order *o, const struct order_domain *d, uint64_t tweak, uint64_t x);

#endif
