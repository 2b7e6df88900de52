/* Before training: what this machine can feed from a data set, what is in the way, what each remedy buys.
 *
 * A part of the data set is fed twice, from storage and from memory; the stages' own clocks give the service demand per sample, and the
 * laws of operational analysis give the rest. Only remedies that exist in this version are listed.
 */
#ifndef FB_JOBS_DOCTOR_H
#define FB_JOBS_DOCTOR_H

#include <stdbool.h>

#include "base/error.h"
#include "jobs/info.h"

struct doctor_request {
    fb_options options;    /* source, transforms, dtype, batch_size, threads ... */
    double step_seconds;   /* 0: not known */
    int64_t epochs;        /* of the whole run */
    uint64_t sample_limit; /* samples to measure with; 0: 1000 */
};

enum { DOCTOR_ROWS = 6 };

struct doctor_row {
    char change[120];         /* what is changed; "as it is" first */
    double first_rate, later_rate; /* samples/s in the first and in later epochs; NAN: not known */
    double accelerator_ratio; /* of later epochs; NAN without a step time */
    double batch_seconds, epoch_seconds, run_seconds;
    double ram_bytes;         /* needed beside the loader's budget */
    char command[160];
};

struct doctor_machine {
    int cores, threads;
    double memory_available_bytes, shm_free_bytes, files_limit;
    char gpu[160];            /* name, or why there is none */
    char device[64], mount[128], kind[40]; /* where the data lies */
    bool is_remote;
};

struct doctor_result {
    struct doctor_machine machine;
    struct info data;
    uint64_t measured;        /* samples */
    double cold_rate, warm_rate; /* samples/s; cold NAN: could not be dropped from memory */
    double evicted_share;
    double first_cpu_s, known_cpu_s; /* decode + transform per sample, before and after its file is known */
    double decode_s, transform_s;    /* of known_cpu_s */
    double read_s;            /* a read of one sample from storage, start to end, with many in flight */
    double wanted_rate;       /* samples/s that the accelerator takes; NAN */
    bool storage_limits;      /* the first epoch waits for storage, not for the CPU */
    struct doctor_row row[DOCTOR_ROWS];
    int rows;
    char io[16];
};

int doctor_run(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e);
/* The table from what was measured; pure. */
void doctor_predict(const struct doctor_request *q, struct doctor_result *r);
void doctor_free(struct doctor_result *r);

#endif
