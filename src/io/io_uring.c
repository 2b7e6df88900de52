/* "uring": one ring, one thread (`fb-io`) that alone touches it; open, read and close are all asynchronous.
 *
 * A read in flight is a small state machine: OPEN -> look at the open file -> READ (in parts if large) -> CLOSE. The operations are not
 * chained with links: size, time and kind of the file are wanted anyway, they are only to be had from a real descriptor, and a short
 * or growing file needs a say before it is closed. Measured against open-read-close chains with direct descriptors: the same from a cold
 * cache, and about 1 us dearer from a warm one, where file_now.c reads without the ring. O_NONBLOCK makes the kernel read inline even
 * where a file system cannot promise not to block (NFS, FUSE, overlay), which would hold up the ring: those reads are sent to its workers.
 *
 * Other threads hand requests over in a list under `lock` and write to an eventfd, which the ring reads, only if fb-io sleeps. One lock per
 * turn of the loop, however many requests and completions it carries.
 *
 * Safety: the ring, the flights and the free list are fb-io's alone; what is under the lock says so. A result is delivered with
 * `is_delivering` set, so that close(), when its time is over, can abandon the rest without racing a done. An abandoned fb-io waits for
 * what the kernel still holds, drops it, and frees the handle.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "io/file_read.h"
#include "io/io_count.h"
#include "io/io_list.h"
#include "io/io_own.h"
#include "io/uring_ring.h"

enum { QUIET_CLOSE, COUNTED_CLOSE };
enum operation { OP_OPEN, OP_READ, OP_CLOSE, OP_WAKE, OP_CANCEL };

struct flight {
    struct io_request *r; /* NULL: free */
    struct io_file file;
    int fd;
    bool is_async;        /* reads go to the ring's workers */
    bool is_quiet_close;  /* a local file: closing it cannot block and needs no answer */
    enum operation operation;
};

struct uring_io {
    struct io io;
    struct io_now now;
    struct io_count count;
    unsigned forks; /* at open */
    uint32_t depth;
    pthread_t thread;
    int wake_fd;

    /* fb-io's */
    struct uring_ring ring;
    struct flight *flights; /* depth of them */
    uint32_t *free_list;
    uint32_t free_count, closes_in_flight;
    struct io_request *finished, **finished_end; /* read, not yet delivered */
    uint32_t finished_count;
    uint64_t wake_value;
    bool is_listening, was_cancelled; /* the eventfd is being read; everything in flight was told to stop */

    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* started, ended, not delivering any more */
    struct io_request *head, *tail;
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
    free(u->free_list);
    free(u->flights);
    free(u);
}

/* ---- one flight ---- */

static uint32_t index_of(const struct uring_io *u, const struct flight *f)
{
    return (uint32_t)(f - u->flights);
}

static uint64_t tag(uint32_t index, enum operation operation)
{
    return (uint64_t)index << 3 | operation;
}

/* There is always an entry for the next step of a flight: each has one at most, and closes and cancels leave `depth` free. */
static struct io_uring_sqe *next_step(struct uring_io *u, struct flight *f, enum operation operation)
{
    f->operation = operation;
    return uring_ring_sqe(&u->ring, 0);
}

static void start_open(struct uring_io *u, struct flight *f)
{
    struct io_uring_sqe *sqe = next_step(u, f, OP_OPEN);
    io_uring_prep_openat(sqe, f->r->dir_fd, f->r->path, IO_OPEN_FLAGS, 0);
    io_uring_sqe_set_data64(sqe, tag(index_of(u, f), OP_OPEN));
}

static void start_read(struct uring_io *u, struct flight *f)
{
    struct io_part p = io_file_part(f->r, &f->file);
    struct io_uring_sqe *sqe = next_step(u, f, OP_READ);
    io_uring_prep_read(sqe, f->fd, p.to, (unsigned)p.bytes, p.offset);
    if (f->is_async)
        sqe->flags |= IOSQE_ASYNC;
    io_uring_sqe_set_data64(sqe, tag(index_of(u, f), OP_READ));
}

/* Through the ring, because closing waits on some file systems (FUSE, NFS flush). */
static void start_close(struct uring_io *u, const struct flight *f)
{
    struct io_uring_sqe *sqe = uring_ring_sqe(&u->ring, u->depth + 4);
    if (!sqe) {
        close(f->fd);
        return;
    }
    io_uring_prep_close(sqe, f->fd);
    io_uring_sqe_set_data64(sqe, tag(f->is_quiet_close ? QUIET_CLOSE : COUNTED_CLOSE, OP_CLOSE));
    if (f->is_quiet_close)
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    else
        u->closes_in_flight++;
}

