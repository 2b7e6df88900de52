/* fullbore: feeds training loops.
 *
 *   simple     open a loader, take batches, release them, close
 *   explicit   state and ranks, statistics, single images
 *   unstable   back-ends for tests and benches
 *
 * Life cycle:
 *
 *     fb_options o;                    struct fb_error e = {0};
 *     fb_init_options(&o);             o.source = "photos";  o.batch_size = 64;
 *     fb_loader *l;                    if (fb_open(&o, &l, &e) < 0) ...e.cause, e.remedy...
 *     fb_start_epoch(l, FB_NEXT_EPOCH, &e);
 *     while ((rc = fb_next_batch(l, &b, &e)) == 1) { ...; fb_release_batch(b); }
 *     fb_close(l);
 *
 * Every function that can fail returns 0 (or a positive answer it documents) or a negative FB_E_* code and, when given one, fills a
 * struct fb_error; the first error is kept. Unless its comment says otherwise a function may be called from any thread but not by two
 * threads on the same loader at once. The library never exits, prints or aborts, and installs no signal handlers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FULLBORE_FULLBORE_H
#define FULLBORE_FULLBORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FB_API __attribute__((visibility("default")))
#else
#define FB_API
#endif

/* The version as a string, "0.1.0". Never NULL; static storage. */
FB_API const char *fb_version(void);

/* ---------------------------------------------------------------------------------------------------------------- errors */

enum fb_code {
    FB_OK = 0,
    FB_E_NOMEM = -1,       /* the system has no memory */
    FB_E_IO = -2,          /* a read, open or write failed; sys_errno says how */
    FB_E_DATA = -3,        /* a sample is damaged or not what it claims to be */
    FB_E_USAGE = -4,       /* an argument is wrong */
    FB_E_NOT_FOUND = -5,   /* no such path, class, field */
    FB_E_BUDGET = -6,      /* the memory budget cannot hold it; the cause names the smallest that works */
    FB_E_UNSUPPORTED = -7, /* valid, but this build or machine cannot do it */
    FB_E_STATE = -8,       /* not now: closed, a second live epoch, state of another data set */
    FB_E_FORKED = -9,      /* the loader belongs to the parent process */
    FB_E_TIMEOUT = -10,
    FB_E_INTERRUPTED = -11
};

/* What went wrong, in words. Fixed size, no ownership: copy it freely. Zero it before first use; the first error is kept.
 * Texts are NUL-terminated UTF-8; bytes of file names that are not are escaped as \xNN in `path`. */
struct fb_error {
    int code;         /* enum fb_code; 0: no error */
    int sys_errno;    /* errno, or 0 */
    int64_t sample;   /* index in the data set, or -1 */
    int64_t offset;   /* byte offset in the file, or -1 */
    char stage[16];   /* "dataset", "order", "read", "decode", "transform", "batch", "feed" */
    char path[1024];  /* the file concerned, or "" */
    char cause[512];  /* one sentence, no full stop */
    char remedy[512]; /* what the user can do, or "" */
};

/* Writes the error as one line ("decode: photos/a.jpg at 1234: cause; remedy") into `out`, always NUL-terminated.
 * Returns the length it wanted, like snprintf. */
FB_API int fb_format_error(const struct fb_error *e, char *out, size_t out_size);

/* ---------------------------------------------------------------------------------------------------------------- arrays */

enum fb_dtype {
    FB_UINT8 = 1,
    FB_INT8,
    FB_UINT16,
    FB_INT16,
    FB_UINT32,
    FB_INT32,
    FB_UINT64,
    FB_INT64,
    FB_FLOAT16,
    FB_BFLOAT16,
    FB_FLOAT32,
    FB_FLOAT64,
    FB_BOOL
};

