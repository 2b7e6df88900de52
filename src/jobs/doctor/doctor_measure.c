/* A part of the data set is fed from storage and from memory, for a few seconds each; pictures as new ones and as known ones, with catalogs
 * of the doctor's own, so that looking changes nothing.
 *
 * The part must be to an epoch what the whole is. Pictures and recordings are drawn from everywhere. Rows are taken in whole stretches:
 * then every chunk is decompressed once for all its rows and neighbours share pages, as in a whole epoch. Where decompressed chunks cannot
 * all be kept, rows are drawn from everywhere instead: each needs its chunk anew there.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host/host.h"
#include "jobs/bench.h"
#include "jobs/doctor.h"

static const uint64_t cold_most = 200000; /* files; dropping more from memory takes longer than it tells */
static const double part_bytes = 256 << 20, preload_most = 1 << 30;
static const double cold_seconds = 4, known_cold_seconds = 2, fresh_warm_seconds = 2, warm_seconds = 2.5;
enum { STRETCHES = 8, STRETCH_STEP = 1024, MANY_EPOCHS = 1000 };

/* ---- what a run says ---- */

struct doctor_run doctor_run_of(const struct bench_pace *p)
{
    return (struct doctor_run){p->seconds > 0 ? p->samples_per_second : (double)NAN, p->cpu_seconds, p->read_bytes, p->cores};
}

static double per_item(const struct bench_result *b, const char *stage, const char *what)
{
    double items = bench_stage(b, stage, "items");
    return items > 0 ? bench_stage(b, stage, what) / items : 0;
}

double doctor_stage(const struct bench_result *b, const char *stage)
{
    return per_item(b, stage, "busy_seconds");
}

/* ---- which part ---- */

struct bench_request doctor_bench(const struct doctor_request *q, const struct doctor_result *r)
{
    bool is_as_stored = q->has_own_choice && !doctor_has_pictures(r);
    return (struct bench_request){.options = q->options, .epochs = 1, .has_own_choice = is_as_stored, .dtype = q->dtype};
}

/* Rows are counted by the loader itself. */
static int count_samples(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    r->samples = r->data.samples;
    if (r->data.has_rows) {
        fb_loader *l;
        fb_options o = q->options;
        if (q->has_own_choice)
            o.transforms = NULL, o.dtype = q->dtype;
        FB_TRY(fb_open(&o, &l, e));
        r->samples = fb_sample_count(l);
        fb_close(l);
    }
    r->sample_bytes = r->samples ? (double)r->data.bytes / (double)r->samples : 0;
    return 0;
}

/* Unfiltered bytes of all arrays: what rows take in memory. */
double doctor_array_bytes(const struct info *data)
{
    double bytes = 0;
    for (int i = 0; i < data->array_count; i++)
        bytes += (double)data->array[i].bytes;
    return data->examined ? bytes * (double)data->samples / (double)data->examined : bytes;
}

static bool keeps_chunks(const struct doctor_request *q, const struct doctor_result *r)
{
    double memory = q->options.memory ? (double)q->options.memory : (double)host_default_memory();
    return doctor_array_bytes(&r->data) <= memory / 3;
}

static int choose_stretches(struct doctor_part *p, uint64_t samples, struct fb_error *e)
{
    uint64_t each = p->samples / STRETCHES, n = 0;
    p->rows = malloc((p->samples + 1) * sizeof(*p->rows));
    if (!p->rows)
        return error_set(e, FB_E_NOMEM, "doctor", "no memory to choose %llu rows", (unsigned long long)p->samples);
    for (uint64_t k = 0; k < STRETCHES; k++) {
        uint64_t first = (samples - each) / STRETCHES * k / STRETCH_STEP * STRETCH_STEP;
        for (uint64_t i = 0; i < each; i++)
            p->rows[n++] = first + i;
    }
    p->samples = n;
    return 0;
}

static int choose_part(const struct doctor_request *q, const struct doctor_result *r, struct doctor_part *p, struct fb_error *e)
{
    double each = r->data.has_rows && r->samples ? doctor_array_bytes(&r->data) / (double)r->samples : r->sample_bytes;
    uint64_t enough = each > 0 && part_bytes / each < 1e9 ? (uint64_t)(part_bytes / each) : 1000;
    uint64_t limit = q->sample_limit ? q->sample_limit : enough < 1000 ? 1000 : enough;
    if (limit < q->options.batch_size * 4)
        limit = q->options.batch_size * 4;
    p->samples = r->samples;
    p->fraction = 1;
    if (limit >= r->samples)
        return 0;
    p->samples = limit;
    if (r->data.has_rows && limit >= 2 * STRETCHES * STRETCH_STEP && keeps_chunks(q, r))
        return choose_stretches(p, r->samples, e);
    p->fraction = (double)limit / (double)r->samples;
    return 0;
}