static void end_flight(struct uring_io *u, struct flight *f)
{
    if (f->fd >= 0)
        start_close(u, f);
    *u->finished_end = f->r;
    u->finished_end = &f->r->next;
    u->finished_count++;
    f->r = NULL;
    u->free_list[u->free_count++] = index_of(u, f);
}

static void begin_flight(struct uring_io *u, struct io_request *r)
{
    struct flight *f = &u->flights[u->free_list[--u->free_count]];
    *f = (struct flight){.r = r, .fd = -1};
    if (io_file_check(r) < 0)
        end_flight(u, f);
    else
        start_open(u, f);
}

static int after_open(struct uring_io *u, struct flight *f, int result)
{
    if (result < 0)
        return result == -EINTR ? IO_FILE_MORE : io_file_fail_open(f->r, -result);
    f->fd = result;
    int rc = io_file_begin(f->r, &f->file, f->fd);
    if (rc != IO_FILE_MORE)
        return rc;
    bool is_local = io_device_of(f->file.device, f->fd) != IO_DEVICE_BLOCKS;
    f->is_async = !is_local;
    f->is_quiet_close = is_local && u->ring.has_cqe_skip;
    return IO_FILE_MORE;
}

static int after_read(struct flight *f, int result)
{
    if (result == -EAGAIN && !f->is_async) { /* a file system that takes O_NONBLOCK at its word */
        f->is_async = true;
        return IO_FILE_MORE;
    }
    return io_file_take(f->r, &f->file, f->fd, result);
}

static void advance(struct uring_io *u, struct flight *f, int result)
{
    bool is_cancelled = u->was_cancelled && (result == -ECANCELED || result == -EINTR);
    int rc = is_cancelled ? io_fail_closed(f->r) : f->operation == OP_OPEN ? after_open(u, f, result) : after_read(f, result);
    if (rc == IO_FILE_MORE && u->was_cancelled)
        rc = io_fail_closed(f->r);
    if (rc != IO_FILE_MORE)
        end_flight(u, f);
    else if (f->fd < 0)
        start_open(u, f);
    else
        start_read(u, f);
}

/* ---- the loop of fb-io ---- */

static void await_wake(struct uring_io *u)
{
    u->is_listening = !u->was_cancelled;
    if (!u->is_listening)
        return;
    struct io_uring_sqe *sqe = uring_ring_sqe(&u->ring, 0);
    io_uring_prep_read(sqe, u->wake_fd, &u->wake_value, sizeof(u->wake_value), 0);
    io_uring_sqe_set_data64(sqe, tag(0, OP_WAKE));
}

/* A quiet close reports only failure (and there the descriptor is gone all the same). */
static void after_close(struct uring_io *u, const struct io_uring_cqe *cqe)
{
    if ((cqe->user_data >> 3) == COUNTED_CLOSE)
        u->closes_in_flight--;
}

static void reap(struct uring_io *u)
{
    struct io_uring_cqe *cqe;
    unsigned head, n = 0;
    io_uring_for_each_cqe(&u->ring.ring, head, cqe) {
        n++;
        enum operation operation = (enum operation)(cqe->user_data & 7);
        if (operation == OP_WAKE)
            await_wake(u);
        else if (operation == OP_CLOSE)
            after_close(u, cqe);
        else if (operation != OP_CANCEL)
            advance(u, &u->flights[cqe->user_data >> 3], cqe->res);
    }
    io_uring_cq_advance(&u->ring.ring, n);
}

static void deliver(struct uring_io *u)
{
    if (u->finished_count == 0)
        return;
    pthread_mutex_lock(&u->lock);
    bool is_wanted = !u->is_abandoned;
    u->is_delivering = is_wanted;
    u->active -= u->finished_count;
    pthread_mutex_unlock(&u->lock);
    *u->finished_end = NULL;
    struct io_request *r = u->finished;
    u->finished = NULL;
    u->finished_end = &u->finished;
    u->finished_count = 0;
    while (r && is_wanted) {
        struct io_request *next = r->next;
        io_count_end(&u->count, r);
        r->done(r);
        r = next;
    }
}

/* Everything the loop needs of the shared part, in one go: new requests in, asleep from now on. */
struct turn {
    struct io_request *head;
    bool is_closing;
};

static struct turn begin_turn(struct uring_io *u)
{
    struct turn t = {0};
    struct io_request **end = &t.head;
    pthread_mutex_lock(&u->lock);
    u->is_delivering = false;
    uint32_t left = u->free_count;
    for (; left > 0 && u->head; left--) {
        *end = u->head;
        end = &u->head->next;
        u->head = u->head->next;
        u->active++;
    }
    *end = NULL;
    t.is_closing = u->is_closing;
    u->is_sleeping = left > 0; /* with all flights taken a wake-up would not help */
    if (t.is_closing)
        pthread_cond_signal(&u->changed);
    pthread_mutex_unlock(&u->lock);
    return t;
}