/* Bytes of one element; 0 for an unknown dtype. */
FB_API size_t fb_dtype_size(enum fb_dtype t);
/* "uint8", "bfloat16", ...; NULL for an unknown dtype. */
FB_API const char *fb_dtype_name(enum fb_dtype t);
/* The dtype with that name, or 0. */
FB_API enum fb_dtype fb_dtype_from_name(const char *name);

enum fb_layout {
    FB_NCHW = 0,
    FB_NHWC,
    FB_CHANNELS_LAST /* shape N,C,H,W over memory N,H,W,C: torch's channels_last */
};

enum { FB_MAX_DIMS = 9, FB_MAX_FIELDS = 32 }; /* a batch of arrays of 8 dimensions has 9 */

/* One array of a batch. Valid until the batch is released. */
struct fb_array {
    const char *name; /* "image", "label", or the manifest's column */
    enum fb_dtype dtype;
    int ndim;
    int64_t shape[FB_MAX_DIMS];   /* elements; shape[0] is the batch */
    int64_t strides[FB_MAX_DIMS]; /* bytes */
    void *data;
    size_t bytes; /* from data to the end of the array */
    int packing;  /* 0: every sample has one shape. Else the first dimension of samples varies: FB_COLLATE_PAD has shape
                                     * (batch, longest, ...) and "lengths" says how much of it is real, the rest being 0; FB_COLLATE_RAGGED
                                     * has shape (all, ...) and sample i lies at "offsets"[i] to [i + 1] */
};

/* Where the arrays of a batch lie. */
enum fb_memory {
    FB_HOST = 0,
    FB_PINNED,  /* main memory, page-locked: a device copies from it while the program goes on */
    FB_CUDA,    /* on a CUDA device: `data` is a CUdeviceptr */
    FB_EMULATED /* on an emulated device: main memory, to be read after fb_use_batch */
};

/* --------------------------------------------------------------------------------------------------------------- options */

/* Labels given by the caller instead of found in the source: one column, `count` samples long. */
struct fb_column {
    const char *name;
    enum fb_dtype dtype;
    int ndim; /* 0: one number per sample; 1: a vector of shape[0] numbers */
    int64_t shape[FB_MAX_DIMS];
    const void *data; /* C-contiguous, copied at open */
};

struct fb_progress {
    const char *what; /* "scanning", ... */
    uint64_t done;
    uint64_t total; /* 0: not known */
};

enum fb_on_error { FB_RAISE = 0, FB_SKIP };
enum { FB_SAMPLE_ROW = 1, FB_SAMPLE_FILE };     /* fb_options.sample */
enum { FB_COLLATE_PAD = 1, FB_COLLATE_RAGGED }; /* fb_options.collate: arrays have the lengths in "lengths", or "offsets" */

/* One sample inside a function of the caller's: a "map" step of `transforms`. Everything is the callee's during the call only. */
struct fb_map {
    int step;        /* which of the map steps: 0, 1, ... */
    const char *key; /* path relative to the source */
    uint64_t sample; /* index in the data set's full catalog */
    uint64_t epoch, position;
    uint64_t random[2]; /* drawn for this sample and step by (seed, epoch, position, attempt): the same with any threads */
    uint8_t *pixels;    /* height x width x 3, RGB, rows packed; may be changed: it is the result unless `make` is called */
    int height, width;
    int keeps_pixels;        /* set it to keep the memory at `pixels`: it is the callee's from then on, outside the memory budget, to be
                                       freed by free(). It is not the result then: `make` must be called for that (else FB_E_USAGE) */
    struct fb_array *labels; /* of this sample, without the batch dimension; what data points to may be changed */
    int label_count;
    int takes_floats; /* 1: the last step of a loader with a float dtype: the result may be FB_FLOAT32 */
    /* Memory for a result of another size or dtype (FB_UINT8, FB_FLOAT32): packed pixels. Call it once, fill it. NULL: the error is set. */
    void *(*make)(struct fb_map *m, enum fb_dtype dtype, int height, int width, struct fb_error *e);
    uint64_t busy_ns, wait_ns; /* may be set: time in the function, and time waited to get into it; shown by the statistics */
    void *engine;              /* the engine's own */
};