int doctor_feed(const struct doctor_request *q, const struct doctor_result *r, bool is_cold, double most_seconds, int64_t epochs,
                struct bench_result *b, struct fb_error *e)
{
    struct bench_request request = doctor_bench(q, r);
    const struct doctor_part *p = &r->part;
    request.epochs = epochs;
    request.is_cold = is_cold;
    request.most_seconds = most_seconds;
    request.options.fraction = p->fraction;
    request.options.indices = p->rows;
    request.options.index_count = p->rows ? p->samples : 0;
    request.options.catalog_dir = p->catalogs ? p->catalogs : q->options.catalog_dir;
    return bench_run(&request, b, e);
}

/* ---- from storage, from memory ---- */

static bool can_evict(const struct doctor_result *r)
{
    return r->data.samples <= cold_most;
}

/* An epoch from storage is taken from its very beginning: its first batch of rows decompresses much of the file for all others. */
static int measure_cold(const struct doctor_request *q, const struct doctor_result *r, double seconds, struct doctor_run *run,
                        struct bench_result *b, struct fb_error *e)
{
    FB_TRY(doctor_feed(q, r, can_evict(r), seconds, 1, b, e));
    *run = doctor_run_of(&b->whole);
    if (!can_evict(r) || !(b->evicted_share > 0.5))
        run->rate = NAN;
    return 0;
}

static int measure_first(const struct doctor_request *q, struct doctor_result *r, bool *has_learnt, struct fb_error *e)
{
    struct doctor_part *p = &r->part;
    struct bench_result b;
    FB_TRY(measure_cold(q, r, cold_seconds, &r->fresh_cold, &b, e));
    r->read_s = doctor_stage(&b, "read");
    r->evicted_share = can_evict(r) ? b.evicted_share : (double)NAN;
    *has_learnt = bench_figure(&b, "learnt.written") > 0;
    p->is_stopped = b.samples < p->samples;
    if (p->is_stopped && !p->rows)
        p->fraction *= (double)b.samples / (double)p->samples, p->samples = b.samples;
    bench_free(&b);
    return 0;
}

/* Everything in memory and known, with no clock. A bucket's objects never come to lie in memory. */
static int bring_to_memory(const struct doctor_request *q, const struct doctor_result *r, struct fb_error *e)
{
    struct bench_result b;
    if (r->machine.is_bucket)
        return 0;
    FB_TRY(doctor_feed(q, r, false, 0, 1, &b, e));
    bench_free(&b);
    return 0;
}

/* An epoch of a fraction of a second says little: the part is gone through as often as time allows. */
static int measure_warm(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct bench_result b;
    FB_TRY(doctor_feed(q, r, false, warm_seconds, MANY_EPOCHS, &b, e));
    bool has_chunks = b.chunks_unfiltered > 0 && isfinite(b.last_epoch_rate); /* they are decompressed in its first epoch */
    r->known_warm = doctor_run_of(&b.pace);
    if (has_chunks)
        r->known_warm.rate = b.last_epoch_rate;
    r->decode_s = doctor_stage(&b, "decode");
    r->transform_s = doctor_stage(&b, "transform");
    r->output_bytes = per_item(&b, "deliver", "bytes");
    r->machine.threads = b.threads;
    r->measured = b.samples;
    snprintf(r->io, sizeof(r->io), "%.15s", b.io);
    bench_free(&b);
    return 0;
}

/* New files that lie in memory, and known ones that lie on storage: once more, with what the first epoch left and without it. */
static int measure_between(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct doctor_catalogs other;
    struct bench_result b;
    const char *own = r->part.catalogs;
    double ignored;
    int rc = 0;
    doctor_catalogs_open(&other, q, &ignored);
    if (other.path[0] && !r->machine.is_bucket) {
        r->part.catalogs = other.path;
        rc = doctor_feed(q, r, false, fresh_warm_seconds, 1, &b, e);
        r->part.catalogs = own;
        r->fresh_warm = rc == 0 ? doctor_run_of(&b.whole) : r->fresh_warm;
        if (rc == 0)
            bench_free(&b);
    }
    doctor_catalogs_close(&other);
    FB_TRY(rc);
    FB_TRY(measure_cold(q, r, known_cold_seconds, &r->known_cold, &b, e));
    bench_free(&b);
    return 0;
}

/* Epochs of which a share of the files is known: times add up. */
static double mixed(double share, double known, double fresh)
{
    return 1 / ((share > 0 ? share / known : 0) + (share < 1 ? (1 - share) / fresh : 0));
}

static void sum_up(struct doctor_result *r)
{
    double k = r->known_share;
    struct doctor_run *fresh = &r->fresh_cold, *known = &r->known_cold;
    r->cold_rate = mixed(k, known->rate, fresh->rate);
    r->alone_cold = mixed(k, doctor_alone(known, r->machine.cores), doctor_alone(fresh, r->machine.cores));
    r->first_cpu_s = k * known->cpu_s + (1 - k) * fresh->cpu_s;
    r->first_bytes = k * known->read_bytes + (1 - k) * fresh->read_bytes;
    r->warm_rate = r->known_warm.rate;
    r->alone_warm = doctor_alone(&r->known_warm, r->machine.cores);
    r->known_cpu_s = r->known_warm.cpu_s;
    r->known_bytes = r->known_warm.read_bytes;
    r->first_warm_rate = mixed(k, r->known_warm.rate, r->fresh_warm.rate);
    r->others_cores = r->known_warm.cores.others;
}

