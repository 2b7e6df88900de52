#include "io/wrap/io_wrap.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"
#include "io/io_shared.h"

/* ---- the heap of those that wait; under the lock ---- */

static bool is_earlier(const struct io_shadow *a, const struct io_shadow *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void heap_push(struct io_wrap *w, struct io_shadow *s)
{
    uint32_t i = w->waiting_count++;
    for (; i > 0 && is_earlier(s, w->waiting[(i - 1) / 2]); i = (i - 1) / 2)
        w->waiting[i] = w->waiting[(i - 1) / 2];
    w->waiting[i] = s;
}

static struct io_shadow *heap_pop(struct io_wrap *w)
{
    struct io_shadow *first = w->waiting[0], *last = w->waiting[--w->waiting_count];
    uint32_t i = 0, child;
    for (; (child = 2 * i + 1) < w->waiting_count; i = child) {
        if (child + 1 < w->waiting_count && is_earlier(w->waiting[child + 1], w->waiting[child]))
            child++;
        if (!is_earlier(w->waiting[child], last))
            break;
        w->waiting[i] = w->waiting[child];
    }
    w->waiting[i] = last;
    return first;
}

/* ---- a shadow's way ---- */

static void inner_done(struct io_request *r);

/* Under the lock: into the wrapper. Returns the shadow if it goes on at once, else it waits. */
static struct io_shadow *admit(struct io_wrap *w, struct io_request *outer)
{
    struct io_shadow *s = &w->shadows[w->free_list[--w->free_count]];
    *s = (struct io_shadow){.r = *outer, .outer = outer, .wrap = w, .number = w->next_number++};
    s->r.done = inner_done;
    s->r.owner = s;
    w->admit(w, s);
    if (s->due_ns == 0)
        return s;
    heap_push(w, s);
    if (w->waiting[0] == s)
        pthread_cond_signal(&w->changed);
    return NULL;
}

/* Under the lock: the next one that waited for a shadow and goes on at once. */
static struct io_shadow *admit_next(struct io_wrap *w)
{
    struct io_shadow *s = NULL;
    while (!s && w->queue.head && w->free_count > 0)
        s = admit(w, io_queue_take(&w->queue));
    return s;
}

static struct io_shadow *finish(struct io_shadow *s);

static void go_on(struct io_shadow *s)
{
    while (s && s->is_over)
        s = finish(s);
    if (s)
        s->wrap->inner->ops->submit(s->wrap->inner, &s->r, false);
}

static void copy_result(const struct io_shadow *s)
{
    struct io_request *to = s->outer;
    to->status = s->r.status;
    to->got = s->r.got;
    to->object_size = s->r.object_size;
    to->object_mtime_ns = s->r.object_mtime_ns;
}

/* Ends a shadow, tells the caller, and returns the one that may take its place. */
static struct io_shadow *finish(struct io_shadow *s)
{
    struct io_wrap *w = s->wrap;
    struct io_request *outer = s->outer;
    copy_result(s);
    if (w->finish)
        w->finish(w, s);
    pthread_mutex_lock(&w->lock);
    w->free_list[w->free_count++] = (uint32_t)(s - w->shadows);
    struct io_shadow *next = w->is_closing ? NULL : admit_next(w);
    pthread_mutex_unlock(&w->lock);
    io_count_end(&w->count, outer);
    io_done_here(outer);
    return next;
}

static void inner_done(struct io_request *r)
{
    go_on(finish(r->owner));
}

static void *timer_main(void *arg)
{
    struct io_wrap *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->is_closing) {
        uint64_t due_ns = w->waiting_count > 0 ? w->waiting[0]->due_ns : IO_NEVER;
        if (due_ns == IO_NEVER) {
            pthread_cond_wait(&w->changed, &w->lock);
        } else if (due_ns > clock_now_ns()) {
            thread_cond_wait_until(&w->changed, &w->lock, due_ns);
        } else {
            struct io_shadow *s = heap_pop(w);
            pthread_mutex_unlock(&w->lock);
            go_on(s);
            pthread_mutex_lock(&w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the hooks ---- */

void io_wrap_submit(struct io *io, struct io_request *r, bool more)
{
    (void)more;
    struct io_wrap *w = (struct io_wrap *)io;
    if (w->forks != io_fork_count()) {
        io_refuse_forked(r);
        return;
    }
    io_count_begin(&w->count, r);
    pthread_mutex_lock(&w->lock);
    bool is_closing = w->is_closing;
    struct io_shadow *s = NULL;
    if (!is_closing) {
        io_queue_add(&w->queue, r);
        s = admit_next(w);
    }
    pthread_mutex_unlock(&w->lock);
    if (is_closing) {
        io_fail_closed(r);
        io_count_end(&w->count, r);
        io_done_here(r);
    }
    go_on(s);
}

void io_wrap_figures(struct io *io, struct io_figures *f)
{
    io_count_figures(&((struct io_wrap *)io)->count, f);
}

static void free_wrap(struct io_wrap *w)
{
    if (w->free_policy)
        w->free_policy(w);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w->waiting);
    free(w->free_list);
    free(w->shadows);
    free(w);
}

static int prepare(struct io_wrap *w, const char *over, uint32_t depth, const struct log *log, struct fb_error *e)
{
    w->shadows = io_alloc(depth * sizeof(*w->shadows), e);
    w->free_list = io_alloc(depth * sizeof(*w->free_list), e);
    w->waiting = io_alloc(depth * sizeof(struct io_shadow *), e);
    if (!w->shadows || !w->free_list || !w->waiting)
        return FB_E_NOMEM;
    for (uint32_t i = 0; i < depth; i++)
        w->free_list[w->free_count++] = depth - 1 - i;
    FB_TRY(io_open(&w->inner, over, depth, log, e));
    if (!w->has_timer)
        return 0;
    int rc = thread_start_prompt(&w->timer, "fb-slow", timer_main, w, e);
    if (rc < 0)
        w->inner->ops->close(w->inner, 0);
    return rc;
}

int io_wrap_open(struct io **out, const struct io_wrap *init, const char *over, uint32_t depth, const struct log *log, struct fb_error *e)
{
    struct io_wrap *w = io_alloc(sizeof(*w), e);
    if (!w) {
        if (init->free_policy)
            init->free_policy((struct io_wrap *)init);
        return FB_E_NOMEM;
    }
    *w = *init;
    w->forks = io_fork_count();
    w->count.depth = depth;
    pthread_mutex_init(&w->lock, NULL);
    thread_cond_init(&w->changed);
    int rc = prepare(w, over, depth, log, e);
    if (rc < 0) {
        free_wrap(w);
        return rc;
    }
    *out = &w->io;
    return 0;
}

/* Under the lock: everything that is not with the inner back-end, as a list to cancel. Returns how many are stuck. */
static uint32_t drain(struct io_wrap *w, struct io_request **list)
{
    uint32_t stuck = 0;
    *list = io_queue_take_all(&w->queue);
    for (uint32_t i = 0; i < w->waiting_count; i++) {
        struct io_shadow *s = w->waiting[i];
        stuck += s->is_stuck;
        if (s->is_stuck)
            continue;
        s->outer->next = *list;
        *list = s->outer;
    }
    w->waiting_count = 0;
    return stuck;
}

/* A stuck thread may still write to its shadow, so the handle stays; reachable, because it is left on purpose. */
static void keep(struct io_wrap *w)
{
    static _Atomic(struct io_wrap *) kept;
    w->next_kept = atomic_load(&kept);
    while (!atomic_compare_exchange_weak(&kept, &w->next_kept, w))
        ;
}

uint32_t io_wrap_close(struct io *io, uint64_t timeout_ns)
{
    struct io_wrap *w = (struct io_wrap *)io;
    if (w->forks != io_fork_count())
        return 0; /* the parent's */
    uint64_t deadline_ns = clock_now_ns() + timeout_ns;
    struct io_request *cancelled;
    pthread_mutex_lock(&w->lock);
    w->is_closing = true;
    uint32_t left_behind = drain(w, &cancelled);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    io_cancel_list(&w->count, cancelled);
    if (w->has_timer)
        pthread_join(w->timer, NULL); /* it waits for nothing but time */
    uint64_t now_ns = clock_now_ns();
    left_behind += w->inner->ops->close(w->inner, deadline_ns > now_ns ? deadline_ns - now_ns : 0);
    if (left_behind == 0)
        free_wrap(w);
    else
        keep(w);
    return left_behind;
}
