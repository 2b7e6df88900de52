#include "feed/crew.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "feed/engine/ready_queue.h"
#include "feed/engine/watchdog.h"
#include "host/host.h"

enum { MAX_WORKERS = 1024 };

/* The worker that takes the last core has it from the caller, whose step may compute there. In interleaved runs of bench/consumer_loop.py
 * (two cores, steps of 5 ms that compute) they waited for a core 2 to 4 % of the time instead of 3 to 12 %. All workers being nice made
 * that 1 %, but then any other program on the machine would starve the loader. */
enum { NICE_ON_THE_LAST_CORE = 10 };

struct member {
    uint32_t index;
    pthread_t thread;
    struct crew *crew;
    struct worker *worker;
    uint32_t pressure_seen;
    /* under crew->lock */
    struct feed *serves; /* whose loads it runs now */
    bool must_end, has_ended;
    bool is_left; /* nobody waits for its end: it frees itself */
    bool is_late; /* counted among those left behind */
};

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* something is ready, or the crew changes */
    pthread_cond_t quiet; /* someone stepped out of a feed that is closed, or has ended */
    struct feed *feeds;
    struct feed *turn;   /* whom to serve next */
    _Atomic int threads; /* wanted; written under lock */
    int unhurried;       /* how many serve a feed with batches in plenty */
    int started;         /* under the gate: workers with a thread: index < started */
    _Atomic int refs;    /* of the process, feeds and threads */
    _Atomic int idle;    /* written under lock */
    bool is_stopping;
    uint64_t idle_ns;
    _Atomic uint32_t pressure;
    struct member *member[MAX_WORKERS]; /* written under the gate and the lock */
    pthread_t helper;
    bool has_helper;
    bool has_helper_ended, is_helper_late; /* under lock */
    pthread_cond_t helper_wakes;
};

/* One per process. The gate is held only to make and end the crew. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static struct crew *the_crew;
static struct budget the_budget;
static _Atomic uint32_t left_threads; /* only shown: relaxed */

/* The child has neither the threads nor a sane state of the locks: it forgets the crew (leaks it) and may make its own. */
static void forget_in_child(void)
{
    pthread_mutex_init(&gate, NULL);
    the_crew = NULL;
    the_budget = (struct budget){0};
    atomic_store_explicit(&left_threads, 0, memory_order_relaxed);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
}

