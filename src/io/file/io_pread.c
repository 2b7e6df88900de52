/* "pread": blocking threads, for kernels and containers without io_uring. As many reads run at once as there are threads, so they are
 * started as requests find no idle one, up to min(depth, 64).
 *
 * Safety: everything but the counters is under `lock`; reads and done run outside it. A thread is *busy* from taking a request until its
 * done has returned; `delivering` says that done is being called. close() waits for the threads to leave; those still busy when its time is
 * over are detached, and since `is_abandoned` they drop their result instead of delivering it. The last of them frees the handle.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"
#include "io/file/file_read.h"
#include "io/io_count.h"
#include "io/io_list.h"
#include "io/io_shared.h"
#include "io/io_queue.h"

struct reader {
    pthread_t thread;
    struct pread_io *io;
    bool has_left; /* under the lock */
};

struct pread_io {
    struct local_io local;
    uint32_t threads_max;

    pthread_mutex_t lock;
    pthread_cond_t wake;  /* idle readers: work or closing */
    pthread_cond_t quiet; /* close: a reader left or stopped delivering */
    struct io_queue queue;
    uint32_t queued, idle, woken; /* woken: signalled, not yet awake */
    uint32_t started, alive, busy, delivering;
    bool is_closing, is_abandoned;
    struct reader readers[IO_THREADS_MAX];
};

static void free_handle(struct pread_io *p)
{
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->quiet);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Under the lock. */
static struct io_request *take_request(struct pread_io *p)
{
    p->queued--;
    return io_queue_take(&p->queue);
}

/* Under the lock. False: closing. */
static bool wait_for_work(struct pread_io *p)
{
    while (!p->queue.head && !p->is_closing) {
        p->idle++;
        pthread_cond_wait(&p->wake, &p->lock);
        p->idle--;
        if (p->woken > 0)
            p->woken--;
    }
    return p->queue.head != NULL;
}

/* Under the lock, which is released around the work. */
static void serve(struct pread_io *p, struct io_request *r)
{
    p->busy++;
    pthread_mutex_unlock(&p->lock);
    io_file_read(r);
    pthread_mutex_lock(&p->lock);
    if (!p->is_abandoned) {
        p->delivering++;
        pthread_mutex_unlock(&p->lock);
        io_count_end(&p->local.count, r);
        r->done(r);
        pthread_mutex_lock(&p->lock);
        p->delivering--;
    }
    p->busy--;
    if (p->is_closing)
        pthread_cond_signal(&p->quiet);
}

static void *reader_main(void *arg)
{
    struct reader *me = arg;
    struct pread_io *p = me->io;
    pthread_mutex_lock(&p->lock);
    while (wait_for_work(p))
        serve(p, take_request(p));
    p->alive--;
    me->has_left = true;
    bool is_mine_to_free = p->is_abandoned && p->alive == 0;
    pthread_cond_signal(&p->quiet);
    pthread_mutex_unlock(&p->lock);
    if (is_mine_to_free)
        free_handle(p);
    return NULL;
}

/* Under the lock. Starting may fail: fewer threads then do the work; none at all is told by every request. */
static int start_reader(struct pread_io *p, struct fb_error *e)
{
    struct reader *me = &p->readers[p->started];
    char name[16];
    snprintf(name, sizeof(name), "fb-r%u", p->started);
    me->io = p;
    FB_TRY(thread_start(&me->thread, name, reader_main, me, e));
    p->started++;
    p->alive++;
    return 0;
}

/* Under the lock: one thread per queued request, woken or started, as far as there are any. */
static void call_readers(struct pread_io *p)
{
    while (p->woken < p->queued && p->woken < p->idle) {
        p->woken++;
        pthread_cond_signal(&p->wake);
    }
    for (uint32_t called = p->woken + (p->alive - p->idle - p->busy); called < p->queued && p->started < p->threads_max; called++)
        if (start_reader(p, NULL) < 0)
            break;
}