static int measure_states(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    bool has_learnt = false;
    FB_TRY(measure_first(q, r, &has_learnt, e));
    if (r->part.is_stopped)
        FB_TRY(bring_to_memory(q, r, e));
    FB_TRY(measure_warm(q, r, e));
    r->known_cold = r->fresh_cold;
    r->fresh_warm = r->known_warm;
    if (r->data.has_rows) /* chunks are decompressed in the first epoch: what that costs in memory was not tried */
        r->fresh_warm.rate = NAN;
    if (r->part.catalogs && has_learnt)
        FB_TRY(measure_between(q, r, e));
    else
        r->known_share = 0;
    sum_up(r);
    return 0;
}

/* ---- other ways to read rows ---- */

static int try_way(const struct doctor_request *q, const struct doctor_result *r, struct doctor_trial *t, struct fb_error *e)
{
    struct bench_result b;
    struct doctor_run run;
    FB_TRY(measure_cold(q, r, cold_seconds, &run, &b, e));
    bench_free(&b);
    t->first_rate = run.rate;
    t->alone_first = doctor_alone(&run, r->machine.cores);
    FB_TRY(doctor_feed(q, r, false, warm_seconds, MANY_EPOCHS, &b, e));
    run = doctor_run_of(&b.pace);
    if (isfinite(b.last_epoch_rate) && b.chunks_unfiltered)
        run.rate = b.last_epoch_rate;
    bench_free(&b);
    t->later_rate = run.rate;
    t->alone_later = doctor_alone(&run, r->machine.cores);
    return 0;
}

int doctor_try_as_it_is(const struct doctor_request *q, const struct doctor_result *r, struct doctor_trial *t, struct fb_error *e)
{
    return try_way(q, r, t, e);
}

int doctor_try_window(const struct doctor_request *q, const struct doctor_result *r, struct doctor_trial *t, struct fb_error *e)
{
    struct doctor_request mixed_up = *q;
    mixed_up.options.shuffle = 2;
    return try_way(&mixed_up, r, t, e);
}

/* The first epoch has the loading in it. */
int doctor_try_preload(const struct doctor_request *q, const struct doctor_result *r, struct doctor_trial *t, struct fb_error *e)
{
    struct bench_request request = doctor_bench(q, r);
    struct bench_result b;
    request.epochs = MANY_EPOCHS;
    request.most_seconds = warm_seconds;
    request.options.preload = 1;
    request.is_cold = true;
    request.started_ns = clock_now_ns();
    FB_TRY(bench_run(&request, &b, e));
    struct doctor_run run = doctor_run_of(&b.pace);
    const struct doctor_run loading = {.rate = 1 / b.time_to_first_batch_seconds, .cores = b.opening};
    double samples = (double)r->samples, alone = doctor_alone(&run, r->machine.cores), load = 1 / doctor_alone(&loading, r->machine.cores);
    *t = (struct doctor_trial){samples / (b.time_to_first_batch_seconds + samples / run.rate), run.rate, samples / (load + samples / alone),
                               alone};
    bench_free(&b);
    return 0;
}

/* A way that cannot be gone is a row less in the table, not an error. */
static void try_other_ways(const struct doctor_request *q, struct doctor_result *r)
{
    struct fb_error ignored = {0};
    const struct doctor_trial none = {NAN, NAN, NAN, NAN};
    r->window = r->preload = none;
    r->preload_bytes = doctor_array_bytes(&r->data);
    if (!r->data.has_rows)
        return;
    if (q->options.shuffle == 1 && doctor_try_window(q, r, &r->window, &ignored) < 0)
        r->window = none;
    double memory = q->options.memory ? (double)q->options.memory : (double)host_default_memory();
    if (!q->options.preload && r->preload_bytes < preload_most && r->preload_bytes < memory / 2 &&
        doctor_try_preload(q, r, &r->preload, &ignored) < 0)
        r->preload = none;
}

/* ---- the whole ---- */

int doctor_measure(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct doctor_catalogs own = {.path = ""};
    FB_TRY(count_samples(q, r, e));
    FB_TRY(choose_part(q, r, &r->part, e));
    if (doctor_has_pictures(r))
        doctor_catalogs_open(&own, q, &r->known_share);
    r->part.catalogs = own.path[0] ? own.path : NULL;
    int rc = measure_states(q, r, e);
    r->part.catalogs = NULL;
    if (rc == 0)
        try_other_ways(q, r);
    doctor_catalogs_close(&own);
    return rc;
}
