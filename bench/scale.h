/* What the two halves of the program `scale` share. */
#ifndef BENCH_SCALE_H
#define BENCH_SCALE_H

#include "order/ranks/ranks.h"

enum { RANKS_PER_MACHINE = 8 };

/* The disk caches of all ranks, one machine after the other. Prints a JSON object. False: a rank got wrong bytes, or something was fetched
 * twice on one machine. */
bool scale_caches(struct rank_layout layout, uint64_t seed);

#endif
