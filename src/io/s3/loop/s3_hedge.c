#include "io/s3/loop/s3_hedge.h"

#include <string.h>

enum { LEAST_SEEN = 40, MOST_SEEN = 4000, LATE_UNKNOWN_NS = 1000000000, LATE_LEAST_NS = 20000000, BURST = 16, LOOK_EVERY = 32 };

void s3_hedge_open(struct s3_hedge *h, bool is_off)
{
    memset(h, 0, sizeof(*h));
    h->is_off = is_off;
    h->tokens = 1;
    h->late_ns = LATE_UNKNOWN_NS;
}

/* Step s begins at (4 + s % 4) << (s / 4) microseconds / 4. */
static int step_of(uint64_t ns)
{
    uint64_t quarters = ns / 250;
    if (quarters < 4)
        return 0;
    int top = 63 - __builtin_clzll(quarters);
    int step = 4 * (top - 2) + (int)(quarters >> (top - 2) & 3);
    return step < S3_HEDGE_STEPS ? step : S3_HEDGE_STEPS - 1;
}

static uint64_t end_of_step_ns(int step)
{
    return (uint64_t)(5 + step % 4) * 250 << (step / 4);
}

static uint64_t late_now(const struct s3_hedge *h)
{
    if (h->total < LEAST_SEEN)
        return LATE_UNKNOWN_NS;
    uint32_t below = 0, wanted = h->total - h->total / 20;
    int step = 0;
    while (step < S3_HEDGE_STEPS - 1 && (below += h->count[step]) < wanted)
        step++;
    uint64_t late = 2 * end_of_step_ns(step);
    return late > LATE_LEAST_NS ? late : LATE_LEAST_NS;
}

void s3_hedge_note(struct s3_hedge *h, uint64_t first_byte_ns)
{
    h->count[step_of(first_byte_ns)]++;
    h->tokens = h->tokens + 0.04 < BURST ? h->tokens + 0.04 : BURST;
    if (++h->total >= MOST_SEEN) {
        h->total = 0;
        for (int i = 0; i < S3_HEDGE_STEPS; i++)
            h->total += h->count[i] /= 2;
    }
    if (h->total % LOOK_EVERY == 0 || h->total == LEAST_SEEN)
        h->late_ns = late_now(h);
}

uint64_t s3_hedge_late_ns(const struct s3_hedge *h)
{
    return h->is_off ? UINT64_MAX : h->late_ns;
}

bool s3_hedge_take(struct s3_hedge *h)
{
    if (h->is_off || h->tokens < 1)
        return false;
    h->tokens -= 1;
    return true;
}
