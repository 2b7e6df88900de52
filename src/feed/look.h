/* Where the arrays of a file lie. */
#ifndef FB_FEED_LOOK_H
#define FB_FEED_LOOK_H

#include "dataset/dataset.h"
#include "model/array_ops.h"

struct feed;
struct io;

/* From what was learnt, else by looking; what is found is kept. */
int look_at_file(struct feed *f, const struct catalog_sample *s, struct array_file *out, struct fb_error *e);
/* Without a feed: always looks. */
int look_into_file(const struct dataset *d, const struct catalog_sample *s, bool allows_external, struct array_file *out, struct fb_error *e);
int look_into_bytes(const uint8_t *bytes, size_t n, const char *path, bool allows_external, struct array_file *out, struct fb_error *e);

enum { LOOK_AHEAD = 256 };

/* look_store.c: of a sample that lies in a bucket; through a reader, or through the feed's. */
struct look_reader {
    struct io *io;
    int (*interrupted)(void *ctx); /* may be NULL */
    void *ctx;
};
int look_through(const struct look_reader *l, const struct catalog_sample *s, struct array_file *out, struct fb_error *e);
int look_in_store(struct feed *f, const struct catalog_sample *s, struct array_file *out, struct fb_error *e);
/* Looks into samples [first, first + LOOK_AHEAD) of the catalog side by side and keeps what is found. Negative: interrupted. */
int look_ahead_in_store(struct feed *f, uint64_t first, struct fb_error *e);

/* What is known already, and keeping what was found. */
bool look_is_known(struct feed *f, const struct catalog_sample *s);
void look_keep(struct feed *f, const struct catalog_sample *s, const struct array_file *file);

#endif
