/* Looks a request up in memory, then on disk, and fetches it if neither has it. If another process is fetching the unit, it waits for that
 * a little. Any error here only means a read from the source. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "cache/cache_internal.h"

enum { OTHERS_TRIES = 40, OTHERS_NAP_NS = 5000000 }; /* how long a fetch of another process is waited for: 0.2 s */

/* ---- hits ---- */

/* False: a piece of an open file that belongs to no unit; it is not cached. */
static bool unit_of(struct cache *c, const struct io_request *r, struct cache_unit *u)
{
    if (c->source.unit_of(c->source.ctx, r, u))
        return true;
    if (r->has_fd)
        return false;
    *u = (struct cache_unit){r->dir_fd,
                             r->path,
                             r->length == IO_WHOLE ? 0 : r->offset,
                             r->length,
                             r->length == IO_WHOLE ? r->expected_size : r->length,
                             CACHE_NO_INDEX,
                             r->expected_mtime_ns};
    return true;
}

static bool answer_from_ram(struct cache *c, struct io_request *r, const struct cache_unit *u, uint64_t hash,
                            const struct cache_identity *id)
{
    pthread_mutex_lock(&c->lock);
    struct blob *b = ram_find(&c->ram, hash);
    bool is_same = b && cache_same_identity(&b->identity, id);
    if (b && !is_same) {
        ram_drop(&c->ram, hash);
        cache_count(&c->changed, 1);
    }
    pthread_mutex_unlock(&c->lock);
    if (is_same)
        r->status = cache_answer(r, u, b->data, b->bytes, b->object_size, b->mtime_ns);
    if (is_same && r->status == 0) {
        cache_count(&c->ram_hits, 1);
        cache_count(&c->ram_hit_bytes, r->got);
    }
    blob_drop(b);
    return is_same;
}

/* All of a unit came from disk: into RAM with it, if there is room. */
static void raise_to_ram(struct cache *c, const struct io_request *r, const struct cache_unit *u, uint64_t hash,
                         const struct cache_identity *id)
{
    pthread_mutex_lock(&c->lock);
    bool has_room = ram_has_room(&c->ram, u->size);
    pthread_mutex_unlock(&c->lock);
    struct blob *b = has_room && r->got == u->size ? blob_new(c->budget, u->size) : NULL;
    if (!b)
        return;
    memcpy(b->data, r->buffer, b->bytes);
    b->object_size = r->object_size;
    b->mtime_ns = r->object_mtime_ns;
    b->identity = *id;
    pthread_mutex_lock(&c->lock);
    ram_put(&c->ram, hash, b);
    pthread_mutex_unlock(&c->lock);
    blob_drop(b);
}

static void remove_entry(struct cache *c, const struct cache_unit *u, uint64_t hash)
{
    char name[DIR_NAME_BYTES];
    dir_remove(&c->dir, c->dir.place_fd, dir_entry_name(hash, name));
    present_drop(&c->present, u->index);
}

static bool answer_from_disk(struct cache *c, struct io_request *r, const struct cache_unit *u, uint64_t hash,
                             const struct cache_identity *id, bool may_block)
{
    int sys_errno = 0;
    enum entry_state s = cache_has_disk(c) ? entry_read(&c->dir, r, u, hash, id, may_block, &sys_errno) : ENTRY_NONE;
    switch (s) {
    case ENTRY_HIT:
        cache_count(&c->disk_hits, 1);
        cache_count(&c->disk_hit_bytes, r->got);
        present_put(&c->present, u->index);
        raise_to_ram(c, r, u, hash, id);
        return true;
    case ENTRY_OTHER: cache_count(&c->changed, may_block); break;
    case ENTRY_DAMAGED:
        cache_count(&c->damaged, 1);
        atomic_store(&c->dir.must_recount, true);
        remove_entry(c, u, hash);
        break;
    case ENTRY_FAILED: cache_open_failed(c, sys_errno, "read from", false); break;
    default:
        if (may_block)
            present_drop(&c->present, u->index);
    }
    return false;
}

static bool answer(struct cache *c, struct io_request *r, const struct cache_unit *u, uint64_t hash, const struct cache_identity *id,
                   bool may_block)
{
    return answer_from_ram(c, r, u, hash, id) || flight_answer(c, r, u, hash, id) || answer_from_disk(c, r, u, hash, id, may_block);
}

/* ---- misses ---- */

/* Those who store are late, on a slow disk or for want of processor time: then a unit is only read. It is fetched once more some time. */
static bool is_backed_up(struct cache *c)
{
    pthread_mutex_lock(&c->lock);
    bool is_late = c->store_bytes > c->store_limit / 2;
    pthread_mutex_unlock(&c->lock);
    return is_late || !claim_may(&c->dir);
}

static bool may_keep_on_disk(struct cache *c, const struct cache_unit *u, const struct cache_identity *id)
{
    return cache_has_disk(c) && !atomic_load_explicit(&c->is_write_off, memory_order_relaxed) && id->length && !id->is_young &&
           entry_fits(&c->dir, u, id, u->size) && !is_backed_up(c);
}

