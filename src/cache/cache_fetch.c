/* Fetches from the source. One unit is fetched once at a time: whoever wants it meanwhile waits for the same bytes. A request that wants
 * all of its unit is read straight into its own buffer, one that wants a part (or a fetch ahead, which nobody waits for yet) into a blob.
 *
 * flight_done runs on the inner back-end's thread and must not block: it copies, answers, and leaves identity, RAM and disk to the cache's
 * own threads.
 */
#include <stdlib.h>
#include <string.h>

#include "cache/cache_internal.h"

/* ---- the table; under lock ---- */

static struct flight **place_of(struct cache *c, uint64_t hash)
{
    struct flight **p = &c->flights[hash % CACHE_FLIGHT_SLOTS];
    while (*p && (*p)->hash != hash)
        p = &(*p)->next;
    return p;
}

static void list(struct cache *c, struct flight *f)
{
    f->next = c->flights[f->hash % CACHE_FLIGHT_SLOTS];
    c->flights[f->hash % CACHE_FLIGHT_SLOTS] = f;
    f->is_listed = true;
}

static void take_off(struct cache *c, struct flight *f)
{
    struct flight **p = &c->flights[f->hash % CACHE_FLIGHT_SLOTS];
    while (f->is_listed && *p != f) /* of one hash there may be two: one that waits to be kept, and a newer version */
        p = &(*p)->next;
    if (f->is_listed) {
        *p = f->next;
        c->ended[f->hash % CACHE_FLIGHT_SLOTS]++;
    }
    f->is_listed = false;
    f->next = NULL;
}

static bool join_locked(struct cache *c, uint64_t hash, struct io_request *r)
{
    struct flight *f = *place_of(c, hash);
    if (!f || f->is_landed)
        return false;
    r->next = f->waiting;
    f->waiting = r;
    cache_count(&c->joined, 1);
    return true;
}

bool flight_join(struct cache *c, uint64_t hash, struct io_request *r)
{
    pthread_mutex_lock(&c->lock);
    bool joined = join_locked(c, hash, r);
    pthread_mutex_unlock(&c->lock);
    return joined;
}

bool flight_is_listed(struct cache *c, uint64_t hash)
{
    pthread_mutex_lock(&c->lock);
    bool is_listed = *place_of(c, hash) != NULL;
    pthread_mutex_unlock(&c->lock);
    return is_listed;
}

uint32_t flight_ended(struct cache *c, uint64_t hash)
{
    pthread_mutex_lock(&c->lock);
    uint32_t ended = c->ended[hash % CACHE_FLIGHT_SLOTS];
    pthread_mutex_unlock(&c->lock);
    return ended;
}

/* Under lock. The bytes of that version that wait to be kept, with a reference; NULL: there are none. */
static struct blob *find_landed(struct cache *c, uint64_t hash, const struct cache_identity *id)
{
    struct flight *f = *place_of(c, hash);
    struct blob *b = f && f->is_landed && cache_same_identity(&f->identity, id) ? f->blob : NULL;
    if (b)
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed); /* the flight has one meanwhile */
    return b;
}

/* Takes the reference. */
static void answer_from_blob(struct cache *c, struct io_request *r, const struct cache_unit *u, struct blob *b)
{
    r->status = cache_answer(r, u, b->data, b->bytes, b->object_size, b->mtime_ns);
    blob_drop(b);
    if (r->status == 0) {
        cache_count(&c->joined, 1);
        cache_count(&c->miss_bytes, r->got);
    }
}

bool flight_answer(struct cache *c, struct io_request *r, const struct cache_unit *u, uint64_t hash, const struct cache_identity *id)
{
    pthread_mutex_lock(&c->lock);
    struct blob *b = find_landed(c, hash, id);
    pthread_mutex_unlock(&c->lock);
    if (b)
        answer_from_blob(c, r, u, b);
    return b != NULL;
}

void flight_free(struct flight *f)
{
    struct cache *c = f->cache;
    pthread_mutex_lock(&c->lock);
    take_off(c, f);
    pthread_mutex_unlock(&c->lock);
    blob_drop(f->blob);
    pthread_mutex_lock(&c->lock);
    c->store_bytes -= f->held;
    c->flights_alive--;
    pthread_cond_signal(&c->fill_wakes);
    teams_wake_if_over(c);
    pthread_mutex_unlock(&c->lock);
    free(f);
}

/* ---- over ---- */

/* Memory for a copy that waits to be kept; NULL: too much waits already, or the budget is used up. */
static struct blob *blob_to_store(struct cache *c, struct flight *f, uint64_t bytes)
{
    pthread_mutex_lock(&c->lock);
    bool has_place = f->claim.fd >= 0 || f->claims_late || ram_has_room(&c->ram, bytes);
    bool fits = has_place && !c->is_closing && (c->store_bytes == 0 || c->store_bytes + bytes <= c->store_limit);
    if (fits) {
        c->store_bytes += bytes;
        f->held += bytes;
    }
    pthread_mutex_unlock(&c->lock);
    return fits ? blob_new(c->budget, bytes) : NULL;
}

