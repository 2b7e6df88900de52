/* The RAM tier: a table from unit to bytes that only grows. When it is full it stays as it is: in an epoch that takes every sample once,
 * any choice is as good as any other, and exchanging would only cost. An entry leaves when its source has changed. */
#include <stdlib.h>

#include "cache/cache_internal.h"

enum { FIRST_SLOTS = 1024 };

bool ram_open(struct ram *r, uint64_t limit)
{
    *r = (struct ram){.limit = limit, .mask = FIRST_SLOTS - 1, .slot = limit ? calloc(FIRST_SLOTS, sizeof(*r->slot)) : NULL};
    return !limit || r->slot;
}

/* The slot of a hash, or the empty one where it belongs. Hashes are xxh3 already: their low bits will do. */
static struct ram_slot *slot_of(const struct ram *r, uint64_t hash)
{
    uint64_t i = hash & r->mask;
    while (r->slot[i].blob && r->slot[i].hash != hash)
        i = (i + 1) & r->mask;
    return &r->slot[i];
}

struct blob *ram_find(struct ram *r, uint64_t hash)
{
    struct blob *b = r->slot ? slot_of(r, hash)->blob : NULL;
    if (b)
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

static bool grow(struct ram *r)
{
    struct ram larger = {.mask = 2 * r->mask + 1, .slot = calloc(2 * (r->mask + 1), sizeof(*r->slot))};
    if (!larger.slot)
        return false;
    for (uint64_t i = 0; i <= r->mask; i++)
        if (r->slot[i].blob)
            *slot_of(&larger, r->slot[i].hash) = r->slot[i];
    free(r->slot);
    r->slot = larger.slot;
    r->mask = larger.mask;
    return true;
}

static uint64_t cost(uint64_t bytes)
{
    return bytes + sizeof(struct blob) + IO_TAIL;
}

bool ram_has_room(const struct ram *r, uint64_t bytes)
{
    return r->slot && cost(bytes) <= r->limit && r->bytes <= r->limit - cost(bytes);
}

void ram_put(struct ram *r, uint64_t hash, struct blob *b)
{
    if (!ram_has_room(r, b->bytes) || (2 * r->used > r->mask && !grow(r)))
        return;
    struct ram_slot *s = slot_of(r, hash);
    if (s->blob)
        return;
    *s = (struct ram_slot){hash, b};
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    r->bytes += cost(b->bytes);
    r->used++;
}

/* Closes the gap, so that whatever collided is still found. */
void ram_drop(struct ram *r, uint64_t hash)
{
    struct ram_slot *s = r->slot ? slot_of(r, hash) : NULL;
    if (!s || !s->blob)
        return;
    struct blob *gone = s->blob;
    uint64_t hole = (uint64_t)(s - r->slot);
    for (uint64_t i = (hole + 1) & r->mask; r->slot[i].blob; i = (i + 1) & r->mask)
        if (((i - (r->slot[i].hash & r->mask)) & r->mask) >= ((i - hole) & r->mask)) {
            r->slot[hole] = r->slot[i];
            hole = i;
        }
    r->slot[hole] = (struct ram_slot){0};
    r->used--;
    r->bytes -= cost(gone->bytes);
    blob_drop(gone);
}

void ram_close(struct ram *r)
{
    for (uint64_t i = 0; r->slot && i <= r->mask; i++)
        if (r->slot[i].blob)
            blob_drop(r->slot[i].blob);
    free(r->slot);
    r->slot = NULL;
}
