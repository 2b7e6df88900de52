/* What the files of the cache share. Data flow: cache.c takes requests; cache_lookup.c answers hits; cache_fetch.c fetches what is missing;
 * cache_store.c keeps what came; cache_fill.c runs ahead; cache_ram.c, cache_entry.c, cache_claim.c, cache_dir.c and cache_evict.c are the
 * tiers; cache_team.c has the threads that do it.
 *
 * Safety: `lock` guards the lists, the table of flights and the RAM table; nothing blocks under it. `future_lock` guards the walk over the
 * order (fill and evict). Disk work holds neither; between processes there are only flocks, which die with their holder.
 */
#ifndef FB_CACHE_CACHE_INTERNAL_H
#define FB_CACHE_CACHE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "cache/cache.h"
#include "cache/cache_present.h"

enum {
    CACHE_THREADS_MOST = 32,
    CACHE_STORERS_MOST = 4,
    CACHE_NICE = 10, /* what is kept is for later: whoever works for the batch at hand goes first */
    CACHE_CLAIMS_MOST = 512,
    CACHE_CLAIMERS_MOST = 2,    /* make files at once: that takes CPU time and the folder's lock, so more only slows others */
    CACHE_FILL_DEPTH = 32,      /* fetches ahead in flight, less what the reader has */
    CACHE_CHUNK = 64 << 10,     /* bytes under one checksum: a part of a unit is verified without the rest */
    CACHE_UNIT_MOST = 64 << 20, /* larger units are not kept */
    CACHE_LOOK_MOST = 1 << 26,  /* units that are all looked at: some ten seconds; larger data sets are learnt as they are met */
    CACHE_HEAD_MOST = 16 << 10,
    CACHE_STORE_QUEUE = 64 << 20, /* bytes that may wait to be stored; beyond, they are not */
    CACHE_FLIGHT_SLOTS = 1024
};

/* A unit's bytes in memory, counted in the budget. */
struct blob {
    _Atomic int refs;
    size_t bytes;    /* of the unit */
    size_t capacity; /* of data */
    uint64_t object_size;
    int64_t mtime_ns;
    struct budget *budget;
    struct cache_identity identity;
    _Alignas(64) uint8_t data[];
};

/* The right to write an entry: a flock on its .part file, which dies with its holder. */
struct claim {
    int fd; /* -1: none */
};

/* One fetch from the source. */
struct flight {
    struct io_request r; /* what the inner back-end sees */
    struct cache *cache;
    struct cache_unit unit;
    uint64_t hash;
    struct cache_identity identity; /* before the read; length 0: will not be kept */
    struct claim claim;
    bool claims_late;           /* claimed when it is stored, since no other process could fetch it too */
    struct io_request *direct;  /* read straight into this request's buffer; NULL: into blob */
    struct io_request *waiting; /* by next: answered when it is over */
    struct blob *blob;          /* NULL: nothing to store */
    bool is_fill, is_listed;
    bool is_landed;                     /* the bytes are in blob and wait to be kept: who asks meanwhile gets them from there */
    uint64_t need_epoch, need_position; /* when it is needed, for who makes room for it */
    uint64_t reserved;                  /* bytes counted for its entry */
    uint64_t held;                      /* bytes counted in store_bytes */
    struct fb_error error;
    struct flight *next, *next_store; /* in the table; in the list of what is to be kept */
};

struct cache_dir {
    int fd, marker_fd, usage_fd, place_fd, used_fd; /* the folder; who uses it; its count; the data set's part; who uses that */
    uint64_t limit;
    pthread_mutex_t usage_lock; /* threads of one process share a flock, so they need this as well */
    _Atomic bool must_recount;  /* damage was met: what is counted may be wrong */
    _Atomic uint32_t claims;    /* held now: a descriptor each. Relaxed: nothing else hangs on it */
    uint32_t claims_most;
    bool is_counted; /* among the users */
    char *name;      /* of the data set */
};

struct ram_slot {
    uint64_t hash;
    struct blob *blob;
};

struct ram {
    struct ram_slot *slot;
    uint64_t mask, used;
    uint64_t bytes, limit;
};

/* Threads that are started as there is something to do. */
struct team {
    const char *name;
    pthread_cond_t wake;
    pthread_t thread[CACHE_THREADS_MOST];
    uint32_t most, started, idle, woken; /* woken: signalled, not yet awake */
};

struct cache {
    struct io io;
    struct io *inner;
    pid_t pid;
    struct log log;
    struct budget *budget;
    struct cache_source source;
    uint32_t depth;
    uint64_t ask_ns; /* the inner back-end's, which may be closed before the cache's threads end */
    struct cache_dir dir;
    bool has_disk;
    _Atomic bool is_disk_off, is_write_off; /* relaxed: a late reader meets the error once more */

