/* Before training: what this machine can feed from a data set, what is in the way, what each remedy buys.
 *
 * A part of the data set is fed from storage and from memory, as files of which nothing is known yet and as known ones; CPU time gives the
 * service demand per sample, short probes what the storage and memory under it can do, and the laws of operational analysis the rest. No
 * rate is above what those limits allow. Only remedies that exist in this version are listed. A proof applies them to a sample and puts
 * what was measured beside what was predicted.
 */
#ifndef FB_JOBS_DOCTOR_H
#define FB_JOBS_DOCTOR_H

#include <stdbool.h>

#include "base/error.h"
#include "host/core_share.h"
#include "jobs/doctor/doctor_probe.h"
#include "jobs/info.h"

struct doctor_request {
    fb_options options;    /* source, transforms, dtype, batch_size, threads ... */
    bool has_own_choice;   /* nobody said what transforms to use: those in `options` are for pictures, other data is taken as it is */
    enum fb_dtype dtype;   /* that somebody asked for; 0: nobody */
    double step_seconds;   /* 0: not known */
    int64_t epochs;        /* of the whole run */
    uint64_t sample_limit; /* samples to measure with; 0: as many as tell enough */
    bool proves;           /* applies the remedies to a sample */
};

enum { DOCTOR_ROWS = 12 };

/* What a row of the table changes. */
enum remedy_kind {
    REMEDY_NONE,
    REMEDY_MEMORY,
    REMEDY_PACK,
    REMEDY_SMALLER,
    REMEDY_DECODED,
    REMEDY_CACHE,
    REMEDY_STAGE,
    REMEDY_CORES,
    REMEDY_WINDOW,
    REMEDY_PRELOAD,
    REMEDY_RECHUNK /* rows of arrays */
};

struct doctor_row {
    enum remedy_kind kind;
    char change[120];                /* what is changed; "as it is" first */
    double first_rate, later_rate;   /* samples/s in the first and in later epochs, as the machine is now; NAN: not known */
    double alone_first, alone_later; /* the same without the other programs */
    double accelerator_ratio, accelerator_first,
        accelerator_later; /* of all epochs, of the first, of the others; NAN without a step time */
    double batch_seconds, epoch_seconds, run_seconds;
    double ram_bytes;                  /* needed beside the loader's budget */
    double disk_bytes;                 /* needed beside the data */
    char command[1200];                /* a path that is cut off is of no use */
    double proved_first, proved_later; /* samples/s, measured on a sample; NAN: not tried */
    char unproved[160];                /* why it was not tried */
    /* what a sample costs, for the limits */
    double first_cpu_s, later_cpu_s, first_bytes, later_bytes; /* bytes: that are read */
    double cores;
    bool first_from_storage, later_from_storage;
};

struct doctor_machine {
    int cores, threads; /* cores that this process may use */
    int online_cores;   /* that the machine has; 0: not known */
    double memory_available_bytes, shm_free_bytes, files_limit, processes_limit, locked_bytes_limit; /* INFINITY: none */
    double copy_bytes_per_s, copies_bytes_per_s; /* memory to memory, one thread; as many threads as there are workers */
    char gpu[160];                               /* name, or why there is none */
    char device[64], mount[128], kind[40];       /* where the data lies */
    bool is_remote;
    bool is_bucket; /* nothing of it lies here: kind, mount and device are empty */
};

/* A stretch of feeding. */
struct doctor_run {
    double rate;              /* samples/s; NAN: not measured */
    double cpu_s, read_bytes; /* per sample */
    struct core_use cores;
};

/* The part of the data set that is fed: to an epoch of it what the whole is. */
struct doctor_part {
    const char *catalogs; /* NULL: the user's */
    uint64_t samples;
    double fraction; /* 1: all, or `rows` says which */
    uint64_t *rows;  /* doctor_free frees it */
    bool is_stopped; /* storage was so slow that only some of it was read */
};

/* Rates measured for another way to do it; NAN: not tried. */
struct doctor_trial {
    double first_rate, later_rate;
    double alone_first, alone_later; /* 0: as those */
};

/* What no figure may exceed: the most that was measured of each. INFINITY: not measured. */
struct doctor_limits {
    double storage_bytes_per_s, memory_bytes_per_s;
};

/* Rows that lie badly in their file. */
struct doctor_chunks {
    char array[64];    /* the largest one */
    uint64_t now_rows; /* of a chunk; 0: nothing lies badly */
    uint64_t chunks_of_row;
    bool fits;            /* decompressed, all chunks can be kept */
    uint64_t wanted_rows; /* of a chunk */
    double work_ratio;    /* of what has to be decompressed and put together for a row: then to now */
    double first_ratio;   /* the same in a first epoch: chunks that can all be kept are decompressed once, whatever their shape */
};

/* What a bucket must give, and what it takes here, so that an accelerator never waits. */
struct doctor_budget {
    double rate; /* samples per second that are wanted; what the CPU can do, if nobody said */
    double bytes_per_s, requests_per_s, in_flight;
    double batches_ahead, ram_bytes, cache_bytes;
    double given_bytes_per_s, given_requests_per_s; /* measured */
};

