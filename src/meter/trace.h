/* A trace: what each thread of a loader did, moment by moment, for Chrome's trace viewer (Perfetto).
 *
 * One trace at a time per process. Off, it costs a relaxed load and a branch where work is counted. On, each thread writes into a ring of
 * its own without a lock; a ring that is full forgets its oldest events. A thread that is writing while the trace ends is waited for, which
 * takes nanoseconds.
 */
#ifndef FB_METER_TRACE_H
#define FB_METER_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct trace;
extern _Atomic(struct trace *) trace_running;

/* Relaxed: a thread that learns a moment later that a trace began or ended only misses an event; trace_note looks again. */
static inline bool trace_is_on(void)
{
    return atomic_load_explicit(&trace_running, memory_order_relaxed) != NULL;
}

/* Opens `path` and records what is done for `owner` until so many batches were delivered. FB_E_STATE: another trace is running. */
int trace_start(const void *owner, const char *path, uint64_t batches, struct fb_error *e);
/* An event of the calling thread; other owners' are left out. `name` lives for ever. */
void trace_note(const void *owner, const char *name, uint64_t start_ns, uint64_t end_ns, uint64_t bytes);
/* The consumer came back at asked_ns from the step that began at since_ns, and got a batch at now_ns. */
void trace_deliver(const void *owner, uint64_t since_ns, uint64_t asked_ns, uint64_t now_ns);
/* Were all its batches delivered? */
bool trace_is_over(const void *owner);
/* Ends the owner's trace, if there is one, and writes the file. */
int trace_finish(const void *owner, struct fb_error *e);

#endif
