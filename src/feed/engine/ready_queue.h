/* Ready loads: of each feed by slot, the slot wanted soonest first. All under the crew's lock. */
#ifndef FB_FEED_ENGINE_READY_QUEUE_H
#define FB_FEED_ENGINE_READY_QUEUE_H

#include "feed/feed.h"

/* The feed to serve now: one whose consumer waits, else in turn from `turn` on; NULL: none has anything ready. One that has batches in
 * plenty is served by at most `unhurried` workers. */
struct feed *ready_choose(struct feed *feeds, struct feed *turn, int unhurried);
/* Has it more than those who serve it can do now? */
bool ready_wants_more(const struct feed *f, int unhurried);

/* How many loads a worker takes at once: cheap ones several, so that the lock is not the limit, but never more than its share. */
uint32_t ready_portion(struct feed *f, int threads);

void ready_append(struct feed *f, struct load *l);
/* At most `most` loads of one slot, linked. The oldest slot is served first, whatever order its loads became ready in: a late read must not
 * queue up behind batches wanted later. */
struct load *ready_take(struct feed *f, uint32_t most);
/* Everything, linked. */
struct load *ready_take_all(struct feed *f);

#endif
