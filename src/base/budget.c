#include "base/budget.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/round_up.h"
#include "base/text/text.h"

const char *budget_kind_name(enum memory_kind kind)
{
    static const char *const names[MEMORY_KINDS] = {"slots", "reads", "scratch", "cache"};
    return names[kind];
}

/* Figures for people: relaxed order suffices, no data hangs on them. */
static void raise_peak(_Atomic uint64_t *peak, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (value > seen && !atomic_compare_exchange_weak_explicit(peak, &seen, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

bool budget_take(struct budget *b, enum memory_kind kind, uint64_t bytes)
{
    return budget_take_above(b, kind, bytes, 0);
}

bool budget_take_above(struct budget *b, enum memory_kind kind, uint64_t bytes, uint64_t reserve)
{
    uint64_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
    do {
        uint64_t limit = atomic_load_explicit(&b->limit, memory_order_relaxed);
        limit = limit > reserve ? limit - reserve : 0;
        if (bytes > limit || used > limit - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&b->used, &used, used + bytes, memory_order_relaxed, memory_order_relaxed));
    raise_peak(&b->peak, used + bytes);
    uint64_t by = atomic_fetch_add_explicit(&b->used_by[kind], bytes, memory_order_relaxed) + bytes;
    raise_peak(&b->peak_by[kind], by);
    return true;
}

void budget_give(struct budget *b, enum memory_kind kind, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&b->used_by[kind], bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&b->used, bytes, memory_order_release);
    atomic_fetch_add(&b->given, 1); /* sequentially consistent with `waiters`: either we see the waiter or it sees our bump */
    if (atomic_load(&b->waiters) > 0)
        syscall(SYS_futex, &b->given, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

uint32_t budget_seen(struct budget *b)
{
    return atomic_load(&b->given);
}

void budget_wait(struct budget *b, uint32_t seen, uint64_t timeout_ns)
{
    struct timespec t = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    atomic_fetch_add(&b->waiters, 1);
    if (atomic_load(&b->given) == seen)
        syscall(SYS_futex, &b->given, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
    atomic_fetch_sub(&b->waiters, 1);
}

void *memory_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_HUGEPAGE); /* fewer faults on first touch; refused without harm where THP is off */
    return p;
}

void memory_unmap(void *data, size_t bytes)
{
    if (data)
        munmap(data, bytes);
}

void *scratch_need(struct scratch *s, size_t bytes, struct fb_error *e)
{
    if (bytes <= s->capacity && s->data)
        return s->data;
    size_t capacity = bytes ? round_up(bytes, 4096) : 4096;
    if (capacity < bytes) {
        error_set(e, FB_E_NOMEM, "feed", "a buffer of %zu bytes cannot exist", bytes);
        return NULL;
    }
    scratch_free(s);
    if (s->budget && !budget_take(s->budget, MEMORY_SCRATCH, capacity)) {
        char need[32], limit[32];
        error_set(e, FB_E_BUDGET, "feed", "it needs %s of working memory, which the budget of %s does not have left",
                  text_size(capacity, need, sizeof(need)),
                  text_size(atomic_load_explicit(&s->budget->limit, memory_order_relaxed), limit, sizeof(limit)));
        error_remedy(e, "raise memory=, or lower batch_size= or threads=");
        return NULL;
    }
    s->data = aligned_alloc(capacity < 65536 ? 64 : 4096, capacity); /* a large one may be written to disk from where it is */
    if (!s->data) {
        if (s->budget)
            budget_give(s->budget, MEMORY_SCRATCH, capacity);
        error_set_errno(e, "feed", ENOMEM, "allocate %zu bytes", capacity);
        return NULL;
    }
    s->capacity = capacity;
    return s->data;
}

void *scratch_grow(struct scratch *s, size_t kept, size_t bytes, struct fb_error *e)
{
    if (bytes <= s->capacity && s->data)
        return s->data;
    struct scratch larger = {.budget = s->budget};
    if (!scratch_need(&larger, bytes + bytes / 2, e))
        return NULL;
    if (s->data)
        memcpy(larger.data, s->data, kept);
    scratch_free(s);
    *s = larger;
    return s->data;
}

void scratch_free(struct scratch *s)
{
    if (s->data && s->budget)
        budget_give(s->budget, MEMORY_SCRATCH, s->capacity);
    free(s->data);
    s->data = NULL;
    s->capacity = 0;
}
