#include "order/state/skips.h"

#include <string.h>

bool skips_are_sound(const struct skips *s, uint64_t count)
{
    if (s->count > SKIPS_MOST)
        return false;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->range[i].first >= s->range[i].last || s->range[i].last > count || (i && s->range[i].first <= s->range[i - 1].last))
            return false;
    return true;
}

static void remove_at(struct skips *s, uint32_t i)
{
    s->count--;
    memmove(&s->range[i], &s->range[i + 1], (s->count - i) * sizeof(s->range[0]));
}

bool skips_add(struct skips *s, uint64_t first, uint64_t last, uint64_t position)
{
    struct skips all = *s;
    if (first >= last)
        return true;
    for (uint32_t i = 0; i < all.count;) {
        if (all.range[i].last < first || all.range[i].first > last) {
            i++;
            continue;
        }
        first = all.range[i].first < first ? all.range[i].first : first;
        last = all.range[i].last > last ? all.range[i].last : last;
        remove_at(&all, i);
    }
    if (all.count == SKIPS_MOST && all.range[0].last <= position)
        remove_at(&all, 0);
    if (all.count == SKIPS_MOST)
        return false;
    uint32_t at = 0;
    while (at < all.count && all.range[at].first < first)
        at++;
    memmove(&all.range[at + 1], &all.range[at], (all.count - at) * sizeof(all.range[0]));
    all.range[at] = (struct skip){first, last};
    all.count++;
    *s = all;
    return true;
}

uint64_t skips_total(const struct skips *s)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < s->count; i++)
        total += s->range[i].last - s->range[i].first;
    return total;
}

uint64_t skips_index(const struct skips *s, uint64_t position)
{
    uint64_t before = 0;
    for (uint32_t i = 0; i < s->count && s->range[i].first < position; i++)
        before += (s->range[i].last < position ? s->range[i].last : position) - s->range[i].first;
    return position - before;
}

uint64_t skips_position(const struct skips *s, uint64_t index)
{
    for (uint32_t i = 0; i < s->count && s->range[i].first <= index; i++)
        index += s->range[i].last - s->range[i].first;
    return index;
}
