#include "order/order_window.h"

#include "base/rng.h"

enum { TWEAK_BLOCKS = 1 }; /* windows have odd numbers from 3 on: no permutation is used twice */

static uint64_t tweak_of(uint64_t window)
{
    return rng_mix(2 * window + 3, 0) | 1;
}

void order_use_window(struct order *o, uint64_t block, uint64_t blocks)
{
    uint64_t all = block ? o->count / block : 0; /* whole ones */
    if (blocks == 0 || all <= blocks)
        return; /* everything is one window: the plain order mixes it */
    o->block = block;
    o->window = blocks;
    uint64_t windows = all / blocks, left = o->count - (windows - 1) * blocks * block;
    o->blocks = order_domain_of(all);
    o->full_window = order_domain_of(blocks * block);
    o->last_window = order_domain_of(left); /* what is no whole window any more is mixed with the last one */
}

static uint64_t window_count(const struct order *o)
{
    return o->blocks.count / o->window;
}

uint64_t window_at(const struct order *o, uint64_t position)
{
    uint64_t size = o->full_window.count, w = position / size, last = window_count(o) - 1;
    w = w < last ? w : last;
    uint64_t x = order_walk(o, w < last ? &o->full_window : &o->last_window, tweak_of(w), position - w * size);
    uint64_t slot = w * o->window + x / o->block;
    if (slot >= o->blocks.count) /* the short block behind all others */
        return o->blocks.count * o->block + (x - (o->blocks.count - w * o->window) * o->block);
    return order_walk(o, &o->blocks, TWEAK_BLOCKS, slot) * o->block + x % o->block;
}

uint64_t window_position_of(const struct order *o, uint64_t sample)
{
    uint64_t block = sample / o->block, size = o->full_window.count, last = window_count(o) - 1;
    uint64_t slot = block < o->blocks.count ? order_walk_back(o, &o->blocks, TWEAK_BLOCKS, block) : block;
    uint64_t w = slot / o->window;
    w = w < last ? w : last;
    uint64_t x = (slot - w * o->window) * o->block + sample % o->block;
    return w * size + order_walk_back(o, w < last ? &o->full_window : &o->last_window, tweak_of(w), x);
}
