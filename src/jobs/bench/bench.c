#include "base/compare.h"
#include "jobs/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/compare.h"
#include "base/rng.h"
#include "dataset/dataset.h"
#include "feed/feed.h"
#include "host/host.h"
#include "io/io.h"
#include "jobs/bench/page_cache_evict.h"
#include "jobs/bench/wake_probe.h"

enum { PAGE = 4096 };

/* Where a stretch of the run begins. */
struct bench_mark {
    struct core_share cores;
    double made, read_bytes;
    uint64_t delivered;
};

struct bench {
    const struct bench_request *r;
    fb_loader *loader;
    uint64_t started_ns;
    uint64_t step_ns;
    uint64_t step_end_ns; /* of the last one */
    uint64_t late_ns;     /* by how much steps ended too late, in all */
    uint64_t no_core_ns;  /* how long this thread wanted a core and had none, before the first batch */
    fb_batch *running;    /* of the last step: held until the next one has come, as a loop's variable holds it */
    uint64_t first_ready_ns, first_samples, last_taken_ns;
    uint64_t waited_ns, burnt_ns;
    uint64_t *interval_ns; /* between batches */
    uint64_t intervals, interval_capacity;
    uint64_t gap_ns;
    uint64_t cpu_start_ns;
    struct core_share before;               /* the loader was opened */
    struct bench_mark start, first;         /* the first epoch asked for; the first batch taken */
    uint64_t epoch_since_ns, epoch_samples; /* when the epoch before the running one ended, and what had come by then */
    bool has_failed_alloc, is_stopped;
};

/* Reads one word of every page and of the end of each array. Bound to the place in the array, so that swapped samples show. */
static uint64_t touch(const fb_batch *b)
{
    uint64_t sum = 0;
    for (int f = 0; f < fb_batch_array_count(b); f++) {
        const struct fb_array *a = fb_batch_array(b, f);
        const char *data = a->data;
        for (size_t at = 0; at + 8 <= a->bytes; at += PAGE) {
            uint64_t word;
            memcpy(&word, data + at, 8);
            sum = rng_mix(sum, word + at);
        }
    }
    return sum;
}

static void note_interval(struct bench *b, uint64_t ns)
{
    if (b->intervals == b->interval_capacity) {
        uint64_t capacity = b->interval_capacity ? 2 * b->interval_capacity : 1024;
        uint64_t *more = realloc(b->interval_ns, capacity * sizeof(*more));
        if (!more) {
            b->has_failed_alloc = true;
            return;
        }
        b->interval_ns = more;
        b->interval_capacity = capacity;
    }
    b->interval_ns[b->intervals++] = ns;
}

static void burn(struct bench *b, uint64_t ns)
{
    uint64_t cpu = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID), until = clock_now_ns() + ns;
    while (clock_now_ns() < until)
        ;
    b->burnt_ns += clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
}

/* One step on the emulated accelerator: launched, then waited for. */
static void accelerate(struct bench *b, fb_batch *batch, uint64_t ready_ns)
{
    if (b->running)
        fb_release_batch(b->running);
    b->running = batch;
    burn(b, (uint64_t)((double)b->step_ns * b->r->launch_share));
    clock_sleep_until_ns(ready_ns + b->step_ns);
    b->step_end_ns = clock_now_ns();
    b->late_ns += b->step_end_ns - (ready_ns + b->step_ns);
}

/* Sleeps end late by themselves, by far more in a virtual machine whose host is busy: that is not the loader's fault. Having no core to go
 * on with is. The kernel counts the latter, in next() as well, so at most the difference is taken off. */
static uint64_t sleep_overshoot_ns(const struct bench *b)
{
    uint64_t no_core_ns = host_no_core_ns();
    if (no_core_ns == HOST_UNKNOWN)
        return 0;
    no_core_ns -= b->no_core_ns;
    return b->late_ns > no_core_ns ? b->late_ns - no_core_ns : 0;
}

static struct bench_mark mark_now(struct bench *b, struct bench_result *out)
{
    struct bench_mark m = {.delivered = out->samples};
    feed_metrics((struct feed *)b->loader, &out->metrics);
    m.made = bench_stage(out, "decode", "items");
    m.read_bytes = bench_stage(out, "read", "bytes");
    core_share_begin(&m.cores);
    return m;
}

