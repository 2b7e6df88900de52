/* Short measurements of what lies under a data set: its storage at several depths, what opening a file costs, how fast memory copies. */
#ifndef FB_JOBS_DOCTOR_DOCTOR_PROBE_H
#define FB_JOBS_DOCTOR_DOCTOR_PROBE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"

enum { PROBE_DEPTHS = 4 };

struct storage_point {
    int depth;                                  /* reads in flight */
    double reads_per_s, bytes_per_s, latency_s; /* latency: mean of one read */
};

struct storage_probe {
    struct storage_point point[PROBE_DEPTHS]; /* 1, 4, 16, 64 */
    int points;                               /* 0: not measured */
    double read_bytes;                        /* of one read, mean: samples as they are, at most 1 MiB each */
    double open_s;                            /* CPU and waiting of open, stat and close of a file that is in memory; NAN: not measured */
    double cold_cpu_s;                        /* CPU per byte that comes from storage through the page cache; NAN: not measured */
    bool is_direct;                           /* past the page cache; else the pages were dropped before */
};

/* Reads samples of the source, spread over it, for about a second in all; of a bucket by requests to it. row_bytes: rows of that size lie
 * in its files, anywhere; 0: a sample is what the catalog says. */
int probe_storage(const fb_options *o, uint64_t row_bytes, struct storage_probe *p, struct fb_error *e);

/* doctor_requests.c: the same for a bucket. */
struct dataset;
int probe_requests(const struct dataset *d, const struct log *log, struct storage_probe *p, struct fb_error *e);

/* Bytes per second that so many threads copy at once, each from memory that no core keeps to a place that one does, as a reader does with
 * the page cache: nothing that moves bytes is faster. NAN: no memory for it. */
double probe_memory(int threads);

#endif
