/* Randomness that belongs to a position: a counter-based generator (Philox 4x32-10, Salmon et al. 2011).
 *
 * A stream is named by (seed, epoch, position, try); its numbers depend on nothing else, so threads, timing and rank layout never change a
 * draw. Copying a struct rng copies the stream. Results are frozen: the same name gives the same numbers in every version.
 */
#ifndef FB_BASE_RNG_H
#define FB_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t block[4]; /* the current output block */
    int left;          /* numbers of it not yet used */
};

/* What a stream is for; keeps two users of the same position apart. */
enum rng_purpose { RNG_ORDER = 1, RNG_TRANSFORM = 2, RNG_SUBSET = 3, RNG_REDRAW = 4, RNG_WEIGHT = 5, RNG_MAP = 6 };

struct rng rng_stream(enum rng_purpose purpose, uint64_t seed, uint64_t epoch, uint64_t position, uint32_t attempt);
uint32_t rng_u32(struct rng *r);
uint64_t rng_u64(struct rng *r);
/* Uniform in [0, 1) with 53 bits. */
double rng_double(struct rng *r);
/* Uniform in [0, n), unbiased (Lemire's multiply and reject); n > 0. */
uint64_t rng_below(struct rng *r, uint64_t n);

/* One 64-bit mix of two words: a cheap keyed hash for round functions and stable choices by key. */
uint64_t rng_mix(uint64_t key, uint64_t value);

#endif