static struct crew *hold(struct crew *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void crew_unref(struct crew *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_cond_destroy(&c->work);
    pthread_cond_destroy(&c->quiet);
    pthread_cond_destroy(&c->helper_wakes);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void count_left(bool *is_late, bool is)
{
    if (*is_late != is)
        atomic_fetch_add_explicit(&left_threads, is ? 1 : -1u, memory_order_relaxed);
    *is_late = is;
}

uint32_t crew_left_behind(void)
{
    return atomic_load_explicit(&left_threads, memory_order_relaxed);
}

static void wake_workers(struct crew *c, int count)
{
    if (count >= c->idle)
        pthread_cond_broadcast(&c->work);
    else
        while (count-- > 0)
            pthread_cond_signal(&c->work);
}

void crew_push(struct feed *f, struct load *first)
{
    struct crew *c = f->crew;
    int count = 0;
    for (struct load *l = first; l; l = l->next, count++)
        load_step(l, LOAD_READY);
    pthread_mutex_lock(&c->lock);
    for (struct load *l = first; l;) {
        struct load *next = l->next;
        ready_append(f, l);
        l = next;
    }
    wake_workers(c, count / (int)ready_portion(f, c->threads) + 1);
    pthread_mutex_unlock(&c->lock);
}

void crew_hurry(struct feed *f)
{
    struct crew *c = f->crew;
    if (!crew_is_idle(f))
        return;
    pthread_mutex_lock(&c->lock);
    if (f->ready)
        wake_workers(c, (int)(f->ready / ready_portion(f, c->threads)) + 1);
    pthread_mutex_unlock(&c->lock);
}

/* ---- stepping in and out; the lock is held ---- */

static bool step_out(struct crew *c, struct feed *f)
{
    f->inside--;
    if (f->is_leaving)
        pthread_cond_broadcast(&c->quiet);
    return f->inside == 0 && f->is_left;
}

void crew_planner_in(struct feed *f)
{
    pthread_mutex_lock(&f->crew->lock);
    f->inside++;
    f->is_planning = true;
    pthread_mutex_unlock(&f->crew->lock);
}

bool crew_step_out(struct feed *f)
{
    struct crew *c = f->crew; /* once out, the feed may be gone; the caller's thread may not be the crew's */
    hold(c);
    pthread_mutex_lock(&c->lock);
    bool is_mine = step_out(c, f);
    pthread_mutex_unlock(&c->lock);
    crew_unref(c);
    return is_mine;
}

bool crew_planner_out(struct feed *f)
{
    pthread_mutex_lock(&f->crew->lock);
    f->is_planning = false;
    count_left(&f->is_planner_late, false);
    pthread_mutex_unlock(&f->crew->lock);
    return crew_step_out(f);
}

/* ---- workers ---- */

static void free_idle_memory(struct crew *c, struct member *m)
{
    uint32_t pressure = atomic_load_explicit(&c->pressure, memory_order_relaxed);
    if (pressure == m->pressure_seen)
        return;
    m->pressure_seen = pressure;
    worker_free_idle_memory(m->worker);
}

static void run_chain(struct crew *c, struct member *m, struct feed *f, struct load *l)
{
    while (l) {
        struct load *next = l->next;
        l->next = NULL;
        load_run(m->worker, f, l);
        l = next;
    }
    free_idle_memory(c, m);
}

static void wait_for_work(struct crew *c, struct member *m)
{
    uint64_t since = clock_now_ns();
    c->idle++;
    if (!thread_cond_wait_until(&c->work, &c->lock, since + 1000000000u))
        free_idle_memory(c, m); /* idle for a second: hold nothing that others want */
    c->idle--;
    c->idle_ns += clock_now_ns() - since;
}

/* The lock is held, and let go meanwhile. */
static void serve(struct crew *c, struct member *m, struct feed *f)
{
    struct load *chain = ready_take(f, ready_portion(f, c->threads));
    f->inside++;
    m->serves = f;
    f->serving++;
    if (c->idle && ready_wants_more(f, c->unhurried)) /* it may have been in no hurry when its loads became ready */
        pthread_cond_signal(&c->work);
    c->turn = f->next_feed;
    pthread_mutex_unlock(&c->lock);
    run_chain(c, m, f, chain);
    pthread_mutex_lock(&c->lock);
    f->serving--;
    m->serves = NULL;
    if (!m->is_left)
        count_left(&m->is_late, false);
    if (!step_out(c, f))
        return;
    pthread_mutex_unlock(&c->lock);
    feed_finish(f);
    pthread_mutex_lock(&c->lock);
}

/* From the moment that has_ended is seen, the worker is whose who waits for it, unless nobody does. */
static void end_worker(struct crew *c, struct member *m)
{
    worker_delete(m->worker);
    pthread_mutex_lock(&c->lock);
    bool is_left = m->is_left;
    m->has_ended = true;
    count_left(&m->is_late, false);
    pthread_cond_broadcast(&c->quiet);
    pthread_mutex_unlock(&c->lock);
    if (is_left)
        free(m);
    crew_unref(c);
}

static void *worker_main(void *arg)
{
    struct member *m = arg;
    struct crew *c = m->crew;
    if (m->index > 0 && (int)m->index + 1 >= host_cores())
        thread_be_nice(NICE_ON_THE_LAST_CORE);
    pthread_mutex_lock(&c->lock);
    while (!m->must_end) {
        struct feed *f = ready_choose(c->feeds, c->turn, c->unhurried);
        if (f)
            serve(c, m, f);
        else
            wait_for_work(c, m);
    }
    pthread_mutex_unlock(&c->lock);
    end_worker(c, m);
    return NULL;
}

static int start_worker(struct crew *c, int index, struct fb_error *e)
{
    struct member *m = calloc(1, sizeof(*m));
    if (!m || !(m->worker = worker_new((uint32_t)index, &the_budget))) {
        free(m);
        return error_set_errno(e, "feed", ENOMEM, "make worker %d", index);
    }
    m->index = (uint32_t)index;
    m->crew = hold(c);
    char name[16];
    snprintf(name, sizeof(name), "fb-w%d", index);
    int rc = thread_start(&m->thread, name, worker_main, m, e);
    if (rc < 0) {
        worker_delete(m->worker);
        free(m);
        crew_unref(c);
        return rc;
    }
    pthread_mutex_lock(&c->lock);
    c->member[index] = m;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

/* ---- making and ending the crew; the gate is held ---- */

static struct crew *crew_new(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    struct crew *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    atomic_init(&c->refs, 1);
    pthread_mutex_init(&c->lock, NULL);
    thread_cond_init(&c->work);
    thread_cond_init(&c->quiet);
    thread_cond_init(&c->helper_wakes);
    atomic_store(&the_budget.limit, host_default_memory());
    atomic_store(&the_budget.peak, atomic_load(&the_budget.used));
    return c;
}

/* True: the thread will not touch anything of ours any more. */
static bool wait_for_end(struct crew *c, const bool *has_ended, uint64_t deadline_ns)
{
    while (!*has_ended && thread_cond_wait_until(&c->quiet, &c->lock, deadline_ns))
        ;
    return *has_ended;
}

/* Joins it, which takes a moment unless the thread has destructors of the program's (Python's wait for its lock); or lets it go. */
static void join_or_detach(pthread_t t, bool has_ended, uint64_t deadline_ns)
{
    uint64_t now = clock_now_ns();
    if (has_ended)
        thread_join_or_leave(t, deadline_ns > now + 1000000u ? deadline_ns - now : 1000000u);
    else
        pthread_detach(t);
}

/* The worker was told to end: waits for that, or leaves it behind. */
static void part_from(struct crew *c, struct member *m, uint64_t deadline_ns)
{
    pthread_t thread = m->thread;
    pthread_mutex_lock(&c->lock);
    bool has_ended = wait_for_end(c, &m->has_ended, deadline_ns);
    c->member[m->index] = NULL;
    m->is_left = !has_ended;
    count_left(&m->is_late, !has_ended);
    pthread_mutex_unlock(&c->lock);
    join_or_detach(thread, has_ended, deadline_ns);
    if (has_ended)
        free(m);
}

/* Ends all workers from number `first` on, within the time. */
static void end_workers(struct crew *c, int first, uint64_t timeout_ns)
{
    uint64_t deadline_ns = clock_now_ns() + timeout_ns;
    pthread_mutex_lock(&c->lock);
    for (int i = first; i < c->started; i++)
        c->member[i]->must_end = true;
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->lock);
    for (; c->started > first; c->started--)
        part_from(c, c->member[c->started - 1], deadline_ns);
}

static void end_helper(struct crew *c, uint64_t timeout_ns)
{
    uint64_t deadline_ns = clock_now_ns() + timeout_ns;
    pthread_t thread = c->helper;
    pthread_mutex_lock(&c->lock);
    c->is_stopping = true;
    pthread_cond_broadcast(&c->helper_wakes);
    bool has_ended = wait_for_end(c, &c->has_helper_ended, deadline_ns);
    count_left(&c->is_helper_late, !has_ended);
    pthread_mutex_unlock(&c->lock);
    join_or_detach(thread, has_ended, deadline_ns);
}

static void crew_end(struct crew *c)
{
    the_crew = NULL;
    end_workers(c, 0, 80000000u);
    if (c->has_helper)
        end_helper(c, 20000000u);
    crew_unref(c);
}

static int set_threads(struct crew *c, int threads, struct fb_error *e)
{
    if (threads > MAX_WORKERS)
        threads = MAX_WORKERS;
    if (c->started > threads)
        end_workers(c, threads, 200000000u);
    int rc = 0;
    while (rc == 0 && c->started < threads)
        if ((rc = start_worker(c, c->started, e)) == 0)
            c->started++;
    bool has_all_cores = c->started > 1 && c->started >= host_cores();
    pthread_mutex_lock(&c->lock);
    c->threads = c->started;
    c->unhurried = c->started - has_all_cores;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* ---- the helper: a timer ---- */

static bool is_here(const struct crew *c, const struct feed *wanted)
{
    for (const struct feed *f = c->feeds; f; f = f->next_feed)
        if (f == wanted)
            return true;
    return false;
}

/* Looks at one feed at a time, from inside it and outside the lock. */
static void watch_feeds(struct crew *c)
{
    for (struct feed *f = c->feeds; f;) {
        f->inside++;
        pthread_mutex_unlock(&c->lock);
        watchdog_check(f);
        pthread_mutex_lock(&c->lock);
        struct feed *next = is_here(c, f) ? f->next_feed : NULL; /* if it left, its neighbours may have, too: next time */
        if (step_out(c, f)) {
            pthread_mutex_unlock(&c->lock);
            feed_finish(f);
            pthread_mutex_lock(&c->lock);
            return;
        }
        f = next;
    }
}

static void *helper_main(void *arg)
{
    struct crew *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->is_stopping) {
        thread_cond_wait_until(&c->helper_wakes, &c->lock, clock_now_ns() + 1000000000u);
        if (!c->is_stopping)
            watch_feeds(c);
    }
    c->has_helper_ended = true;
    count_left(&c->is_helper_late, false);
    pthread_cond_broadcast(&c->quiet);
    pthread_mutex_unlock(&c->lock);
    crew_unref(c);
    return NULL;
}

static int start_helper(struct crew *c, struct fb_error *e)
{
    if (c->has_helper)
        return 0;
    int rc = thread_start(&c->helper, "fb-help", helper_main, hold(c), e);
    c->has_helper = rc == 0;
    if (rc < 0)
        crew_unref(c);
    return rc;
}

/* ---- feeds come and go ---- */

static int join_locked(struct feed *f, int threads, uint64_t memory, struct fb_error *e)
{
    if (!the_crew && !(the_crew = crew_new()))
        return error_set_errno(e, "feed", ENOMEM, "start the workers");
    struct crew *c = the_crew;
    if (memory)
        atomic_store(&the_budget.limit, memory);
    if (threads == 0)
        threads = c->started ? c->threads : host_default_threads();
    FB_TRY(set_threads(c, threads, e));
    FB_TRY(start_helper(c, e));
    f->budget = &the_budget;
    f->crew = hold(c);
    pthread_mutex_lock(&c->lock);
    f->next_feed = c->feeds;
    c->feeds = f;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

int crew_join(struct feed *f, int threads, uint64_t memory, struct fb_error *e)
{
    pthread_mutex_lock(&gate);
    int rc = join_locked(f, threads, memory, e);
    if (rc < 0 && the_crew && !the_crew->feeds)
        crew_end(the_crew);
    pthread_mutex_unlock(&gate);
    return rc;
}

static void unlink_feed(struct crew *c, struct feed *f)
{
    for (struct feed **p = &c->feeds; *p; p = &(*p)->next_feed)
        if (*p == f) {
            *p = f->next_feed;
            break;
        }
    c->turn = NULL;
}

/* The lock is held: who is still inside will be late. */
static void leave_behind(struct crew *c, struct feed *f)
{
    f->is_left = true;
    count_left(&f->is_planner_late, f->is_planning);
    for (int i = 0; i < MAX_WORKERS && c->member[i]; i++)
        if (c->member[i]->serves == f)
            count_left(&c->member[i]->is_late, true);
}

uint32_t crew_quiet(struct feed *f, uint64_t timeout_ns)
{
    struct crew *c = f->crew;
    uint64_t deadline = clock_now_ns() + timeout_ns;
    pthread_mutex_lock(&c->lock);
    f->is_leaving = true;
    f->inside++;
    while (f->inside > 1 && thread_cond_wait_until(&c->quiet, &c->lock, deadline))
        ;
    uint32_t late = f->inside - 1;
    if (late)
        leave_behind(c, f);
    pthread_mutex_unlock(&c->lock);
    return late;
}

struct load *crew_take_ready(struct feed *f)
{
    pthread_mutex_lock(&f->crew->lock);
    struct load *ready = ready_take_all(f);
    pthread_mutex_unlock(&f->crew->lock);
    return ready;
}

void crew_leave(struct feed *f)
{
    struct crew *c = f->crew;
    pthread_mutex_lock(&gate);
    pthread_mutex_lock(&c->lock);
    unlink_feed(c, f);
    bool is_last = !c->feeds;
    pthread_mutex_unlock(&c->lock);
    if (is_last)
        crew_end(c);
    pthread_mutex_unlock(&gate);
}

void crew_press(const struct feed *f, bool is_spared)
{
    struct crew *c = f->crew;
    atomic_fetch_add_explicit(&c->pressure, 1, memory_order_relaxed);
    pthread_mutex_lock(&c->lock);
    for (struct feed *other = c->feeds; other; other = other->next_feed)
        if (other != f || !is_spared)
            atomic_store_explicit(&other->is_pressed, true, memory_order_relaxed);
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->lock);
}

uint64_t crew_least_memory(const struct feed *f)
{
    struct crew *c = f->crew;
    uint64_t sum = feed_least_memory(f);
    pthread_mutex_lock(&c->lock);
    for (const struct feed *other = c->feeds; other; other = other->next_feed)
        if (other != f && atomic_load_explicit(&other->is_consuming, memory_order_acquire))
            sum += feed_least_memory(other);
    pthread_mutex_unlock(&c->lock);
    return sum;
}

int crew_threads(void)
{
    return the_crew ? the_crew->threads : 0;
}

bool crew_is_idle(const struct feed *f)
{
    return atomic_load_explicit(&f->crew->idle, memory_order_relaxed) > 0;
}

uint64_t crew_idle_ns(void)
{
    struct crew *c = the_crew;
    if (!c)
        return 0;
    pthread_mutex_lock(&c->lock);
    uint64_t ns = c->idle_ns;
    pthread_mutex_unlock(&c->lock);
    return ns;
}
