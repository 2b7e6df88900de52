#include "transform/draws.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct rng draw_stream(const struct rng *sample, uint32_t index)
{
    uint64_t key = rng_mix(sample->key[0] | (uint64_t)sample->key[1] << 32, (uint64_t)index + 1);
    struct rng r = *sample;
    r.key[0] = (uint32_t)key;
    r.key[1] = (uint32_t)(key >> 32);
    r.left = 0;
    return r;
}

double draw_uniform(struct rng *r, double low, double high)
{
    return low + rng_double(r) * (high - low);
}

bool draw_chance(struct rng *r, double p)
{
    return rng_double(r) < p;
}

uint32_t draw_below(struct rng *r, uint32_t n)
{
    assert(n > 0);
    return (uint32_t)((unsigned __int128)rng_u64(r) * n >> 64);
}

static double power_of_two(int k)
{
    uint64_t bits = (uint64_t)(k + 1023) << 52;
    double d;
    memcpy(&d, &bits, sizeof(d));
    return d;
}

/* x = k ln 2 + r with |r| <= ln 2 / 2; then Taylor to r^15, whose rest is below 2^-60. */
double fixed_exp(double x)
{
    const double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
    double k = floor(x * 0x1.71547652b82fep+0 + 0.5);
    double r = (x - k * ln2_high) - k * ln2_low;
    double sum = 1;
    for (int i = 15; i >= 1; i--)
        sum = 1 + r * sum / i;
    return sum * power_of_two((int)k);
}

/* x = 2^k m with m around 1; ln m = 2 artanh((m-1)/(m+1)) as a series in s^2 <= 0.03. */
double fixed_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    int k = (int)(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof(m));
    if (m > 1.4142135623730951) {
        m *= 0.5;
        k++;
    }
    double s = (m - 1) / (m + 1), z = s * s, sum = 0;
    for (int i = 25; i >= 1; i -= 2)
        sum = sum * z + 1.0 / i;
    return k * 0x1.62e42fefa39efp-1 + 2 * s * sum;
}

double round_half_even(double x)
{
    double low = floor(x), rest = x - low;
    bool is_odd = fmod(low, 2) != 0;
    return rest > 0.5 || (rest == 0.5 && is_odd) ? low + 1 : low;
}
