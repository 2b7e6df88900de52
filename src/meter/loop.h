/* Timing a training loop from inside its loader: the loop asks for a batch, waits, gets it, and comes back for the next. Exact, and cheap
 * enough to be always on.
 *
 * The wait for a batch is the time from entering next() to having the batch in hand; starting an epoch (iter()) belongs to the wait for its
 * first batch. A step is the interval from one batch to the next of the same epoch: N batches of an epoch have N - 1 of them, and every
 * rate is a number of steps (or of the samples that came at their ends) over the time of just these steps. An epoch's wall time is the
 * wait for its first batch and its steps: what a program does between iter() and the first next(), and after its last batch, is not in it.
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
    _Atomic uint64_t wall_ns; /* from asking for the epoch's first batch to having its last one */
    _Atomic uint64_t wait_ns, wait_cpu_ns, wait_most_ns;
    _Atomic uint64_t steps, step_ns, step_samples; /* from batch to batch; samples that came at the ends of these intervals */
};

struct loop {
    struct loop_sums all, epoch;        /* epoch: the running one, or the last when none runs */
    _Atomic uint64_t epochs;            /* begun */
    _Atomic uint64_t epoch_length;      /* batches that the running one will have; 0: not known */
    _Atomic uint64_t first_wait_ns;     /* of the very first batch: start-up, not steady state */
    _Atomic uint64_t gap_most_ns;       /* between epochs */
    struct fine_histogram waits, steps; /* steps: from batch to batch inside an epoch */
    /* the writer's own */
    uint64_t last_ns;  /* when the last batch was in hand */
    bool has_batch;    /* of this epoch */
    uint64_t ended_ns; /* last batch of the epoch before; 0: none */
    struct marks marks;
};

void loop_open(struct loop *l);
void loop_begin_epoch(struct loop *l, uint64_t now_ns, uint64_t batches);
/* A batch of `samples` was in hand at now_ns after waiting so long; an epoch's first wait includes what starting the epoch took. */
void loop_take(struct loop *l, uint64_t now_ns, uint64_t wait_ns, uint64_t wait_cpu_ns, uint64_t samples);
void loop_end_epoch(struct loop *l, uint64_t now_ns);
void loop_close(struct loop *l);

/* A copy of the sums at one moment. */
struct loop_figures {
    uint64_t batches, samples, wall_ns, wait_ns, wait_cpu_ns, wait_most_ns, steps, step_ns, step_samples;
};
struct loop_figures loop_read(const struct loop_sums *s);
/* The figures under "loop"; names in docs/monitor.md. */
struct metrics;
void loop_metrics(const struct loop *l, struct metrics *m);

#endif
