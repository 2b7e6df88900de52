/* Gathering many reads for one load. What the page cache holds is read on the worker's thread, the rest by io: straight into its place, or
 * onto a stage (memory of the load) until it is decompressed or converted.
 *
 * A worker lists the reads, then has them done; neighbours in the file that are neighbours in memory too become one. If io has to bring
 * some, the load leaves the worker with everything that was listed (struct waited) and comes back when the last one is there.
 */
#ifndef FB_FEED_GATHER_READS_H
#define FB_FEED_GATHER_READS_H

#include "feed/worker.h"
#include "model/array/array.h"

/* A file that was opened for a load. */
struct gather_file {
    int fd;                     /* or -1 */
    struct catalog_sample seen; /* as it was when it was opened */
    struct io_object object;    /* for a cache */
    struct array_file arrays;   /* where they lie in it: found once, and used for all that is read of it */
};

/* What lies on the stage, in the order of listing. */
struct staged {
    const void *what;
    size_t at;
};

/* What a load waits for. Its own memory, within the budget. */
struct waited {
    struct load *load;
    struct feed *feed;
    _Atomic uint32_t pending;
    uint32_t count;
    uint64_t taken; /* of the budget */
    uint8_t *stage;
    struct staged *staged;
    uint32_t staged_count;
    struct gather_file *file; /* those opened for it, to be closed with it */
    uint32_t files;
    struct fb_error error; /* of the request that was asked again because it had failed */
    struct io_request request[];
};

struct gather {
    struct worker *w;
    uint32_t count;
    struct io_piece *piece; /* in w->pieces; staged ones have their offset on the stage in `to` until it is there */
    uint8_t *stage;
    size_t stage_bytes;
    struct staged *staged; /* in w->known, or waited */
    uint32_t staged_count, staged_next;
    struct gather_file *file; /* those opened for this load: the caller's, unless waited has taken them and `files` is 0 */
    uint32_t files;
};

/* Where reads come from. */
struct gather_source {
    int fd;
    const char *path;               /* for messages; outlives the load */
    const struct io_object *object; /* NULL: no cache keeps it */
    bool is_sure;                   /* see struct io_piece */
};

void gather_start(struct gather *g, struct worker *w);
void gather_close_files(struct gather *g);

/* `length` bytes at `offset`: to `to`, or, where that is NULL, to byte `stage_at` of the stage. A cache that keeps blocks is asked block by
 * block. */
int gather_add(struct gather *g, const struct gather_source *from, uint64_t offset, uint64_t length, void *to, size_t stage_at,
               struct fb_error *e);
/* Room for `bytes` on the stage, from *at on. It has the name `what`. */
int gather_reserve(struct gather *g, const void *what, uint64_t bytes, size_t *at, struct fb_error *e);
/* Both: `length` bytes at `offset` to the stage. */
int gather_stage(struct gather *g, const struct gather_source *from, const void *what, uint64_t offset, uint64_t length,
                 struct fb_error *e);

/* Has all done. 0: it is. LOAD_IS_GONE: io brings some of it, and the load comes back with l->waited. */
int gather_read(struct feed *f, struct gather *g, struct load *l, struct fb_error *e);
/* The same on this thread, however long it takes. */
int gather_read_here(struct feed *f, struct gather *g, struct fb_error *e);
int gather_read_one(const struct gather_source *from, uint64_t offset, uint64_t length, void *to, struct fb_error *e);
/* When the load came back: as gather_read. If several reads failed, the error is that of the first one listed, however many threads there
 * are. That read is repeated to get its error text, because requests have no room for one. */
int gather_resume(struct feed *f, struct gather *g, struct load *l, struct fb_error *e);

/* The next bytes on the stage if they belong to `what`; NULL if they do not, because `what` was not listed. */
uint8_t *gather_next(struct gather *g, const void *what);

/* load_ops.drop_waited */
void gather_drop(struct feed *f, struct load *l);

#endif
