/* Opening the back-end that reads a source: files by what the machine has, a bucket by its store's own. */
#ifndef FB_FEED_SOURCE_IO_H
#define FB_FEED_SOURCE_IO_H

#include "feed/feed.h"

/* `spec` is the caller's (may be NULL). For a source with a back-end of its own (`own`, as dataset.io), "auto" means that one, and a spec
 * that names it is completed with the place. *depth: how many reads it takes at once. */
int source_io_open_for(struct io **out, uint32_t *depth, const char *own, const char *spec, const struct log *log, struct fb_error *e);

/* The same for a feed: sets f->io and f->io_depth. An archive that is read in its order, or mixed by windows, from a device where reads are
 * dear is read through "merge". */
int source_io_open(struct feed *f, const char *spec, bool is_in_order, struct fb_error *e);

#endif
