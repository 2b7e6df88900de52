/* The engine: one feed per loader, one crew of workers per process.
 *
 *   planner   walks the order ahead, takes a slot per batch, makes a load per place, sends loads to io or straight to the workers
 *   io        brings bytes; its completions go to the workers
 *   workers   (the crew) decode and transform each load into its place; the last one of a slot publishes it
 *   consumer  the caller; takes published slots in order
 *
 * Locks: feed->lock guards the plan, the slots' states and the read buffers; crew->lock guards the ready lists. Neither is ever taken while
 * the other is held. Everything a load points to is constant while the load is under way.
 */
#ifndef FB_FEED_FEED_H
#define FB_FEED_FEED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/budget.h"
#include "base/log.h"
#include "batch/slot.h"
#include "dataset/dataset.h"
#include "feed/audit_writer.h"
#include "feed/labels.h"
#include "feed/read_buffers.h"
#include "feed/device_copy.h"
#include "io/io.h"
#include "feed/delivery.h"
#include "meter/loop.h"
#include "meter/meter.h"
#include "model/learnt/learnt.h"
#include "order/alias.h"
#include "order/order.h"
#include "order/ranks/ranks.h"
#include "order/state/state.h"
#include "order/subset/subset.h"

/* What a load is doing, for the watchdog. */
enum load_step { LOAD_IDLE, LOAD_PLANNED, LOAD_READING, LOAD_READY, LOAD_DECODING, LOAD_CALLING /* + which of f->function */ };

enum { LOAD_OWN_BYTES = 48 };

/* The unit of work: one sample's bytes, one decode, the place it fills. Belongs to one thread at a time: planner, io, worker. */
struct load {
    struct slot *slot;
    uint32_t place; /* of rows: the first of `count` */
    uint32_t count;
    uint32_t attempt;       /* 0, or which stand-in for a bad sample this is */
    uint32_t bad_tries;     /* how many samples were bad that were tried for this place */
    uint64_t poor_since_ns; /* since when the consumer has waited for it and there was no memory to decode it; 0: not so */
    uint64_t position;      /* in the epoch */
    uint64_t sample;        /* in the catalog */
    uint64_t selected;      /* in the selection */
    struct catalog_sample where;
    uint64_t size;                           /* bytes to expect */
    bool is_further;                         /* reads a further file of its sample: the order knows the first ones only */
    bool has_begun;                          /* something of it was read or decoded: what is still to be read goes before other loads */
    bool needs_aim;                          /* its sample was bad: the planner aims it at a stand-in; of rows: the worker aims them */
    bool reads_itself;                       /* the worker lists what is to be read */
    bool would_block;                        /* a worker's own read would have had to wait: io's turn */
    struct waited *waited;                   /* what it listed, when io has brought it: load_ops.drop_waited */
    struct read_buffer *buffer;              /* filled by io; NULL: the worker reads */
    struct fb_error *error;                  /* failed before it reached a worker, who deals with it */
    _Alignas(8) uint8_t own[LOAD_OWN_BYTES]; /* what the kind keeps of it; zeroed when it is aimed at a sample */
    struct io_request request;
    _Atomic uint32_t step; /* enum load_step; relaxed: only shown */
    _Atomic uint64_t since_ns;
    struct load *next;
    struct audit_proof proof; /* of the place with this load's number: what was decoded there */
};

/* A stretch of batches: an epoch from `start` on. */
struct run {
    uint64_t epoch, start, batches;
    struct skips skips; /* positions left out */
};

struct bad_sample {
    char *path;
    char *cause;
    char stage[16];
    uint64_t epoch;
};

/* A function of the caller's among the transforms: time inside it, and time spent waiting to be let in (Python's lock). */
struct feed_function {
    const char *name;
    _Atomic uint64_t calls, busy_ns, wait_ns;
};

enum { FEED_MAX_BAD = 1000 }; /* named; the rest is only counted */