struct doctor_result {
    struct doctor_machine machine;
    struct info data;
    uint64_t samples;    /* of an epoch: rows, files, pictures */
    double sample_bytes; /* of one in storage, mean */
    double output_bytes; /* of one in a batch */
    uint64_t measured;   /* samples */
    /* Nothing known of the files, or what an epoch leaves behind; from storage or memory. Equal where nothing is kept of files. */
    struct doctor_run fresh_cold, fresh_warm, known_cold, known_warm;
    double known_share;          /* of the files: known before the doctor came, as far as the user's own catalogs tell */
    double others_cores;         /* that other programs used while it was fed from memory; NAN: not known */
    double cold_rate, warm_rate; /* samples/s of the first epoch from storage, of later ones; cold NAN: could not be dropped from memory */
    double alone_cold, alone_warm; /* the same without the other programs; 0: as those */
    double first_warm_rate;        /* samples/s of a first epoch that comes from memory; NAN or 0: not measured */
    double evicted_share;
    double first_cpu_s, known_cpu_s; /* CPU of the process per sample, in the first and in later epochs */
    double first_bytes, known_bytes; /* read for a sample, in the first and in later epochs; 0: not known */
    double decode_s, transform_s;    /* by the workers' clocks, once it is known */
    double read_s;                   /* a read of one sample from storage, start to end, with many in flight */
    struct storage_probe storage;
    int smaller_side; /* of the pictures of REMEDY_SMALLER; 0: they are small enough, or it could not be tried */
    double smaller_cpu_s, smaller_first_cpu_s, smaller_share; /* CPU of such a picture; its bytes as a share */
    int decoded_side;                                         /* of the pictures of REMEDY_DECODED; 0: not tried */
    double decoded_cpu_s, decoded_first_cpu_s;
    struct doctor_run smaller, decoded; /* as fed from memory; rate 0: not measured */
    struct doctor_trial window, preload;
    double preload_bytes;
    struct doctor_chunks chunks;
    struct doctor_budget budget; /* of a bucket */
    struct doctor_limits limits;
    struct doctor_part part;
    double wanted_rate;  /* samples/s that the accelerator takes; NAN */
    bool storage_limits; /* the first epoch waits for storage, not for the CPU */
    struct doctor_row row[DOCTOR_ROWS];
    int rows;
    char io[16];
};

struct bench_request;
struct bench_result;
struct bench_pace;
struct doctor_run doctor_run_of(const struct bench_pace *p);
/* What it would have been without the other programs; doctor_limit.c. */
double doctor_alone(const struct doctor_run *r, int cores);
/* Wall time of a stage per sample, by the workers' own clocks. */
double doctor_stage(const struct bench_result *b, const char *stage);
bool doctor_has_pictures(const struct doctor_result *r);

/* doctor_measure.c: a part of the data set, fed. Fills the rates and demands. */
int doctor_measure(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e);
/* Its part once more, from storage or memory; and other ways to read rows, for doctor_trial. */
int doctor_feed(const struct doctor_request *q, const struct doctor_result *r, bool is_cold, double most_seconds, int64_t epochs,
                struct bench_result *b, struct fb_error *e);
int doctor_try_as_it_is(const struct doctor_request *q, const struct doctor_result *r, struct doctor_trial *t, struct fb_error *e);
int doctor_try_window(const struct doctor_request *q, const struct doctor_result *r, struct doctor_trial *t, struct fb_error *e);
int doctor_try_preload(const struct doctor_request *q, const struct doctor_result *r, struct doctor_trial *t, struct fb_error *e);
/* Options that suit the data, for a bench of it. */
struct bench_request doctor_bench(const struct doctor_request *q, const struct doctor_result *r);
/* Of chunks that are filtered, or of all rows: what they take in memory as numbers. */
double doctor_array_bytes(const struct info *data);

/* doctor_catalogs.c: catalogs of our own, so that what the doctor learns of files stays with the doctor. "": there is no place for them,
 * or nothing is kept of such data. */
struct doctor_catalogs {
    char path[600];
};
void doctor_catalogs_open(struct doctor_catalogs *c, const struct doctor_request *q, double *known_share);
void doctor_catalogs_close(struct doctor_catalogs *c);

/* doctor_limit.c: the laws; pure. Limits are the most that any measurement shows. */
void doctor_find_limits(struct doctor_result *r);
void doctor_keep_limits(const struct doctor_result *r, struct doctor_row *row);
/* Threads worth having now: the cores that this process may use, less those that others take. */
int doctor_free_cores(const struct doctor_result *r);

/* doctor_made.c: what smaller and decoded pictures cost, on a few; and how they are made. */
void doctor_try_smaller(const struct doctor_request *q, struct doctor_result *r);
void doctor_try_decoded(const struct doctor_request *q, struct doctor_result *r);
int doctor_pack(const struct doctor_request *q, const char *folder, const char *catalogs, const char *output, int shorter, uint64_t *bytes,
                char *name, size_t name_size, struct fb_error *e);
int doctor_decode(const struct doctor_request *q, const char *folder, const char *catalogs, const char *output, int side,
                  struct fb_error *e);
/* doctor_prove.c: every remedy on a sample, as far as it can be carried out; else the row says why not. */
int doctor_prove(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e);

/* doctor_arrays.c: how rows lie in their files (pure), and the rows of the table about that (pure). */
void doctor_judge_chunks(struct doctor_result *r, double memory_bytes);
void doctor_predict_arrays(struct doctor_result *r, const char *source);

/* doctor_store.c: the table's rows and the budget of a bucket; pure. */
void doctor_predict_bucket(const struct doctor_request *q, struct doctor_result *r, const char *source);

/* doctor_predict.c, for the two above. The row costs what the data as it is costs, until its fields say otherwise. */
struct doctor_row *doctor_add_row(struct doctor_result *r, enum remedy_kind kind, double first, double later);
double doctor_cpu_rate(const struct doctor_result *r, double demand_s, double cores);

int doctor_run(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e);
/* The table from what was measured; pure. */
void doctor_predict(const struct doctor_request *q, struct doctor_result *r);
void doctor_free(struct doctor_result *r);

#endif
