/* Opening a feed: options in, everything ready. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "base/thread.h"
#include "feed/crew.h"
#include "feed/engine/batch_shape.h"
#include "feed/load_ops.h"
#include "feed/source_cache.h"
#include "feed/source_io.h"
#include "order/order_window.h"

enum {
    LEAST_AHEAD = 1,
    LARGE_BATCH = 64 << 20, /* bytes */
    HELD_BY_USER = 2,
    WORKER_BYTES = 2 << 20, /* of working memory that each worker may count on */
    READ_BYTES = 2 << 20,   /* and the reads together */
    BLOCK_FILES = 64,       /* shuffle="window": files and members of packs */
    WINDOW_FILES = 4096,
    LEAST_BLOCKS = 8
};

/* ---- checking ---- */

static int refuse(struct fb_error *e, const char *cause, const char *remedy)
{
    return error_advise(e, error_set(e, FB_E_USAGE, "feed", "%s", cause), "%s", remedy);
}

static int check_options(const fb_options *o, struct fb_error *e)
{
    if (!o->source && !o->paths)
        return refuse(e, "there is no source", "give a folder, a glob, a manifest or a list of files");
    if (o->batch_size == 0 || o->batch_size > (1u << 24))
        return refuse(e, "batch_size must be from 1 to 16777216", "");
    if (o->global_batch_size > (1u << 24))
        return refuse(e, "global_batch_size must be at most 16777216", "");
    if (o->threads < 0 || o->threads > 1024)
        return refuse(e, "threads must be from 0 (automatic) to 1024", "");
    if (o->shuffle < 0 || o->shuffle > 2)
        return refuse(e, "shuffle must be 0, 1 or 2 (by windows)", "");
    if (o->shuffle == 2 && (o->weights || o->is_balanced))
        return refuse(e, "weights draw from everything, not from a window", "use shuffle=True with weights=");
    if (o->layout < FB_NCHW || o->layout > FB_CHANNELS_LAST)
        return refuse(e, "layout is none of NCHW, NHWC, channels_last", "");
    if (o->takes_order && (o->shuffle || o->weights || o->is_balanced))
        return refuse(e, "the order of a sampler cannot be shuffled or weighted", "leave out shuffle= and weights=, or the sampler");
    if ((o->weights || o->is_balanced) && !o->shuffle)
        return refuse(e, "weights draw at random, so they need shuffle", "set shuffle=True, or leave weights out");
    return 0;
}

/* ---- the parts ---- */

static int open_dataset(struct feed *f, const fb_options *o, struct fb_error *e)
{
    struct dataset_request r = dataset_request_of(o, io_stores);
    r.paths = o->paths;
    r.path_count = o->path_count;
    r.columns = o->columns;
    r.column_count = o->column_count;
    r.group_by = o->group_by;
    r.log = f->log;
    return dataset_open(&f->dataset, &r, e);
}

/* Every class equally often: a sample's weight is one by the size of its class. */
static int weigh_classes(struct feed *f, int field, double *weights, struct fb_error *e)
{
    int64_t most = 1 << 24, *count = calloc((size_t)most, sizeof(*count)), *label = malloc(f->subset.count * sizeof(*label));
    int rc = count && label ? 0 : error_set_errno(e, "order", ENOMEM, "balance %llu samples", (unsigned long long)f->subset.count);
    size_t bytes = f->labels.field[field].bytes;
    for (uint64_t i = 0; rc == 0 && i < f->subset.count; i++) {
        label[i] = 0;
        rc = labels_get(&f->labels, field, i, f->subset.sample ? f->subset.sample[i] : i, &label[i], e);
        if (rc == 0 && (label[i] < 0 || label[i] >= most || bytes > sizeof(*label)))
            rc = error_set(e, FB_E_USAGE, "order", "weights=\"balanced\": the label %lld is not a class number from 0 to %lld",
                           (long long)label[i], (long long)most - 1);
        if (rc == 0)
            count[label[i]]++;
    }
    for (uint64_t i = 0; rc == 0 && i < f->subset.count; i++)
        weights[i] = 1.0 / (double)count[label[i]];
    free(count);
    free(label);
    return rc;
}

