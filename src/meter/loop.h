/* Timing a training loop from inside its loader: the loop asks for a batch, waits, gets it, and comes back for the next. Exact, and cheap
 * enough to be always on.
 *
 * One thread writes (the one that iterates), any thread reads: each figure is an atomic of its own, so a reader may see one step more in
 * one than in another. The gap between epochs runs from the last batch of one to the first of the next.
 */
#ifndef FB_METER_LOOP_H
#define FB_METER_LOOP_H

#include <stdatomic.h>

#include "meter/marks.h"

/* Durations from 1 us on in eighths of an octave: a quantile is right to 9 %. */
enum { FINE_BINS = 32 * 8 };
struct fine_histogram {
    _Atomic uint64_t bin[FINE_BINS];
};
void fine_add(struct fine_histogram *h, uint64_t ns);
/* The duration below which `share` of them lie; 0 when empty. */
uint64_t fine_quantile(const struct fine_histogram *h, double share);

/* One epoch, or all of them. */
struct loop_sums {
    _Atomic uint64_t batches, samples;
    _Atomic uint64_t wall_ns; /* from the epoch's beginning to its last batch */
    _Atomic uint64_t wait_ns, wait_cpu_ns, wait_most_ns;
};

struct loop {
    struct loop_sums all, epoch;        /* epoch: the running one, or the last when none runs */
    _Atomic uint64_t epochs;            /* begun */
    _Atomic uint64_t epoch_length;      /* batches that the running one will have; 0: not known */
    _Atomic uint64_t first_wait_ns;     /* of the very first batch: start-up, not steady state */
    _Atomic uint64_t gap_most_ns;       /* between epochs */
    struct fine_histogram waits, steps; /* steps: from batch to batch inside an epoch */
    /* the writer's own */
    uint64_t last_ns;  /* when the last batch was handed over, or the epoch began */
    bool has_batch;    /* of this epoch */
    uint64_t ended_ns; /* last batch of the epoch before; 0: none */
    struct marks marks;
};

void loop_open(struct loop *l);
void loop_begin_epoch(struct loop *l, uint64_t now_ns, uint64_t batches);
/* A batch of `samples` was handed over at now_ns after waiting so long. */
void loop_take(struct loop *l, uint64_t now_ns, uint64_t wait_ns, uint64_t wait_cpu_ns, uint64_t samples);
void loop_end_epoch(struct loop *l, uint64_t now_ns);
void loop_close(struct loop *l);

/* A copy of the sums at one moment. */
struct loop_figures {
    uint64_t batches, samples, wall_ns, wait_ns, wait_cpu_ns, wait_most_ns;
};
struct loop_figures loop_read(const struct loop_sums *s);
/* The figures under "loop"; names in docs/monitor.md. */
struct metrics;
void loop_metrics(const struct loop *l, struct metrics *m);

#endif
