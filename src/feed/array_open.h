/* The steps of arrays_open, which has a file for each: what is wanted (array_open.c), rows (rows_open.c), files (bag_open.c). */
#ifndef FB_FEED_ARRAY_OPEN_H
#define FB_FEED_ARRAY_OPEN_H

#include "feed/arrays.h"
#include "feed/feed.h"

/* a->want has names and dtypes; these find the shapes. `first`: the first file, which lies at `key`. */
int rows_open(struct feed *f, const struct array_file *first, const char *key, struct fb_error *e);
int bags_open(struct feed *f, const fb_options *o, const struct array_file *first, struct fb_error *e);

int arrays_no_memory(struct fb_error *e);
int arrays_refuse_field(const struct array_file *file, const char *key, const char *name, struct fb_error *e);

#endif
