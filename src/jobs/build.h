/* The build job: a folder of recordings -> one HDF5 file of features, ready to train on.
 *
 * Workers read a recording, compute its rows and write them where they belong; what a row holds and where it lies depends on the recordings
 * and the request alone, so the file is the same with any number of threads. The numbers are written by the workers themselves; HDF5's
 * structure is put around them at the end (model/hdf5/hdf5_adopt.h). Nothing is under the final name before it is whole and on the disk.
 */
#ifndef FB_JOBS_BUILD_H
#define FB_JOBS_BUILD_H

#include <stdbool.h>

#include "base/error.h"

enum { BUILD_MAX_SPLITS = 3, BUILD_SLOWEST = 5, BUILD_STAGES = 4 };

/* What a worker does, in the order of the work; and what follows when all rows are there: structure, and bringing it to the disk. */
enum build_stage { BUILD_READ, BUILD_COMPUTE, BUILD_COMPRESS, BUILD_WRITE, BUILD_FINISH = BUILD_STAGES };

/* A length of sound as people write it: seconds, or samples. 0: not given. */
struct build_span {
    double seconds;
    uint64_t samples;
};

struct build_progress {
    uint64_t files, files_total, rows, bad;
    uint64_t files_before;       /* of `files`: by an earlier run */
    double seconds;              /* of this one */
    enum build_stage bottleneck; /* of the last seconds */
};

struct build_request {
    fb_options options; /* source, catalog_dir, threads, memory, log, interrupted */
    const char *output;
    bool is_raw;                        /* samples as they are, instead of log-mel */
    uint32_t n_mels, n_fft, hop_length; /* 0: 64, 1024, 256 */
    double f_min, f_max;                /* Hz; 0 and 0: all up to half the rate */
    bool is_htk;                        /* torchaudio's scale of mels; without: librosa's */
    double top_db;                      /* 0: no limit */
    bool is_exact;                      /* the transform in float64 */
    uint32_t rate;                      /* 0: that of the first recording; all must have it */
    bool is_mono;                       /* mix channels; without it they must be one */
    struct build_span length;           /* one row per recording: its beginning, silence behind it if it is shorter */
    struct build_span segment, stride;  /* many rows per recording; stride 0: as the segment */
    const char *labels;                 /* NULL: the source's; "none"; a CSV, TSV or JSONL of paths and labels */
    double share[BUILD_MAX_SPLITS];     /* train, val, test: parts of the whole; all 0: no splits */
    uint64_t seed;
    enum fb_dtype dtype; /* FB_FLOAT32 or FB_FLOAT16 */
    uint64_t chunk_rows; /* 0: contiguous; deflated: chosen */
    int deflate;         /* 1-9; 0: not compressed */
    bool skips_bad, resumes, overwrites;
    void (*progress)(void *ctx, const struct build_progress *p); /* on the caller's thread, ten times a second; may be NULL */
    void *ctx;
};

struct build_slow {
    char key[200];
    double milliseconds;
};

/* Exact counts. Seconds of a stage are summed over threads; `wall` is the time in which at least one thread was in it. */
struct build_figures {
    uint64_t files, rows, bad, bytes_read;
    double seconds[BUILD_STAGES];
    double file_cpu_seconds;          /* of the threads that did it: tasks, compressing and writing */
    double batch_seconds, batch_most; /* of a task: some recordings that a worker takes at once */
    uint64_t batches;
};

struct build_result {
    uint64_t files, rows, skipped, resumed_rows;
    uint64_t bytes, payload; /* of the file, and of its features */
    uint32_t rate, threads;
    uint32_t writers; /* threads beside these that did nothing but write; 0: those wrote as well */
    int ndim;
    uint64_t shape[3];
    uint64_t chunk_rows;
    char *skipped_list; /* "key: cause" lines of the first thousand, or NULL */
    uint64_t checksum;
    double seconds, finish_seconds; /* of all; of the end of it: structure, and bringing it to the disk */
    double cpu_seconds;             /* of the process and its HDF5 helper, from the beginning to the end */
    double rows_cpu_seconds;        /* of that: while rows were made and written, by all threads */
    uint64_t memory_peak;
    bool is_kept; /* it failed, and what was written so far can be resumed */

    int splits;
    struct build_figures split[BUILD_MAX_SPLITS];
    double wall_of[1 << BUILD_STAGES]; /* seconds in which exactly these stages were going on: bit i is stage i */
    double depth_mean;                 /* recordings asked for and not yet there */
    uint64_t depth_most;
    struct build_slow slow[BUILD_SLOWEST];
};

extern const char *const build_split_names[BUILD_MAX_SPLITS]; /* "train", "val", "test" */
extern const char *const build_stage_names[BUILD_STAGES + 1];

/* FB_E_STATE: the output is there, or another build writes it. FB_E_DATA: a bad recording, or none that is good. `out` must be freed by
 * build_result_free in any case. */
int build_run(const struct build_request *q, struct build_result *out, struct fb_error *e);
void build_result_free(struct build_result *r);

#endif
