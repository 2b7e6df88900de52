/* A load of rows at work: a group of places, each filled by one row of every field. Belongs to one worker. */
#ifndef FB_FEED_GROUP_ROWS_GROUP_H
#define FB_FEED_GROUP_ROWS_GROUP_H

#include "codec/array/array_rows.h"
#include "feed/array_walk.h"
#include "feed/arrays.h"
#include "feed/worker.h"

struct group {
    struct feed *f;
    struct load *l;
    const struct array_object *object; /* where the last row was */
    struct array_walk walk;
};

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
        g->object = arrays_object_of(arrays_of(g->f), at);
    *row = at - g->object->first;
    return g->object;
}

/* Do they have to be decompressed? */
static inline bool rows_are_in_chunks(const struct array_layout *l)
{
    return l->storage == ARRAY_CHUNKED && !array_is_straight(l);
}

/* Aims the walk at a field of a file. Which rows, where they go, and whether chunks are kept is the caller's. */
static inline void rows_aim(struct array_walk *x, const struct array_object *o, int field)
{
    bool is_sure = atomic_load_explicit(&o->is_in_memory, memory_order_relaxed);
    x->open = (struct probed_file){.seen = &o->seen, .fd = o->fd, .file = &o->file};
    x->from = (struct gather_source){o->fd, o->seen.key, x->f->cache ? &o->kept : NULL, is_sure};
    x->layout = o->layout[field];
    x->conversion = &o->conversion[field];
}

/* The kind's parts, as load_ops.h describes them: rows_open.c, rows_preload.c, rows_plan.c. */
int rows_choose(struct feed *f, const struct subset_request *r, enum order_kind order, struct fb_error *e);
void rows_window(const struct feed *f, uint64_t *block, uint64_t *samples);
int rows_preload(struct feed *f, const fb_options *o, struct fb_error *e);
struct load *rows_plan(struct feed *f, struct slot *s, const struct order *o, const uint64_t *given);

#endif
