/* Threads: named, signals blocked, modest stacks, in the background.
 *
 * What our threads prepare is used by a thread of the caller's, and that one must not wait for a core while a batch is ready. So ours run
 * under SCHED_BATCH with a long slice: one of them that wakes does not interrupt the caller, and the caller that wakes interrupts them at
 * once. Without it next() took 2 to 4 ms on two busy cores (Linux 6.18), nearly all of it waiting for a core, because waking the planner
 * put the planner there, and a running slice is protected since Linux 6.6. On cores of its own the engine is as fast as before, and no
 * rights are needed; where a sandbox forbids it, thread_background_error says so. Measured and left out (bench/consumer.py): a short slice,
 * which is also an early deadline; nice 5 to 19 for all, because it starves the loader as soon as another program wants the cores.
 */
#ifndef FB_BASE_THREAD_H
#define FB_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Starts a thread called `name` (at most 15 characters) with all signals blocked but those of crashes (SIGSEGV, SIGABRT and their like), so
 * that the host program's handlers run on its own threads. */
int thread_start(pthread_t *t, const char *name, void *(*body)(void *), void *arg, struct fb_error *e);
/* The same for one that wakes on time rather than works: timers, probes, emulated devices. It stays an ordinary thread. */
int thread_start_prompt(pthread_t *t, const char *name, void *(*body)(void *), void *arg, struct fb_error *e);
/* What the calling thread, one of thread_start's, does after its body has returned; one function, the last one asked for. Unlike a key's
 * destructor it runs while every key still has its value, and not at all in a thread that pthread_exit ends. */
void thread_at_end(void (*last)(void *), void *arg);
/* Why a thread could not be put into the background: an errno, or 0 if all could. */
int thread_background_error(void);

/* Joins within `timeout_ns`; otherwise detaches the thread and returns false: it is stuck in something that cannot be cancelled. */
bool thread_join_or_leave(pthread_t t, uint64_t timeout_ns);

/* Locks within `timeout_ns`, for callers that must not wait for ever. False: another thread holds the lock. */
bool thread_lock_within(pthread_mutex_t *m, uint64_t timeout_ns);

/* Lets others go first; `by` as for nice(1). Without the right to, nothing happens. */
void thread_be_nice(int by);

/* Condition variables on the monotonic clock. */
void thread_cond_init(pthread_cond_t *c);
/* False: the time was over. */
bool thread_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t deadline_ns);

#endif