    pthread_mutex_t lock;
    pthread_cond_t quiet, fill_wakes, claim_over;
    struct io_request *asked, *asked_last; /* to be looked up */
    struct flight *stores, *stores_last;   /* to be kept */
    uint64_t store_bytes, store_limit;     /* of blobs on their way to be kept */
    uint32_t lookups, claiming;            /* requests being looked up; of them, at their claims */
    struct flight *flights[CACHE_FLIGHT_SLOTS];
    uint32_t ended[CACHE_FLIGHT_SLOTS]; /* flights that have left each slot */
    uint32_t demand_in_flight, fill_in_flight, flights_alive;
    uint32_t sending; /* threads inside the inner back-end's submit */
    struct ram ram;
    struct team lookup_team, store_team;
    uint32_t alive; /* threads of both */
    bool is_closing, is_draining_over, was_warned;
    char why_off[160];

    /* the future */
    pthread_mutex_t future_lock;
    struct cache_reader reader; /* under lock */
    bool has_reader;
    uint64_t far_step, far_epoch, far_position; /* under future_lock: the walk backwards from the furthest use */
    uint64_t others_after_ns;                   /* under future_lock: other data sets are not looked at again before */
    bool is_far_known;
    struct present present; /* by index: believed to be on disk; set up before threads start */
    pthread_t filler;
    bool has_filler, is_filler_over;

    /* figures; relaxed order: no data hangs on them */
    _Atomic uint64_t ram_hits, disk_hits, misses, ram_hit_bytes, disk_hit_bytes, miss_bytes;
    _Atomic uint64_t filled, filled_bytes, stored, stored_bytes, evicted, evicted_bytes, damaged, changed, joined;
    _Atomic uint64_t failures, busy_ns;
    _Atomic uint32_t in_flight, in_flight_peak;
};

static inline void cache_count(_Atomic uint64_t *figure, uint64_t by)
{
    atomic_fetch_add_explicit(figure, by, memory_order_relaxed);
}

static inline bool cache_has_disk(const struct cache *c)
{
    return c->has_disk && !atomic_load_explicit(&c->is_disk_off, memory_order_relaxed);
}

/* ---- cache.c ---- */
uint64_t cache_hash(const struct cache *c, const struct cache_unit *u);
int cache_identify(struct cache *c, const struct cache_unit *u, bool may_block, struct cache_identity *out);
bool cache_same_identity(const struct cache_identity *a, const struct cache_identity *b);
/* The disk tier failed: said once. is_write: what is there may still be read. */
void cache_turn_off(struct cache *c, int sys_errno, const char *doing, bool is_write);
/* A file of the disk tier could not be opened. True: the tier is off; false: too many files are open, which passes. */
bool cache_open_failed(struct cache *c, int sys_errno, const char *doing, bool is_write);
/* Ends a request: the result is in r. */
void cache_finish(struct cache *c, struct io_request *r);
/* Fills r from a unit's bytes: 0 or IO_GREW. */
int cache_answer(struct io_request *r, const struct cache_unit *u, const uint8_t *data, uint64_t bytes, uint64_t object_size,
                 int64_t mtime_ns);

/* ---- cache_team.c ---- */
void teams_init(struct cache *c);
/* Under lock: one more thread for what was just listed. False: the team has none, and none can be started. */
bool team_call(struct cache *c, struct team *t);
/* Under lock, by whoever ended something while closing: the threads may leave if it was the last. */
void teams_wake_if_over(struct cache *c);
/* Once closing has begun: waits for the threads; what waits to be stored is stored as far as there is time. How many are stuck. */
uint32_t teams_end(struct cache *c, uint64_t deadline_ns);

/* ---- cache_lookup.c ---- */
enum { LOOK_NOT_OURS = 3 };
/* Answers a request or fetches for it. May block; takes the request. */
void cache_look_up(struct cache *c, struct io_request *r);
/* 0: r is filled (r->status). IO_BLOCKED. LOOK_NOT_OURS: a piece of an open file, which is not cached. */
int cache_look_now(struct cache *c, struct io_request *r);

/* ---- cache_fetch.c ---- */
/* What is to become of the bytes. */
struct keeping {
    uint32_t seen; /* flight_ended before it was looked up */
    struct claim claim;
    bool claims_late;
    uint64_t reserved;
};
/* Fetches what a request wants; the request may join a fetch under way. Takes the claim and the bytes that were reserved. False: one has
 * ended since it was looked up, so it must be looked up again; nothing was taken but the claim and the room. */
bool flight_for_request(struct cache *c, struct io_request *r, const struct cache_unit *u, uint64_t hash, const struct cache_identity *id,
                        const struct keeping *k);
bool flight_wants_all(const struct io_request *r, const struct cache_unit *u);
/* Fetches a unit ahead of the reader: unit, hash, identity, claim and reserved of `wanted`. False: not now (under way already, or
 * no memory); claim and room are then still the caller's. */
