/* One memory number for everything the engine holds, counted by kind.
 *
 * Safety: all functions may be called from any thread and never block beyond a short lock-free update; waiters sleep on a futex that every
 * budget_give wakes. Memory that the user takes ownership of leaves the budget by budget_give without being freed.
 */
#ifndef FB_BASE_BUDGET_H
#define FB_BASE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/round_up.h"

enum memory_kind { MEMORY_SLOTS, MEMORY_READS, MEMORY_SCRATCH, MEMORY_CACHE, MEMORY_KINDS };

struct budget {
    _Atomic uint64_t limit;
    _Atomic uint64_t used, peak;
    _Atomic uint64_t used_by[MEMORY_KINDS], peak_by[MEMORY_KINDS];
    _Atomic uint32_t given; /* futex word: bumped by every give */
    _Atomic int waiters;
};

const char *budget_kind_name(enum memory_kind kind);

/* Takes all of `bytes` or nothing. */
bool budget_take(struct budget *b, enum memory_kind kind, uint64_t bytes);
/* The same, only if `reserve` bytes are left for others afterwards. */
bool budget_take_above(struct budget *b, enum memory_kind kind, uint64_t bytes, uint64_t reserve);
void budget_give(struct budget *b, enum memory_kind kind, uint64_t bytes);

/* Sleeps until something is given back after `seen` (read with budget_seen before the failed take) or the time is over. */
uint32_t budget_seen(struct budget *b);
void budget_wait(struct budget *b, uint32_t seen, uint64_t timeout_ns);

/* The size that a block of memory takes beside others: theirs begins on a cache line of its own. */
static inline size_t memory_rounded(size_t bytes)
{
    return round_up(bytes, 64);
}

/* Zeroed, page-backed memory for large long-lived blocks (slots, caches). NULL: no memory. Does not touch the budget. */
void *memory_map(size_t bytes);
void memory_unmap(void *data, size_t bytes);

/* A buffer that grows to the largest need so far and is reused. The content is not kept when it grows. budget may be NULL. */
struct scratch {
    void *data;
    size_t capacity;
    struct budget *budget;
};

/* 64-byte aligned memory of at least `bytes`, or NULL with FB_E_BUDGET or FB_E_NOMEM in `e`. */
void *scratch_need(struct scratch *s, size_t bytes, struct fb_error *e);
/* The same for a list that grows: the first `kept` bytes stay, and there is room for more than `bytes`. */
void *scratch_grow(struct scratch *s, size_t kept, size_t bytes, struct fb_error *e);
void scratch_free(struct scratch *s);

#endif
