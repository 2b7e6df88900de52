#include "io/io_count.h"

#include "base/clock.h"

static unsigned my_shard(void)
{
    static _Atomic unsigned next;
    static _Thread_local unsigned mine; /* 0: not given yet */
    if (mine == 0)
        mine = 1 + atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % IO_COUNT_SHARDS;
    return mine - 1;
}

void io_count_begin(struct io_count *c, struct io_request *r)
{
    r->submitted_ns = clock_now_ns();
    uint32_t now = atomic_fetch_add_explicit(&c->in_flight, 1, memory_order_relaxed) + 1;
    uint32_t seen = atomic_load_explicit(&c->in_flight_peak, memory_order_relaxed);
    while (now > seen && !atomic_compare_exchange_weak_explicit(&c->in_flight_peak, &seen, now, memory_order_relaxed, memory_order_relaxed))
        ;
}

void io_count_add(struct io_count *c, const struct io_request *r)
{
    struct io_count_shard *s = &c->shard[my_shard()];
    atomic_fetch_add_explicit(&s->reads, 1, memory_order_relaxed);
    if (r->status < 0)
        atomic_fetch_add_explicit(&s->failures, 1, memory_order_relaxed);
    else if (r->status == 0)
        atomic_fetch_add_explicit(&s->bytes, r->got, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->busy_ns, r->done_ns - r->submitted_ns, memory_order_relaxed);
}

void io_count_add_pieces(struct io_count *c, uint64_t reads, uint64_t bytes)
{
    struct io_count_shard *s = &c->shard[my_shard()];
    atomic_fetch_add_explicit(&s->reads, reads, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->bytes, bytes, memory_order_relaxed);
}

void io_count_end(struct io_count *c, struct io_request *r)
{
    r->done_ns = clock_now_ns();
    io_count_add(c, r);
    atomic_fetch_add_explicit(&c->shard[my_shard()].in_flight_ns, r->done_ns - r->submitted_ns, memory_order_relaxed);
    atomic_fetch_sub_explicit(&c->in_flight, 1, memory_order_relaxed);
}

void io_count_figures(const struct io_count *c, struct io_figures *f)
{
    *f = (struct io_figures){.depth = c->depth};
    for (int i = 0; i < IO_COUNT_SHARDS; i++) {
        const struct io_count_shard *s = &c->shard[i];
        f->reads += atomic_load_explicit(&s->reads, memory_order_relaxed);
        f->bytes += atomic_load_explicit(&s->bytes, memory_order_relaxed);
        f->failures += atomic_load_explicit(&s->failures, memory_order_relaxed);
        f->busy_ns += atomic_load_explicit(&s->busy_ns, memory_order_relaxed);
        f->in_flight_ns += atomic_load_explicit(&s->in_flight_ns, memory_order_relaxed);
    }
    f->in_flight = atomic_load_explicit(&c->in_flight, memory_order_relaxed);
    f->in_flight_peak = atomic_load_explicit(&c->in_flight_peak, memory_order_relaxed);
}
