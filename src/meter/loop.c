#include "meter/loop.h"

#include <stdio.h>

#include "meter/meter.h"
#include "meter/metrics.h"

/* ---- durations ---- */

static int fine_bin(uint64_t ns)
{
    uint64_t us = ns / 1000;
    if (us < 8)
        return (int)us; /* the first octaves hold one value each */
    int octave = 63 - __builtin_clzll(us), bin = (octave - 2) * 8 + (int)((us >> (octave - 3)) & 7);
    return bin < FINE_BINS ? bin : FINE_BINS - 1;
}

/* The middle of a bin. */
static uint64_t fine_value(int bin)
{
    if (bin < 8)
        return (uint64_t)bin * 1000 + 500;
    int octave = bin / 8 + 2;
    return ((UINT64_C(16) + 2 * (uint64_t)(bin % 8) + 1) << (octave - 3)) * 500;
}

void fine_add(struct fine_histogram *h, uint64_t ns)
{
    atomic_fetch_add_explicit(&h->bin[fine_bin(ns)], 1, memory_order_relaxed);
}

uint64_t fine_quantile(const struct fine_histogram *h, double share)
{
    uint64_t total = 0, below = 0;
    for (int i = 0; i < FINE_BINS; i++)
        total += atomic_load_explicit(&h->bin[i], memory_order_relaxed);
    for (int i = 0; i < FINE_BINS && total; i++) {
        below += atomic_load_explicit(&h->bin[i], memory_order_relaxed);
        if ((double)below >= share * (double)total)
            return fine_value(i);
    }
    return 0;
}

/* ---- counting ---- */

/* One writer: no read-modify-write is needed. */
static void put(_Atomic uint64_t *x, uint64_t value)
{
    atomic_store_explicit(x, value, memory_order_relaxed);
}

static void clear(struct loop_sums *s)
{
    put(&s->batches, 0), put(&s->samples, 0), put(&s->wall_ns, 0);
    put(&s->wait_ns, 0), put(&s->wait_cpu_ns, 0), put(&s->wait_most_ns, 0);
    put(&s->steps, 0), put(&s->step_ns, 0), put(&s->step_samples, 0);
}

static void add(struct loop_sums *s, uint64_t wall_ns, bool is_step, uint64_t wait_ns, uint64_t cpu_ns, uint64_t samples)
{
    put(&s->batches, meter_get(&s->batches) + 1);
    put(&s->samples, meter_get(&s->samples) + samples);
    put(&s->wall_ns, meter_get(&s->wall_ns) + wall_ns);
    if (is_step) {
        put(&s->steps, meter_get(&s->steps) + 1);
        put(&s->step_ns, meter_get(&s->step_ns) + wall_ns);
        put(&s->step_samples, meter_get(&s->step_samples) + samples);
    }
    put(&s->wait_ns, meter_get(&s->wait_ns) + wait_ns);
    put(&s->wait_cpu_ns, meter_get(&s->wait_cpu_ns) + cpu_ns);
    if (wait_ns > meter_get(&s->wait_most_ns))
        put(&s->wait_most_ns, wait_ns);
}

void loop_open(struct loop *l)
{
    marks_open(&l->marks);
}

void loop_begin_epoch(struct loop *l, uint64_t now_ns, uint64_t batches)
{
    clear(&l->epoch);
    put(&l->epochs, meter_get(&l->epochs) + 1);
    put(&l->epoch_length, batches);
    l->ended_ns = l->has_batch ? l->last_ns : l->ended_ns;
    l->has_batch = false;
    marks_add(&l->marks, MARK_EPOCH, now_ns, 0, 0);
}

