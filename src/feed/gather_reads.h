/* Many reads for one load: what is in memory is read on the worker's thread, the rest by io, straight into its place or into a stage where
 * it waits to be unfiltered or converted.
 *
 * A worker lists the pieces, then reads them. If io has to bring some, the load leaves the worker with everything that was listed (struct
 * waited) and comes back when the last piece has.
 */
#ifndef FB_FEED_GATHER_H
#define FB_FEED_GATHER_H

#include <unistd.h>

#include "feed/crew.h"
#include "model/array/array.h"

/* A file that was opened for a load. */
struct gather_file {
    int fd;                     /* or -1 */
    struct catalog_sample seen; /* as it was when it was opened */
    struct io_object object;    /* for a cache */
    struct array_file arrays;   /* where they lie in it: found once, and used for all that is read of it */
};

/* What a load waits for. Its own memory, within the budget. */
struct waited {
    struct load *load;
    struct feed *feed;
    _Atomic uint32_t pending;
    uint32_t count;
    uint64_t taken; /* of the budget */
    uint8_t *stage;
    struct gather_file *file; /* those opened for it, to be closed with it */
    uint32_t files;
    struct fb_error *error; /* one per request */
    struct io_request request[];
};

struct gather {
    struct worker *w;
    uint32_t count;
    struct io_piece *piece; /* in w->pieces; staged ones have their offset on the stage in `to` */
    size_t stage_bytes;
    struct gather_file *file; /* those opened for this load: the caller's, unless waited has taken them and `files` is 0 */
    uint32_t files;
    bool is_sure;                   /* of what is added: see struct io_piece */
    const struct io_object *object; /* of what is added; NULL: no cache keeps it */
};

static inline void gather_start(struct gather *g, struct worker *w)
{
    *g = (struct gather){.w = w, .piece = w->pieces.data};
}
static inline void gather_close_file(struct gather_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    array_file_free(&file->arrays);
}
static inline void gather_close_files(struct gather *g)
{
    for (uint32_t i = 0; i < g->files; i++)
        gather_close_file(&g->file[i]);
    g->files = 0;
}
static inline int gather_add_piece(struct gather *g, int fd, const char *path, uint64_t offset, uint64_t length, void *to, size_t stage_at,
                                   struct fb_error *e)
{
    size_t bytes = g->count * sizeof(*g->piece);
    g->piece = scratch_grow(&g->w->pieces, bytes, bytes + sizeof(*g->piece), e);
    if (!g->piece)
        return e->code;
    g->piece[g->count++] = (struct io_piece){fd, offset, length, to ? to : (void *)stage_at, false, !to, g->is_sure, path, g->object};
    if (!to && stage_at + length > g->stage_bytes)
        g->stage_bytes = stage_at + length;
    return 0;
}
/* `length` bytes at `offset`: to `to`, or, where that is NULL, to byte `stage_at` of the stage. `path` is for messages and outlives the
 * load. A cache that keeps blocks is asked block by block. */
static inline int gather_add(struct gather *g, int fd, const char *path, uint64_t offset, uint64_t length, void *to, size_t stage_at,
                             struct fb_error *e)
{
    uint64_t block = g->object ? g->object->block : 0;
    if (!length)
        return 0; /* an array without numbers */
    for (uint64_t n; block && length > block - offset % block; offset += n, length -= n, stage_at += n) {
        n = block - offset % block;
        FB_TRY(gather_add_piece(g, fd, path, offset, n, to, stage_at, e));
        to = to ? (uint8_t *)to + n : NULL;
    }
    return gather_add_piece(g, fd, path, offset, length, to, stage_at, e);
}
/* 0: all is there, *stage as well. 1: the load is gone, and comes back with l->waited. */
int gather_read(struct feed *f, struct gather *g, struct load *l, uint8_t **stage, struct fb_error *e);

/* When it came back: the error of the first piece that could not be had, if any. */
int waited_check(const struct waited *x, struct fb_error *e);
void waited_free(struct feed *f, struct waited *x);

#endif