/* Everything a loader can be told. fb_init_options gives the defaults; strings and arrays are copied by fb_open. */
typedef struct fb_options {
    size_t struct_size; /* set by fb_init_options to what the program was compiled with: older programs stay valid */

    /* what */
    const char *source;       /* folder, glob, or manifest (.csv .tsv .jsonl); NULL when `paths` is given */
    const char *const *paths; /* files given one by one, relative to `source` or absolute */
    uint64_t path_count;
    const struct fb_column *columns; /* labels: with `paths` each path_count long; with a source see column_rows */
    int column_count;
    const char *catalog_dir; /* where catalogs are kept; NULL: $XDG_CACHE_HOME/fullbore or ~/.cache/fullbore. Not used if it belongs to
                                     * another user but root, or if everybody may write to it: that is logged */

    /* which of it: applied in this order */
    const char *classes;  /* NULL: all; "@FILE": one name per line; else names joined by newlines */
    uint64_t class_count; /* 0: all; else that many classes drawn by class_seed (not together with `classes`) */
    uint64_t class_seed;
    uint64_t per_class;      /* 0: all; else at most that many of each class, drawn by class_seed, stable by key */
    double fraction;         /* 1: all; a share in (0,1], drawn by class_seed, stable by key */
    const uint64_t *indices; /* NULL: all; else positions in what the above left */
    uint64_t index_count;
    const char *split;  /* NULL, "train" or "val" */
    double split_share; /* train's share in (0,1); a key keeps its side when the data set grows */

    /* in which order */
    uint64_t batch_size;        /* per rank; default 1 */
    uint64_t global_batch_size; /* 0: batch_size x world_size */
    int shuffle;                /* 0 or 1 */
    uint64_t seed;
    int drop_last;
    const double *weights; /* NULL, or one per selected sample: draw with replacement */
    uint64_t weight_count;
    int rank, world_size; /* -1: from the environment (torchrun, SLURM, MPI); neither there: 0 of 1 */

    /* into what */
    const char *transforms; /* "name key=value,value ...; name ..."; NULL: none. See docs/transforms.md */
    enum fb_dtype dtype;    /* 0: float32 when a transform normalises, else uint8 */
    enum fb_layout layout;  /* default FB_NCHW */
    int exif;               /* 1: apply EXIF orientation; default 0, as torchvision */

    /* Functions of the caller's. transforms has steps "map", "map name=TEXT size=H,W": each calls `map` with its number, from any worker
     * thread, several at once, with packed RGB pixels; what follows gets the result. A negative return makes the sample a bad one; `e` says
     * why (stage "map"). `size` promises the size of every result, where that cannot be known from the steps around it. */
    int (*map)(void *map_ctx, struct fb_map *m, struct fb_error *e);
    void (*map_done)(void *map_ctx); /* called once when `map` will never be called again: by a failed fb_open or by fb_close; if a call of
                                        it did not end in time, later, by that call's thread. May be NULL */
    void *map_ctx;

    /* with what */
    int threads;     /* 0: cores by affinity and quota, less one for the trainer when there are more than two */
    uint64_t memory; /* bytes for slots, reads, caches and scratch of the whole process; 0: a quarter of what is left */

    /* and when things go wrong */
    enum fb_on_error on_error; /* FB_SKIP: others take the place of bad samples; after 257 bad ones for a place the last error */
    int64_t max_errors;        /* with FB_SKIP: per rank and epoch; -1: no limit */

    void (*progress)(void *ctx, const struct fb_progress *p); /* called while scanning, on the caller's thread; may be NULL */
    void (*log)(void *ctx, int level, const char *line);      /* warnings; from any thread; NULL: dropped. 0 error 1 warn 2 info 3 debug */
    int (*interrupted)(void *ctx); /* asked every 100 ms by waits on the caller's thread; non-zero ends them with FB_E_INTERRUPTED */
    void *ctx;

    /* labels, more closely */
    uint64_t column_rows; /* `columns` given for a folder, glob or manifest: one row for each selected sample, in that order */
    const char *fields;   /* NULL: the columns given, else the source's; else names joined by newlines, in the batch's order */
    int is_balanced;      /* 1: weights that draw every class equally often; needs shuffle, and classes or one integer label */

    /* order, more closely */
    int takes_order; /* 1: every epoch's order is given by fb_push_order; no shuffle, weights or ranks */

    /* arrays and sound: see docs/arrays.md */
    int sample;         /* 0: by the source; FB_SAMPLE_ROW, FB_SAMPLE_FILE */
    int collate;        /* 0: all samples have one shape; FB_COLLATE_PAD, FB_COLLATE_RAGGED */
    int preload;        /* 1: all rows are read into memory before the first batch, or it says what does not fit */
    int allow_external; /* 1: HDF5 files may refer to other files */
    uint64_t window;    /* shuffle 2: rows that are mixed with each other; 0: chosen by the layout */

    /* unstable */
    const char *io; /* NULL or "auto", "uring", "pread", "null", "slow:...", "fault:..."; see src/io/README.md */

    /* an accelerator; see docs/device.md */
    int pin_memory;     /* 1: batches lie in page-locked memory, where the CUDA driver is there to lock it; else a warning */
    const char *device; /* NULL; "cuda:N": batches are copied there, one ahead; "emulated:12GB/s,20us": a device for tests */

    /* caches; see docs/caches.md */
    const char *cache_dir; /* NULL; a folder on a fast disk that keeps what was read, for later epochs, runs and other processes */
    uint64_t cache_limit;  /* bytes in it at most; 0: what the disk has, less 5 % of it that stay free */
    uint64_t cache_ram;    /* bytes of main memory, within `memory`, that keep what was read; 0: none */

    /* several files per sample: further columns of paths in a manifest, which `fields` names as it does labels; see docs/datasets.md */
    const char *masks; /* NULL: those whose name has "mask" in it; else the names of those that hold masks, joined by newlines */

    /* several bags per sample; see docs/arrays.md */
    const char *group_by; /* NULL; the manifest's column whose equal values make one sample: bags joined, the key is the value */
} fb_options;

