/* The crew: the process's CPU workers and memory budget, shared by all its feeds.
 *
 * Workers take ready loads from the feeds: first from one whose consumer waits, else in turn. Cheap loads are taken several at a time so
 * that the lock is not the limit. The crew starts with the first feed and ends with the last. After fork the child has no crew and makes
 * its own.
 *
 * Where there are as many workers as cores, one worker pauses while enough batches are ready. So a training step that computes on the CPU
 * keeps a core to itself unless all workers are needed. Enough means: from the moment the look-ahead is full until more than two of its
 * batches are missing. (Pausing until all of it is used up would save the same time, but would leave no finished batch to hide a slow
 * sample: 0.87 instead of 0.97 busy where one sample in 80 takes 0.3 s.) When that worker does run, it runs at a lower priority (nice) than
 * the step.
 *
 * Life: the crew is reference-counted: the process, every feed and every thread hold a reference. So a worker that is stuck when it should
 * end (or when its feed is closed) still finds crew and feed in memory when it returns. Each thread that works for a feed (workers, its
 * planner, the helper, the thread that closes it) is counted in feed->inside. If a feed was closed without waiting for all of them, the
 * last one to leave finishes it (feed_finish).
 */
#ifndef FB_FEED_CREW_H
#define FB_FEED_CREW_H

#include "feed/feed.h"

struct crew;

struct worker;

/* worker.c: what a worker works with, worker.h; the crew only hands it on. NULL: no memory. */
struct worker *worker_new(uint32_t index, struct budget *budget);
void worker_delete(struct worker *w);
/* Somebody needs memory: keeps none for later. The worker's own thread. */
void worker_free_idle_memory(struct worker *w);

/* Adds a feed: starts what is not running. threads, memory: 0 keeps what the process has (or its default). */
int crew_join(struct feed *f, int threads, uint64_t memory, struct fb_error *e);
/* Stepping out of a feed. True: it was left behind and this was the last one inside; the caller must call feed_finish. */
bool crew_step_out(struct feed *f);
/* The planner's thread is going to be inside; and steps out. */
void crew_planner_in(struct feed *f);
bool crew_planner_out(struct feed *f);

/* Leaving, in two steps, so that io can be closed in between and its last completions still have somewhere to go. First: the caller
 * steps in, no worker takes its loads any more, and all others step out. Not 0: so many did not in time. The feed is left behind from
 * now on: who steps out last finishes it, and that may be the caller. */
uint32_t crew_quiet(struct feed *f, uint64_t timeout_ns);
/* Then: takes the feed out. Ends the crew with its last feed; who does not end in time is left behind. */
void crew_leave(struct feed *f);
/* The loads that no worker took. */
struct load *crew_take_ready(struct feed *f);
/* Gives back the reference that crew_join took. */
void crew_unref(struct crew *c);
/* Threads that should have ended, or left a feed that is closed, and have not yet; of the whole process. */
uint32_t crew_left_behind(void);

/* Hands a chain of loads (linked by next) to the workers. Any thread. */
void crew_push(struct feed *f, struct load *first);
/* The consumer waits: who rests comes back. f->lock may be held. */
void crew_hurry(struct feed *f);

/* Someone inside `f` needs memory: everyone gives back what it does not need now; with is_spared all but `f` itself. Any thread inside. */
void crew_press(const struct feed *f, bool is_spared);

/* Sum of what all feeds with a live epoch need at least, `f` counted in. */
uint64_t crew_least_memory(const struct feed *f);

int crew_threads(void);
/* Does any worker have nothing to do at this moment? */
bool crew_is_idle(const struct feed *f);
/* Nanoseconds that workers had nothing to do, since the crew began. */
uint64_t crew_idle_ns(void);

#endif
