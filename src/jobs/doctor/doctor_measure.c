/* A part of the data set is fed from storage and then from memory, for a few seconds each.
 *
 * The part must be to an epoch what the whole is. Pictures and recordings are drawn from everywhere. Rows are taken in whole stretches:
 * then every chunk is decompressed once for all its rows and neighbours share pages, as in a whole epoch. Where decompressed chunks cannot
 * all be kept, rows are drawn from everywhere instead: each needs its chunk anew there.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/host.h"
#include "host/machine_sample.h"
#include "jobs/bench.h"
#include "jobs/doctor.h"
#include "model/snapshot.h"

static const uint64_t cold_most = 200000; /* files; dropping more from memory takes longer than it tells */
static const double part_bytes = 256 << 20, preload_most = 1 << 30;
static const double cold_seconds = 4, warm_seconds = 2.5;
enum { STRETCHES = 8, STRETCH_STEP = 1024, MANY_EPOCHS = 1000 };

struct part {
    uint64_t samples;
    double fraction; /* 1: all, or `rows` says which */
    uint64_t *rows;
    bool is_stopped; /* storage was so slow that only some of it was read */
};

/* ---- what a run says ---- */

double doctor_cpu(const struct bench_result *b, uint64_t batch_size)
{
    double first = (double)batch_size, delivered = (double)b->samples - first, decoded = delivered;
    if (bench_stage(b, "decode", "items") > first)
        decoded = bench_stage(b, "decode", "items") - first;
    return decoded > 0 && delivered > 0 ? b->cpu_seconds_per_1000_samples / 1000 * delivered / decoded : 0;
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
static double array_bytes(const struct info *data)
{
    double bytes = 0;
    for (int i = 0; i < data->array_count; i++)
        bytes += (double)data->array[i].bytes;
    return data->examined ? bytes * (double)data->samples / (double)data->examined : bytes;
}

static bool keeps_chunks(const struct doctor_request *q, const struct doctor_result *r)
{
    double memory = q->options.memory ? (double)q->options.memory : (double)host_default_memory();
    return array_bytes(&r->data) <= memory / 3;
}

static int choose_stretches(struct part *p, uint64_t samples, struct fb_error *e)
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

static int choose_part(const struct doctor_request *q, const struct doctor_result *r, struct part *p, struct fb_error *e)
{
    double each = r->data.has_rows && r->samples ? array_bytes(&r->data) / (double)r->samples : r->sample_bytes;
    uint64_t enough = each > 0 && part_bytes / each < 1e9 ? (uint64_t)(part_bytes / each) : 1000;
    uint64_t limit = q->sample_limit ? q->sample_limit : enough < 1000 ? 1000 : enough;
    if (limit < q->options.batch_size * 4)
        limit = q->options.batch_size * 4;
    *p = (struct part){.samples = r->samples, .fraction = 1};
    if (limit >= r->samples)
        return 0;
    p->samples = limit;
    if (r->data.has_rows && limit >= 2 * STRETCHES * STRETCH_STEP && keeps_chunks(q, r))
        return choose_stretches(p, r->samples, e);
    p->fraction = (double)limit / (double)r->samples;
    return 0;
}

static int feed(const struct doctor_request *q, const struct doctor_result *r, const struct part *p, bool is_cold, double most_seconds,
                int64_t epochs, struct bench_result *b, struct fb_error *e)
{
    struct bench_request request = doctor_bench(q, r);
    request.epochs = epochs;
    request.is_cold = is_cold;
    request.most_seconds = most_seconds;
    request.options.fraction = p->fraction;
    request.options.indices = p->rows;
    request.options.index_count = p->rows ? p->samples : 0;
    return bench_run(&request, b, e);
}

/* ---- from storage, from memory ---- */

/* A first batch of rows from everywhere decompresses much of the file for all the others: it counts. */
static double first_rate(const struct bench_result *b)
{
    double whole = (double)b->samples / (b->time_to_first_batch_seconds + b->wall_seconds);
    return b->chunks_unfiltered ? whole : b->samples_per_second;
}

static int measure_cold(const struct doctor_request *q, struct doctor_result *r, struct part *p, struct fb_error *e)
{
    struct bench_result b;
    r->cold_rate = r->evicted_share = NAN;
    bool can_evict = r->data.samples <= cold_most;
    FB_TRY(feed(q, r, p, can_evict, cold_seconds, 1, &b, e));
    r->first_cpu_s = doctor_cpu(&b, q->options.batch_size);
    if (b.chunks_unfiltered) /* much of that was done for the first batch, before CPU time is counted */
        r->first_cpu_s = fmax(r->first_cpu_s, doctor_stage(&b, "decode"));
    r->read_s = doctor_stage(&b, "read");
    r->evicted_share = can_evict ? b.evicted_share : (double)NAN;
    if (can_evict && b.evicted_share > 0.5)
        r->cold_rate = first_rate(&b);
    p->is_stopped = b.samples < p->samples;
    if (p->is_stopped && !p->rows)
        p->fraction *= (double)b.samples / (double)p->samples, p->samples = b.samples;
    bench_free(&b);
    return 0;
}

/* What was not read in time for the first run is read now, with no clock. A bucket's objects never come to lie in memory. */
static int bring_to_memory(const struct doctor_request *q, struct doctor_result *r, const struct part *p, struct fb_error *e)
{
    struct bench_result b;
    if (!p->is_stopped || r->machine.is_bucket)
        return 0;
    FB_TRY(feed(q, r, p, false, 0, 1, &b, e));
    bench_free(&b);
    return 0;
}

/* An epoch of a fraction of a second says little: the part is gone through as often as time allows. */
static int measure_warm(const struct doctor_request *q, struct doctor_result *r, const struct part *p, struct fb_error *e)
{
    struct bench_result b;
    FB_TRY(bring_to_memory(q, r, p, e));
    FB_TRY(feed(q, r, p, false, warm_seconds, MANY_EPOCHS, &b, e));
    bool has_chunks = b.chunks_unfiltered > 0 && isfinite(b.last_epoch_rate); /* they are decompressed in its first epoch */
    r->warm_rate = has_chunks ? b.last_epoch_rate : b.samples_per_second;
    r->decode_s = doctor_stage(&b, "decode");
    r->transform_s = doctor_stage(&b, "transform");
    r->known_cpu_s = doctor_cpu(&b, q->options.batch_size);
    r->output_bytes = per_item(&b, "deliver", "bytes");
    r->machine.threads = b.threads;
    r->measured = b.samples;
    snprintf(r->io, sizeof(r->io), "%.15s", b.io);
    bench_free(&b);
    return 0;
}

/* ---- other ways to read rows ---- */

static int try_window(const struct doctor_request *q, struct doctor_result *r, const struct part *p, struct fb_error *e)
{
    struct doctor_request mixed = *q;
    struct bench_result b;
    mixed.options.shuffle = 2;
    FB_TRY(feed(&mixed, r, p, true, cold_seconds, 1, &b, e));
    r->window.first_rate = b.evicted_share > 0.5 ? first_rate(&b) : (double)NAN;
    bench_free(&b);
    FB_TRY(feed(&mixed, r, p, false, warm_seconds, MANY_EPOCHS, &b, e));
    r->window.later_rate = isfinite(b.last_epoch_rate) ? b.last_epoch_rate : b.samples_per_second;
    bench_free(&b);
    return 0;
}

/* The first epoch has the loading in it. */
static int try_preload(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct bench_request request = doctor_bench(q, r);
    struct bench_result b;
    request.epochs = MANY_EPOCHS;
    request.most_seconds = warm_seconds;
    request.options.preload = 1;
    request.is_cold = true;
    request.started_ns = clock_now_ns();
    FB_TRY(bench_run(&request, &b, e));
    double samples = (double)r->samples;
    r->preload.later_rate = b.samples_per_second;
    r->preload.first_rate = samples / (b.time_to_first_batch_seconds + samples / b.samples_per_second);
    bench_free(&b);
    return 0;
}

/* A way that cannot be gone is a row less in the table, not an error. */
static void try_other_ways(const struct doctor_request *q, struct doctor_result *r, const struct part *p)
{
    struct fb_error ignored = {0};
    r->window = r->preload = (struct doctor_trial){NAN, NAN};
    r->preload_bytes = array_bytes(&r->data);
    if (!r->data.has_rows)
        return;
    if (q->options.shuffle == 1 && try_window(q, r, p, &ignored) < 0)
        r->window = (struct doctor_trial){NAN, NAN};
    double memory = q->options.memory ? (double)q->options.memory : (double)host_default_memory();
    if (!q->options.preload && r->preload_bytes < preload_most && r->preload_bytes < memory / 2 && try_preload(q, r, &ignored) < 0)
        r->preload = (struct doctor_trial){NAN, NAN};
}

/* ---- the whole ---- */

/* Cores that others used between two looks: the machine's less our own. */
static double others_cores(struct machine_sampler *m, uint64_t since_ns, uint64_t cpu_since_ns)
{
    struct snapshot s = {0};
    double wall = (double)(clock_now_ns() - since_ns) / 1e9;
    machine_take(m, 0, wall, &s);
    double own = (double)(clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_since_ns) / 1e9 / wall;
    return fmax(0, s.cpu_ratio * (double)sysconf(_SC_NPROCESSORS_ONLN) - own);
}

static int measure_part(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct part p;
    FB_TRY(count_samples(q, r, e));
    FB_TRY(choose_part(q, r, &p, e));
    int rc = measure_cold(q, r, &p, e);
    if (rc == 0)
        rc = measure_warm(q, r, &p, e);
    if (rc == 0)
        try_other_ways(q, r, &p);
    free(p.rows);
    return rc;
}

int doctor_measure(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct machine_sampler *machine = calloc(1, sizeof(*machine));
    struct snapshot ignored = {0};
    uint64_t since = clock_now_ns(), cpu = clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (!machine)
        return error_set(e, FB_E_NOMEM, "doctor", "no memory");
    machine_open(machine, "/proc", "/sys", "/sys/fs/cgroup", getpid());
    machine_take(machine, 0, 0, &ignored);
    int rc = measure_part(q, r, e);
    r->others_cores = others_cores(machine, since, cpu);
    free(machine);
    return rc;
}
