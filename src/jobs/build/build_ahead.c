#include "jobs/build/build_ahead.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "jobs/build/build_internal.h"

enum { SLOW_NS = 150000, QUICK_NS = 30000, WINDOW = 512, PAUSE_NS = 1000000 };

static void average(_Atomic uint64_t *mean, uint64_t ns, uint64_t share)
{
    uint64_t old = atomic_load_explicit(mean, memory_order_relaxed);
    atomic_store_explicit(mean, old + ns / share - old / share, memory_order_relaxed);
}

void build_ahead_move(struct build_ahead *a, uint64_t position)
{
    atomic_store_explicit(&a->taken, position, memory_order_relaxed);
}

/* Opening and asking. Mistakes are the workers' to find. */
static void scout_one(struct build_ahead *a, uint64_t position)
{
    struct catalog_sample s;
    uint64_t since = clock_now_ns();
    if (catalog_sample(a->p->dataset.catalog, a->p->file[position], &s, NULL) < 0)
        return;
    int fd = openat(a->p->dataset.root_fd, s.object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return;
    posix_fadvise(fd, (off_t)s.offset, (off_t)s.length, POSIX_FADV_WILLNEED);
    close(fd);
    average(&a->open_ns, clock_now_ns() - since, 16);
    if (atomic_load_explicit(&a->open_ns, memory_order_relaxed) < QUICK_NS &&
        atomic_load_explicit(&a->read_ns, memory_order_relaxed) < SLOW_NS)
        atomic_store_explicit(&a->is_on, false, memory_order_relaxed);
}

/* The next position to look at; false: far enough ahead. */
static bool take(struct build_ahead *a, uint64_t *position)
{
    uint64_t taken = atomic_load_explicit(&a->taken, memory_order_relaxed), at = atomic_load(&a->scouted);
    do {
        *position = at < taken ? taken : at;
        if (*position >= a->p->files || *position >= taken + WINDOW)
            return false;
    } while (!atomic_compare_exchange_weak(&a->scouted, &at, *position + 1));
    return true;
}

static bool may_go_on(struct build_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    bool may = !a->is_stopped;
    pthread_mutex_unlock(&a->lock);
    return may;
}

/* Until there is something to do: off, for as long as it takes; far enough ahead, for a moment. */
static void rest(struct build_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    if (a->is_stopped)
        ;
    else if (!atomic_load_explicit(&a->is_on, memory_order_relaxed))
        pthread_cond_wait(&a->changed, &a->lock);
    else
        thread_cond_wait_until(&a->changed, &a->lock, clock_now_ns() + PAUSE_NS);
    pthread_mutex_unlock(&a->lock);
}

static void *scout(void *arg)
{
    struct build_ahead *a = arg;
    uint64_t position;
    while (may_go_on(a))
        if (atomic_load_explicit(&a->is_on, memory_order_relaxed) && take(a, &position))
            scout_one(a, position);
        else
            rest(a);
    return NULL;
}

/* Threads are made when they are first needed. `is_on` is set under the lock, so that no thread goes to sleep without seeing it. */
static void wake_scouts(struct build_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    atomic_store_explicit(&a->is_on, true, memory_order_relaxed);
    while (!a->is_stopped && a->threads < BUILD_SCOUTS && thread_start(&a->thread[a->threads], "fb-scout", scout, a, NULL) == 0)
        a->threads++;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

/* A thread that had to give up its core to others takes long, too, but did not wait for a disk. */
void build_ahead_saw(struct build_ahead *a, uint64_t read_ns, uint64_t reads, uint64_t waits)
{
    average(&a->read_ns, waits < reads / 4 ? 0 : read_ns / reads, 4);
    if (atomic_load_explicit(&a->read_ns, memory_order_relaxed) > SLOW_NS && !atomic_load_explicit(&a->is_on, memory_order_relaxed)) {
        atomic_store_explicit(&a->open_ns, SLOW_NS, memory_order_relaxed); /* the benefit of the doubt */
        wake_scouts(a);
    }
}

void build_ahead_start(struct build_ahead *a, const struct build_plan *p)
{
    a->p = p;
    pthread_mutex_init(&a->lock, NULL);
    thread_cond_init(&a->changed);
}

void build_ahead_stop(struct build_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    a->is_stopped = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->threads; i++)
        pthread_join(a->thread[i], NULL);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
}
