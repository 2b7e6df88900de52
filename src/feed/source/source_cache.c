/* What the cache needs to know about the source: which unit a request belongs to (the sample's extent), its identity (for files from stat;
 * for an object of a store its version from the catalog, since the store refuses other versions), and the order of this and the next epoch.
 * */
#include "feed/source_cache.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "feed/crew.h"
#include "feed/load_ops.h"
#include "meter/metrics.h"

struct source_cache {
    struct feed *f;
    pthread_mutex_t lock;
    struct order order[2]; /* by epoch modulo 2 */
    uint64_t epoch[2];     /* + 1; 0: not made yet */
};

/* ---- units ---- */

static bool is_store(const struct feed *f)
{
    return f->dataset.io != NULL;
}

static uint64_t block_of(const struct feed *f, const struct catalog_sample *s)
{
    return f->kind->cache_block && !is_store(f) ? f->kind->cache_block(f, s) : 0; /* a store's objects come whole */
}

void source_cache_describe(const struct feed *f, const struct catalog_sample *s, uint64_t selected, struct io_object *out)
{
    uint64_t block = block_of(f, s);
    *out = (struct io_object){f->dataset.root_fd, s->object, s->object_size, s->mtime_ns, block, block ? CACHE_NO_INDEX : selected};
}

static struct cache_unit unit_of_open(const struct io_object *o, uint64_t offset)
{
    uint64_t first = o->block ? offset / o->block * o->block : 0, left = o->size > first ? o->size - first : 0;
    uint64_t size = o->block && o->block < left ? o->block : left;
    return (struct cache_unit){o->dir_fd, o->path, first, o->block ? size : IO_WHOLE, size, o->index, o->mtime_ns, o->size};
}

/* Which version a file has is found out when it is read. */
static struct cache_unit unit_for(const struct feed *f, const struct catalog_sample *s, uint64_t size, uint64_t selected)
{
    bool is_whole = s->offset == 0 && s->length == s->object_size;
    return (struct cache_unit){
        f->dataset.root_fd, s->object, s->offset, is_whole ? IO_WHOLE : s->length, size, selected, is_store(f) ? s->mtime_ns : 0, 0};
}

/* A load's own request, or one of the pieces of a file that a worker has open. */
static bool unit_of(void *ctx, const struct io_request *r, struct cache_unit *u)
{
    struct source_cache *x = ctx;
    if (r->object) {
        *u = unit_of_open(r->object, r->offset);
        return u->size > 0;
    }
    const struct load *l = r->owner;
    if (!l || (const char *)r != (const char *)l + offsetof(struct load, request))
        return false;
    *u = unit_for(x->f, &l->where, l->size, l->is_further ? CACHE_NO_INDEX : l->selected);
    return true;
}

static bool unit_at(void *ctx, uint64_t index, struct cache_unit *u)
{
    struct feed *f = ((struct source_cache *)ctx)->f;
    struct catalog_sample s;
    if (catalog_sample(f->dataset.catalog, f->subset.sample ? f->subset.sample[index] : index, &s, NULL) < 0)
        return false;
    struct io_object o;
    source_cache_describe(f, &s, index, &o);
    bool is_open = f->kind->reads_itself && f->kind->reads_itself(f, &s);
    *u = is_open ? unit_of_open(&o, 0) : unit_for(f, &s, s.length, index);
    return o.block == 0;
}

/* Of a file that a worker has open, an entry is served if it has its version. Before something is kept, the file that has its name now
 * must be that one. */
static int identify_open(void *ctx, const struct cache_unit *u, bool may_block, struct cache_identity *out)
{
    (void)ctx;
    struct cache_identity wanted = {.length = sizeof(u->object_size) + sizeof(u->mtime_ns)};
    memcpy(wanted.bytes, &u->object_size, sizeof(u->object_size));
    memcpy(wanted.bytes + sizeof(u->object_size), &u->mtime_ns, sizeof(u->mtime_ns));
    if (u->object_size && !may_block) {
        *out = wanted;
        return 0;
    }
    int rc = cache_identify_file(u->dir_fd, u->path, may_block, out);
    if (rc != 0 || !u->object_size)
        return rc;
    return out->length == wanted.length && memcmp(out->bytes, wanted.bytes, wanted.length) == 0 ? 0 : FB_E_DATA;
}

