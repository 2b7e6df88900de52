/* What a feed has done, as the figures of meter/metrics.h. Each counter is read by itself: two figures may be a sample apart. */
#include <stdio.h>

#include "feed/crew.h"
#include "feed/load_ops.h"
#include "feed/source_cache.h"
#include "meter/metrics.h"

static void fill_place(struct metrics *m, struct feed *f)
{
    pthread_mutex_lock(&f->lock);
    uint64_t epoch = f->at.epoch, position = f->at.position, given_away = f->given_away;
    uint32_t look_ahead = f->look_ahead, ahead = f->ahead, held = f->held;
    pthread_mutex_unlock(&f->lock);
    metrics_set(m, "epoch", epoch);
    metrics_set(m, "position", position);
    metrics_set(m, "look_ahead_batches", look_ahead);
    metrics_set(m, "ahead_batches", ahead);
    metrics_set(m, "held_batches", held);
    metrics_set(m, "given_away_batches", given_away);
}

static void fill_progress(struct metrics *m, struct feed *f)
{
    struct loop_figures all = loop_read(&f->loop.all);
    metrics_set(m, "samples", all.samples);
    metrics_set(m, "batches", all.batches);
    metrics_set(m, "threads", crew_threads());
    metrics_set_ns(m, "wall_seconds", all.wall_ns);
    metrics_set_ns(m, "exposed_wait_seconds", all.wait_ns);
    metrics_set(m, "exposed_wait_ratio", all.wall_ns ? (double)all.wait_ns / (double)all.wall_ns : 0);
    metrics_set_ns(m, "wait_p50_seconds", histogram_quantile(&f->wait_histogram, 0.5));
    metrics_set_ns(m, "wait_p99_seconds", histogram_quantile(&f->wait_histogram, 0.99));
    metrics_set_ns(m, "load_p50_seconds", histogram_quantile(&f->load_histogram, 0.5));
    metrics_set_ns(m, "load_p99_seconds", histogram_quantile(&f->load_histogram, 0.99));
    metrics_set_ns(m, "first_batch_seconds", meter_get(&f->first_batch_ns));
    metrics_set_ns(m, "release_seconds", meter_get(&f->release_ns));
    metrics_set(m, "changed_files", meter_get(&f->changed));
    metrics_set(m, "left_behind_threads", crew_left_behind());
    metrics_set(m, "left_behind_reads", feed_left_reads());
    metrics_set(m, "bad", meter_get(&f->bad));
    metrics_set(m, "catalog.samples", catalog_count(f->dataset.catalog));
}

static void fill_functions(struct metrics *m, struct feed *f)
{
    uint64_t busy = 0, wait = 0;
    for (int i = 0; i < f->function_count; i++) {
        busy += meter_get(&f->function[i].busy_ns);
        wait += meter_get(&f->function[i].wait_ns);
    }
    metrics_set_ns(m, "map_seconds", busy);
    metrics_set_ns(m, "gil_wait_seconds", wait);
}

static void fill_budget(struct metrics *m, struct budget *b)
{
    char path[64];
    metrics_set(m, "budget.limit_bytes", meter_get(&b->limit));
    metrics_set(m, "budget.used_bytes", meter_get(&b->used));
    metrics_set(m, "budget.peak_bytes", meter_get(&b->peak));
    for (int k = 0; k < MEMORY_KINDS; k++) {
        snprintf(path, sizeof(path), "budget.kinds.%s.used_bytes", budget_kind_name((enum memory_kind)k));
        metrics_set(m, path, meter_get(&b->used_by[k]));
        snprintf(path, sizeof(path), "budget.kinds.%s.peak_bytes", budget_kind_name((enum memory_kind)k));
        metrics_set(m, path, meter_get(&b->peak_by[k]));
    }
}

static void fill_io(struct metrics *m, struct feed *f)
{
    struct io_figures i = {0};
    f->io->ops->figures(f->io, &i);
    metrics_set(m, "io.reads", i.reads);
    metrics_set(m, "io.bytes", i.bytes);
    metrics_set(m, "io.failures", i.failures);
    metrics_set(m, "io.in_flight", i.in_flight);
    metrics_set_ns(m, "io.in_flight_seconds", i.in_flight_ns);
    metrics_set(m, "io.in_flight_peak", i.in_flight_peak);
    metrics_set(m, "io.depth", i.depth);
    metrics_set(m, "io.cached_reads", meter_get(&f->cached_reads));
    metrics_set(m, "io.part_reads", meter_get(&f->part_reads));
}

static void fill_stage(struct metrics *m, const char *name, const char *what, double value)
{
    char path[64];
    snprintf(path, sizeof(path), "stages.%s.%s", name, what);
    metrics_set(m, path, value);
}

static void fill_stages(struct metrics *m, struct feed *f)
{
    for (int s = 0; s < STAGE_COUNT; s++) {
        struct stage_figures g;
        const char *name = meter_stage_name((enum stage)s);
        meter_read(&f->meter, (enum stage)s, &g);
        if (s == STAGE_DECODE)
            g.wait_in_ns += crew_idle_ns(); /* the workers' idle time: they wait for bytes, or for a place to fill */
        fill_stage(m, name, "busy_seconds", (double)g.busy_ns / 1e9);
        fill_stage(m, name, "waiting_for_input_seconds", (double)g.wait_in_ns / 1e9);
        fill_stage(m, name, "waiting_for_output_seconds", (double)g.wait_out_ns / 1e9);
        fill_stage(m, name, "items", g.items);
        fill_stage(m, name, "bytes", g.bytes);
    }
}

static void fill_learnt(struct metrics *m, struct feed *f)
{
    struct learnt_figures l = {0};
    if (f->learnt)
        learnt_read_figures(f->learnt, &l);
    metrics_set(m, "learnt.records", l.records);
    metrics_set(m, "learnt.bytes", l.bytes);
    metrics_set(m, "learnt.found", l.found);
    metrics_set(m, "learnt.missed", l.missed);
    metrics_set(m, "learnt.stale", l.stale);
    metrics_set(m, "learnt.written", l.written);
}

void feed_metrics(struct feed *f, struct metrics *m)
{
    metrics_clear(m);
    fill_place(m, f);
    fill_progress(m, f);
    fill_functions(m, f);
    fill_budget(m, f->budget);
    fill_io(m, f);
    source_cache_metrics(f, m);
    fill_stages(m, f);
    fill_learnt(m, f);
    metrics_set(m, "regions.by_checkpoints", 0); /* of kinds that decode no regions */
    metrics_set(m, "regions.plainly", 0);
    metrics_set(m, "regions.by_fallback", 0);
    if (f->kind->metrics)
        f->kind->metrics(f, m);
    device_copy_metrics(f, m);
    loop_metrics(&f->loop, m);
}
