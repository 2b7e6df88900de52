/* "uring": one ring, one thread (`fb-io`) that alone touches it; open, read and close are all asynchronous (uring_flight.h).
 *
 * Other threads hand requests over in a list under `lock` and write to an eventfd, which the ring reads, only if fb-io sleeps. One lock per
 * turn of the loop, however many requests and completions it carries.
 *
 * Safety: ring and flights are fb-io's alone; what is under the lock says so. A result is delivered with `is_delivering` set, so that
 * close(), when its time is over, can abandon the rest without racing a done. An abandoned fb-io waits for what the kernel still holds,
 * drops it, and frees the handle.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "io/io_count.h"
#include "io/io_list.h"
#include "io/io_shared.h"
#include "io/io_queue.h"
#include "io/file/uring_flight.h"

struct uring_io {
    struct local_io local;
    pthread_t thread;
    int wake_fd;

    /* fb-io's */
    struct uring_flights flights;
    uint64_t wake_value;
    bool is_listening; /* the eventfd is being read */

    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* started, ended, not delivering any more */
    struct io_queue queue;
    uint32_t active; /* taken from the list and not delivered */
    bool is_sleeping, is_delivering, is_closing, is_abandoned, has_started, has_ended;
    int start_rc;
    struct fb_error *start_error;
};

static void free_handle(struct uring_io *u)
{
    if (u->wake_fd >= 0)
        close(u->wake_fd);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
    uring_flights_free(&u->flights);
    free(u);
}

/* ---- the loop of fb-io ---- */

static void await_wake(struct uring_io *u)
{
    u->is_listening = !u->flights.is_cancelled;
    if (!u->is_listening)
        return;
    struct io_uring_sqe *sqe = uring_ring_sqe(&u->flights.ring, 0);
    io_uring_prep_read(sqe, u->wake_fd, &u->wake_value, sizeof(u->wake_value), 0);
    io_uring_sqe_set_data64(sqe, uring_tag(0, URING_WAKE));
}

static void reap(struct uring_io *u)
{
    struct io_uring_cqe *cqe;
    unsigned head, n = 0;
    io_uring_for_each_cqe(&u->flights.ring.ring, head, cqe)
    {
        n++;
        if (cqe->user_data == uring_tag(0, URING_WAKE))
            await_wake(u);
        else
            uring_flight_answer(&u->flights, cqe);
    }
    io_uring_cq_advance(&u->flights.ring.ring, n);
}

static void deliver(struct uring_io *u)
{
    if (u->flights.finished_count == 0)
        return;
    pthread_mutex_lock(&u->lock);
    bool is_wanted = !u->is_abandoned;
    u->is_delivering = is_wanted;
    u->active -= u->flights.finished_count;
    pthread_mutex_unlock(&u->lock);
    struct io_request *r = uring_flights_take_finished(&u->flights);
    while (r && is_wanted) {
        struct io_request *next = r->next;
        io_count_end(&u->local.count, r);
        r->done(r);
        r = next;
    }
}

/* All the loop needs of the shared part, in one go: requests for the free flights, and asleep from now on as others see it. */
static struct io_request *begin_turn(struct uring_io *u, bool *is_closing)
{
    struct io_request *taken = NULL, **end = &taken;
    uint32_t left = u->flights.free_count;
    pthread_mutex_lock(&u->lock);
    u->is_delivering = false;
    for (; left > 0 && u->queue.head; left--) {
        *end = io_queue_take(&u->queue);
        end = &(*end)->next;
        u->active++;
    }
    *end = NULL;
    u->is_sleeping = left > 0; /* with all flights taken a wake-up would not help */
    *is_closing = u->is_closing;
    if (u->is_closing)
        pthread_cond_signal(&u->changed);
    pthread_mutex_unlock(&u->lock);
    return taken;
}

static void stop(struct uring_io *u)
{
    if (u->flights.is_cancelled)
        return;
    uring_flights_cancel(&u->flights);
    uring_flights_cancel_one(&u->flights, uring_tag(0, URING_WAKE));
}

static bool take_turn(struct uring_io *u)
{
    bool is_closing;
    for (struct io_request *r = begin_turn(u, &is_closing), *next; r; r = next) {
        next = r->next;
        uring_flight_begin(&u->flights, r);
    }
    if (is_closing)
        stop(u);
    bool is_over = is_closing && !u->is_listening && uring_flights_is_empty(&u->flights);
    uring_ring_enter(&u->flights.ring, !is_over && u->flights.finished_count == 0);
    reap(u);
    deliver(u);
    return !is_over;
}

