#include "io/io_wait.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/queue.h"
#include "base/round_up.h"

enum { ASK_EVERY_NS = 100000000 };

struct waited_read {
    struct queue_item item;
    struct io_wait *of;
    struct io_request request;
    struct fb_error error;
};

struct io_wait {
    struct io *io;
    size_t room, stride; /* bytes of a buffer; from one buffer to the next */
    uint8_t *buffers;    /* behind the reads */
    struct queue came;
    atomic_uint users; /* reads that a back-end has, and whoever waits. Acquire and release: the last one frees what the others wrote */
    /* the waiting thread's */
    uint32_t count, under_way;
    uint64_t ask_at_ns;
    struct waited_read read[];
};

static void let_go(struct io_wait *w)
{
    if (atomic_fetch_sub_explicit(&w->users, 1, memory_order_acq_rel) > 1)
        return;
    queue_destroy(&w->came);
    free(w);
}

static void on_done(struct io_request *r)
{
    struct waited_read *x = r->owner;
    struct io_wait *w = x->of;
    queue_put(&w->came, &x->item);
    let_go(w);
}

struct io_wait *io_wait_new(struct io *io, uint32_t count, size_t room)
{
    size_t head = round_up(sizeof(struct io_wait) + count * sizeof(struct waited_read), 64);
    size_t stride = round_up(room + IO_TAIL, 64);
    if (stride < room || (count && stride > (SIZE_MAX - head) / count))
        return NULL;
    struct io_wait *w = malloc(head + count * stride);
    if (!w)
        return NULL;
    *w = (struct io_wait){.io = io, .room = room, .stride = stride, .buffers = (uint8_t *)w + head, .users = 1, .count = count};
    queue_init(&w->came);
    return w;
}

void io_wait_submit(struct io_wait *w, uint32_t i, const struct io_request *wanted, bool more)
{
    struct waited_read *x = &w->read[i];
    assert(i < w->count);
    x->of = w;
    error_clear(&x->error);
    x->request = *wanted;
    x->request.buffer = w->buffers + i * w->stride;
    x->request.capacity = w->room + IO_TAIL;
    x->request.error = &x->error;
    x->request.done = on_done;
    x->request.owner = x;
    if (w->under_way++ == 0)
        w->ask_at_ns = clock_now_ns() + ASK_EVERY_NS;
    atomic_fetch_add_explicit(&w->users, 1, memory_order_relaxed);
    w->io->ops->submit(w->io, &x->request, more);
}

static int must_stop(struct io_wait *w, const struct io_wait_stop *stop)
{
    uint64_t now = clock_now_ns();
    if (stop->deadline_ns && now >= stop->deadline_ns)
        return FB_E_TIMEOUT;
    if (now < w->ask_at_ns)
        return 0;
    w->ask_at_ns = now + ASK_EVERY_NS;
    return stop->interrupted && stop->interrupted(stop->ctx) ? FB_E_INTERRUPTED : 0;
}

static uint64_t wake_at(const struct io_wait *w, const struct io_wait_stop *stop)
{
    uint64_t ask_at = stop->interrupted ? w->ask_at_ns : UINT64_MAX;
    return stop->deadline_ns && stop->deadline_ns < ask_at ? stop->deadline_ns : ask_at;
}

int io_wait_next(struct io_wait *w, const struct io_wait_stop *stop, uint32_t *i)
{
    static const struct io_wait_stop never;
    stop = stop ? stop : &never;
    while (w->under_way > 0) {
        const struct waited_read *x = queue_take_until(&w->came, wake_at(w, stop));
        if (x) {
            w->under_way--;
            *i = (uint32_t)(x - w->read);
            return 1;
        }
        FB_TRY(must_stop(w, stop));
    }
    return 0;
}

int io_wait_all(struct io_wait *w, const struct io_wait_stop *stop)
{
    uint32_t i;
    int rc;
    while ((rc = io_wait_next(w, stop, &i)) > 0)
        ;
    return rc;
}

const struct io_request *io_wait_result(const struct io_wait *w, uint32_t i)
{
    return &w->read[i].request;
}

int io_wait_status(const struct io_wait *w, uint32_t i, struct fb_error *e)
{
    const struct waited_read *x = &w->read[i];
    if (x->request.status < 0 && e && !e->code)
        *e = x->error;
    if (x->request.status < 0)
        error_set(e, x->request.status, "read", "the read failed"); /* unless the back-end has told why */
    return x->request.status;
}

void io_wait_end(struct io_wait *w)
{
    if (w)
        let_go(w);
}