static struct bench_pace pace_between(const struct bench_mark *a, const struct bench_mark *z)
{
    double made = z->made - a->made, seconds = (double)(z->cores.since_ns - a->cores.since_ns) / 1e9;
    struct bench_pace p = {.cores = core_share_between(&a->cores, &z->cores), .seconds = made > 0 ? seconds : 0};
    if (!(made > 0) || !(seconds > 0))
        return (struct bench_pace){.cores = p.cores};
    p.samples_per_second = made / seconds;
    p.cpu_seconds = (double)(z->cores.cpu_ns - a->cores.cpu_ns) / 1e9 / made;
    p.read_bytes = (z->read_bytes - a->read_bytes) / made;
    return p;
}

/* Samples made ahead of a consumer that is slower than the workers are not fed yet: with many batches what was handed over counts. */
static void find_pace(struct bench *b, struct bench_result *out)
{
    enum { MANY_BATCHES = 16 };
    struct bench_mark end = mark_now(b, out);
    bool is_steady = b->first.cores.since_ns && end.made - b->first.made >= 2 * (double)b->first_samples;
    bool has_many = out->batches > MANY_BATCHES;
    out->opening = core_share_between(&b->before, &b->start.cores);
    out->whole = pace_between(&b->start, &end);
    if (has_many && out->whole.seconds > 0)
        out->whole.samples_per_second = (double)end.delivered / out->whole.seconds;
    out->pace = is_steady ? pace_between(&b->first, &end) : out->whole;
    if (is_steady && has_many && out->pace.seconds > 0)
        out->pace.samples_per_second = (double)(end.delivered - b->first.delivered) / out->pace.seconds;
}

static void take(struct bench *b, fb_batch *batch, bool is_first_of_epoch, uint64_t asked_ns, struct bench_result *out)
{
    uint64_t ready_ns = clock_now_ns();
    out->samples += (uint64_t)fb_batch_size(batch);
    out->batches++;
    out->checksum = rng_mix(out->checksum, touch(batch));
    if (!b->first_ready_ns) {
        b->first_ready_ns = ready_ns;
        b->first_samples = out->samples;
        b->first = mark_now(b, out);
        b->cpu_start_ns = clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
        b->no_core_ns = host_no_core_ns();
        out->time_to_first_batch_seconds = (double)(ready_ns - b->started_ns) / 1e9;
    } else {
        note_interval(b, ready_ns - b->last_taken_ns);
        b->waited_ns += ready_ns - asked_ns;
        if (is_first_of_epoch && ready_ns - b->last_taken_ns > b->gap_ns)
            b->gap_ns = ready_ns - b->last_taken_ns;
    }
    b->last_taken_ns = ready_ns;
    if (b->step_ns)
        accelerate(b, batch, ready_ns);
    else
        fb_release_batch(batch);
}

static int run_epoch(struct bench *b, struct bench_result *out, struct fb_error *e)
{
    uint64_t asked_ns = clock_now_ns(); /* starting an epoch is waiting for its first batch */
    if (!b->start.cores.since_ns)
        b->start = mark_now(b, out);
    int64_t epoch = fb_start_epoch(b->loader, FB_NEXT_EPOCH, e);
    if (epoch < 0)
        return (int)epoch;
    bool is_first = true;
    for (;; asked_ns = clock_now_ns()) {
        fb_batch *batch;
        int rc = fb_next_batch(b->loader, &batch, e);
        if (rc <= 0)
            return rc;
        rc = fb_use_batch(batch, 0, e); /* on a device: when it has come */
        if (rc < 0) {
            fb_release_batch(batch);
            return rc;
        }
        take(b, batch, is_first, asked_ns, out);
        is_first = false;
        if (b->r->most_seconds > 0 && (double)(b->last_taken_ns - b->first_ready_ns) / 1e9 > b->r->most_seconds) {
            b->is_stopped = true;
            return 0;
        }
        const fb_options *o = &b->r->options; /* asked here, too: a consumer that never waits is never asked in its waits */
        if (o->interrupted && o->interrupted(o->ctx))
            return error_set(e, FB_E_INTERRUPTED, "bench", "interrupted");
    }
}