void loop_take(struct loop *l, uint64_t now_ns, uint64_t wait_ns, uint64_t wait_cpu_ns, uint64_t samples)
{
    uint64_t wall = !l->has_batch ? wait_ns : now_ns > l->last_ns ? now_ns - l->last_ns : 0;
    wait_ns = wait_ns < wall ? wait_ns : wall; /* several threads that share a loader wait at the same time */
    wait_cpu_ns = wait_cpu_ns < wait_ns ? wait_cpu_ns : wait_ns;
    if (meter_get(&l->all.batches) == 0)
        put(&l->first_wait_ns, wait_ns);
    if (l->has_batch)
        fine_add(&l->steps, wall);
    else if (l->ended_ns && now_ns - l->ended_ns > meter_get(&l->gap_most_ns))
        put(&l->gap_most_ns, now_ns - l->ended_ns);
    fine_add(&l->waits, wait_ns);
    add(&l->all, wall, l->has_batch, wait_ns, wait_cpu_ns, samples);
    add(&l->epoch, wall, l->has_batch, wait_ns, wait_cpu_ns, samples);
    l->has_batch = true;
    l->last_ns = now_ns;
    marks_add(&l->marks, MARK_BATCH, now_ns, wait_ns, wait_cpu_ns);
}

void loop_end_epoch(struct loop *l, uint64_t now_ns)
{
    marks_add(&l->marks, MARK_END, now_ns, 0, 0);
}

void loop_close(struct loop *l)
{
    marks_close(&l->marks);
}

/* ---- reading ---- */

struct loop_figures loop_read(const struct loop_sums *s)
{
    return (struct loop_figures){.batches = meter_get(&s->batches),
                                 .samples = meter_get(&s->samples),
                                 .wall_ns = meter_get(&s->wall_ns),
                                 .wait_ns = meter_get(&s->wait_ns),
                                 .wait_cpu_ns = meter_get(&s->wait_cpu_ns),
                                 .wait_most_ns = meter_get(&s->wait_most_ns),
                                 .steps = meter_get(&s->steps),
                                 .step_ns = meter_get(&s->step_ns),
                                 .step_samples = meter_get(&s->step_samples)};
}

static void fill(struct metrics *m, const char *prefix, const char *what, double value)
{
    char path[64];
    snprintf(path, sizeof(path), "loop.%s%s", prefix, what);
    metrics_set(m, path, value);
}

static void fill_sums(struct metrics *m, const char *prefix, const struct loop_sums *s)
{
    struct loop_figures f = loop_read(s);
    double wall = (double)f.wall_ns / 1e9, wait = (double)f.wait_ns / 1e9, stepping = (double)f.step_ns / 1e9;
    fill(m, prefix, "batches", f.batches);
    fill(m, prefix, "samples", f.samples);
    fill(m, prefix, "wall_seconds", wall);
    fill(m, prefix, "exposed_wait_seconds", wait);
    fill(m, prefix, "exposed_wait_ratio", wall > 0 ? wait / wall : 0);
    fill(m, prefix, "wait_mean_seconds", f.batches ? wait / (double)f.batches : 0);
    fill(m, prefix, "wait_max_seconds", (double)f.wait_most_ns / 1e9);
    fill(m, prefix, "step_mean_seconds", f.steps ? stepping / (double)f.steps : 0);
    fill(m, prefix, "batches_per_second", stepping > 0 ? (double)f.steps / stepping : 0);
    fill(m, prefix, "samples_per_second", stepping > 0 ? (double)f.step_samples / stepping : 0);
}

void loop_metrics(const struct loop *l, struct metrics *m)
{
    metrics_set(m, "loop.epochs", meter_get(&l->epochs));
    metrics_set(m, "loop.epoch_length_batches", meter_get(&l->epoch_length));
    fill_sums(m, "", &l->all);
    fill_sums(m, "epoch_", &l->epoch);
    metrics_set_ns(m, "loop.first_wait_seconds", meter_get(&l->first_wait_ns));
    metrics_set_ns(m, "loop.epoch_gap_seconds", meter_get(&l->gap_most_ns));
    metrics_set_ns(m, "loop.wait_p50_seconds", fine_quantile(&l->waits, 0.5));
    metrics_set_ns(m, "loop.wait_p99_seconds", fine_quantile(&l->waits, 0.99));
    metrics_set_ns(m, "loop.step_p50_seconds", fine_quantile(&l->steps, 0.5));
    metrics_set_ns(m, "loop.step_p99_seconds", fine_quantile(&l->steps, 0.99));
}
