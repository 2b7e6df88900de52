/* When no transform fixes the size of the images, the first readable sample does. */
#ifndef FB_FEED_FIRST_SIZE_H
#define FB_FEED_FIRST_SIZE_H

#include "feed/feed.h"

/* Reads up to 16 samples, with on_error=skip up to FEED_MOST_BAD_TRIES, until one has a header. The others must come out the same; that is checked one by one later. */
int first_size(struct feed *f, uint32_t *height, uint32_t *width, struct fb_error *e);

#endif
