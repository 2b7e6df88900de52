#include "order/order.h"

#include <assert.h>

#include "base/rng.h"
#include "order/alias.h"

enum { MIN_DOMAIN_BITS = 10, MAX_WEIGHTED_REDRAWS = 1000 };

static int bits_for(uint64_t count)
{
    int bits = MIN_DOMAIN_BITS;
    while (bits < 64 && (count - 1) >> bits)
        bits++;
    return bits;
}

void order_init(struct order *o, uint64_t count, uint64_t seed, uint64_t epoch, bool is_shuffled, const struct alias_table *weights)
{
    *o = (struct order){.count = count, .seed = seed, .epoch = epoch, .is_shuffled = is_shuffled, .weights = weights};
    if (count == 0)
        return;
    int bits = bits_for(count);
    o->low_bits = bits / 2;
    o->high_count = bits == MIN_DOMAIN_BITS ? UINT64_C(1) << (bits - o->low_bits) : ((count - 1) >> o->low_bits) + 1;
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

static inline uint64_t high_step(const struct order *o, int round, uint64_t low)
{
    return (uint64_t)((unsigned __int128)scatter(o->round_key[round], low) * o->high_count >> 64);
}

static inline uint64_t low_step(const struct order *o, int round, uint64_t high)
{
    return scatter(o->round_key[round], high) >> (64 - o->low_bits);
}

static uint64_t feistel(const struct order *o, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << o->low_bits) - 1;
    uint64_t high = x >> o->low_bits, low = x & mask;
    for (int i = 0; i < ORDER_ROUNDS; i += 2) {
        high += high_step(o, i, low);
        high -= high >= o->high_count ? o->high_count : 0;
        low = (low + low_step(o, i + 1, high)) & mask;
    }
    return high << o->low_bits | low;
}

static uint64_t feistel_inverse(const struct order *o, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << o->low_bits) - 1;
    uint64_t high = x >> o->low_bits, low = x & mask;
    for (int i = ORDER_ROUNDS - 2; i >= 0; i -= 2) {
        low = (low - low_step(o, i + 1, high)) & mask;
        uint64_t step = high_step(o, i, low);
        high += high < step ? o->high_count : 0;
        high -= step;
    }
    return high << o->low_bits | low;
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
    uint64_t x = position;
    do
        x = feistel(o, x);
    while (x >= o->count);
    return x;
}

uint64_t order_position_of(const struct order *o, uint64_t sample)
{
    assert(sample < o->count && !o->weights);
    if (!o->is_shuffled)
        return sample;
    uint64_t x = sample;
    do
        x = feistel_inverse(o, x);
    while (x >= o->count);
    return x;
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