struct feed {
    /* constant after open */
    pid_t pid;
    struct log log;   /* for everybody: hands lines to `heard` until the loader is closed */
    struct log heard; /* the caller's */
    int (*interrupted)(void *ctx);
    void *ctx;
    struct dataset dataset;
    struct subset subset;
    struct data_identity origin;
    struct alias_table *weights;
    struct labels labels;
    const struct load_ops *kind;    /* what a sample is, and how it is loaded: load_ops.h. NULL: not opened so far */
    void *state;                    /* the kind's */
    struct feed_function *function; /* the caller's, that loads go through: the kind's memory */
    int function_count;
    int object_fd;             /* all samples lie in this one file; -1: not */
    void (*closed)(void *ctx); /* tells the caller that none of these is called any more */
    void *closed_ctx;
    uint64_t batch_size, global_batch_size, seed;
    bool is_shuffled, drop_last, skips_bad;
    uint64_t window_block, window_blocks; /* shuffle="window"; 0: not */
    int64_t max_errors;
    bool takes_order; /* the caller says which samples, epoch by epoch */
    struct io *io;
    uint32_t io_depth;          /* reads it is asked to have in flight */
    struct source_cache *cache; /* NULL: io is the source itself */
    uint64_t cache_ram;         /* bytes that the RAM cache may have */
    struct budget *budget;
    struct learnt *learnt;          /* NULL: nothing is kept */
    struct audit *audit;            /* NULL: none is wanted */
    struct device_copy device_copy; /* to a device */
    uint64_t opened_ns;

    /* set by feed_resolve, before the first epoch; constant afterwards */
    bool is_resolved;
    int rank, world; /* -1: from the environment */
    struct rank_layout layout;
    struct slot_shape shape;
    size_t slot_total_bytes;
    uint32_t least_ahead;

    pthread_mutex_t lock;
    pthread_cond_t planner_wakes, consumer_wakes;

    /* under lock: the plan */
    _Atomic uint64_t generation; /* written under lock; read by workers without: a stale value only costs wasted work */
    struct run planned;          /* the run being planned */
    uint64_t planned_next;       /* its next batch */
    uint64_t sequence;           /* slots planned so far */
    bool has_plan;
    struct run live; /* the run being consumed */
    uint64_t live_next;
    bool is_live, has_run; /* an epoch is being consumed; one ever was */
    bool must_continue;    /* a state was loaded: the next epoch goes on from `at` */
    struct state at;       /* after the last batch returned */
    uint64_t *given;       /* with takes_order: the epoch's samples so far */
    uint64_t given_count, given_capacity;
    bool is_given_all;
    uint64_t epoch_redraws;
    struct fb_error epoch_error; /* why the epoch ended early */
    struct fb_error plan_error;  /* why nothing is planned any more, until the next epoch is started */

    /* under lock: slots */
    struct slot *free_slots;
    struct slot *ahead_first, *ahead_last; /* planned, in delivery order */
    uint32_t ahead, look_ahead, owned, held;
    struct slot **held_slots; /* of the engine's, oldest first */
    uint32_t held_capacity;
    bool warned_held;
    uint64_t given_away;
    bool is_cramped;         /* one or two kept ones had to be given away: there was no room for the next beside them */
    _Atomic bool is_closing; /* written under lock */
    bool is_consumer_waiting;
    struct load *redo; /* loads to issue again, before anything new */
    struct reads reads;

    pthread_t planner;
    bool has_planner, has_joined;
    uint64_t *plan_given; /* with takes_order: the planner's copy of a batch's samples */
    _Atomic bool has_redo;
    _Atomic int miss_score;              /* 0..256: how often a worker's own read would have blocked lately */
    uint32_t probe;                      /* the planner's: counts loads to probe with */
    uint32_t slots_failed, reads_failed; /* the planner's: in a row, for want of memory */
    _Atomic int refs;

    struct crew *crew;    /* NULL: has not joined one; held as long as the feed lives */
    _Atomic int speaking; /* threads inside the caller's log function */
    _Atomic bool is_silent;