enum wait_answer { WAIT_OVER, WAIT_ANSWERED, WAIT_JOINED };

static int claim_in_turn(struct cache *c, uint64_t hash, struct claim *claim)
{
    pthread_mutex_lock(&c->lock);
    while (c->claiming >= CACHE_CLAIMERS_MOST)
        pthread_cond_wait(&c->claim_over, &c->lock);
    c->claiming++;
    pthread_mutex_unlock(&c->lock);
    int rc = claim_may(&c->dir) ? claim_take(&c->dir, hash, claim) : -EMFILE;
    pthread_mutex_lock(&c->lock);
    c->claiming--;
    pthread_cond_signal(&c->claim_over);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* The claim for a unit that is missing, or none if another process holds it for long; unless their fetch ended meanwhile and r was
 * answered, or it is one of this process and r waits for it. */
static enum wait_answer claim_or_wait(struct cache *c, struct io_request *r, const struct cache_unit *u, uint64_t hash,
                                      const struct cache_identity *id, struct claim *claim)
{
    for (int i = 0; i < OTHERS_TRIES; i++) {
        int rc = claim_in_turn(c, hash, claim);
        if (rc < 0)
            cache_open_failed(c, -rc, "write to", true);
        if (rc != 0)
            return rc > 0 && answer(c, r, u, hash, id, true) ? WAIT_ANSWERED : WAIT_OVER; /* published just before? */
        if (flight_join(c, hash, r))
            return WAIT_JOINED;
        clock_sleep_until_ns(clock_now_ns() + OTHERS_NAP_NS);
        if (answer(c, r, u, hash, id, true))
            return WAIT_ANSWERED;
        pthread_mutex_lock(&c->lock);
        bool is_closing = c->is_closing;
        pthread_mutex_unlock(&c->lock);
        if (is_closing)
            return WAIT_OVER;
    }
    return WAIT_OVER;
}

/* A part of an open file whose unit can be kept nowhere: then the part alone is read. Rows of a file would otherwise cost a block each. */
static bool is_in_vain(struct cache *c, const struct io_request *r, const struct cache_unit *u, uint64_t hash,
                       const struct cache_identity *id, struct keeping *k)
{
    if (!r->object || flight_wants_all(r, u))
        return false;
    if (k->claim.fd >= 0 || k->claims_late) {
        uint64_t bytes = entry_file_bytes(&c->dir, u, id, u->size);
        int why = evict_and_reserve_again(c, bytes, u->index);
        k->reserved = why ? 0 : bytes;
        if (why == 0)
            return false;
        if (why != ENOSPC)
            cache_turn_off(c, why, "write to", true);
        claim_drop(&c->dir, hash, &k->claim);
        k->claims_late = false;
    }
    pthread_mutex_lock(&c->lock);
    bool has_room = !id->is_young && ram_has_room(&c->ram, u->size);
    pthread_mutex_unlock(&c->lock);
    return !has_room;
}

/* False: again. */
static bool look_up(struct cache *c, struct io_request *r, const struct cache_unit *u)
{
    struct cache_identity id;
    uint64_t hash = cache_hash(c, u);
    struct keeping k = {.claim = {-1}, .seen = flight_ended(c, hash)};
    if (flight_join(c, hash, r))
        return true;
    if (cache_identify(c, u, true, &id) != 0 || u->size > CACHE_UNIT_MOST) {
        flight_pass(c, r);
        return true;
    }
    enum wait_answer a = answer(c, r, u, hash, &id, true) ? WAIT_ANSWERED : WAIT_OVER;
    if (a == WAIT_OVER && may_keep_on_disk(c, u, &id)) {
        k.claims_late = !dir_is_shared(&c->dir); /* making a file now would keep the batch at hand waiting */
        if (!k.claims_late)
            a = claim_or_wait(c, r, u, hash, &id, &k.claim);
    }
    if (a == WAIT_JOINED)
        return true;
    if (a == WAIT_ANSWERED) {
        claim_drop(&c->dir, hash, &k.claim);
        cache_finish(c, r);
        return true;
    }
    if (is_in_vain(c, r, u, hash, &id, &k)) {
        flight_pass(c, r);
        return true;
    }
    if (id.is_young)
        id.length = 0;
    return flight_for_request(c, r, u, hash, &id, &k);
}

void cache_look_up(struct cache *c, struct io_request *r)
{
    struct cache_unit u;
    if (!unit_of(c, r, &u)) {
        flight_pass(c, r);
        return;
    }
    while (!look_up(c, r, &u))
        ;
}

int cache_look_now(struct cache *c, struct io_request *r)
{
    struct cache_unit u;
    struct cache_identity id;
    if (!unit_of(c, r, &u))
        return LOOK_NOT_OURS;
    bool is_here = cache_identify(c, &u, false, &id) == 0 && answer(c, r, &u, cache_hash(c, &u), &id, false);
    return is_here ? 0 : IO_BLOCKED;
}
