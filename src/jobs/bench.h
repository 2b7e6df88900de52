/* The bench job: feed an emulated accelerator from a data set and say how busy it was.
 *
 * Without a step time the consumer takes batches as fast as they come. With one it is a training loop that waits for each step of its
 * accelerator: step k starts when batch k is in its hands and lasts the nominal time T, then it asks for the next. Utilisation = steps x T
 * / time from the first batch to the end of the last step, less what sleeps took too long although a core was there. So a consumer that
 * has to wait for a core counts as much as one that has to wait for data; a loop with launches queued ahead does at least as well.
 * bench/consumer.py checks this against real Python loops. Every page of every batch is touched and goes into a checksum, and the samples
 * are counted: a loader that delivers nothing scores nothing.
 */
#ifndef FB_JOBS_BENCH_H
#define FB_JOBS_BENCH_H

#include <stdbool.h>

#include "base/error.h"
#include "host/core_share.h"
#include "meter/meter.h"
#include "meter/metrics.h"

struct bench_request {
    fb_options options;
    double step_seconds; /* 0: as fast as it goes */
    double launch_share; /* of the step that the consumer's thread is busy (kernel launches) */
    int64_t epochs;
    double most_seconds; /* after the first batch it is stopped then, wherever it is; 0: it runs to its end */
    bool is_cold;        /* evict the files from the page cache first */
    bool has_own_choice; /* no transforms were given: those in `options` are for images, other data is read as it is */
    enum fb_dtype dtype; /* that was asked for; 0: none */
    bool has_probe;      /* measure how late a thread wakes that wants to wake every millisecond */
    uint64_t started_ns; /* when the program started: for the time to the first batch */
};

/* What the engine did in a stretch of the run, whatever the size of batches: samples that were made, not those that were handed over. With
 * batches that are large beside the run the latter come too rarely to count. */
struct bench_pace {
    double samples_per_second;
    double cpu_seconds, read_bytes; /* per sample; CPU of the process */
    struct core_use cores;
    double seconds; /* of the stretch; 0: nothing was made */
};

struct bench_result {
    bool is_as_stored; /* arrays or sound without transforms: those of the request were for images */
    uint64_t samples, batches;
    double wall_seconds;                  /* from the first batch ready to the last done */
    double samples_per_second;            /* first batch excluded, unless it is all there was */
    struct core_use opening;              /* of the machine while the loader was opened */
    struct bench_pace whole;              /* from the beginning of the first epoch */
    struct bench_pace pace;               /* from behind the first batch; as a whole if that batch was most of the run */
    double last_epoch_rate;               /* samples per second of the last of several epochs that were whole; NaN: there was one */
    double accelerator_utilization_ratio; /* NaN without a step time */
    double exposed_wait_ratio;
    double cpu_seconds_per_1000_samples; /* of the process, less the emulated launches */
    uint64_t budget_peak_bytes, rss_peak_bytes;
    double time_to_first_batch_seconds;
    double epoch_gap_seconds;        /* longest time between the last batch of an epoch and the first of the next; NaN: one epoch */
    double step_median_seconds;      /* median time between batches */
    double probe_p99_seconds;        /* NaN without a probe */
    double evicted_share;            /* of the files' pages gone from the cache before a cold run; NaN if warm */
    uint64_t checksum;               /* of what was touched: the same for any thread count */
    struct metrics metrics;          /* of the loader itself */
    char io[16];                     /* back-end that read */
    uint64_t chunks_unfiltered;      /* of rows in filtered chunks */
    uint64_t cached_reads, io_reads; /* found in memory by the workers; brought by the back-end */
    char device[96];                 /* that batches were copied to; "": none */
    uint64_t device_bytes;           /* copied */
    int threads;
    uint64_t bad;   /* samples replaced */
    char *bad_list; /* "path: cause" lines, or NULL */
};

int bench_run(const struct bench_request *r, struct bench_result *out, struct fb_error *e);
void bench_free(struct bench_result *r);

/* The figures of the loader itself. */
void bench_read_stats(const fb_loader *l, struct bench_result *out);
/* One of them by its path, or of a stage; 0: there is none. */
double bench_figure(const struct bench_result *r, const char *path);
double bench_stage(const struct bench_result *r, const char *stage, const char *what);

#endif
