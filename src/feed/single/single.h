/* Loads of one sample that fill one place, whatever the sample is: what single.c keeps of them, and its hooks of load_ops.h. */
#ifndef FB_FEED_SINGLE_SINGLE_H
#define FB_FEED_SINGLE_SINGLE_H

#include "feed/load_ops.h"
#include "feed/worker.h"

enum load_part { PART_ALL, PART_HEAD, PART_RANGE };

/* load.own; zeroed: the sample's own file, all of it. */
struct single_load {
    int file;                       /* 0: the sample's own, else which further one is being read */
    enum load_part part;            /* how much of it is read; see partial_read.h */
    uint64_t part_first, part_last; /* of what is read now, in the sample */
    const char *file_name;          /* of a further one: what the manifest calls it */
    struct image_header first;      /* of images: file 0's, which the others must agree with */
    bool is_settled;                /* how much of it is read has been decided */
};
_Static_assert(sizeof(struct single_load) <= LOAD_OWN_BYTES, "a load has no room for it");

static inline struct single_load *single_of(const struct load *l)
{
    return (struct single_load *)(void *)l->own;
}

struct load *single_plan(struct feed *f, struct slot *s, const struct order *o, const uint64_t *given);
struct io_request single_request(const struct feed *f, struct load *l, uint8_t *buffer, size_t capacity, struct fb_error *e);
void single_run(struct worker *w, struct feed *f, struct load *l);

#endif