/* fb_init_options(&o): all defaults. It writes `struct_size` bytes: as many as the struct has in the program that calls, which may know
 * fewer fields than the library, or more; fields that it does not know have their defaults. */
FB_API void fb_init_options_sized(fb_options *o, size_t struct_size);
FB_API void fb_init_options(fb_options *o); /* the symbol, for other languages: the fields of version 0.1, up to group_by */
#define fb_init_options(o) fb_init_options_sized((o), sizeof(*(o)))

/* ---------------------------------------------------------------------------------------------------------------- simple */

typedef struct fb_loader fb_loader;
typedef struct fb_batch fb_batch;

enum { FB_NEXT_EPOCH = -1 };

/* Opens the source and makes everything ready; nothing is read yet. Blocks while a new source is scanned.
 * FB_E_NOT_FOUND, FB_E_USAGE, FB_E_DATA, FB_E_BUDGET, FB_E_IO, FB_E_NOMEM, FB_E_INTERRUPTED. On failure *out is NULL. */
FB_API int fb_open(const fb_options *o, fb_loader **out, struct fb_error *e);

/* Starts an epoch: `epoch` >= 0, or FB_NEXT_EPOCH for the one after the last (the first is 0). After fb_load_state the first call with
 * FB_NEXT_EPOCH continues where the state was. What is left of a running epoch is abandoned. Returns the epoch's number. */
FB_API int64_t fb_start_epoch(fb_loader *l, int64_t epoch, struct fb_error *e);