static void copy_to_store(struct cache *c, struct flight *f)
{
    const struct io_request *r = &f->r;
    f->blob = blob_to_store(c, f, r->got);
    if (f->blob)
        memcpy(f->blob->data, r->buffer, r->got);
}

static void answer_direct(struct cache *c, struct flight *f)
{
    struct io_request *to = f->direct;
    to->status = f->r.status;
    to->got = f->r.got;
    to->object_size = f->r.object_size;
    to->object_mtime_ns = f->r.object_mtime_ns;
    if (to->status == 0)
        cache_count(&c->miss_bytes, to->got);
    cache_finish(c, to);
}

/* A request with an open file needs the bytes of that file, not of another one that has its name by now. */
static bool is_for(const struct io_request *r, const struct cache_unit *u, bool is_other)
{
    const struct io_object *o = r->object;
    return !o || (!is_other && o->size == u->object_size && o->mtime_ns == u->mtime_ns);
}

static void answer_waiting(struct cache *c, struct flight *f, struct io_request *waiting, bool is_whole, bool is_other)
{
    while (waiting) {
        struct io_request *w = waiting;
        waiting = w->next;
        if (!is_whole || !is_for(w, &f->unit, is_other)) {
            flight_pass(c, w);
            continue;
        }
        w->status = cache_answer(w, &f->unit, f->r.buffer, f->r.got, f->r.object_size, f->r.object_mtime_ns);
        cache_count(&c->miss_bytes, w->status == 0 ? w->got : 0);
        cache_finish(c, w);
    }
}

static void hand_to_store(struct cache *c, struct flight *f)
{
    if (!f->blob && f->claim.fd < 0 && !f->reserved) {
        flight_free(f);
        return;
    }
    pthread_mutex_lock(&c->lock);
    bool has_store_thread = team_call(c, &c->store_team);
    if (has_store_thread) {
        *(c->stores ? &c->stores_last->next_store : &c->stores) = f;
        c->stores_last = f;
    }
    pthread_mutex_unlock(&c->lock);
    if (has_store_thread)
        return;
    store_drop(c, f); /* no thread can be had */
}

/* Decides which tiers keep the bytes; from here on the flight has only what they will keep. */
static void settle(struct cache *c, struct flight *f, bool is_whole, bool is_other)
{
    const struct io_request *r = &f->r;
    if (is_other)
        f->identity.length = 0;
    if (!is_whole) {
        blob_drop(f->blob);
        f->blob = NULL;
    } else if (f->direct && f->identity.length) {
        copy_to_store(c, f);
    }
    if (f->blob) {
        f->unit.size = f->blob->bytes = r->got;
        f->blob->object_size = r->object_size;
        f->blob->mtime_ns = r->object_mtime_ns;
    }
    if (f->is_fill && is_whole) {
        cache_count(&c->filled, 1);
        cache_count(&c->filled_bytes, r->got);
    }
}

/* The bytes are there. Later requests get them from the blob, if it will be kept; returns the requests that were waiting. */
static struct io_request *land(struct cache *c, struct flight *f)
{
    pthread_mutex_lock(&c->lock);
    struct io_request *waiting = f->waiting;
    f->waiting = NULL;
    f->is_landed = f->is_listed && f->blob && f->identity.length;
    if (!f->is_landed)
        take_off(c, f);
    if (f->is_fill)
        c->fill_in_flight--;
    else
        c->demand_in_flight--;
    pthread_cond_signal(&c->fill_wakes);
    pthread_mutex_unlock(&c->lock);
    return waiting;
}

static void flight_done(struct io_request *r)
{
    struct flight *f = r->owner;
    struct cache *c = f->cache;
    bool is_whole = r->status == 0 && (r->length == IO_WHOLE ? r->got == r->object_size : r->got == r->length);
    /* another version than the one the source was said to have? An open file is what it was */
    bool is_other = f->unit.mtime_ns && c->source.identify && !r->has_fd && r->object_mtime_ns != f->unit.mtime_ns;
    settle(c, f, is_whole, is_other);
    answer_waiting(c, f, land(c, f), is_whole, is_other);
    if (f->direct)
        answer_direct(c, f);
    f->direct = NULL;
    hand_to_store(c, f);
}

/* ---- begin ---- */

static struct flight *flight_new(struct cache *c, const struct cache_unit *u, uint64_t hash, const struct cache_identity *id)
{
    struct flight *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->cache = c;
    f->claim.fd = -1;
    f->hash = hash;
    if (u)
        f->unit = *u;
    if (id)
        f->identity = *id;
    return f;
}

static void aim_at_request(struct flight *f, struct io_request *r)
{
    f->direct = r;
    f->r = *r;
    f->r.done = flight_done;
    f->r.owner = f;
}

