/* Reading rows of an array from a file into their places. Random rows, preloaded rows and whole files all use this one walk.
 *
 * First it lists what is to be read, then it takes what was read; in between the load may have waited for io. Rows that are runs of bytes
 * in the file are read straight into their places, or converted from the stage. Chunks wait on the stage and are decompressed: into the
 * cache, into the place if it takes just the rows of one, or into memory of the worker. Neighbours in the file are one read, whatever they
 * are.
 */
#ifndef FB_FEED_ARRAY_WALK_H
#define FB_FEED_ARRAY_WALK_H

#include "codec/array/convert/array_convert.h"
#include "feed/array_probe.h"
#include "feed/chunk_cache.h"
#include "feed/gather_reads.h"

struct array_walk {
    struct feed *f;
    struct worker *w;
    struct gather gather;
    const struct array_chunk *held; /* the chunk that is in w->pixels; NULL: none */

    /* the array */
    struct probed_file open;
    struct gather_source from; /* the open file, for reading */
    const struct array_layout *layout;
    const struct array_conversion *conversion;
    struct chunk_cache *cache; /* NULL: chunks are not kept */
    uint64_t cache_key;        /* of its first chunk */

    /* the rows: `count` from `first` on, or as a list has them; the numbers of that lie `list_step` bytes apart and count from `base` */
    uint64_t first, count;
    const void *list;
    size_t list_step;
    uint64_t base;
    /* where they go: one after another, or in the order of `turn`, which is that of the list's numbers too */
    uint8_t *to; /* NULL: they stay on the stage, one after another */
    const uint32_t *turn;

    /* private: of the array at hand */
    uint64_t row_bytes, numbers; /* of a row as stored */
    bool is_copied;              /* it goes to its place as it is stored */
};

int array_walk_list(struct array_walk *x, struct fb_error *e);
/* The arrays in the order in which they were listed. */
int array_walk_take(struct array_walk *x, struct fb_error *e);
/* Both, and the reading on this thread in between. */
int array_walk_here(struct array_walk *x, struct fb_error *e);

/* The picked row number i, in the file. */
static inline uint64_t array_walk_row(const struct array_walk *x, uint64_t i)
{
    if (!x->list)
        return x->first + i;
    return *(const uint64_t *)((const char *)x->list + (x->turn ? x->turn[i] : i) * x->list_step) - x->base;
}

#endif