/* Takes the next batch; blocks until it is ready. The statistics count the time inside as exposed wait, and that inside fb_start_epoch as
 * waiting for its first batch. 1: *out is a batch, the caller's until fb_release_batch. 0: the epoch is over.
 * FB_E_DATA, FB_E_IO: a sample could not be had (on_error FB_RAISE, or max_errors reached); the epoch is over, a new one may be started.
 * FB_E_STATE: closed, or no epoch running. FB_E_FORKED. FB_E_INTERRUPTED: `interrupted` said so; call again to go on. */
FB_API int fb_next_batch(fb_loader *l, fb_batch **out, struct fb_error *e);

/* What a batch holds. All pointers live until the batch is released. */
FB_API int fb_batch_size(const fb_batch *b);        /* samples in it */
FB_API int fb_batch_array_count(const fb_batch *b); /* fields: image first, then labels */
FB_API const struct fb_array *fb_batch_array(const fb_batch *b, int field);
FB_API const char *fb_batch_key(const fb_batch *b, int place); /* path relative to the source */
FB_API uint64_t fb_batch_sample(const fb_batch *b, int place); /* index in the data set's full catalog */
FB_API int fb_batch_is_repeat(const fb_batch *b, int place);   /* 1: fills up a last batch smaller than the world */
FB_API const char *fb_batch_state(const fb_batch *b);          /* JSON: the state after this batch */
/* The random parameters of a place as JSON: {"top":..,"left":..,"height":..,"width":..,"hflip":..}. Returns the length wanted, or
 * FB_E_NOMEM. */
FB_API int fb_batch_draw(const fb_batch *b, int place, char *out, size_t out_size);

/* Where its arrays lie; *device (may be NULL) is the number of the device. */
FB_API enum fb_memory fb_batch_memory(const fb_batch *b, int *device);
/* With pin_memory or a device: says that `stream` (a CUstream; 1: the legacy default stream, 2: the one per thread) is going to use the
 * batch. What is queued there from now on finds the copy done; and after the last release the memory stays as it is until the stream has
 * got that far. Needed before the first use, and again for each other stream. Never blocks, except on an emulated device with stream 0,
 * the calling thread: it waits for the copy. Any thread, one at a time for the same batch. FB_E_IO, FB_E_USAGE. */
FB_API int fb_use_batch(fb_batch *b, uintptr_t stream, struct fb_error *e);

/* More references to a batch; each needs its own release. Any thread, never blocks. The memory never changes while a reference lives. */
FB_API void fb_retain_batch(fb_batch *b);
FB_API void fb_release_batch(fb_batch *b);

/* Stops and frees everything but batches still referenced. Returns within a second. NULL is allowed. Idempotent through NULL only. A thread
 * that is stuck (in `map`, in a driver) is left behind with what it uses, which it frees when it comes back; that is logged, and counted in
 * the statistics. `log`, `progress` and `interrupted` are not called any more when this has returned; `map` may still be running until
 * map_done is called. */
FB_API void fb_close(fb_loader *l);

/* -------------------------------------------------------------------------------------------------------------- explicit */

/* Samples selected, batches per epoch on this rank (from the running position on), the fingerprint of what was selected. */
FB_API uint64_t fb_sample_count(const fb_loader *l);
FB_API uint64_t fb_batch_count(const fb_loader *l);
FB_API uint64_t fb_fingerprint(const fb_loader *l);
FB_API int fb_class_count(const fb_loader *l);
FB_API const char *fb_class_name(const fb_loader *l, int label); /* NULL: no such class */

/* The selected sample i (0 .. fb_sample_count - 1): its path relative to the source; NULL: no such sample, a row of an array (it has no
 * path of its own), or the catalog is damaged. Lives as long as the loader. */