static int identify_in_store(void *ctx, const struct cache_unit *u, bool may_block, struct cache_identity *out)
{
    (void)ctx;
    (void)may_block;
    if (!u->mtime_ns)
        return FB_E_UNSUPPORTED;
    out->length = sizeof(u->mtime_ns);
    memcpy(out->bytes, &u->mtime_ns, sizeof(u->mtime_ns));
    return 0;
}

/* ---- the future ---- */

static struct order order_of(struct source_cache *x, uint64_t epoch)
{
    struct feed *f = x->f;
    pthread_mutex_lock(&x->lock);
    int i = (int)(epoch % 2);
    if (x->epoch[i] != epoch + 1) {
        feed_order(f, epoch, &x->order[i]);
        x->epoch[i] = epoch + 1;
    }
    struct order o = x->order[i];
    pthread_mutex_unlock(&x->lock);
    return o;
}

static uint64_t any_at(void *ctx, uint64_t epoch, uint64_t position)
{
    struct order o = order_of(ctx, epoch);
    return order_at(&o, position);
}

static uint64_t position_of(void *ctx, uint64_t epoch, uint64_t index)
{
    struct order o = order_of(ctx, epoch);
    return order_position_of(&o, index);
}

static uint64_t at(void *ctx, const struct cache_reader *r, uint64_t epoch, uint64_t position)
{
    struct source_cache *x = ctx;
    const struct rank_layout *l = &x->f->layout;
    uint64_t start = epoch == r->epoch ? r->start : 0;
    if (l->world > 1) {
        uint64_t batch = position < start ? UINT64_MAX : (position - start) / l->global_batch;
        if (batch >= ranks_batch_count(l, start))
            return CACHE_NO_INDEX;
        struct batch_span s = ranks_batch(l, start, batch);
        if (position < s.first || position - s.first >= s.count)
            return CACHE_NO_INDEX;
    }
    return any_at(ctx, epoch, position);
}

/* All workers are busy: the processors are what there is too little of, not what the source brings. */
static bool is_busy(void *ctx)
{
    const struct source_cache *x = ctx;
    return !crew_is_idle(x->f);
}

/* ---- opening ---- */

/* Nothing is ever written to a source. The folder may not exist yet: then the one above counts. */
static int check_place(const struct feed *f, const char *dir, struct fb_error *e)
{
    char above[PATH_MAX], real[PATH_MAX];
    const char *root = f->dataset.root;
    if (strlen(dir) >= sizeof(above) || !f->dataset.kind || strcmp(f->dataset.kind, "folder") != 0)
        return 0;
    strcpy(above, dir);
    while (!realpath(above, real)) {
        char *slash = strrchr(above, '/');
        if (!slash || slash == above)
            return 0;
        *slash = 0;
    }
    size_t n = strlen(root);
    if (strncmp(real, root, n) != 0 || (real[n] && real[n] != '/'))
        return 0;
    error_set(e, FB_E_USAGE, "cache", "cache_dir= lies inside the data set, and nothing is ever written to a source");
    error_remedy(e, "give it a folder of its own, on a fast disk");
    error_at(e, dir, -1);
    return FB_E_USAGE;
}

static int check_wanted(struct feed *f, const fb_options *o, struct fb_error *e)
{
    if (o->cache_limit && !o->cache_dir)
        return error_advise(e, error_set(e, FB_E_USAGE, "cache", "cache_limit= is the size of the cache on disk, but there is none"),
                            "give cache_dir= as well; memory for a cache is cache_ram=");
    return o->cache_dir ? check_place(f, o->cache_dir, e) : 0;
}

