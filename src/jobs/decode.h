/* The decode job: pictures decoded once, to one size, into a plain .npy that numpy opens; names and labels beside it.
 *
 *   OUT.npy           uint8, shape (samples, height, width, 3), in the order of the keys
 *   OUT.csv           key and labels of every row
 *   OUT.npy.catalog   the same for fullbore: Loader("OUT.npy") is the data set it was made from, with its names, labels and fingerprint
 */
#ifndef FB_JOBS_DECODE_H
#define FB_JOBS_DECODE_H

#include "jobs/pack.h"

enum decode_fit { DECODE_CROP, DECODE_PAD, DECODE_STRETCH };

/* What it will cost and buy, from a short measurement. */
struct decode_forecast {
    uint64_t samples, bytes;         /* of the .npy */
    uint64_t disk_free, memory_free; /* bytes */
    double decode_rate;              /* samples per second now, on `threads` threads */
    double copy_rate;                /* samples per second that memory could be copied at, by one thread */
    int threads;
};

struct decode_request {
    fb_options options; /* source, catalog_dir, threads, log, interrupted */
    const char *output; /* NAME.npy */
    uint32_t height, width;
    enum decode_fit fit;
    bool skips_bad;
    bool resumes;    /* go on with what an interrupted run left */
    bool overwrites; /* replace outputs that are there, at the end; otherwise FB_E_STATE before any work */
    void (*foretell)(void *ctx, const struct decode_forecast *f); /* before the work begins; may be NULL */
    void (*progress)(void *ctx, const struct pack_progress *p);
    void *ctx;
};

/* As pack_run. FB_E_IO: no space, found out before or while writing. Nothing is under the final names that is not whole. `out`
 * must be freed by pack_result_free in any case. */
int decode_run(const struct decode_request *q, struct pack_result *out, struct fb_error *e);

#endif
