#include "feed/engine/ready_queue.h"

enum { MOST_AT_ONCE = 16, WORTH_A_LOCK_NS = 100000 };

uint32_t ready_portion(struct feed *f, int threads)
{
    uint64_t service_ns = atomic_load_explicit(&f->service_ns, memory_order_relaxed);
    uint64_t most = service_ns ? WORTH_A_LOCK_NS / service_ns : 1;
    most = most < 1 ? 1 : most > MOST_AT_ONCE ? MOST_AT_ONCE : most;
    uint32_t fair = f->ready / (uint32_t)threads + 1;
    return most < fair ? (uint32_t)most : fair;
}

bool ready_wants_more(const struct feed *f, int unhurried)
{
    bool is_ample = atomic_load_explicit(&f->is_ample, memory_order_relaxed);
    return f->ready && !f->is_leaving && (!is_ample || f->serving < (uint32_t)unhurried);
}

struct feed *ready_choose(struct feed *feeds, struct feed *turn, int unhurried)
{
    for (struct feed *f = feeds; f; f = f->next_feed)
        if (atomic_load_explicit(&f->is_starving, memory_order_relaxed) && ready_wants_more(f, unhurried))
            return f;
    struct feed *start = turn ? turn : feeds;
    for (struct feed *f = start; f; f = f->next_feed)
        if (ready_wants_more(f, unhurried))
            return f;
    for (struct feed *f = feeds; f != start; f = f->next_feed)
        if (ready_wants_more(f, unhurried))
            return f;
    return NULL;
}

struct load *ready_take(struct feed *f, uint32_t most)
{
    struct slot *s = f->ready_slots;
    uint32_t taken = 1;
    struct load *first = s->ready_first, *last = first;
    for (; taken < most && last->next; taken++)
        last = last->next;
    s->ready_first = last->next;
    if (!s->ready_first)
        f->ready_slots = s->ready_next;
    last->next = NULL;
    f->ready -= taken;
    return first;
}

static void list_slot(struct feed *f, struct slot *s)
{
    struct slot **p = &f->ready_slots;
    while (*p && (*p)->sequence < s->sequence)
        p = &(*p)->ready_next;
    s->ready_next = *p;
    *p = s;
}

void ready_append(struct feed *f, struct load *l)
{
    struct slot *s = l->slot;
    l->next = NULL;
    if (s->ready_first) {
        ((struct load *)s->ready_last)->next = l;
    } else {
        s->ready_first = l;
        list_slot(f, s);
    }
    s->ready_last = l;
    f->ready++;
}

struct load *ready_take_all(struct feed *f)
{
    struct load *all = NULL;
    for (struct slot *s = f->ready_slots; s; s = s->ready_next) {
        ((struct load *)s->ready_last)->next = all;
        all = s->ready_first;
        s->ready_first = NULL;
    }
    f->ready_slots = NULL;
    f->ready = 0;
    return all;
}
