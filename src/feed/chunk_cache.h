/* Decompressed chunks, kept for the rows of later batches, within a share of the memory budget. Least recently used ones go first.
 *
 * Safety: any thread. A chunk that another thread is decompressing is waited for (that takes CPU time only, never a read); pinned ones
 * stay until unpinned.
 */
#ifndef FB_FEED_CHUNK_CACHE_H
#define FB_FEED_CHUNK_CACHE_H

#include <pthread.h>

#include "base/budget.h"

struct chunk_entry {
    uint64_t key;
    struct chunk_entry *hash_next, *older, *newer;
    size_t bytes;
    uint32_t pins;
    bool is_ready, has_failed;
    _Alignas(64) uint8_t data[];
};

struct chunk_cache {
    struct budget *budget;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct chunk_entry **bucket;
    uint64_t buckets;
    struct chunk_entry *oldest, *newest;
    uint64_t limit, bytes; /* under the lock from here on */
    uint64_t hits, misses, evictions;
};

/* limit 0: nothing is kept. */
int chunk_cache_open(struct chunk_cache *c, struct budget *budget, uint64_t limit, uint64_t chunk_bytes, struct fb_error *e);
void chunk_cache_close(struct chunk_cache *c);

/* Is it there? Changes nothing. */
bool chunk_cache_has(struct chunk_cache *c, uint64_t key);
/* The chunk, pinned. *is_mine: it is empty, the caller fills it and calls chunk_cache_filled. NULL: there is no room for it now. */
struct chunk_entry *chunk_cache_get(struct chunk_cache *c, uint64_t key, size_t bytes, bool *is_mine);
void chunk_cache_filled(struct chunk_cache *c, struct chunk_entry *x,
                        bool is_good); /* a bad one is dropped; it stays pinned all the same */
void chunk_cache_unpin(struct chunk_cache *c, struct chunk_entry *x);
/* Somebody needs memory: all goes that is not pinned, or half of what there is. */
void chunk_cache_trim(struct chunk_cache *c, bool is_half);

#endif
