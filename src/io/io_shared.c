#include "io/io_shared.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/round_up.h"
#include "io/io_count.h"

void *io_alloc(size_t bytes, struct fb_error *e)
{
    size_t whole = round_up(bytes, 64);
    void *p = whole < bytes ? NULL : aligned_alloc(64, whole);
    if (!p) {
        error_set(e, FB_E_NOMEM, "read", "cannot allocate %zu bytes for a reader", bytes);
        return NULL;
    }
    return memset(p, 0, whole);
}

static _Atomic unsigned forks; /* written only in a child that is single-threaded at that moment */

static void count_fork(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

unsigned io_fork_count(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

int io_fail_forked(struct io_request *r)
{
    r->got = 0;
    r->status = error_set(r->error, FB_E_FORKED, "read", "the reader belongs to the parent process");
    error_remedy(r->error, "open the loader in the process that uses it");
    error_at(r->error, r->path, -1);
    return r->status;
}

void io_refuse_forked(struct io_request *r)
{
    io_fail_forked(r);
    io_done_here(r);
}

int io_fail_closed(struct io_request *r)
{
    r->got = 0;
    r->status = error_set(r->error, FB_E_STATE, "read", "the reader was closed before this read was over");
    error_at(r->error, r->path, -1);
    return r->status;
}

void io_done_here(struct io_request *r)
{
    static _Thread_local struct {
        struct io_request *head, *tail;
        bool is_running;
    } waiting;

    r->next = NULL;
    if (waiting.head)
        waiting.tail->next = r;
    else
        waiting.head = r;
    waiting.tail = r;
    if (waiting.is_running)
        return;
    waiting.is_running = true;
    while ((r = waiting.head)) {
        waiting.head = r->next;
        r->done(r);
    }
    waiting.is_running = false;
}

void io_cancel_list(struct io_count *c, struct io_request *head)
{
    while (head) {
        struct io_request *r = head;
        head = r->next;
        io_fail_closed(r);
        io_count_end(c, r);
        r->done(r);
    }
}
