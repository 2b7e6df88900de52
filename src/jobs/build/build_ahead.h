/* Readahead threads: they open recordings ahead of the workers and ask the system to read them, so that many reads are under way at once.
 *
 * For recordings in the page cache this would only cost time, so the threads start when the workers' reads are slow, and sleep while their
 * own are quick.
 */
#ifndef FB_JOBS_BUILD_BUILD_AHEAD_H
#define FB_JOBS_BUILD_BUILD_AHEAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct build_plan;

enum { BUILD_SCOUTS = 24 };

struct build_ahead {
    const struct build_plan *p;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread[BUILD_SCOUTS]; /* these under the lock */
    int threads;
    bool is_stopped;
    _Atomic uint64_t taken, scouted;   /* positions: of the workers, of the scouts */
    _Atomic uint64_t read_ns, open_ns; /* what a read takes of late; losing an update does no harm */
    _Atomic bool is_on;
};

void build_ahead_start(struct build_ahead *a, const struct build_plan *p);
void build_ahead_stop(struct build_ahead *a);
void build_ahead_move(struct build_ahead *a, uint64_t position); /* workers have taken everything before it */
/* What some reads took together, and how often the thread waited meanwhile for whatever it was. */
void build_ahead_saw(struct build_ahead *a, uint64_t read_ns, uint64_t reads, uint64_t waits);

/* Recordings asked for and not yet taken. */
static inline uint64_t build_ahead_depth(struct build_ahead *a)
{
    uint64_t taken = atomic_load_explicit(&a->taken, memory_order_relaxed), at = atomic_load_explicit(&a->scouted, memory_order_relaxed);
    return at > taken ? at - taken : 0;
}

#endif