int source_cache_open(struct feed *f, const fb_options *o, uint32_t depth, struct fb_error *e)
{
    FB_TRY(check_wanted(f, o, e));
    if (!o->cache_dir && !o->cache_ram)
        return 0;
    struct source_cache *x = calloc(1, sizeof(*x));
    if (!x)
        return error_set(e, FB_E_NOMEM, "cache", "no memory for the cache");
    x->f = f;
    pthread_mutex_init(&x->lock, NULL);
    f->cache = x;
    /* the order is one of samples: it says when a file is needed, not which blocks of it */
    bool has_units = !block_of(f, &(struct catalog_sample){.key = ""});
    struct cache_options c = {
        .inner = f->io,
        .dir = o->cache_dir,
        .disk_limit = o->cache_limit,
        .ram_limit = o->cache_ram,
        .budget = f->budget,
        .log = &f->log,
        .depth = depth,
        .source = {.ctx = x,
                   .name = f->dataset.root,
                   .count = f->subset.count,
                   .unit_of = unit_of,
                   .unit_at = has_units ? unit_at : NULL,
                   .identify = is_store(f) ? identify_in_store : identify_open,
                   .is_known = has_units && !f->takes_order && !f->weights,
                   .at = at,
                   .any_at = any_at,
                   .position_of = position_of,
                   .is_busy = is_busy},
    };
    f->io = NULL; /* taken over, whatever comes of it */
    return cache_open(&f->io, &c, e);
}

void source_cache_move(struct feed *f, const struct run *run, uint64_t position)
{
    if (f->cache)
        cache_move(f->io, &(struct cache_reader){run->epoch, run->start, position});
}

void source_cache_close(struct feed *f)
{
    if (f->cache)
        pthread_mutex_destroy(&f->cache->lock);
    free(f->cache);
    f->cache = NULL;
}

/* ---- figures ---- */

void source_cache_metrics(struct feed *f, struct metrics *m)
{
    if (!f->cache)
        return;
    struct cache_figures c;
    cache_read_figures(f->io, &c);
    metrics_set(m, "cache.ram_hits", c.ram_hits);
    metrics_set(m, "cache.disk_hits", c.disk_hits);
    metrics_set(m, "cache.joined", c.joined);
    metrics_set(m, "cache.misses", c.misses);
    metrics_set(m, "cache.ram_hit_bytes", c.ram_hit_bytes);
    metrics_set(m, "cache.disk_hit_bytes", c.disk_hit_bytes);
    metrics_set(m, "cache.miss_bytes", c.miss_bytes);
    metrics_set(m, "cache.filled", c.filled);
    metrics_set(m, "cache.filled_bytes", c.filled_bytes);
    metrics_set(m, "cache.stored", c.stored);
    metrics_set(m, "cache.stored_bytes", c.stored_bytes);
    metrics_set(m, "cache.evicted", c.evicted);
    metrics_set(m, "cache.evicted_bytes", c.evicted_bytes);
    metrics_set(m, "cache.damaged", c.damaged);
    metrics_set(m, "cache.changed", c.changed);
    metrics_set(m, "cache.ram_bytes", c.ram_bytes);
    metrics_set(m, "cache.ram_limit_bytes", c.ram_limit);
    metrics_set(m, "cache.disk_bytes", c.disk_bytes);
    if (c.has_disk && c.disk_limit != CACHE_NO_LIMIT)
        metrics_set(m, "cache.disk_limit_bytes", c.disk_limit);
}

void source_cache_stats(struct feed *f, const struct metrics *m, struct json_writer *w)
{
    if (!f->cache) {
        json_put(w, J_NULL("cache"));
        return;
    }
    struct cache_figures c;
    cache_read_figures(f->io, &c);
    json_begin_object(w, "cache");
    json_put(w, J("over", c.over), J("off", c.is_off ? c.why_off : NULL));
    metrics_put(w, m, "cache");
    json_end(w);
}
