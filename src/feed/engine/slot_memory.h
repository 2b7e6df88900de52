/* Where slots come from, and room in them for batches of variable lengths; what becomes of slots that the program keeps. The planner's. */
#ifndef FB_FEED_ENGINE_SLOT_MEMORY_H
#define FB_FEED_ENGINE_SLOT_MEMORY_H

#include "feed/feed.h"

enum { SLOT_MEMORY_NAP_NS = 5000000 }; /* while waiting for memory that others hold */

/* f->lock is held. NULL: none now. *is_poor: because there is no memory; f->slots_failed counts how often it was not the budget that had
 * none. */
struct slot *slot_memory_get(struct feed *f, bool *is_poor);
/* Memory for a batch of variable lengths; waits for it. *most: bytes that one has taken so far. False: there never will be enough; the
 * batch says so. */
bool slot_memory_make_room(struct feed *f, struct slot *s, size_t *most);

#endif