static int balance_weights(struct feed *f, struct fb_error *e)
{
    int field = labels_class_field(&f->labels);
    if (field < 0)
        return refuse(e, "weights=\"balanced\" needs classes, or one label of whole numbers", "give the weights themselves");
    double *weights = malloc(f->subset.count * sizeof(*weights));
    if (!weights)
        return error_set_errno(e, "order", ENOMEM, "weigh %llu samples", (unsigned long long)f->subset.count);
    int rc = weigh_classes(f, field, weights, e);
    if (rc == 0)
        rc = alias_open(&f->weights, weights, f->subset.count, f->subset.count, e);
    free(weights);
    return rc;
}

static enum order_kind order_kind_of(const fb_options *o)
{
    if (o->takes_order)
        return ORDER_GIVEN;
    return o->weights || o->is_balanced ? ORDER_WEIGHTED : o->shuffle == 2 ? ORDER_WINDOW : o->shuffle ? ORDER_SHUFFLED : ORDER_PLAIN;
}

void feed_order(const struct feed *f, uint64_t epoch, struct order *o)
{
    order_init(o, f->subset.count, f->seed, epoch, f->is_shuffled, f->weights);
    if (f->window_block)
        order_use_window(o, f->window_block, f->window_blocks);
}

/* A pack is opened once, not once for each sample. */
static void open_object(struct feed *f, const fb_options *o)
{
    struct catalog_sample s;
    bool is_cached = o->cache_dir || o->cache_ram;
    if (is_cached || f->dataset.root_fd < 0 || !catalog_is_one_object(f->dataset.catalog) ||
        catalog_sample(f->dataset.catalog, 0, &s, NULL) < 0)
        return;
    f->object_fd = openat(f->dataset.root_fd, s.object, O_RDONLY | O_CLOEXEC); /* if not: each read says why */
}

static void choose_window(struct feed *f, uint64_t window)
{
    uint64_t samples = WINDOW_FILES;
    f->window_block = BLOCK_FILES;
    if (f->kind->window)
        f->kind->window(f, &f->window_block, &samples);
    samples = window ? window : samples;
    f->window_blocks = (samples + f->window_block - 1) / f->window_block;
    f->window_blocks = f->window_blocks < LEAST_BLOCKS && !window ? LEAST_BLOCKS : f->window_blocks;
    f->origin.block = f->window_block;
    f->origin.window = f->window_blocks;
}

static int choose_samples(struct feed *f, const fb_options *o, struct fb_error *e)
{
    struct subset_request r = {
        .classes = o->classes,
        .class_count = o->class_count,
        .class_seed = o->class_seed,
        .per_class = o->per_class,
        .fraction = o->fraction,
        .indices = o->indices,
        .index_count = o->index_count,
        .split = o->split,
        .split_share = o->split_share,
    };
    if (f->kind->choose) {
        FB_TRY(f->kind->choose(f, &r, order_kind_of(o), e));
    } else {
        FB_TRY(subset_choose(&f->subset, f->dataset.catalog, &r, e));
        FB_TRY(data_identity_find(&f->origin, f->dataset.catalog, &f->subset, order_kind_of(o), e));
    }
    FB_TRY(f->kind->open_labels(f, o, e));
    if (f->origin.order == ORDER_WINDOW)
        choose_window(f, o->window);
    if (o->is_balanced)
        return balance_weights(f, e);
    if (o->weights)
        FB_TRY(alias_open(&f->weights, o->weights, o->weight_count, f->subset.count, e));
    return 0;
}

