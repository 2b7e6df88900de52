/* What a back-end has done, counted without a shared cache line: each thread adds to one of 16 shards, figures are their sum. */
#ifndef FB_IO_COUNT_H
#define FB_IO_COUNT_H

#include <stdatomic.h>

#include "model/io_ops.h"

enum { IO_COUNT_SHARDS = 16 };

struct io_count_shard {
    _Alignas(64) _Atomic uint64_t reads;
    _Atomic uint64_t bytes, failures, busy_ns, in_flight_ns;
};

/* Relaxed order throughout: figures for people, no data hangs on them. */
struct io_count {
    struct io_count_shard shard[IO_COUNT_SHARDS];
    _Atomic uint32_t in_flight, in_flight_peak;
    uint32_t depth; /* constant after open */
};

/* A request arrives (submitted_ns, in_flight) and leaves again (done_ns, the sums). */
void io_count_begin(struct io_count *c, struct io_request *r);
void io_count_end(struct io_count *c, struct io_request *r);
/* The sums alone, for a read on the caller's thread; submitted_ns and done_ns are set already. */
void io_count_add(struct io_count *c, const struct io_request *r);
/* Reads on the caller's thread whose time nobody took. */
void io_count_add_pieces(struct io_count *c, uint64_t reads, uint64_t bytes);
void io_count_figures(const struct io_count *c, struct io_figures *f);

#endif
