#include "base/round_up.h"
#include "feed/chunk_cache.h"

#include <stdlib.h>

#include "base/rng.h"

enum { BUCKETS_MOST = 1 << 20, BUCKETS_LEAST = 64 };

int chunk_cache_open(struct chunk_cache *c, struct budget *budget, uint64_t limit, uint64_t chunk_bytes, struct fb_error *e)
{
    *c = (struct chunk_cache){.budget = budget, .limit = limit, .buckets = BUCKETS_LEAST};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    while (c->buckets < BUCKETS_MOST && c->buckets * (chunk_bytes + 1) < limit)
        c->buckets *= 2;
    c->bucket = calloc(c->buckets, sizeof(*c->bucket));
    return c->bucket ? 0 : error_set(e, FB_E_NOMEM, "feed", "no memory for the table of chunks");
}

static struct chunk_entry **bucket_of(struct chunk_cache *c, uint64_t key)
{
    return &c->bucket[rng_mix(0, key) & (c->buckets - 1)];
}

/* ---- under the lock ---- */

static struct chunk_entry *find(struct chunk_cache *c, uint64_t key)
{
    struct chunk_entry *x = *bucket_of(c, key);
    while (x && x->key != key)
        x = x->hash_next;
    return x;
}

static void unlist(struct chunk_cache *c, struct chunk_entry *x)
{
    *(x->older ? &x->older->newer : &c->oldest) = x->newer;
    *(x->newer ? &x->newer->older : &c->newest) = x->older;
    x->older = x->newer = NULL;
}

static void list_newest(struct chunk_cache *c, struct chunk_entry *x)
{
    x->older = c->newest;
    x->newer = NULL;
    *(c->newest ? &c->newest->newer : &c->oldest) = x;
    c->newest = x;
}

static void unhash(struct chunk_cache *c, struct chunk_entry *x)
{
    struct chunk_entry **at = bucket_of(c, x->key);
    while (*at != x)
        at = &(*at)->hash_next;
    *at = x->hash_next;
}

static void drop(struct chunk_cache *c, struct chunk_entry *x)
{
    unhash(c, x);
    unlist(c, x);
    c->bytes -= x->bytes;
    budget_give(c->budget, MEMORY_CACHE, x->bytes);
    free(x);
}

static struct chunk_entry *oldest_unpinned(struct chunk_cache *c)
{
    struct chunk_entry *x = c->oldest;
    while (x && x->pins)
        x = x->newer;
    return x;
}

static bool drop_oldest(struct chunk_cache *c)
{
    struct chunk_entry *x = oldest_unpinned(c);
    if (!x)
        return false;
    drop(c, x);
    c->evictions++;
    return true;
}

/* Memory of `total` bytes, counted. That of an old chunk of the same size is used again as it is: fresh pages would have to be cleared by
 * the kernel, which takes a third of the time that inflating into them does. */
static struct chunk_entry *get_memory(struct chunk_cache *c, size_t total)
{
    while (c->bytes + total > c->limit || !budget_take(c->budget, MEMORY_CACHE, total)) {
        struct chunk_entry *old = oldest_unpinned(c);
        if (!old)
            return NULL;
        if (old->bytes != total) {
            drop(c, old);
            c->evictions++;
            continue;
        }
        unhash(c, old);
        unlist(c, old);
        c->evictions++;
        return old;
    }
    struct chunk_entry *x = aligned_alloc(64, total);
    if (x)
        c->bytes += total;
    else
        budget_give(c->budget, MEMORY_CACHE, total);
    return x;
}

static struct chunk_entry *make(struct chunk_cache *c, uint64_t key, size_t bytes)
{
    size_t total = sizeof(struct chunk_entry) + round_up(bytes, 64);
    struct chunk_entry *x = total <= c->limit ? get_memory(c, total) : NULL;
    if (!x)
        return NULL;
    *x = (struct chunk_entry){.key = key, .bytes = total, .pins = 1};
    struct chunk_entry **at = bucket_of(c, key);
    x->hash_next = *at;
    *at = x;
    list_newest(c, x);
    return x;
}

/* ---- */

bool chunk_cache_has(struct chunk_cache *c, uint64_t key)
{
    pthread_mutex_lock(&c->lock);
    bool has = find(c, key) != NULL;
    pthread_mutex_unlock(&c->lock);
    return has;
}

struct chunk_entry *chunk_cache_get(struct chunk_cache *c, uint64_t key, size_t bytes, bool *is_mine)
{
    *is_mine = false;
    pthread_mutex_lock(&c->lock);
    struct chunk_entry *x;
    while ((x = find(c, key)) && !x->is_ready)
        pthread_cond_wait(&c->changed, &c->lock);
    if (x) {
        x->pins++;
        c->hits++;
        unlist(c, x);
        list_newest(c, x);
    } else {
        x = make(c, key, bytes);
        c->misses++;
        *is_mine = x != NULL;
    }
    pthread_mutex_unlock(&c->lock);
    return x;
}

void chunk_cache_filled(struct chunk_cache *c, struct chunk_entry *x, bool is_good)
{
    pthread_mutex_lock(&c->lock);
    if (is_good) {
        x->is_ready = true;
    } else { /* nobody finds it any more; those who wait try by themselves */
        x->has_failed = true;
        unhash(c, x);
    }
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void chunk_cache_unpin(struct chunk_cache *c, struct chunk_entry *x)
{
    pthread_mutex_lock(&c->lock);
    if (--x->pins == 0 && x->has_failed) {
        unlist(c, x);
        c->bytes -= x->bytes;
        budget_give(c->budget, MEMORY_CACHE, x->bytes);
        free(x);
    }
    pthread_mutex_unlock(&c->lock);
}

void chunk_cache_trim(struct chunk_cache *c, bool is_half)
{
    pthread_mutex_lock(&c->lock);
    uint64_t kept = is_half ? c->bytes / 2 : 0;
    while (c->bytes > kept && drop_oldest(c))
        ;
    pthread_mutex_unlock(&c->lock);
}

void chunk_cache_close(struct chunk_cache *c)
{
    if (!c->bucket)
        return;
    chunk_cache_trim(c, false);
    free(c->bucket);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    *c = (struct chunk_cache){0};
}