static void sum_up(struct bench *b, struct bench_result *out)
{
    find_pace(b, out);
    uint64_t end = b->step_ns ? b->step_end_ns - sleep_overshoot_ns(b) : b->last_taken_ns;
    uint64_t cpu = clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - b->cpu_start_ns - b->burnt_ns;
    uint64_t counted = out->samples - (b->step_ns ? 0 : b->first_samples);
    out->wall_seconds = (double)(end - b->first_ready_ns) / 1e9;
    out->samples_per_second = out->wall_seconds > 0 ? (double)counted / out->wall_seconds : counted ? 0 : out->pace.samples_per_second;
    out->accelerator_utilization_ratio =
        b->step_ns ? (double)out->batches * (double)b->step_ns / (double)(end - b->first_ready_ns) : (double)NAN;
    out->exposed_wait_ratio = out->wall_seconds > 0 ? (double)b->waited_ns / 1e9 / out->wall_seconds : 0;
    out->cpu_seconds_per_1000_samples = counted ? (double)cpu / 1e9 * 1000 / (double)counted : 0;
    out->epoch_gap_seconds = b->r->epochs > 1 ? (double)b->gap_ns / 1e9 : (double)NAN;
    if (b->intervals) {
        qsort(b->interval_ns, b->intervals, sizeof(*b->interval_ns), compare_u64);
        out->step_median_seconds = (double)b->interval_ns[b->intervals / 2] / 1e9;
    }
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    out->rss_peak_bytes = (uint64_t)u.ru_maxrss * 1024;
    bench_read_stats(b->loader, out);
}

/* Rows of filtered chunks and files that are not known yet make a first epoch another thing than those that follow. */
static void note_epoch(struct bench *b, struct bench_result *out)
{
    double wall = (double)(b->last_taken_ns - b->epoch_since_ns) / 1e9;
    if (b->is_stopped)
        return;
    if (b->epoch_since_ns && wall > 0)
        out->last_epoch_rate = (double)(out->samples - b->epoch_samples) / wall;
    b->epoch_since_ns = b->last_taken_ns;
    b->epoch_samples = out->samples;
}

static int run_epochs(struct bench *b, struct bench_result *out, struct fb_error *e)
{
    for (int64_t i = 0; i < b->r->epochs && !b->is_stopped; i++) {
        FB_TRY(run_epoch(b, out, e));
        note_epoch(b, out);
    }
    sum_up(b, out);
    if (b->has_failed_alloc)
        return error_set(e, FB_E_NOMEM, "bench", "no memory for the list of step times");
    return 0;
}

/* Sound and arrays have no images to crop. */
static int suit_data(const struct bench_request *r, fb_options *o, bool *is_as_stored, struct fb_error *e)
{
    *o = r->options;
    if (!r->has_own_choice && strcmp(o->transforms, "digest") != 0) /* what images have instead of no transform */
        return 0;
    struct dataset_request q = dataset_request_of(o, io_stores);
    struct dataset d;
    FB_TRY(dataset_open(&d, &q, e));
    *is_as_stored = d.family != FAMILY_IMAGE;
    if (*is_as_stored) {
        o->transforms = NULL;
        o->dtype = r->dtype;
    }
    dataset_close(&d);
    return 0;
}

static int measure(struct bench *b, struct bench_result *out, struct fb_error *e)
{
    struct probe *probe = NULL;
    fb_options o;
    FB_TRY(suit_data(b->r, &o, &out->is_as_stored, e));
    FB_TRY(fb_open(&o, &b->loader, e));
    int rc = b->r->has_probe ? probe_start(&probe, e) : 0;
    if (rc == 0)
        rc = run_epochs(b, out, e);
    if (probe)
        out->probe_p99_seconds = probe_stop(probe);
    if (b->running)
        fb_release_batch(b->running);
    fb_close(b->loader);
    return rc;
}

int bench_run(const struct bench_request *r, struct bench_result *out, struct fb_error *e)
{
    *out = (struct bench_result){.probe_p99_seconds = NAN, .evicted_share = NAN, .last_epoch_rate = NAN};
    if (r->is_cold)
        FB_TRY(evict_source(&r->options, &out->evicted_share, e));
    struct bench b = {.r = r, .step_ns = (uint64_t)(r->step_seconds * 1e9), .started_ns = r->is_cold ? clock_now_ns() : r->started_ns};
    core_share_begin(&b.before);
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); /* of this thread: steps end when they should; 50 us later otherwise */
    int rc = measure(&b, out, e);
    free(b.interval_ns);
    return rc;
}

void bench_free(struct bench_result *r)
{
    free(r->bad_list);
}