static void cancel(struct uring_io *u, uint64_t what)
{
    struct io_uring_sqe *sqe = uring_ring_sqe(&u->ring, u->depth + 4);
    if (!sqe)
        return;
    io_uring_prep_cancel64(sqe, what, 0);
    io_uring_sqe_set_data64(sqe, tag(0, OP_CANCEL));
}

/* Once. Each by its own tag, which kernels before 5.19 understand too; those that cannot be cancelled run to their end. */
static void cancel_flights(struct uring_io *u)
{
    if (u->was_cancelled)
        return;
    u->was_cancelled = true;
    cancel(u, tag(0, OP_WAKE));
    for (uint32_t i = 0; i < u->depth; i++)
        if (u->flights[i].r)
            cancel(u, tag(i, u->flights[i].operation));
}

static bool is_empty(const struct uring_io *u)
{
    return u->free_count == u->depth && u->closes_in_flight == 0 && u->finished_count == 0 && !u->is_listening;
}

static bool take_turn(struct uring_io *u)
{
    struct turn t = begin_turn(u);
    while (t.head) {
        struct io_request *r = t.head;
        t.head = r->next;
        begin_flight(u, r);
    }
    if (t.is_closing)
        cancel_flights(u);
    bool is_over = t.is_closing && is_empty(u);
    uring_ring_enter(&u->ring, !is_over && u->finished_count == 0);
    reap(u);
    deliver(u);
    return !is_over;
}

static void *uring_main(void *arg)
{
    struct uring_io *u = arg;
    int rc = uring_ring_open(&u->ring, u->depth, u->start_error);
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
    uring_ring_close(&u->ring);

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
        if (u->head)
            u->tail->next = r;
        else
            u->head = r;
        u->tail = r;
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
    if (u->forks != io_fork_count()) {
        io_refuse_forked(r);
        return;
    }
    io_count_begin(&u->count, r);
    r->next = NULL;
    bool must_wake = false;
    if (!hand_over(u, r, more, &must_wake)) {
        io_fail_closed(r);
        io_count_end(&u->count, r);
        io_done_here(r);
    } else if (must_wake) {
        wake(u);
    }
}

static int uring_try_now(struct io *io, struct io_request *r)
{
    struct uring_io *u = (struct uring_io *)io;
    if (u->forks != io_fork_count())
        return io_fail_forked(r);
    int rc = io_file_try(&u->now, r);
    if (rc != IO_BLOCKED)
        io_count_add(&u->count, r);
    return rc;
}

static void uring_figures(struct io *io, struct io_figures *f)
{
    io_count_figures(&((struct uring_io *)io)->count, f);
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

static int prepare(struct uring_io *u, struct fb_error *e)
{
    u->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (u->wake_fd < 0)
        return error_set_errno(e, "read", errno, "make an eventfd");
    u->flights = io_alloc(u->depth * sizeof(*u->flights), e);
    u->free_list = io_alloc(u->depth * sizeof(*u->free_list), e);
    if (!u->flights || !u->free_list)
        return FB_E_NOMEM;
    for (uint32_t i = 0; i < u->depth; i++)
        u->free_list[u->free_count++] = u->depth - 1 - i;
    return start_thread(u, e);
}

static int uring_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    (void)log;
    FB_TRY(io_no_options("uring", spec, e));
    struct uring_io *u = io_alloc(sizeof(*u), e);
    if (!u)
        return FB_E_NOMEM;
    u->io.ops = &io_uring_ops;
    u->forks = io_fork_count();
    u->depth = u->count.depth = depth;
    u->finished_end = &u->finished;
    pthread_mutex_init(&u->lock, NULL);
    thread_cond_init(&u->changed);
    int rc = prepare(u, e);
    if (rc < 0) {
        free_handle(u);
        return rc;
    }
    *out = &u->io;
    return 0;
}

static struct io_request *begin_close(struct uring_io *u)
{
    pthread_mutex_lock(&u->lock);
    u->is_closing = true;
    struct io_request *queued = u->head;
    u->head = NULL;
    pthread_mutex_unlock(&u->lock);
    wake(u);
    return queued;
}

static uint32_t uring_close(struct io *io, uint64_t timeout_ns)
{
    struct uring_io *u = (struct uring_io *)io;
    if (u->forks != io_fork_count())
        return 0; /* the parent's: its memory and its ring are left alone */
    uint64_t deadline_ns = clock_now_ns() + timeout_ns;
    io_cancel_list(&u->count, begin_close(u));
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
    .try_now = uring_try_now,
    .figures = uring_figures,
    .close = uring_close,
};