static int fail_without_thread(struct io_request *r)
{
    r->got = 0;
    r->status = error_set(r->error, FB_E_NOMEM, "read", "no thread could be started for reading");
    error_remedy(r->error, "raise the limit of processes (ulimit -u)");
    error_at(r->error, r->path, -1);
    return r->status;
}

static void refuse(struct pread_io *p, struct io_request *r, bool is_closing)
{
    if (is_closing)
        io_fail_closed(r);
    else
        fail_without_thread(r);
    io_count_end(&p->local.count, r);
    io_done_here(r);
}

static void pread_submit(struct io *io, struct io_request *r, bool more)
{
    struct pread_io *p = (struct pread_io *)io;
    if (p->local.forks != io_fork_count()) {
        io_refuse_forked(r);
        return;
    }
    io_count_begin(&p->local.count, r);
    pthread_mutex_lock(&p->lock);
    if (p->is_closing || (p->alive == 0 && start_reader(p, NULL) < 0)) {
        bool is_closing = p->is_closing;
        pthread_mutex_unlock(&p->lock);
        refuse(p, r, is_closing);
        return;
    }
    io_queue_add(&p->queue, r);
    p->queued++;
    if (!more)
        call_readers(p);
    pthread_mutex_unlock(&p->lock);
}

static int pread_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    (void)log;
    FB_TRY(io_no_options("pread", spec, e));
    struct pread_io *p = io_alloc(sizeof(*p), e);
    if (!p)
        return FB_E_NOMEM;
    p->local.io.ops = &io_pread;
    p->local.forks = io_fork_count();
    p->threads_max = depth < IO_THREADS_MAX ? depth : IO_THREADS_MAX;
    p->local.count.depth = p->threads_max;
    pthread_mutex_init(&p->lock, NULL);
    thread_cond_init(&p->wake);
    thread_cond_init(&p->quiet);
    *out = &p->local.io;
    return 0;
}

/* Under the lock: until all readers left, or the time is over and no done is running. Returns how many reads are left behind. */
static uint32_t wait_for_readers(struct pread_io *p, uint64_t deadline_ns)
{
    while (p->alive > 0 && thread_cond_wait_until(&p->quiet, &p->lock, deadline_ns))
        ;
    while (p->delivering > 0)
        pthread_cond_wait(&p->quiet, &p->lock);
    p->is_abandoned = p->alive > 0;
    return p->busy;
}

static uint32_t pread_close(struct io *io, uint64_t timeout_ns)
{
    struct pread_io *p = (struct pread_io *)io;
    if (p->local.forks != io_fork_count())
        return 0; /* the parent's: its memory is left alone */
    uint64_t deadline_ns = clock_now_ns() + timeout_ns;
    pthread_mutex_lock(&p->lock);
    p->is_closing = true;
    struct io_request *queued = io_queue_take_all(&p->queue);
    p->queued = 0;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    io_cancel_list(&p->local.count, queued);

    pthread_mutex_lock(&p->lock);
    uint32_t left_behind = wait_for_readers(p, deadline_ns);
    bool is_mine_to_free = !p->is_abandoned;
    pthread_t gone[IO_THREADS_MAX];
    uint32_t gone_count = 0;
    for (uint32_t i = 0; i < p->started; i++)
        if (p->readers[i].has_left)
            gone[gone_count++] = p->readers[i].thread;
        else
            pthread_detach(p->readers[i].thread);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < gone_count; i++)
        pthread_join(gone[i], NULL);
    if (is_mine_to_free)
        free_handle(p);
    return left_behind;
}

const struct io_ops io_pread = {
    .name = "pread",
    .open = pread_open,
    .submit = pread_submit,
    .try_now = local_io_try_now,
    .try_pieces = local_io_try_pieces,
    .figures = local_io_figures,
    .close = pread_close,
};