    /* under crew->lock */
    struct slot *ready_slots; /* with loads for a worker, the one wanted soonest first */
    uint32_t ready;
    uint32_t serving; /* workers that are at its loads */
    uint32_t inside;  /* threads that work for it now: see crew.h */
    bool is_leaving;
    bool is_left;                      /* closed without waiting for all: the last one inside finishes it */
    bool is_planning, is_planner_late; /* the planner's thread is inside; and is counted among those left behind */
    struct feed *next_feed;

    _Atomic bool is_pressed;           /* someone needs memory: give back what is not needed now */
    _Atomic bool is_consuming;         /* an epoch is live */
    _Atomic bool is_starving;          /* the consumer waits: workers serve this feed first */
    _Atomic bool is_ample;             /* the look-ahead was full, and has been nearly so since: see crew.h */
    _Atomic uint64_t service_ns;       /* running mean of a load's time on a worker */
    _Atomic uint64_t waiting_since_ns; /* 0: the consumer is not waiting */

    /* figures */
    struct meter meter;
    struct loop loop; /* written under delivery.lock */
    struct delivery delivery;
    struct histogram wait_histogram, load_histogram;
    _Atomic uint64_t bad, changed, cached_reads, io_reads, part_reads;
    _Atomic uint64_t first_batch_ns; /* from open to the first batch in the caller's hands */
    _Atomic uint64_t convert_ns;     /* of the waits: from the engine's giving a batch away to the caller's having it */
    _Atomic uint64_t release_ns;     /* taking batches back */
    pthread_mutex_t bad_lock;
    struct bad_sample *bad_list;
    uint32_t bad_listed;
};

/* feed_open.c */
int feed_open(const fb_options *o, struct feed **out, struct fb_error *e);
int feed_resolve(struct feed *f, struct fb_error *e);
uint64_t feed_least_memory(const struct feed *f);
/* FB_E_BUDGET, naming what is enough, unless `need` bytes are inside the budget. */
int feed_check_memory(const struct feed *f, uint64_t need, struct fb_error *e);
void feed_unref(struct feed *f);

/* feed_close.c */
void feed_close(struct feed *f);
/* Nobody is inside any more: closes what is left and gives the first reference back. */
void feed_finish(struct feed *f);
/* Of the whole process: reads that no close could cancel; what they read into stays. */
uint32_t feed_left_reads(void);
/* The log function of a feed's parts; `ctx` is the feed. */
void feed_say(void *ctx, int level, const char *line);

/* The order of an epoch. */
void feed_order(const struct feed *f, uint64_t epoch, struct order *o);

/* slot_memory.c */
/* Under f->lock, or when nobody else knows the feed: frees the slots that hold nothing. */
void slot_memory_drop_free(struct feed *f);
/* Under f->lock: what the program keeps is the program's from now on, outside of the budget. */
void slot_memory_give_away_held(struct feed *f);

/* planner.c */
void *planner_main(void *feed);
/* Give a load back to the planner: a stand-in, a larger buffer, or a read that would have blocked. Any thread. */
void planner_redo(struct feed *f, struct load *l);

/* load.c */
struct worker;
/* There is no memory for it now: it comes again. False: there will be none. */
bool load_waits_for_memory(struct feed *f, struct load *l, const struct fb_error *e);
/* The batch fails with the error of its lowest place, so that the same run fails the same way for any number of threads. */
void load_fail_batch(struct feed *f, struct load *l, const struct fb_error *e);
void load_note_service(struct feed *f, uint64_t ns);
void load_init(struct load *l, struct slot *s, uint32_t place, uint64_t position);
void load_aim(struct feed *f, struct load *l, uint64_t sample); /* at a sample of the selection; a damaged catalog becomes l->error */
void load_run(struct worker *w, struct feed *f, struct load *l);
void load_finish(struct feed *f, struct load *l);
/* Its read buffer, if it has one, is free for other loads. */
void load_give_buffer_back(struct feed *f, struct load *l);
/* The labels of a sample, into its place; where they lie there. */
int load_copy_labels(const struct feed *f, const struct slot *s, uint32_t place, uint64_t selected, uint64_t sample, struct fb_error *e);
void load_place_labels(const struct feed *f, const struct slot *s, uint32_t place, void **to);
void load_step(struct load *l, uint32_t step);
/* Memory for the calling worker, asking others to give back what they don't need before giving up. */
void *worker_memory(struct feed *f, struct scratch *s, size_t bytes, struct fb_error *e);

