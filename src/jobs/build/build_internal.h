/* What the parts of the build job share. */
#ifndef FB_JOBS_BUILD_BUILD_INTERNAL_H
#define FB_JOBS_BUILD_BUILD_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/budget.h"
#include "base/text/text.h"
#include "codec/array/convert/array_convert.h"
#include "dataset/dataset.h"
#include "jobs/build.h"
#include "jobs/build/build_direct.h"
#include "model/array_ops.h"
#include "transform/sound/log_mel/log_mel.h"

enum { BUILD_CAUSE = 204 };

/* A row of the output: which recording of the plan, which of its segments, xxh3 of the row's bytes. */
struct build_row {
    uint32_t file, segment;
    uint64_t hash;
};

/* As in the journal: without gaps. */
struct build_bad {
    uint64_t needed; /* large_bytes of a plan that might do; 0: bad with any */
    uint32_t file;
    char cause[BUILD_CAUSE];
};

/* ---- build_plan.c: what is to be done; constant while it is done ---- */

struct build_labels;

struct build_plan {
    const struct build_request *q;
    struct dataset dataset;
    struct build_labels *labels;
    uint32_t *file; /* position -> sample of the catalog: by split, then by key */
    uint64_t files;
    int splits;
    uint64_t split_first[BUILD_MAX_SPLITS + 1]; /* positions */

    uint32_t rate;
    uint64_t window, stride;      /* samples of a row, and from one to the next */
    bool is_segmented, is_padded; /* many rows per recording; shorter ones are followed by silence */
    struct log_mel *mel;          /* NULL: raw */
    enum fb_dtype dtype;
    int ndim; /* of a row */
    uint64_t shape[2];
    size_t row_numbers, row_bytes;
    uint64_t chunk_rows;                    /* 0: contiguous */
    double samples_per_byte;                /* of the first recording: those not read yet are estimated by it */
    uint64_t rows_guessed, rows_of_largest; /* of all of them; of one */
    /* The budget, and what it is for: threads x (thread_bytes + 2 x sound_bytes), task_limit x task_bytes, large_bytes, table_bytes. */
    uint64_t memory;
    uint64_t thread_bytes;           /* the transform's work, and a chunk being deflated */
    uint64_t sound_bytes;            /* a recording as it is read, decoded and converted */
    uint64_t task_bytes, task_limit; /* rows on their way, and how many tasks may hold some */
    uint64_t task_rows;              /* of a task; of one recording there may be more, up to task_bytes */
    uint64_t large_bytes;            /* one recording, and its rows, that does not fit into these */
    uint64_t table_bytes;            /* struct build_row of all rows */
    int threads;
    uint64_t question; /* xxh3 over everything that rows depend on, but the recordings */
};

int build_plan_open(struct build_plan *p, const struct build_request *q, struct fb_error *e);
void build_plan_close(struct build_plan *p);
int build_split_of(const struct build_plan *p, uint64_t file);
/* What the rows of a recording take, guessed by its size; how many of those from `first` on, before `end`, a task should have. */
uint64_t build_files_of_task(const struct build_plan *p, uint64_t first, uint64_t end);
/* Whether what tasks make can be written past the page cache: pieces that are large and begin at a sector of the file and of memory, either
 * because every row does or because tasks make whole pages. Deflated chunks and those gathered from several tasks are no such. */
bool build_has_direct_pieces(const struct build_plan *p);

/* ---- build_labels.c ---- */

/* Labels of recordings: the catalog's fields, or a table's. */
struct build_field {
    char name[64];
    enum fb_dtype dtype;
    int64_t width; /* 0: one number */
    size_t bytes;
};

int build_labels_open(struct build_labels **out, const struct dataset *d, const char *table, struct fb_error *e);
void build_labels_close(struct build_labels *l);
int build_labels_count(const struct build_labels *l);
const struct build_field *build_labels_field(const struct build_labels *l, int i);
int build_labels_get(const struct build_labels *l, int field, uint64_t sample, void *out, struct fb_error *e);
int build_labels_classes(const struct build_labels *l); /* 0: no names */
const char *build_labels_class(const struct build_labels *l, int i);
/* FB_E_DATA: a sample that the table does not name. */
int build_labels_check(const struct build_labels *l, uint64_t sample, struct fb_error *e);

/* ---- build_sound.c: one recording -> its rows ---- */

struct build_sound {
    const struct build_plan *p;
    struct scratch bytes, signal, work, wide;
    int fd;                       /* while it is read */
    uint64_t first, size, have;   /* where the recording begins in its file, its bytes, and how many of them are in `bytes` */
    uint64_t usual;               /* the most that one needed so far */
    uint64_t room, room_for_rows; /* how much it may take, and its rows */
    uint64_t needed;              /* large_bytes that might do, if that was too little for the last one; else 0 */
    const struct array_ops *ops;
    struct array_file file; /* from a successful read to build_sound_rows */
};

enum { BUILD_NO_ROOM = 1 };

/* Reads what its rows are made of. Any thread with its own struct. BUILD_NO_ROOM: neither read nor bad, but more than there is room for;
 * FB_E_DATA also for one that needs more than large_bytes of the plan. */
