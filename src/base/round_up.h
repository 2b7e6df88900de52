/* Sizes and offsets rounded up to whole units. It wraps as any sum does: check first what may be near the largest number. */
#ifndef FB_BASE_ROUND_UP_H
#define FB_BASE_ROUND_UP_H

#include <stdint.h>

static inline uint64_t round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

#endif
