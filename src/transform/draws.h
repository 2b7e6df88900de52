/* Drawing: streams per step, and the arithmetic that decides a draw, made of basic operations only.
 *
 * libm's exp and log may differ in the last bit between machines; a crop decided by them could too. These two do not: additions,
 * multiplications and divisions of doubles are exact by IEEE 754, and the build forbids contracting them.
 */
#ifndef FB_TRANSFORM_DRAWS_H
#define FB_TRANSFORM_DRAWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

/* The stream of the random step number `index` (0, 1, ... among the random ones) of the sample whose stream is `sample`. */
struct rng draw_stream(const struct rng *sample, uint32_t index);

/* Each takes exactly one 64-bit number from the stream. */
double draw_uniform(struct rng *r, double low, double high);
bool draw_chance(struct rng *r, double p);
uint32_t draw_below(struct rng *r, uint32_t n); /* bias below n / 2^64 */

double fixed_exp(double x); /* |x| <= 700; error below 2 ulp */
double fixed_log(double x); /* normal x > 0; error below 2 ulp */

/* Python's round(): to the nearest integer, halves to the even one. |x| < 2^52. */
double round_half_even(double x);

#endif