int build_sound_read(struct build_sound *s, const struct catalog_sample *where, struct fb_error *e);
/* After a successful read, once: computes its rows behind the first `rows` of `out`, leaving out its first `skip`; returns how many it
 * added. */
int64_t build_sound_rows(struct build_sound *s, uint32_t file, uint64_t skip, struct scratch *out, struct scratch *row, uint64_t rows,
                         struct fb_error *e);
void build_sound_free(struct build_sound *s);
/* For the plan: rate and length of a recording. */
int build_sound_probe(struct build_sound *s, const struct catalog_sample *where, uint32_t *rate, uint64_t *samples, struct fb_error *e);
uint64_t build_rows_of(const struct build_plan *p, uint64_t samples);

/* ---- build_meter.c ---- */

struct build_meter {
    pthread_mutex_t lock;
    int threads, writers; /* constant once they have started; the latter do nothing but write, and may be 0 */
    int in[BUILD_STAGES]; /* threads in each stage */
    unsigned mask;
    uint64_t since_ns;
    uint64_t wall_ns[1 << BUILD_STAGES];
    struct build_figures split[BUILD_MAX_SPLITS];
    struct build_slow slow[BUILD_SLOWEST];
    _Atomic uint64_t slow_enough_ns; /* of the last of them; relaxed, it is read again under the lock */
    uint64_t asked_sum, asked_most, asked_times;
    double past[2][BUILD_STAGES]; /* what stages had cost some seconds ago, and fewer seconds ago */
    uint64_t past_ns;             /* when the latter was */
};

void build_meter_open(struct build_meter *m);
void build_meter_close(struct build_meter *m);
/* From one stage to another; -1: from or to nothing. `ahead`: recordings asked for by scouts. Returns the time. */
uint64_t build_meter_move(struct build_meter *m, int from, int to, uint64_t ahead);
/* Adds what one task, or one chunk, cost. */
void build_meter_add(struct build_meter *m, int split, const struct build_figures *n);
/* The stage that cost most, for each of the threads that share it, in the last two to four seconds. One thread at a time. */
enum build_stage build_meter_bottleneck(struct build_meter *m, uint64_t now_ns);
void build_meter_slow(struct build_meter *m, const char *key, uint64_t ns);

/* ---- build_files.c: the partial file and its journal ---- */

/* A stretch of the file that is written: a chunk, or the rows of a task. */
struct build_piece {
    uint64_t number, rows;
    uint64_t offset, length;
    uint64_t hash;    /* of the bytes as written, when deflated */
    uint64_t sources; /* of keys, sizes and times of all recordings up to that of its last row */
};

struct build_files {
    char *folder, *name;             /* of the output */
    int dir_fd, data_fd, journal_fd; /* the latter two are locked */
    struct build_direct direct;      /* the same file as data_fd */
    bool is_ours;                    /* both are there and locked, so they may be written */
    uint64_t journal_end;
    const struct build_plan *plan;
    uint64_t sources, sources_next; /* the same, and the first recording that is not in it */
};

int build_files_open(struct build_files *f, const struct build_plan *p, struct fb_error *e);
/* Adds a piece with its rows, and the bad ones met on the way. */
int build_files_note(struct build_files *f, const struct build_piece *piece, const struct build_row *row, const struct build_bad *bad,
                     uint64_t bad_count, struct fb_error *e);
int build_files_finish(struct build_files *f, struct fb_error *e);
/* Keeps what is there for another run, or not. */
void build_files_close(struct build_files *f, bool is_kept);

/* Everything that is known of the output so far; grows while it is built, in order. */
struct build_table {
    struct budget budget;           /* of `row`: table_bytes of the plan */
    struct scratch row, piece, bad; /* struct build_row, build_piece, build_bad */
    uint64_t rows, pieces, bads;
};

int build_table_open(struct build_table *t, const struct build_plan *p, struct fb_error *e);
int build_table_add(struct build_table *t, const struct build_piece *piece, const struct build_row *row, struct fb_error *e);
int build_table_add_bad(struct build_table *t, const struct build_bad *bad, struct fb_error *e);
void build_table_free(struct build_table *t);
/* What an earlier run left and is as its journal says. */
int build_files_resume(struct build_files *f, const struct build_plan *p, struct build_table *t, struct fb_error *e);

/* ---- build_crew.c: the workers ---- */

int build_crew_run(const struct build_plan *p, struct build_files *f, struct build_table *t, struct build_meter *m,
                   struct build_result *out, struct fb_error *e);

/* ---- build_finish.c: labels, keys, structure ---- */

int build_finish(const struct build_plan *p, struct build_files *f, const struct build_table *t, struct build_result *out,
                 struct fb_error *e);

/* ---- build_deflate.c: HDF5's shuffle and deflate ---- */

struct build_deflate {
    struct libdeflate_compressor *compressor; /* of the level first asked for */
    struct scratch shuffled, packed;
};

/* *out lives until the next call. One thread at a time. */
int build_deflate_run(struct build_deflate *d, int level, const uint8_t *bytes, size_t n, size_t element, const uint8_t **out,
                      uint64_t *length, struct fb_error *e);
void build_deflate_free(struct build_deflate *d);

#endif
