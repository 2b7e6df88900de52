#include "io/s3/loop/s3_loop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "io/io_shared.h"
#include "io/s3/loop/s3_loop_internal.h"

enum { WORK_BYTES = 128 << 10 };

/* ---- the thread ---- */

/* True: nothing new came while we went to sleep. */
static bool fall_asleep(struct s3_loop *l)
{
    atomic_store(&l->is_asleep, true);
    pthread_mutex_lock(&l->lock);
    bool may_sleep = !l->in_first && !l->is_closing && !l->cancels;
    pthread_mutex_unlock(&l->lock);
    return may_sleep;
}

static void free_loop(struct s3_loop *l)
{
    for (uint32_t i = 0; i < l->all_count; i++)
        s3_flight_free(l->all[i]);
    free(l->all);
    s3_sockets_free(&l->sockets);
    s3_credentials_close(l->credentials);
    s3_secret_unmap(l->work.data, WORK_BYTES);
    text_free(&l->path);
    pthread_cond_destroy(&l->quiet);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void turn(struct s3_loop *l)
{
    atomic_fetch_add_explicit(&l->turns, 1, memory_order_relaxed);
    s3_schedule(l);
    s3_sockets_run(&l->sockets, fall_asleep(l) ? s3_schedule_due_ns(l) : 0);
    atomic_store(&l->is_asleep, false);
    s3_schedule_answers(l);
}

static void *loop_main(void *arg)
{
    struct s3_loop *l = arg;
    for (;;) {
        pthread_mutex_lock(&l->lock);
        bool is_closing = l->is_closing, cancels = l->cancels;
        l->cancels = false;
        pthread_mutex_unlock(&l->lock);
        if (cancels || is_closing)
            s3_schedule_end(l);
        if (is_closing)
            break;
        turn(l);
    }
    pthread_mutex_lock(&l->lock);
    l->has_left = true;
    bool is_mine_to_free = l->is_abandoned;
    pthread_cond_signal(&l->quiet);
    pthread_mutex_unlock(&l->lock);
    if (is_mine_to_free)
        free_loop(l);
    return NULL;
}

/* ---- outside ---- */

static void wake(void *ctx)
{
    s3_sockets_wake(&((struct s3_loop *)ctx)->sockets);
}

static int open_parts(struct s3_loop *l, const char *url, struct fb_error *e)
{
    FB_TRY(s3_place_find(&l->place, url, e));
    l->work = (struct text){s3_secret_map(WORK_BYTES), 0, WORK_BYTES, WORK_BYTES - 2, false}; /* never grows */
    if (!l->work.data)
        return error_set(e, FB_E_NOMEM, "read", "no memory for signing");
    FB_TRY(s3_sockets_open(&l->sockets, e));
    if (!l->place.is_anonymous)
        FB_TRY(s3_credentials_open(&l->credentials, &l->place, &l->log, e));
    if (l->credentials)
        s3_credentials_on_refresh(l->credentials, wake, l);
    curl_multi_setopt(l->sockets.multi, CURLMOPT_MAXCONNECTS, (long)(l->options.most + l->options.most / 4 + 8));
    s3_pace_open(&l->pace, l->options.most, l->options.fixed);
    s3_hedge_open(&l->hedge, l->options.has_no_hedges);
    l->rng = rng_stream(RNG_REDRAW, clock_now_ns(), (uint64_t)getpid(), 0, 0); /* jitter must differ between processes */
    l->sender = (struct s3_sender){.place = &l->place,
                                   .options = &l->options,
                                   .path = &l->path,
                                   .work = &l->work,
                                   .first_byte = s3_loop_first_byte,
                                   .takes = s3_loop_takes,
                                   .closes = s3_loop_closes,
                                   .loop = l,
                                   .is_near = &l->is_near};
    return thread_start(&l->thread, "fb-s3", loop_main, l, e);
}

int s3_loop_open(struct s3_loop **out, const char *url, const struct s3_options *o, const struct log *log, struct fb_error *e)
{
    *out = NULL;
    FB_TRY(curl_dynlib_open(e));
    struct s3_loop *l = io_alloc(sizeof(*l), e);
    if (!l)
        return FB_E_NOMEM;
    l->options = *o;
    l->log = *log;
    l->forks = io_fork_count();
    l->path.limit = WORK_BYTES;
    l->sockets.epoll_fd = l->sockets.wake_fd = -1;
    pthread_mutex_init(&l->lock, NULL);
    thread_cond_init(&l->quiet);
    int rc = open_parts(l, url, e);
    if (rc < 0) {
        error_at(e, url, -1);
        free_loop(l);
        return rc;
    }
    *out = l;
    return 0;
}

const struct s3_place *s3_loop_place(const struct s3_loop *l)
{
    return &l->place;
}

bool s3_loop_ignores_ranges(const struct s3_loop *l)
{
    return atomic_load_explicit(&l->ignores_ranges, memory_order_relaxed);
}

void s3_loop_submit(struct s3_loop *l, struct s3_task *t)
{
    t->next = NULL;
    t->flight[0] = t->flight[1] = NULL;
    t->attempts = t->redirects = 0;
    t->redirect = NULL;
    t->wants_new_connection = false;
    t->status = 0;
    t->got = 0;
    pthread_mutex_lock(&l->lock);
    bool is_closing = l->is_closing;
    if (!is_closing) {
        *(l->in_last ? &l->in_last->next : &l->in_first) = t;
        l->in_last = t;
        l->tasks++;
    }
    pthread_mutex_unlock(&l->lock);
    if (is_closing) {
        t->status = error_set(t->error, FB_E_STATE, "read", "the reader was closed before this read was over");
        t->done(t);
    } else if (atomic_exchange(&l->is_asleep, false)) {
        s3_sockets_wake(&l->sockets);
    }
}

void s3_loop_cancel(struct s3_loop *l)
{
    pthread_mutex_lock(&l->lock);
    l->cancels = true;
    pthread_mutex_unlock(&l->lock);
    s3_sockets_wake(&l->sockets);
}

void s3_loop_figures(struct s3_loop *l, struct s3_loop_figures *f)
{
    *f = (struct s3_loop_figures){
        .turns = atomic_load_explicit(&l->turns, memory_order_relaxed),
        .requests = atomic_load_explicit(&l->requests, memory_order_relaxed),
        .retries = atomic_load_explicit(&l->retries, memory_order_relaxed),
        .hedges = atomic_load_explicit(&l->hedges, memory_order_relaxed),
        .hedges_won = atomic_load_explicit(&l->hedges_won, memory_order_relaxed),
        .slow_downs = atomic_load_explicit(&l->slow_downs, memory_order_relaxed),
        .window = atomic_load_explicit(&l->window_shown, memory_order_relaxed),
        .in_flight = atomic_load_explicit(&l->in_flight_shown, memory_order_relaxed),
    };
}

uint32_t s3_loop_close(struct s3_loop *l, uint64_t timeout_ns)
{
    if (l->forks != io_fork_count())
        return 0; /* the parent's: its memory is left alone */
    uint64_t deadline_ns = clock_now_ns() + timeout_ns;
    pthread_mutex_lock(&l->lock);
    l->is_closing = true;
    pthread_mutex_unlock(&l->lock);
    s3_sockets_wake(&l->sockets);
    pthread_mutex_lock(&l->lock);
    while (!l->has_left && thread_cond_wait_until(&l->quiet, &l->lock, deadline_ns))
        ;
    while (l->is_delivering)
        pthread_cond_wait(&l->quiet, &l->lock);
    bool has_left = l->has_left;
    uint32_t left_behind = l->tasks;
    l->is_abandoned = !has_left;
    pthread_t thread = l->thread;
    pthread_mutex_unlock(&l->lock);
    if (!has_left) {
        pthread_detach(thread);
        return left_behind ? left_behind : 1;
    }
    pthread_join(thread, NULL);
    free_loop(l);
    return 0;
}
