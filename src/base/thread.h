/* Threads: named, signals blocked, modest stacks. */
#ifndef FB_BASE_THREAD_H
#define FB_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Starts a thread called `name` (at most 15 characters) with all signals blocked, so that the host program's handlers run on its own. */
int thread_start(pthread_t *t, const char *name, void *(*body)(void *), void *arg, struct fb_error *e);

/* Joins within `timeout_ns`; otherwise detaches the thread and returns false: it is stuck in something that cannot be cancelled. */
bool thread_join_or_leave(pthread_t t, uint64_t timeout_ns);

/* Lets others go first; `by` as for nice(1). Without the right to, nothing happens. */
void thread_be_nice(int by);

/* Condition variables on the monotonic clock. */
void thread_cond_init(pthread_cond_t *c);
/* False: the time was over. */
bool thread_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t deadline_ns);

#endif
