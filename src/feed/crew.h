/* The crew: the process's CPU workers and memory budget, shared by all its feeds.
 *
 * Workers take ready loads from the feeds: first from one whose consumer waits, else in turn. Cheap loads are taken several at a time so that
 * the lock is not the limit. The crew starts with the first feed and ends with the last. After fork the child has no crew and makes its own.
 */
#ifndef FB_FEED_CREW_H
#define FB_FEED_CREW_H

#include "codec/codec.h"
#include "codec/unfilter.h"
#include "feed/feed.h"

struct worker {
    uint32_t index;
    pthread_t thread;
    bool is_started;
    uint32_t pressure_seen;
    struct codec_state codec;
    struct scratch bytes;   /* a file the worker reads by itself */
    struct scratch pixels;  /* the decoded region */
    struct scratch work;    /* the transforms' */
    struct scratch known;   /* what was learnt of the sample before */
    struct scratch pieces;  /* a list of reads */
    struct unfilter unfilter;
    struct scratch labels;    /* of a sample, while a further file of it is planned */
    struct scratch mapped[2]; /* what goes into a function of the caller's, and what comes out */
};

/* Adds a feed: starts what is not running. threads, memory: 0 keeps what the process has (or its default). */
int crew_join(struct feed *f, int threads, uint64_t memory, struct fb_error *e);
/* Leaving, in two steps, so that io can be closed in between and its last completions still have somewhere to go. First: no worker serves the
 * feed any more. False: one is stuck in it; the feed must be leaked. */
bool crew_quiet(struct feed *f, uint64_t timeout_ns);
/* Then: takes the feed out. Returns the loads that no worker took. Ends the crew with its last feed. */
struct load *crew_leave(struct feed *f);

/* Hands a chain of loads (linked by next) to the workers. Any thread. */
void crew_push(struct feed *f, struct load *first);

/* Another feed or worker needs memory: everyone gives back what it does not need now. Any thread. */
void crew_press(const struct feed *from);

/* Sum of what all feeds with a live epoch need at least, `f` counted in. */
uint64_t crew_least_memory(const struct feed *f);

int crew_threads(void);
/* Does any worker have nothing to do at this moment? */
bool crew_is_idle(void);
/* Nanoseconds that workers had nothing to do, since the crew began. */
uint64_t crew_idle_ns(void);

#endif
