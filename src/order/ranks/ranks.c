#include "order/ranks/ranks.h"

#include <assert.h>

int ranks_check(const struct rank_layout *l, struct fb_error *e)
{
    if (l->world == 0 || l->rank >= l->world)
        return error_advise(e, error_set(e, FB_E_USAGE, "order", "rank %u of %u does not exist", l->rank, l->world),
                            "ranks count from 0 to world_size - 1");
    if (l->global_batch == 0)
        return error_advise(e, error_set(e, FB_E_USAGE, "order", "a batch of 0 samples"), "use batch_size= of 1 or more");
    if (l->global_batch < l->world)
        return error_advise(e,
                            error_set(e, FB_E_USAGE, "order", "a global batch of %llu samples cannot be shared by %u ranks",
                                      (unsigned long long)l->global_batch, l->world),
                            "use global_batch_size= of %u or more, or fewer ranks", l->world);
    return 0;
}

uint64_t ranks_batch_count(const struct rank_layout *l, uint64_t start)
{
    if (start >= l->count)
        return 0;
    uint64_t left = l->count - start;
    return left / l->global_batch + (!l->drop_last && left % l->global_batch != 0);
}

/* floor(part * size / world) */
static uint64_t cut(uint64_t size, uint64_t part, uint64_t world)
{
    return (uint64_t)((unsigned __int128)size * part / world);
}

struct batch_span ranks_batch(const struct rank_layout *l, uint64_t start, uint64_t g)
{
    assert(g < ranks_batch_count(l, start));
    uint64_t begin = start + g * l->global_batch, left = l->count - begin;
    uint64_t size = left < l->global_batch ? left : l->global_batch;
    uint64_t filled = size == left && size < l->world ? l->world : size;
    uint64_t from = cut(filled, l->rank, l->world), to = cut(filled, (uint64_t)l->rank + 1, l->world);
    uint64_t real_to = to < size ? to : size;
    return (struct batch_span){
        .first = begin + from,
        .count = to - from,
        .repeats = to - (from < real_to ? real_to : from),
        .end = begin + size,
    };
}

/* The layout of the rest of the epoch without the skipped positions. */
static struct rank_layout without(const struct rank_layout *l, const struct skips *s)
{
    struct rank_layout left = *l;
    left.count -= skips_total(s);
    return left;
}

uint64_t ranks_batches_left(const struct rank_layout *l, const struct skips *s, uint64_t start)
{
    struct rank_layout left = without(l, s);
    return ranks_batch_count(&left, skips_index(s, start));
}

struct batch_span ranks_batch_left(const struct rank_layout *l, const struct skips *s, uint64_t start, uint64_t g)
{
    struct rank_layout left = without(l, s);
    struct batch_span span = ranks_batch(&left, skips_index(s, start), g);
    span.end = skips_position(s, span.end);
    return span;
}

uint64_t ranks_largest(const struct rank_layout *l)
{
    uint64_t size = l->count < l->global_batch ? l->count : l->global_batch;
    return size / l->world + (size % l->world != 0);
}