FB_API const char *fb_selected_key(const fb_loader *l, uint64_t i);
/* Its label, as a batch would have it: `bytes` of field `name` into `out`; the field's size must match. FB_E_NOT_FOUND, FB_E_USAGE. */
FB_API int fb_selected_label(const fb_loader *l, uint64_t i, const char *name, void *out, size_t bytes, struct fb_error *e);
/* The label fields of a batch: name, dtype, ndim and shape without the batch dimension, no data. NULL: no such field. */
FB_API const struct fb_column *fb_label_field(const fb_loader *l, int i);
/* The one of them whose values are numbers of classes (fb_class_name); -1: none. */
FB_API int fb_class_field(const fb_loader *l);

/* With takes_order: the next samples (indices among the selected ones) of the epoch that fb_start_epoch started; is_last ends it. Batches
 * are read ahead as far as there are samples. Same thread rules as fb_next_batch, which fails with FB_E_STATE when it runs out of them.
 * FB_E_USAGE: an index out of range. */
FB_API int fb_push_order(fb_loader *l, const uint64_t *samples, uint64_t count, int is_last, struct fb_error *e);

/* Fixes rank and world size before the first epoch; afterwards FB_E_STATE. */
FB_API int fb_set_rank(fb_loader *l, int rank, int world_size, struct fb_error *e);
FB_API void fb_get_rank(const fb_loader *l, int *rank, int *world_size);
/* What the environment says (torchrun, SLURM, MPI ...); 0 of 1 if it says nothing. FB_E_USAGE: it contradicts itself. */
FB_API int fb_find_rank(int *rank, int *world_size, struct fb_error *e);

/* The state after the last batch returned, as JSON of less than 1 KB; and back. Loading refuses, with FB_E_STATE and everything that
 * differs in the cause, a state of other data, another selection, seed or kind of order, of an unknown version, or changed since it was
 * saved. fb_force_state loads such a state all the same and logs (level 1) what that means; what is no state at all it still refuses. */
FB_API int fb_save_state(const fb_loader *l, char *out, size_t out_size);
FB_API int fb_load_state(fb_loader *l, const char *json, struct fb_error *e);
FB_API int fb_force_state(fb_loader *l, const char *json, struct fb_error *e);

/* Leaves batches out: the next `batches` of the epoch that is running, or of the one that the next fb_start_epoch will start; or batches
 * first .. last - 1 of that epoch, counted from its beginning in global batches, as far as they are still to come. Never beyond the end of
 * the epoch. The samples of what is left out are not read; everything after it is what it would have been. The state knows: a run continued
 * from it leaves out the same. Call it on every rank alike. Up to 8 separate ranges still to come in an epoch.
 * fb_skip returns how many batches it leaves out. FB_E_USAGE: too many ranges, first > last; FB_E_UNSUPPORTED: with takes_order. */
FB_API int64_t fb_skip(fb_loader *l, uint64_t batches, struct fb_error *e);
FB_API int fb_skip_range(fb_loader *l, uint64_t first, uint64_t last, struct fb_error *e);

/* What the loader has done since it was opened, as JSON (see docs/statistics.md). Returns the length wanted. Any thread. */
FB_API int fb_get_stats(const fb_loader *l, char *out, size_t out_size);
/* Every figure of the statistics, as a JSON list of {"path", "name", "unit", "kind", "help"}: where it stands in fb_get_stats ("io.reads";
 * the stages by their names), its name for monitoring systems, "counter" or "gauge". Returns the length wanted. Any thread. */
FB_API int fb_describe_stats(char *out, size_t out_size);

/* What each thread of the loader does until so many more batches were taken, as Chrome trace events (chrome://tracing, ui.perfetto.dev)
 * into the file `path`, which is opened now and written then, or when the loader is closed. FB_E_STATE: a trace is being recorded
 * already. */
FB_API int fb_trace(fb_loader *l, const char *path, uint64_t batches, struct fb_error *e);

/* For bindings, which turn a batch into something of their own before the program has it: as fb_next_batch, but the exposed wait is counted
 * from asked_ns (CLOCK_MONOTONIC in ns: when the program called the binding, for an epoch's first batch as much earlier as starting it
 * took; 0: as fb_next_batch does) to fb_deliver_batch, to be called when the batch goes into the program's hands. A batch that never
 * does was waited for until this returned. fb_deliver_batch: the thread that took the batch, once. It blocks only to write the file of a
 * trace that ends with this batch. */
