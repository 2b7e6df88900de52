#include "order/order.h"

#include <assert.h>

#include "base/rng.h"
#include "order/alias.h"
#include "order/order_window.h"

enum { MIN_DOMAIN_BITS = 10, MAX_WEIGHTED_REDRAWS = 1000 };

static int bits_for(uint64_t count)
{
    int bits = MIN_DOMAIN_BITS;
    while (bits < 64 && (count - 1) >> bits)
        bits++;
    return bits;
}

struct order_domain order_domain_of(uint64_t count)
{
    int bits = bits_for(count);
    struct order_domain d = {.count = count, .low_bits = bits / 2};
    d.high_count = bits == MIN_DOMAIN_BITS ? UINT64_C(1) << (bits - d.low_bits) : ((count - 1) >> d.low_bits) + 1;
    return d;
}

void order_init(struct order *o, uint64_t count, uint64_t seed, uint64_t epoch, bool is_shuffled, const struct alias_table *weights)
{
    *o = (struct order){.count = count, .seed = seed, .epoch = epoch, .is_shuffled = is_shuffled, .weights = weights};
    if (count == 0)
        return;
    o->all = order_domain_of(count);
    /* the count is part of the key: data sets of nearly the same size would otherwise have nearly the same order */
    struct rng r = rng_stream(RNG_ORDER, seed, epoch, count, 0);
    for (int i = 0; i < ORDER_ROUNDS; i++)
        o->round_key[i] = rng_u64(&r);
}

/* splitmix64's finaliser without its last fold: only the upper bits of the result are used. The keys are random: adding them is enough. */
static inline uint64_t scatter(uint64_t key, uint64_t value)
{
    uint64_t z = key + value;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    return (z ^ (z >> 27)) * 0x94D049BB133111EBu;
}

static inline uint64_t high_step(const struct order_domain *d, uint64_t key, uint64_t low)
{
    return (uint64_t)((unsigned __int128)scatter(key, low) * d->high_count >> 64);
}

static inline uint64_t low_step(const struct order_domain *d, uint64_t key, uint64_t high)
{
    return scatter(key, high) >> (64 - d->low_bits);
}

/* The tweak makes another permutation of it, as random keys of its own would; 0 changes nothing. */
static inline uint64_t key_of(const struct order *o, int round, uint64_t tweak)
{
    return o->round_key[round] + tweak * (2 * (uint64_t)round + 1);
}

static inline uint64_t feistel(const struct order *o, const struct order_domain *d, uint64_t tweak, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << d->low_bits) - 1;
    uint64_t high = x >> d->low_bits, low = x & mask;
    for (int i = 0; i < ORDER_ROUNDS; i += 2) {
        high += high_step(d, key_of(o, i, tweak), low);
        high -= high >= d->high_count ? d->high_count : 0;
        low = (low + low_step(d, key_of(o, i + 1, tweak), high)) & mask;
    }
    return high << d->low_bits | low;
}

static inline uint64_t feistel_inverse(const struct order *o, const struct order_domain *d, uint64_t tweak, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << d->low_bits) - 1;
    uint64_t high = x >> d->low_bits, low = x & mask;
    for (int i = ORDER_ROUNDS - 2; i >= 0; i -= 2) {
        low = (low - low_step(d, key_of(o, i + 1, tweak), high)) & mask;
        uint64_t step = high_step(d, key_of(o, i, tweak), low);
        high += high < step ? d->high_count : 0;
        high -= step;
    }
    return high << d->low_bits | low;
}

uint64_t order_walk(const struct order *o, const struct order_domain *d, uint64_t tweak, uint64_t x)
{
    do
        x = feistel(o, d, tweak, x);
    while (x >= d->count);
    return x;
}

uint64_t order_walk_back(const struct order *o, const struct order_domain *d, uint64_t tweak, uint64_t x)
{
    do
        x = feistel_inverse(o, d, tweak, x);
    while (x >= d->count);
    return x;
}

static uint64_t draw_weighted(const struct alias_table *a, struct rng *r)
{
    uint64_t u = rng_u64(r);
    return alias_draw(a, u, rng_u64(r));
}

uint64_t order_at(const struct order *o, uint64_t position)
{
    assert(o->count > 0);
    if (position >= o->count)
        position %= o->count;
    if (o->weights) {
        struct rng r = rng_stream(RNG_WEIGHT, o->seed, o->epoch, position, 0);
        return draw_weighted(o->weights, &r);
    }
    if (!o->is_shuffled)
        return position;
    return o->block ? window_at(o, position) : order_walk(o, &o->all, 0, position);
}

uint64_t order_position_of(const struct order *o, uint64_t sample)
{
    assert(sample < o->count && !o->weights);
    if (!o->is_shuffled)
        return sample;
    return o->block ? window_position_of(o, sample) : order_walk_back(o, &o->all, 0, sample);
}

static uint64_t draw_other(uint64_t count, uint64_t bad, struct rng *r)
{
    uint64_t x = rng_below(r, count - 1);
    return x + (x >= bad);
}

uint64_t order_redraw(const struct order *o, uint64_t position, uint32_t attempt)
{
    uint64_t bad = order_at(o, position);
    if (o->count == 1)
        return bad;
    struct rng r = rng_stream(RNG_REDRAW, o->seed, o->epoch, position % o->count, attempt);
    for (int i = 0; o->weights && i < MAX_WEIGHTED_REDRAWS; i++) {
        uint64_t x = draw_weighted(o->weights, &r);
        if (x != bad)
            return x;
    }
    return draw_other(o->count, bad, &r);
}
