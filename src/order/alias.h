/* Draws by weight in O(1): Vose's alias method. */
#ifndef FB_ORDER_ALIAS_H
#define FB_ORDER_ALIAS_H

#include <stdint.h>

#include "base/error.h"

struct alias_table;

/* FB_E_USAGE: wrong length, NaN, infinite, negative or all zero (the first offender named). */
int alias_open(struct alias_table **out, const double *weights, uint64_t weight_count, uint64_t sample_count, struct fb_error *e);
/* The sample for a random 64-bit pair. */
uint64_t alias_draw(const struct alias_table *a, uint64_t u, uint64_t v);
void alias_close(struct alias_table *a);

#endif
