/* What every floor does with a sample: the unavoidable work, by the same codec and transform code and with the same draws as the engine.
 *
 * A floor is the engine without the engine: no catalog, no planner, no slots, no budget, no counters. What it reaches on the same files
 * with the same number of threads is the most that the engine can reach.
 */
#ifndef FB_BENCH_WORK_H
#define FB_BENCH_WORK_H

#include "codec/image/codec.h"
#include "order/order.h"
#include "transform/pipeline.h"

struct file {
    char *path;
    size_t size;
    uint8_t *record; /* what an earlier decode learnt about it, or NULL; touched by the one thread that has the file in this epoch */
    size_t record_bytes;
};

/* The regular files below a folder, in the catalog's order (bytewise by path), without those whose names begin with a dot. */
struct file_list {
    struct file *file;
    size_t count, capacity, largest;
};

struct work_options {
    const char *source;
    const char *transforms; /* "" and decode false: only reading is measured */
    enum fb_dtype dtype;
    enum fb_layout layout;
    uint64_t seed;
    int batch_size;
    bool decode;
    bool is_known;   /* decode with the records that work_learn has made */
    bool sums_bytes; /* add up all bytes of all samples: a check that they are the engine's; not while measuring */
};

/* Shared by all threads of a floor; immutable while they run, except the counters. */
struct work {
    struct work_options options;
    struct file_list files;
    struct pipeline *pipeline;
    size_t place_bytes;
    uint8_t *batch; /* one batch, refilled again and again */
    struct order order;
    uint64_t epoch;
    _Atomic uint64_t next;     /* position to be done next */
    _Atomic uint64_t done;     /* samples finished in this epoch */
    _Atomic uint64_t bytes;    /* read in this epoch */
    _Atomic uint64_t byte_sum; /* of the last epoch; independent of thread count */
};

/* One thread's own. */
struct hand {
    struct work *work;
    struct codec_state codec;
    struct scratch scratch, pixels;
};

/* Each prints what is wrong and exits: a bench has no one to hand an error to. */
void work_open(struct work *w, const struct work_options *o);
void work_close(struct work *w);
/* Begins an epoch: order and counters; `cold` drops the files from the page cache. */
void work_start_epoch(struct work *w, uint64_t epoch, bool cold);
/* The file of the next position, or NULL: the epoch is over. */
struct file *work_take(struct work *w, uint64_t *position);
void hand_open(struct hand *h, struct work *w);
void hand_close(struct hand *h);
/* Everything after the bytes are there. */
void hand_do(struct hand *h, const struct file *f, uint64_t position, const uint8_t *bytes, size_t n);
/* Decodes the whole image and keeps what its codec learnt: later epochs are those of known files. */
void hand_learn(struct hand *h, struct file *f, const uint8_t *bytes, size_t n);

/* Runs `body` on n threads and waits for all. */
void work_run_threads(int n, void *(*body)(void *), void *arg);

/* One measured stretch. */
struct stretch {
    uint64_t started_ns, cpu_started_ns;
    double seconds, cpu_seconds;
};
void stretch_start(struct stretch *s);
void stretch_end(struct stretch *s);

/* The keys all floors share, without braces. */
void work_print_json(const struct work *w, const struct stretch *s, uint64_t samples, uint64_t bytes);
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