static void aim_at_blob(struct flight *f)
{
    const struct cache_unit *u = &f->unit;
    f->r = (struct io_request){.dir_fd = u->dir_fd,
                               .path = u->path,
                               .offset = u->offset,
                               .length = u->length,
                               .expected_size = u->size,
                               .buffer = f->blob->data,
                               .capacity = f->blob->capacity,
                               .done = flight_done,
                               .owner = f,
                               .error = &f->error,
                               .expected_mtime_ns = u->mtime_ns,
                               .must_match = u->mtime_ns != 0};
}

/* From the file that the request has open, which stays open while the request waits. */
static void aim_at_open_file(struct flight *f, const struct io_request *r)
{
    f->r.has_fd = true;
    f->r.fd = r->fd;
    f->r.path = r->path;
    f->r.length = f->unit.size;
}

/* Not once closing has begun: the inner back-end goes first, as soon as nobody is in here. */
static void send(struct cache *c, struct flight *f)
{
    pthread_mutex_lock(&c->lock);
    bool may = !c->is_closing;
    c->sending += may;
    pthread_mutex_unlock(&c->lock);
    if (!may) {
        f->r.got = 0;
        f->r.status = error_set(f->r.error, FB_E_STATE, "read", "the reader was closed before this read was over");
        flight_done(&f->r);
        return;
    }
    c->inner->ops->submit(c->inner, &f->r, false);
    pthread_mutex_lock(&c->lock);
    c->sending--;
    if (c->is_closing)
        pthread_cond_broadcast(&c->quiet);
    pthread_mutex_unlock(&c->lock);
}

static void fail_without_memory(struct cache *c, struct io_request *r)
{
    r->got = 0;
    r->status = error_set(r->error, FB_E_NOMEM, "read", "no memory for a read");
    error_at(r->error, r->path, -1);
    cache_finish(c, r);
}

void flight_pass(struct cache *c, struct io_request *r)
{
    struct flight *f = flight_new(c, NULL, 0, NULL);
    if (!f) {
        fail_without_memory(c, r);
        return;
    }
    aim_at_request(f, r);
    cache_count(&c->misses, 1);
    pthread_mutex_lock(&c->lock);
    c->demand_in_flight++;
    c->flights_alive++;
    pthread_mutex_unlock(&c->lock);
    send(c, f);
}

bool flight_wants_all(const struct io_request *r, const struct cache_unit *u)
{
    if (r->length == IO_WHOLE || u->length == IO_WHOLE)
        return r->length == u->length;
    return r->offset == u->offset && r->length == u->length;
}

bool flight_for_request(struct cache *c, struct io_request *r, const struct cache_unit *u, uint64_t hash, const struct cache_identity *id,
                        const struct keeping *k)
{
    struct flight *f = flight_new(c, u, hash, id);
    bool is_direct = flight_wants_all(r, u);
    if (f && !is_direct)
        f->blob = blob_new(c->budget, u->size);
    if (!f || (!is_direct && !f->blob)) {
        struct claim claim = k->claim;
        claim_drop(&c->dir, hash, &claim);
        if (k->reserved)
            dir_release(&c->dir, k->reserved);
        free(f);
        flight_pass(c, r);
        return true;
    }
    f->claim = k->claim;
    f->claims_late = k->claims_late;
    f->reserved = k->reserved;
    if (is_direct)
        aim_at_request(f, r);
    else
        aim_at_blob(f);
    if (!is_direct && r->has_fd)
        aim_at_open_file(f, r);
    pthread_mutex_lock(&c->lock);
    bool joined = join_locked(c, hash, r);
    struct blob *landed = joined ? NULL : find_landed(c, hash, id);
    bool is_late = !joined && !landed && c->ended[hash % CACHE_FLIGHT_SLOTS] != k->seen; /* it may have been stored meanwhile */
    if (!joined && !landed && !is_late) {
        list(c, f);
        c->demand_in_flight++;
        if (!is_direct) {
            f->held = u->size;
            c->store_bytes += f->held;
            r->next = NULL;
            f->waiting = r;
        }
    }
    c->flights_alive++;
    pthread_mutex_unlock(&c->lock);
    if (landed) {
        answer_from_blob(c, r, u, landed);
        cache_finish(c, r);
    }
    if (joined || landed || is_late) {
        store_drop(c, f);
        return !is_late;
    }
    cache_count(&c->misses, 1);
    send(c, f);
    return true;
}

bool flight_ahead(struct cache *c, const struct flight *wanted)
{
    struct flight *f = flight_new(c, &wanted->unit, wanted->hash, &wanted->identity);
    if (f)
        f->blob = blob_new(c->budget, f->unit.size);
    if (!f || !f->blob) {
        free(f);
        return false;
    }
    f->is_fill = true;
    aim_at_blob(f);
    pthread_mutex_lock(&c->lock);
    bool may = !c->is_closing && !*place_of(c, f->hash);
    if (may) {
        list(c, f);
        f->claim = wanted->claim;
        f->reserved = wanted->reserved;
        f->held = f->unit.size;
        c->store_bytes += f->held;
        c->fill_in_flight++;
    }
    c->flights_alive++;
    pthread_mutex_unlock(&c->lock);
    if (may)
        send(c, f);
    else
        flight_free(f);
    return may;
}
