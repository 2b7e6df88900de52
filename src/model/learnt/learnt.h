/* Learnt records: what decoding found out about a sample (JPEG checkpoints, ...), kept for later epochs, processes and ranks.
 *
 * A store is a directory of segments. Every process appends to a segment of its own, under a unique name, as records come; nothing is
 * collected in memory but where each record lies. `merged` is one segment with a sorted index, made from the others by learnt_merge and
 * put in place by rename. A record carries the hash of the sample's key, the file's identity and a checksum, all verified on every use:
 * torn tails, stale files and flipped bits are not found, which costs time and nothing else. So nothing is ever fsynced but a merge.
 *
 * Safety: get and put may be called from any thread. A store that cannot be written or is full on disk works as an empty one and says so
 * once.
 */
#ifndef FB_MODEL_LEARNT_LEARNT_H
#define FB_MODEL_LEARNT_LEARNT_H

#include "base/budget.h"
#include "base/log.h"

/* Which bytes a record speaks of. */
struct learnt_identity {
    uint64_t size;
    int64_t mtime_ns;
};

struct learnt_figures {
    uint64_t records; /* known, over all segments */
    uint64_t bytes;   /* of the segments on disk */
    uint64_t found, missed, stale, written;
};

struct learnt;

/* Opens (and makes) the store in `dir`; never fails for want of a disk: *out is NULL when there can be no store at all. */
void learnt_open(struct learnt **out, const char *dir, struct budget *budget, const struct log *log);
void learnt_close(struct learnt *l);

/* The hash under which a key is kept. */
uint64_t learnt_key(const char *key);

/* Copies the newest valid record into `out`; returns its length, or 0: none. */
size_t learnt_get(struct learnt *l, uint64_t key, const struct learnt_identity *id, struct scratch *out);
void learnt_put(struct learnt *l, uint64_t key, const struct learnt_identity *id, const void *record, size_t n);
void learnt_read_figures(struct learnt *l, struct learnt_figures *f);

/* Merges all segments that no living process appends to into one. `is_current` tells whether a record still belongs to a file (NULL: all
 * do). Crash-safe; two merges at once: the second waits. Progress may be NULL. */
int learnt_merge(const char *dir, bool (*is_current)(void *ctx, uint64_t key, const struct learnt_identity *id), void *ctx,
                 struct learnt_figures *f, struct fb_error *e);

#endif