bool flight_ahead(struct cache *c, const struct flight *wanted);
/* Passes a request through, nothing kept. */
void flight_pass(struct cache *c, struct io_request *r);
/* Joins r to a fetch of the same unit. */
bool flight_join(struct cache *c, uint64_t hash, struct io_request *r);
bool flight_is_listed(struct cache *c, uint64_t hash);
/* Changes when a flight of that hash ends, and now and then without. */
uint32_t flight_ended(struct cache *c, uint64_t hash);
/* Fills r (r->status) from bytes of that version that wait to be kept. False: there are none. */
bool flight_answer(struct cache *c, struct io_request *r, const struct cache_unit *u, uint64_t hash, const struct cache_identity *id);
void flight_free(struct flight *f);

/* ---- cache_store.c ---- */
struct blob *blob_new(struct budget *b, uint64_t bytes);
void blob_drop(struct blob *b);
/* A flight's bytes are there: keep them where there is room. Takes the flight. */
void store_keep(struct cache *c, struct flight *f);
/* Keeps nothing; gives back the claim and the room. Takes the flight. */
void store_drop(struct cache *c, struct flight *f);

/* ---- cache_ram.c ---- */
bool ram_open(struct ram *r, uint64_t limit);
/* Under the cache's lock. find: with a reference. put: takes a reference of its own if there is room. */
struct blob *ram_find(struct ram *r, uint64_t hash);
bool ram_has_room(const struct ram *r, uint64_t bytes);
void ram_put(struct ram *r, uint64_t hash, struct blob *b);
void ram_drop(struct ram *r, uint64_t hash);
void ram_close(struct ram *r);

/* ---- cache_entry.c ---- */
enum entry_state { ENTRY_HIT, ENTRY_NONE, ENTRY_BLOCKED, ENTRY_OTHER, ENTRY_DAMAGED, ENTRY_FAILED, ENTRY_GREW };
uint64_t entry_file_bytes(const struct cache_dir *d, const struct cache_unit *u, const struct cache_identity *id, uint64_t bytes);
/* Is the unit's key short enough to be kept? */
bool entry_fits(const struct cache_dir *d, const struct cache_unit *u, const struct cache_identity *id, uint64_t bytes);
/* Reads what r wants of the unit. ENTRY_FAILED: *sys_errno. */
enum entry_state entry_read(const struct cache_dir *d, struct io_request *r, const struct cache_unit *u, uint64_t hash,
                            const struct cache_identity *id, bool may_block, int *sys_errno);
/* Writes the entry into an empty file. 0 or an errno. */
int entry_write(const struct cache_dir *d, int fd, const struct cache_unit *u, const struct blob *b);

/* ---- cache_claim.c ---- */
/* Is there a descriptor to spare for one more? */
bool claim_may(const struct cache_dir *d);
/* 1: it is ours. 0: someone else's. Negative: -errno; -EMFILE or -ENFILE: not now. */
int claim_take(struct cache_dir *d, uint64_t hash, struct claim *c);
void claim_drop(struct cache_dir *d, uint64_t hash, struct claim *c);
/* 0 or an errno; the claim is gone in any case. */
int claim_publish(struct cache_dir *d, uint64_t hash, struct claim *c);

/* ---- cache_dir.c ---- */
enum { DIR_NAME_BYTES = 32 };
int dir_open(struct cache_dir *d, const char *path, const char *name, uint64_t limit, struct fb_error *e);
void dir_close(struct cache_dir *d);
char *dir_entry_name(uint64_t hash, char out[DIR_NAME_BYTES]); /* "ab/0123456789abcdef" */
bool dir_parse_name(int folder, const char *name, uint64_t *hash, bool *is_part);
/* Room for `bytes` more, counted from now on. 0, ENOSPC: not within the limits; or another errno. */
int dir_reserve(struct cache_dir *d, uint64_t bytes);
void dir_release(struct cache_dir *d, uint64_t bytes);
uint64_t dir_used(struct cache_dir *d);
/* Do others use the folder, too? Somebody may come at any time. */
bool dir_is_shared(const struct cache_dir *d);
bool dir_has_entry(const struct cache_dir *d, uint64_t hash);
/* Calls `each` for every entry and .part of a place; stops when it says false. */
void dir_walk(int place_fd, bool (*each)(void *ctx, int place_fd, const char *name, uint64_t hash, bool is_part), void *ctx);
/* Removes an entry and gives back its bytes; how many there were. */
uint64_t dir_remove(struct cache_dir *d, int place_fd, const char *name);

/* ---- cache_evict.c ---- */
/* Room for `bytes`, counted from now on, for a unit that is needed at that position of that epoch; pushes out what is needed later, if it
 * must. 0, ENOSPC: nothing may go; or another errno. */
int evict_and_reserve(struct cache *c, uint64_t bytes, uint64_t epoch, uint64_t position);
/* The same for a unit that was just asked for: it is needed next in the next epoch. */
int evict_and_reserve_again(struct cache *c, uint64_t bytes, uint64_t index);

/* ---- cache_fill.c ---- */
int fill_start(struct cache *c, struct fb_error *e);

#endif