FB_API int fb_next_batch_since(fb_loader *l, uint64_t asked_ns, fb_batch **out, struct fb_error *e);
FB_API void fb_deliver_batch(fb_batch *b);

/* ------------------------------------------------------------------------------------------------------------- explaining */

/* A monitor: exact waits of a training loop, whoever feeds it, and a look at what goes on around it. The loop's thread calls
 *
 *     fb_begin_epoch(m, batches);  for (;;) { fb_ask_batch(m);  ...the loader's own next()...;  fb_take_batch(m, samples);  ... }
 *
 * Those four calls belong to one thread and never block; each costs well under a microsecond. The others may be called from any thread. */
typedef struct fb_monitor fb_monitor;

enum fb_look {
    FB_LOOK_NOT = 0, /* figures of the loop only */
    FB_LOOK_MACHINE, /* and the machine's: a thread of its own, twice a second */
    FB_LOOK_PROGRAM, /* and what the threads and child processes of this program do, about 20 times a second: under 0.6 % of one core */
    FB_LOOK_SILENT   /* as FB_LOOK_NOT, and `fullbore watch` is told nothing: for a loop over an fb_loader, which tells it by itself */
};

/* FB_E_NOMEM, FB_E_IO: /proc cannot be read. */
FB_API int fb_open_monitor(enum fb_look look, fb_monitor **out, struct fb_error *e);
FB_API void fb_begin_epoch(fb_monitor *m, uint64_t batches); /* 0: not known how many */
FB_API void fb_ask_batch(fb_monitor *m);                    /* the loop wants a batch from now on; call it before starting the epoch, too */
FB_API void fb_take_batch(fb_monitor *m, uint64_t samples); /* it has got it */
FB_API void fb_end_epoch(fb_monitor *m);
/* The loop's figures as JSON (see docs/monitor.md). Returns the length wanted, like snprintf. */
FB_API int fb_get_monitor(const fb_monitor *m, char *out, size_t out_size);
FB_API void fb_close_monitor(fb_monitor *m); /* NULL is allowed */

/* What the loop waits for, how much could be gained and what to change, as JSON (docs/watch.md, "The summary"): by the rules of
 * `fullbore watch`. With a loader from its own figures, and from the monitor (or NULL) what it saw of the machine; without a loader from
 * the monitor alone, which must look at the program. Returns the length wanted. */
FB_API int fb_get_verdict(const fb_loader *l, fb_monitor *m, char *out, size_t out_size);
/* The line of `fullbore watch`, of this moment: "GPU: 85% | ... | starved 31%: disk latency". Arguments as above. */
FB_API int fb_get_status_line(const fb_loader *l, fb_monitor *m, char *out, size_t out_size);

/* Single images: RGB, 8 bit, rows packed. fb_image_size reads the header only. Each may be called from any thread.
 * `bytes` is the whole file. exif != 0 applies the orientation. out must hold height x width x 3 bytes. */
FB_API int fb_image_size(const void *bytes, size_t n, int exif, int *height, int *width, struct fb_error *e);
FB_API int fb_decode_image(const void *bytes, size_t n, int exif, void *out, struct fb_error *e);
FB_API int fb_decode_region(const void *bytes, size_t n, int exif, int top, int left, int height, int width, void *out, struct fb_error *e);
enum fb_filter { FB_BILINEAR = 2, FB_BICUBIC = 3 }; /* Pillow's numbers */
/* Antialiased, equal to Pillow's Image.resize. channels 1, 3 or 4. */
FB_API int fb_resize_image(const void *pixels, int height, int width, int channels, enum fb_filter filter, int out_height, int out_width,
                           void *out, struct fb_error *e);

#ifdef __cplusplus
}
#endif
#endif
