/* Storing what was fetched: in RAM while there is room, and on disk if this process gets the claim. The source's identity is checked again
 * first, so an entry holds only bytes that were read while the source had that identity. */
#include <errno.h>
#include <stdlib.h>

#include "base/round_up.h"
#include "cache/cache_internal.h"

struct blob *blob_new(struct budget *budget, uint64_t bytes)
{
    uint64_t total = sizeof(struct blob) + round_up(bytes + IO_TAIL, 64);
    if (bytes > CACHE_UNIT_MOST || !budget_take(budget, MEMORY_CACHE, total))
        return NULL;
    struct blob *b = aligned_alloc(64, total);
    if (!b) {
        budget_give(budget, MEMORY_CACHE, total);
        return NULL;
    }
    *b = (struct blob){.bytes = bytes, .capacity = total - sizeof(*b), .budget = budget};
    atomic_init(&b->refs, 1);
    return b;
}

void blob_drop(struct blob *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    budget_give(b->budget, MEMORY_CACHE, sizeof(*b) + b->capacity);
    free(b);
}

/* Room for the entry, once: a fetch ahead has it already. */
static int reserve(struct cache *c, struct flight *f)
{
    if (f->reserved)
        return 0;
    uint64_t bytes = entry_file_bytes(&c->dir, &f->unit, &f->identity, f->blob->bytes);
    int why = evict_and_reserve_again(c, bytes, f->unit.index);
    if (why == 0)
        f->reserved = bytes;
    return why;
}

/* 0 or an errno. The claim is gone, and what was reserved is either the entry's or given back. */
static int write_entry(struct cache *c, struct flight *f)
{
    char name[DIR_NAME_BYTES];
    int why = entry_write(&c->dir, f->claim.fd, &f->unit, f->blob);
    if (why) {
        claim_drop(&c->dir, f->hash, &f->claim);
        return why;
    }
    dir_remove(&c->dir, c->dir.place_fd, dir_entry_name(f->hash, name)); /* an older version: who unlinks it gives back its bytes */
    why = claim_publish(&c->dir, f->hash, &f->claim);
    if (why)
        return why;
    f->reserved = 0;
    present_put(&c->present, f->unit.index);
    return 0;
}

/* Somebody who came meanwhile may have the claim, or have published the entry. */
static bool claim_now(struct cache *c, struct flight *f)
{
    int rc = claim_may(&c->dir) ? claim_take(&c->dir, f->hash, &f->claim) : 0;
    if (rc < 0)
        cache_open_failed(c, -rc, "write to", true);
    return rc > 0 && !(dir_is_shared(&c->dir) && dir_has_entry(&c->dir, f->hash));
}

/* True: it is there. */
static bool keep_on_disk(struct cache *c, struct flight *f)
{
    bool has_claim = f->claim.fd >= 0;
    if ((!has_claim && !f->claims_late) || !cache_has_disk(c) || atomic_load_explicit(&c->is_write_off, memory_order_relaxed))
        return false;
    int why = reserve(c, f);
    if (why == ENOSPC)
        return false; /* full, and everything in it is needed sooner */
    if (why == 0 && !has_claim && !claim_now(c, f))
        return false;
    if (why == 0)
        why = write_entry(c, f);
    if (why)
        cache_turn_off(c, why, "write to", true);
    return why == 0;
}

static bool is_unchanged(struct cache *c, struct flight *f)
{
    struct cache_identity now = {0};
    bool same = cache_identify(c, &f->unit, true, &now) == 0 && cache_same_identity(&now, &f->identity) && !now.is_young;
    if (!same)
        cache_count(&c->changed, 1);
    return same;
}

void store_drop(struct cache *c, struct flight *f)
{
    claim_drop(&c->dir, f->hash, &f->claim);
    if (f->reserved)
        dir_release(&c->dir, f->reserved);
    flight_free(f);
}

void store_keep(struct cache *c, struct flight *f)
{
    uint64_t stored = 0, bytes = f->blob ? f->blob->bytes : 0;
    if (f->blob && f->identity.length && is_unchanged(c, f)) {
        f->blob->identity = f->identity;
        pthread_mutex_lock(&c->lock);
        ram_put(&c->ram, f->hash, f->blob);
        pthread_mutex_unlock(&c->lock);
        stored = keep_on_disk(c, f);
    }
    store_drop(c, f);
    cache_count(&c->stored, stored); /* now it comes from there, and from nowhere else */
    cache_count(&c->stored_bytes, stored * bytes);
}
