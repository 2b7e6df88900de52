/* A load of rows at work: a group of places, each filled by one row of every field. Belongs to one worker. */
#ifndef FB_FEED_ROWS_GROUP_H
#define FB_FEED_ROWS_GROUP_H

#include "feed/arrays.h"
#include "feed/crew.h"
#include "feed/gather_reads.h"

/* A chunk that waits on the stage. */
struct staged {
    uint64_t key;
    uint64_t at, length;
};

struct group {
    struct worker *w;
    struct feed *f;
    struct load *l;
    const struct array_object *object; /* where the last row was */
    struct gather gather;
    size_t at[FB_MAX_FIELDS]; /* of each straight field's rows on the stage */
    struct staged *staged;    /* in w->mapped[0] while listed, then on the stage */
    uint8_t *stage;
    uint64_t held; /* key of the chunk in w->pixels, one that the cache had no room for; or NO_KEY */
};

#define NO_KEY UINT64_MAX

static inline uint32_t place_of(const struct load *l, uint32_t i)
{
    return l->slot->turn ? l->slot->turn[l->place + i] : l->place + i;
}

static inline struct slot_place *place_at(const struct load *l, uint32_t i)
{
    return &l->slot->place[place_of(l, i)];
}

/* The file that the i-th row lies in, and its number there. */
static inline const struct array_object *object_at(struct group *g, uint32_t i, uint64_t *row)
{
    uint64_t at = place_at(g->l, i)->sample;
    if (!g->object || at - g->object->first >= g->object->rows)
        g->object = arrays_object_of(g->f->arrays, at);
    *row = at - g->object->first;
    return g->object;
}

/* rows_chunks.c. The rows from index `i` on that lie in the same chunks are a band; both return how many they are, or an error. */
int band_list(struct group *g, int field, uint32_t i, struct fb_error *e); /* the reads for it */
int band_take(struct group *g, int field, uint32_t i, struct fb_error *e); /* its rows, into their places */

#endif
