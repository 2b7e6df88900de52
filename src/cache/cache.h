/* A cache in front of an io back-end: a RAM tier and a disk tier that answer for a slower source.
 *
 * What is kept as one is a *unit*: a sample's extent of an object. It is kept with the identity its source had when it was read (size and
 * mtime of a file, an ETag), and served only while the source still has that identity. The order of the samples is known, so nothing is
 * guessed: the RAM tier is filled and then left alone (in a shuffled epoch every sample is needed exactly once, so no choice beats another
 * and the hit rate is its share of the data); the disk tier is filled ahead of the reader with what is missing soonest, and lets go of what
 * is needed last, never of something needed sooner than what comes in for it (Cao, Felten, Karlin and Li, 1995).
 *
 * A cache is an io back-end like any other (model/io_ops.h); whatever goes wrong in it costs a read from the source, nothing else.
 */
#ifndef FB_CACHE_CACHE_H
#define FB_CACHE_CACHE_H

#include "base/budget.h"
#include "base/log.h"
#include "model/io_ops.h"

#define CACHE_NO_INDEX UINT64_MAX
#define CACHE_NO_LIMIT UINT64_MAX

/* Which version of an object: compared byte by byte, never looked into. */
struct cache_identity {
    uint8_t length; /* 0: not known, so not cached */
    bool is_young;  /* changed so lately that another change might not show: served, but not kept */
    char bytes[126];
};

/* What is kept as one. */
struct cache_unit {
    int dir_fd;
    const char *path; /* as in a request; lives as long as the source */
    uint64_t offset;
    uint64_t length;      /* IO_WHOLE: the whole object */
    uint64_t size;        /* bytes to expect */
    uint64_t index;       /* 0 .. source.count - 1, or CACHE_NO_INDEX */
    int64_t mtime_ns;     /* the version to expect, as in a request; 0: not known */
    uint64_t object_size; /* not 0: only that version, of this size and mtime, will do: who asks has it open and knows its structure */
};

/* Where the reader is. Steps count positions of the running epoch, then of the next one: 0 .. 2 x count - 1. */
struct cache_reader {
    uint64_t epoch, start; /* the run: from position `start` of the epoch */
    uint64_t position;     /* everything before it has been asked for */
};

/* What the owner knows about the source and the future. Functions may be called from any thread until the cache is closed. */
struct cache_source {
    void *ctx;
    const char *name; /* the data set's place, canonical: what separates it from others in the same folder. Copied */
    uint64_t count;   /* units with an index */

    /* MUST. The unit that a request is a part of. False: none is known; the request is its own. */
    bool (*unit_of)(void *ctx, const struct io_request *r, struct cache_unit *u);
    /* MAY; without it the disk is not filled ahead. */
    bool (*unit_at)(void *ctx, uint64_t index, struct cache_unit *u);
    /* MAY. The identity the source has now. 0, IO_BLOCKED (only with may_block false), or a failure. Missing: files, by size and mtime. */
    int (*identify)(void *ctx, const struct cache_unit *u, bool may_block, struct cache_identity *out);

    /* The future. at: the index at a position; CACHE_NO_INDEX: another rank's. position_of: the inverse, for any rank. is_known false:
     * there is no order to follow (the caller gives it, or samples are drawn with replacement): nothing is filled ahead or pushed out. */
    bool is_known;
    uint64_t (*at)(void *ctx, const struct cache_reader *r, uint64_t epoch, uint64_t position);
    uint64_t (*any_at)(void *ctx, uint64_t epoch, uint64_t position);
    uint64_t (*position_of)(void *ctx, uint64_t epoch, uint64_t index);
    /* MAY. Are all of the reader's processors busy? Then nothing is fetched ahead: that would take time from them. Any thread; must not
     * block. */
    bool (*is_busy)(void *ctx);
};

struct cache_options {
    struct io *inner;      /* taken over: closed with the cache, also when opening fails */
    const char *dir;       /* NULL: no disk tier */
    uint64_t disk_limit;   /* bytes; 0: what the file system has, less what stays free */
    uint64_t ram_limit;    /* bytes; 0: no RAM tier */
    struct budget *budget; /* for the RAM tier and everything in passing */
    const struct log *log;
    uint32_t depth; /* reads in flight that the reader wants */
    struct cache_source source;
};

struct cache_figures {
    uint64_t ram_hits, disk_hits, misses; /* requests */
    uint64_t ram_hit_bytes, disk_hit_bytes, miss_bytes;
    uint64_t filled, filled_bytes;     /* units fetched ahead of the reader */
    uint64_t stored, stored_bytes;     /* units written to disk */
    uint64_t evicted, evicted_bytes;   /* by this process */
    uint64_t damaged, changed, joined; /* entries refused by checksum; by identity; requests that a fetch under way answered */
    uint64_t ram_bytes, ram_limit, disk_bytes, disk_limit;
    bool has_disk, is_off; /* the disk tier failed and is not used any more */
    char why_off[160];
    const char *over; /* the inner back-end's name */
};

/* FB_E_USAGE: the folder holds something else, or is someone else's; FB_E_IO, FB_E_NOMEM. */
int cache_open(struct io **out, const struct cache_options *o, struct fb_error *e);
/* Tells where the reader is. Never blocks. */
void cache_move(struct io *io, const struct cache_reader *r);
void cache_read_figures(struct io *io, struct cache_figures *f);

/* The identity of a file: its size and mtime. */
int cache_identify_file(int dir_fd, const char *path, bool may_block, struct cache_identity *out);

#endif
