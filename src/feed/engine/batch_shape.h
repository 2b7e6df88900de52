/* The shape of a feed's batches: which fields, in which order, how large. */
#ifndef FB_FEED_ENGINE_BATCH_SHAPE_H
#define FB_FEED_ENGINE_BATCH_SHAPE_H

#include "feed/feed.h"

/* The picture (or arrays) first, then further files and labels in the order asked for, then lengths. The sizes of pictures are known. Each
 * label is told which field it has. */
int shape_of_batch(struct feed *f, uint64_t places, struct slot_shape *s, struct fb_error *e);

#endif
