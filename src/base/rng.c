#include "base/rng.h"

static void philox(const uint32_t key_in[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key_in[0], k1 = key_in[1];
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * a, q = (uint64_t)0xCD9E8D57u * c;
        uint32_t na = (uint32_t)(q >> 32) ^ b ^ k0, nc = (uint32_t)(p >> 32) ^ d ^ k1;
        b = (uint32_t)q;
        d = (uint32_t)p;
        a = na;
        c = nc;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

/* splitmix64's finaliser (Stafford's variant 13): a bijection in which every input bit reaches every output bit */
static uint64_t finalise(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* The key is scattered before the value joins it: with small keys and values alike, (0, 1) and (1, 2) must not meet. */
uint64_t rng_mix(uint64_t key, uint64_t value)
{
    return finalise(finalise(key + 0x9E3779B97F4A7C15u) + value);
}

struct rng rng_stream(enum rng_purpose purpose, uint64_t seed, uint64_t epoch, uint64_t position, uint32_t attempt)
{
    /* seed, epoch and purpose make the key; position and attempt the upper counter words; the lowest word counts blocks */
    uint64_t key = rng_mix(rng_mix(seed, (uint64_t)purpose), epoch);
    struct rng r = {
        .key = {(uint32_t)key, (uint32_t)(key >> 32)},
        .counter = {0, (uint32_t)position, (uint32_t)(position >> 32), attempt},
    };
    return r;
}

uint32_t rng_u32(struct rng *r)
{
    if (r->left == 0) {
        philox(r->key, r->counter, r->block);
        r->counter[0]++;
        r->left = 4;
    }
    return r->block[4 - r->left--];
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t low = rng_u32(r);
    return low | (uint64_t)rng_u32(r) << 32;
}

double rng_double(struct rng *r)
{
    return (double)(rng_u64(r) >> 11) * 0x1.0p-53;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    for (;;) {
        unsigned __int128 m = (unsigned __int128)rng_u64(r) * n;
        uint64_t low = (uint64_t)m;
        if (low >= n || low >= -n % n)
            return (uint64_t)(m >> 64);
    }
}