static void *uring_main(void *arg)
{
    struct uring_io *u = arg;
    int rc = uring_ring_open(&u->flights.ring, u->flights.depth, u->start_error);
    pthread_mutex_lock(&u->lock);
    u->start_rc = rc;
    u->has_started = true;
    pthread_cond_signal(&u->changed);
    pthread_mutex_unlock(&u->lock);
    if (rc < 0)
        return NULL;

    await_wake(u);
    while (take_turn(u))
        ;
    uring_ring_close(&u->flights.ring);

    pthread_mutex_lock(&u->lock);
    u->has_ended = true;
    bool is_mine_to_free = u->is_abandoned;
    pthread_cond_signal(&u->changed);
    pthread_mutex_unlock(&u->lock);
    if (is_mine_to_free)
        free_handle(u);
    return NULL;
}

/* ---- the hooks ---- */

static void wake(struct uring_io *u)
{
    uint64_t one = 1;
    while (write(u->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* False: closing. */
static bool hand_over(struct uring_io *u, struct io_request *r, bool more, bool *must_wake)
{
    pthread_mutex_lock(&u->lock);
    bool is_open = !u->is_closing;
    if (is_open) {
        io_queue_add(&u->queue, r);
        *must_wake = u->is_sleeping && !more;
        if (*must_wake)
            u->is_sleeping = false;
    }
    pthread_mutex_unlock(&u->lock);
    return is_open;
}

static void uring_submit(struct io *io, struct io_request *r, bool more)
{
    struct uring_io *u = (struct uring_io *)io;
    if (u->local.forks != io_fork_count()) {
        io_refuse_forked(r);
        return;
    }
    io_count_begin(&u->local.count, r);
    bool must_wake = false;
    if (!hand_over(u, r, more, &must_wake)) {
        io_fail_closed(r);
        io_count_end(&u->local.count, r);
        io_done_here(r);
    } else if (must_wake) {
        wake(u);
    }
}

static int start_thread(struct uring_io *u, struct fb_error *e)
{
    u->start_error = e;
    FB_TRY(thread_start(&u->thread, "fb-io", uring_main, u, e));
    pthread_mutex_lock(&u->lock);
    while (!u->has_started)
        pthread_cond_wait(&u->changed, &u->lock);
    int rc = u->start_rc;
    pthread_mutex_unlock(&u->lock);
    if (rc < 0)
        pthread_join(u->thread, NULL);
    return rc;
}

static int prepare(struct uring_io *u, uint32_t depth, struct fb_error *e)
{
    u->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (u->wake_fd < 0)
        return error_set_errno(e, "read", errno, "make an eventfd");
    FB_TRY(uring_flights_alloc(&u->flights, depth, e));
    return start_thread(u, e);
}

static int uring_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    (void)log;
    FB_TRY(io_no_options("uring", spec, e));
    struct uring_io *u = io_alloc(sizeof(*u), e);
    if (!u)
        return FB_E_NOMEM;
    u->local.io.ops = &io_uring_ops;
    u->local.forks = io_fork_count();
    u->local.count.depth = depth;
    pthread_mutex_init(&u->lock, NULL);
    thread_cond_init(&u->changed);
    int rc = prepare(u, depth, e);
    if (rc < 0) {
        free_handle(u);
        return rc;
    }
    *out = &u->local.io;
    return 0;
}

static struct io_request *begin_close(struct uring_io *u)
{
    pthread_mutex_lock(&u->lock);
    u->is_closing = true;
    struct io_request *queued = io_queue_take_all(&u->queue);
    pthread_mutex_unlock(&u->lock);
    wake(u);
    return queued;
}

static uint32_t uring_close(struct io *io, uint64_t timeout_ns)
{
    struct uring_io *u = (struct uring_io *)io;
    if (u->local.forks != io_fork_count())
        return 0; /* the parent's: its memory and its ring are left alone */
    uint64_t deadline_ns = clock_now_ns() + timeout_ns;
    io_cancel_list(&u->local.count, begin_close(u));
    pthread_mutex_lock(&u->lock);
    while (!u->has_ended && thread_cond_wait_until(&u->changed, &u->lock, deadline_ns))
        ;
    while (u->is_delivering && !u->has_ended)
        pthread_cond_wait(&u->changed, &u->lock);
    bool has_ended = u->has_ended;
    uint32_t left_behind = u->active;
    u->is_abandoned = !has_ended;
    pthread_t thread = u->thread;
    pthread_mutex_unlock(&u->lock);
    if (!has_ended) {
        pthread_detach(thread);
        return left_behind;
    }
    pthread_join(thread, NULL);
    free_handle(u);
    return 0;
}

const struct io_ops io_uring_ops = {
    .name = "uring",
    .open = uring_open,
    .submit = uring_submit,
    .try_now = local_io_try_now,
    .try_pieces = local_io_try_pieces,
    .figures = local_io_figures,
    .close = uring_close,
};