static int copy_options(struct feed *f, const fb_options *o, struct fb_error *e)
{
    f->pid = getpid();
    f->heard = (struct log){o->log, o->ctx};
    f->log = (struct log){o->log ? feed_say : NULL, f};
    f->interrupted = o->interrupted;
    f->ctx = o->ctx;
    f->batch_size = o->batch_size;
    f->global_batch_size = o->global_batch_size;
    f->seed = o->seed;
    f->is_shuffled = o->shuffle != 0;
    f->drop_last = o->drop_last != 0;
    f->skips_bad = o->on_error == FB_SKIP;
    f->max_errors = f->skips_bad ? o->max_errors : -1;
    f->rank = o->rank;
    f->world = o->world_size;
    f->opened_ns = clock_now_ns();
    f->closed = o->map_done;
    f->closed_ctx = o->map_ctx;
    f->takes_order = o->takes_order != 0;
    f->cache_ram = o->cache_ram;
    atomic_init(&f->refs, 1);
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_init(&f->bad_lock, NULL);
    thread_cond_init(&f->planner_wakes);
    thread_cond_init(&f->consumer_wakes);
    thread_cond_init(&f->device_copy.wakes);
    error_clear(&f->epoch_error);
    error_clear(&f->plan_error);
    if ((o->rank < 0) != (o->world_size < 0))
        return refuse(e, "rank and world_size belong together", "give both or neither");
    return 0;
}

/* ---- how many batches ---- */

static uint64_t least_memory(uint64_t slot_total_bytes)
{
    return slot_total_bytes * (LEAST_AHEAD + HELD_BY_USER) + (uint64_t)crew_threads() * WORKER_BYTES + READ_BYTES;
}

uint64_t feed_least_memory(const struct feed *f)
{
    return least_memory(f->slot_total_bytes) + f->cache_ram;
}

static void size_look_ahead(struct feed *f)
{
    uint64_t limit = atomic_load(&f->budget->limit), total = f->slot_total_bytes;
    limit -= f->cache_ram < limit ? f->cache_ram : 0;
    /* enough loads for io's depth, and three batches; two if they are large: fresh memory takes time, and such a batch has loads enough */
    uint64_t wanted = (f->io_depth + f->shape.places - 1) / f->shape.places + (total < LARGE_BATCH ? 2 : 1);
    uint64_t room = limit / 4 * 3 / total;
    uint64_t most = room > HELD_BY_USER + 1 ? room - HELD_BY_USER : 1;
    f->look_ahead = (uint32_t)(wanted < most ? wanted : most);
    f->reads.limit = limit / 4;
}

/* A given order is this process's own: nobody shares it. How long it is turns out as it comes. */
static int resolve_given(struct feed *f, struct fb_error *e)
{
    if (f->rank > 0 || f->world > 1)
        return refuse(e, "rank= and world_size= do not go with a sampler: its indices are this process's own",
                      "let the sampler divide the epoch");
    f->rank = 0;
    f->world = 1;
    uint64_t batch = f->global_batch_size ? f->global_batch_size : f->batch_size;
    f->layout = (struct rank_layout){batch, batch, 0, 1, f->drop_last};
    return 0;
}

static int resolve_ranks(struct feed *f, struct fb_error *e)
{
    if (f->takes_order)
        return resolve_given(f, e);
    if (f->rank < 0)
        FB_TRY(ranks_from_environment((const char *(*)(const char *))getenv, &f->rank, &f->world, e));
    if (f->world < 1 || f->rank < 0 || f->rank >= f->world)
        return error_advise(e, error_set(e, FB_E_USAGE, "order", "rank %d of a world of %d is not possible", f->rank, f->world),
                            "rank must be from 0 to world_size - 1");
    uint64_t global = f->global_batch_size ? f->global_batch_size : f->batch_size * (uint64_t)f->world;
    if (global < (uint64_t)f->world)
        return error_advise(e,
                            error_set(e, FB_E_USAGE, "order", "global_batch_size=%llu is smaller than the world of %d ranks",
                                      (unsigned long long)global, f->world),
                            "every rank needs at least one sample of each global batch");
    f->layout = (struct rank_layout){f->subset.count, global, (uint32_t)f->rank, (uint32_t)f->world, f->drop_last};
    if (ranks_batch_count(&f->layout, 0) == 0)
        return error_advise(e,
                            error_set(e, FB_E_USAGE, "order", "drop_last leaves nothing: %llu samples do not fill one batch of %llu",
                                      (unsigned long long)f->subset.count, (unsigned long long)global),
                            "use a smaller batch_size=, or drop_last=False");
    return 0;
}

