/* Which units are believed to be on disk: a bit each, used by prefetching and by eviction.
 *
 * The bits are hints: other processes add and remove entries, and every use checks the file itself. So any thread reads and writes them in
 * relaxed order, and a wrong bit costs a lookup or a fetch, but never gives wrong bytes. A billion units take 125 MB.
 */
#ifndef FB_CACHE_CACHE_PRESENT_H
#define FB_CACHE_CACHE_PRESENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"

struct present {
    _Atomic uint64_t *word; /* NULL: there is no table, and all units are unknown */
    uint64_t count;
};

/* False: the budget or the machine has no memory for it; then nothing is filled ahead. */
bool present_open(struct present *p, struct budget *b, uint64_t count);
void present_close(struct present *p, struct budget *b);
uint64_t present_bytes(uint64_t count);

static inline bool present_has(const struct present *p, uint64_t i)
{
    return p->word && i < p->count && (atomic_load_explicit(&p->word[i / 64], memory_order_relaxed) >> (i % 64) & 1);
}

/* Looks first: a bit that is right already is not worth a cache line of its own. */
static inline void present_put(struct present *p, uint64_t i)
{
    if (p->word && i < p->count && !present_has(p, i))
        atomic_fetch_or_explicit(&p->word[i / 64], UINT64_C(1) << (i % 64), memory_order_relaxed);
}

static inline void present_drop(struct present *p, uint64_t i)
{
    if (present_has(p, i))
        atomic_fetch_and_explicit(&p->word[i / 64], ~(UINT64_C(1) << (i % 64)), memory_order_relaxed);
}

/* ---- what lies in the folder ---- */

struct cache;

/* The entries of this data set, by hash, sorted. The memory is the budget's; too little of it: not all of them are known. */
struct stock_list {
    uint64_t *hash;
    uint64_t count, capacity;
    struct budget *budget;
};

void stock_list_make(struct stock_list *s, struct cache *c);
/* The place of a hash, or `count`. */
uint64_t stock_list_find(const struct stock_list *s, uint64_t hash);
void stock_list_free(struct stock_list *s);

/* Sets the bits of all units that have an entry; stops when the cache is closed. Of more than CACHE_LOOK_MOST units none is looked for:
 * their bits are set as they are met. */
void present_find(struct cache *c);

#endif
