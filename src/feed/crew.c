#include "feed/crew.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "feed/ready.h"
#include "feed/watchdog.h"
#include "host/host.h"

enum { MAX_WORKERS = 1024 };

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* something is ready, or the crew changes */
    pthread_cond_t quiet; /* a worker left a feed */
    struct feed *feeds;
    struct feed *turn;    /* whom to serve next */
    int threads;          /* wanted */
    int started;          /* workers with a thread: index < started */
    _Atomic int idle; /* written under lock */
    bool is_stopping;
    uint64_t idle_ns;
    _Atomic uint32_t pressure;
    struct worker *worker[MAX_WORKERS];
    pthread_t helper;
    bool has_helper;
    pthread_cond_t helper_wakes;
};

/* One per process. The gate is held only to make and end the crew. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static struct crew *the_crew;
static struct budget the_budget;

/* The child has neither the threads nor a sane state of the locks: it forgets the crew (leaks it) and may make its own. */
static void forget_in_child(void)
{
    pthread_mutex_init(&gate, NULL);
    the_crew = NULL;
    the_budget = (struct budget){0};
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
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
    struct crew *c = the_crew;
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

/* ---- workers ---- */

static void free_scratch(struct worker *w)
{
    scratch_free(&w->bytes);
    scratch_free(&w->pixels);
    scratch_free(&w->work);
    scratch_free(&w->known);
    scratch_free(&w->pieces);
    scratch_free(&w->labels);
    scratch_free(&w->mapped[0]);
    scratch_free(&w->mapped[1]);
}

static void ease(struct crew *c, struct worker *w)
{
    uint32_t pressure = atomic_load_explicit(&c->pressure, memory_order_relaxed);
    if (pressure == w->pressure_seen)
        return;
    w->pressure_seen = pressure;
    free_scratch(w);
    scratch_free(&w->codec.scratch);
    scratch_free(&w->unfilter.work[0]);
    scratch_free(&w->unfilter.work[1]);
}

static void run_chain(struct crew *c, struct worker *w, struct feed *f, struct load *l)
{
    while (l) {
        struct load *next = l->next;
        l->next = NULL;
        load_run(w, f, l);
        l = next;
    }
    ease(c, w);
}

static void wait_for_work(struct crew *c, struct worker *w)
{
    uint64_t since = clock_now_ns();
    c->idle++;
    if (!thread_cond_wait_until(&c->work, &c->lock, since + 1000000000u))
        ease(c, w); /* idle for a second: hold nothing that others want */
    c->idle--;
    c->idle_ns += clock_now_ns() - since;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct crew *c = the_crew;
    pthread_mutex_lock(&c->lock);
    while (!c->is_stopping && w->index < (uint32_t)c->threads) {
        struct feed *f = ready_choose(c->feeds, c->turn);
        if (!f) {
            wait_for_work(c, w);
            continue;
        }
        struct load *chain = ready_take(f, ready_portion(f, c->threads));
        f->active++;
        c->turn = f->next_feed;
        pthread_mutex_unlock(&c->lock);
        run_chain(c, w, f, chain);
        pthread_mutex_lock(&c->lock);
        if (--f->active == 0)
            pthread_cond_broadcast(&c->quiet);
    }
    pthread_mutex_unlock(&c->lock);
    free_scratch(w);
    unfilter_free(&w->unfilter);
    codec_state_free(&w->codec);
    return NULL;
}

static int start_worker(struct crew *c, int index, struct fb_error *e)
{
    struct worker *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set_errno(e, "feed", ENOMEM, "make worker %d", index);
    w->index = (uint32_t)index;
    w->bytes.budget = w->pixels.budget = w->work.budget = w->known.budget = &the_budget;
    w->labels.budget = w->mapped[0].budget = w->mapped[1].budget = w->pieces.budget = &the_budget;
    unfilter_init(&w->unfilter, &the_budget);
    codec_state_init(&w->codec, &the_budget);
    char name[16];
    snprintf(name, sizeof(name), "fb-w%d", index);
    int rc = thread_start(&w->thread, name, worker_main, w, e);
    if (rc < 0) {
        codec_state_free(&w->codec);
        free(w);
        return rc;
    }
    c->worker[index] = w;
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
    pthread_mutex_init(&c->lock, NULL);
    thread_cond_init(&c->work);
    thread_cond_init(&c->quiet);
    thread_cond_init(&c->helper_wakes);
    atomic_store(&the_budget.limit, host_default_memory());
    atomic_store(&the_budget.peak, atomic_load(&the_budget.used));
    return c;
}

/* False: a thread is stuck and keeps its part of the crew for ever. */
static bool join_workers(struct crew *c)
{
    bool all = true;
    for (int i = 0; i < c->started; i++) {
        if (thread_join_or_leave(c->worker[i]->thread, all ? 80000000u : 1000000u))
            free(c->worker[i]);
        else
            all = false;
    }
    return all;
}

static void crew_end(struct crew *c)
{
    pthread_mutex_lock(&c->lock);
    c->is_stopping = true;
    pthread_cond_broadcast(&c->work);
    pthread_cond_broadcast(&c->helper_wakes);
    pthread_mutex_unlock(&c->lock);
    bool all = join_workers(c);
    if (c->has_helper)
        all &= thread_join_or_leave(c->helper, 80000000u);
    the_crew = NULL;
    if (!all)
        return;
    pthread_cond_destroy(&c->work);
    pthread_cond_destroy(&c->quiet);
    pthread_cond_destroy(&c->helper_wakes);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static int set_threads(struct crew *c, int threads, struct fb_error *e)
{
    if (threads > MAX_WORKERS)
        threads = MAX_WORKERS;
    pthread_mutex_lock(&c->lock);
    c->threads = threads;
    pthread_cond_broadcast(&c->work); /* those beyond the number go */
    pthread_mutex_unlock(&c->lock);
    for (; c->started > threads; c->started--) {
        struct worker *w = c->worker[c->started - 1];
        if (thread_join_or_leave(w->thread, 200000000u))
            free(w);
    }
    for (; c->started < threads; c->started++)
        FB_TRY(start_worker(c, c->started, e));
    return 0;
}

/* ---- the helper: a timer ---- */

static bool is_here(const struct crew *c, const struct feed *wanted)
{
    for (const struct feed *f = c->feeds; f; f = f->next_feed)
        if (f == wanted)
            return true;
    return false;
}

/* Looks at one feed at a time, outside the lock, while is_watched keeps it in memory. */
static void watch_feeds(struct crew *c)
{
    for (struct feed *f = c->feeds; f;) {
        f->is_watched = true;
        pthread_mutex_unlock(&c->lock);
        watchdog_look(f);
        pthread_mutex_lock(&c->lock);
        f->is_watched = false;
        pthread_cond_broadcast(&c->quiet);
        f = is_here(c, f) ? f->next_feed : NULL; /* if it left, its neighbours may have, too: next time */
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
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static int start_helper(struct crew *c, struct fb_error *e)
{
    if (c->has_helper)
        return 0;
    FB_TRY(thread_start(&c->helper, "fb-help", helper_main, c, e));
    c->has_helper = true;
    return 0;
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

bool crew_quiet(struct feed *f, uint64_t timeout_ns)
{
    struct crew *c = the_crew;
    uint64_t deadline = clock_now_ns() + timeout_ns;
    pthread_mutex_lock(&c->lock);
    f->is_leaving = true;
    while (f->active && thread_cond_wait_until(&c->quiet, &c->lock, deadline))
        ;
    bool is_quiet = f->active == 0;
    pthread_mutex_unlock(&c->lock);
    return is_quiet;
}

struct load *crew_leave(struct feed *f)
{
    pthread_mutex_lock(&gate);
    struct crew *c = the_crew;
    pthread_mutex_lock(&c->lock);
    unlink_feed(c, f);
    while (f->is_watched) /* the helper looks at it for a moment */
        pthread_cond_wait(&c->quiet, &c->lock);
    struct load *ready = ready_take_all(f);
    bool is_last = !c->feeds;
    pthread_mutex_unlock(&c->lock);
    if (is_last)
        crew_end(c);
    pthread_mutex_unlock(&gate);
    return ready;
}

void crew_press(const struct feed *from)
{
    struct crew *c = the_crew;
    atomic_fetch_add_explicit(&c->pressure, 1, memory_order_relaxed);
    pthread_mutex_lock(&c->lock);
    for (struct feed *f = c->feeds; f; f = f->next_feed)
        if (f != from)
            atomic_store_explicit(&f->is_pressed, true, memory_order_relaxed);
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->lock);
}

uint64_t crew_least_memory(const struct feed *f)
{
    struct crew *c = the_crew;
    uint64_t sum = feed_least_memory(f);
    pthread_mutex_lock(&c->lock);
    for (const struct feed *other = c->feeds; other; other = other->next_feed)
        if (other != f && atomic_load_explicit(&other->is_consuming, memory_order_relaxed))
            sum += feed_least_memory(other);
    pthread_mutex_unlock(&c->lock);
    return sum;
}

int crew_threads(void)
{
    return the_crew ? the_crew->threads : 0;
}

bool crew_is_idle(void)
{
    return the_crew && atomic_load_explicit(&the_crew->idle, memory_order_relaxed) > 0;
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