int feed_resolve(struct feed *f, struct fb_error *e)
{
    if (f->is_resolved)
        return 0;
    FB_TRY(resolve_ranks(f, e));
    FB_TRY(shape_of_batch(f, ranks_largest(&f->layout), &f->shape, e));
    f->slot_total_bytes = slot_bytes(&f->shape, sizeof(struct load));
    f->least_ahead = LEAST_AHEAD;
    pthread_mutex_lock(&f->lock); /* another thread may be asking for the statistics */
    size_look_ahead(f);
    pthread_mutex_unlock(&f->lock);
    f->is_resolved = true;
    return 0;
}

/* ---- open ---- */

int feed_check_memory(const struct feed *f, uint64_t need, struct fb_error *e)
{
    uint64_t limit = atomic_load(&f->budget->limit);
    if (need <= limit)
        return 0;
    char need_text[32], limit_text[32];
    return error_advise(e,
                        error_set(e, FB_E_BUDGET, "feed", "the memory budget of %s is too small: this batch size needs at least %s",
                                  text_size(limit, limit_text, sizeof(limit_text)), text_size(need, need_text, sizeof(need_text))),
                        "use memory=%llu or more, a smaller batch_size=%s, or fewer loaders at once", (unsigned long long)need,
                        f->cache_ram ? " or cache_ram=" : "");
}

/* Tells at open, not at the first batch, when a batch cannot fit. The world is not known yet; batch_size is per rank anyway. */
static int check_batch_fits(struct feed *f, struct fb_error *e)
{
    struct slot_shape shape;
    bool is_cut = !f->takes_order && f->subset.count < f->batch_size;
    uint64_t places = f->global_batch_size ? 1 : is_cut ? f->subset.count : f->batch_size;
    FB_TRY(shape_of_batch(f, places, &shape, e));
    return feed_check_memory(f, least_memory(slot_bytes(&shape, sizeof(struct load))) + f->cache_ram, e);
}

static int open_parts(struct feed *f, const fb_options *o, struct fb_error *e)
{
    FB_TRY(copy_options(f, o, e));
    FB_TRY(check_options(o, e));
    FB_TRY(open_dataset(f, o, e));
    open_object(f, o);
    FB_TRY(crew_join(f, o->threads, o->memory, e));
    f->has_joined = true;
    f->reads.budget = f->budget;
    if (f->dataset.learnt_dir)
        learnt_open(&f->learnt, f->dataset.learnt_dir, f->budget, &f->log);
    FB_TRY(source_io_open(f, o->io, o->shuffle != 1 && !o->takes_order, e));
    FB_TRY(load_choose_kind(f, o, e));
    FB_TRY(choose_samples(f, o, e));
    if (f->kind->open)
        FB_TRY(f->kind->open(f, o, e));
    FB_TRY(source_cache_open(f, o, f->io_depth, e));
    FB_TRY(device_copy_open(f, o->device, o->pin_memory != 0, e));
    FB_TRY(check_batch_fits(f, e));
    return audit_open(f, o, e);
}

int feed_open(const fb_options *o, struct feed **out, struct fb_error *e)
{
    *out = NULL;
    struct feed *f = aligned_alloc(_Alignof(struct feed), sizeof(*f));
    if (!f)
        return error_set_errno(e, "feed", ENOMEM, "open a loader");
    memset(f, 0, sizeof(*f));
    f->dataset.root_fd = f->object_fd = -1;
    delivery_open(f);
    int rc = open_parts(f, o, e);
    if (rc < 0) {
        feed_close(f);
        return rc;
    }
    log_line(&f->log, LOG_DEBUG, "opened %s: %llu samples, batches of %llu, %d workers, reads by %s, %.0f MB of memory",
             f->dataset.root ? f->dataset.root : "a list", (unsigned long long)f->subset.count, (unsigned long long)f->batch_size,
             crew_threads(), f->io->ops->name, (double)atomic_load_explicit(&f->budget->limit, memory_order_relaxed) / 1e6);
    *out = f;
    return 0;
}