/* consume.c */
/* FB_E_FORKED: this is another process than the one that opened it. */
int feed_check_usable(const struct feed *f, struct fb_error *e);
int64_t feed_start_epoch(struct feed *f, int64_t epoch, struct fb_error *e);
/* asked_ns: when the program asked for it, with the time of starting the epoch; 0: now, and the time of feed_start_epoch belongs to it. */
int feed_next(struct feed *f, uint64_t asked_ns, struct slot **out, struct fb_error *e);
/* Writes the trace that was asked for, if it is this feed's. */
void feed_end_trace(struct feed *f);
void feed_release(struct slot *s);
/* Under f->lock: which epoch FB_NEXT_EPOCH or `epoch` would start, and from where. */
struct run feed_wanted_run(struct feed *f, int64_t epoch);
struct run feed_run_from(const struct feed *f, uint64_t epoch, uint64_t start, const struct skips *skips);
/* Under f->lock: the live epoch is over. */
void feed_end_epoch(struct feed *f);
/* Under f->lock: forgets what is planned; the planner starts over at `r`. */
void feed_replan(struct feed *f, const struct run *r);
/* Under f->lock: a slot of ours is free again. */
void feed_recycle(struct feed *f, struct slot *s);

/* resume.c: where the run goes on. */
/* A state of this loader's, at `position` of `epoch`. */
struct state feed_state_at(const struct feed *f, uint64_t epoch, uint64_t position, const struct skips *skips);
/* force: a state that does not fit is loaded all the same, and what that means is logged. */
int feed_load_state(struct feed *f, const char *json, bool force, struct fb_error *e);
/* Leaves out the next `batches` of the epoch; returns how many there were. */
int64_t feed_skip(struct feed *f, uint64_t batches, struct fb_error *e);
/* Leaves out batches first .. last - 1 of the epoch, as far as they are still to come. */
int feed_skip_range(struct feed *f, uint64_t first, uint64_t last, struct fb_error *e);

/* sampler_order.c: epochs whose samples the caller gives. */
int given_push(struct feed *f, const uint64_t *samples, uint64_t count, bool is_last, struct fb_error *e);
/* Under f->lock: a new epoch begins. */
void given_restart(struct feed *f);
/* Under f->lock: are there samples for batch `batch` of the run; must the consumer give more before it can have it? */
bool given_has_batch(const struct feed *f, const struct run *r, uint64_t batch);
uint64_t given_in_batch(const struct feed *f, const struct run *r, uint64_t batch); /* how many */

/* bad_samples.c */
/* With on_error=skip a place is given up when so many samples tried for it were bad: where nine of ten are, that is one place in 5e11. */
enum { FEED_MOST_BAD_TRIES = 257 };
/* A sample was bad, the last of `tries` for its place. True: it is noted, and another one is to be drawn. False: the place has failed with
 * `e`; so it has if bad samples are not skipped, if another would fail the same way, and if the batch is lost anyway. */
bool feed_redraws_bad(struct feed *f, struct slot *s, uint32_t place, uint64_t selected, const char *key, uint32_t tries,
                      struct fb_error *e);
/* The one to be drawn, of the selection: the *attempt-th for that place, or a later one if that has no room in it. */
uint64_t feed_stand_in(const struct feed *f, const struct slot *s, uint32_t place, uint32_t *attempt);
void feed_free_bad(struct feed *f);

/* feed_snapshot.c: what was done so far as one snapshot, for the rules of diagnose/. Start-up is left out. Any thread. */
struct snapshot;
struct run_facts;
void feed_snapshot(struct feed *f, struct snapshot *out, struct run_facts *facts);

/* feed_metrics.c: what was done so far, as figures. Any thread. */
struct metrics;
void feed_metrics(struct feed *f, struct metrics *out);

/* feed_stats.c: the same as JSON, with the names and lists that are no figures. */
int feed_stats_json(struct feed *f, char *out, size_t out_size);

#endif
