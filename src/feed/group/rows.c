/* Loads of rows: a group of places, each filled by one row of every field.
 *
 * Fields that lie in memory are copied; the rows of others come by array_walk.h, file by file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "dataset/catalog_keep.h"
#include "feed/group/rows_group.h"
#include "feed/load_ops.h"
#include "io/io.h"
#include "meter/metrics.h"

enum { CHECK_EVERY_NS = 1000000, LOOK_EVERY_NS = 200000000, FETCH_AHEAD = 8 };

/* ---- which rows ---- */

static uint64_t row_of(const struct feed *f, uint64_t selected)
{
    return f->subset.sample ? f->subset.sample[selected] : selected;
}

/* The planner leaves the walk through the order to the workers, who are many. */
static void aim(struct group *g)
{
    struct feed *f = g->f;
    struct load *l = g->l;
    if (!l->needs_aim)
        return;
    struct order o;
    feed_order(f, l->slot->epoch, &o);
    for (uint32_t i = 0; i < l->count; i++) {
        struct slot_place *p = place_at(l, i);
        p->selected = order_at(&o, p->position);
        p->sample = row_of(f, p->selected);
    }
    l->needs_aim = false;
}

/* ---- the three steps: list, read, take ---- */

static void take_resident(struct group *g, int field, uint32_t first, uint32_t end)
{
    size_t bytes = arrays_of(g->f)->want[field].row_bytes;
    for (uint32_t i = first; i < end; i++) {
        uint64_t row;
        const struct array_object *o = object_at(g, i, &row);
        if (i + FETCH_AHEAD < end) { /* it lies anywhere in memory: ask for it early; a row of another file is asked for in vain */
            uint64_t next = place_at(g->l, i + FETCH_AHEAD)->sample - o->first;
            __builtin_prefetch(o->resident[field] + (next < o->rows ? next : row) * bytes);
        }
        memcpy(slot_at(g->l->slot, field, place_of(g->l, i)), o->resident[field] + row * bytes, bytes);
    }
}

/* Aims the walk at those rows from index i on that lie in one file. */
static void aim_walk(struct group *g, int field, uint32_t i, uint32_t end)
{
    struct array_walk *x = &g->walk;
    const struct slot *s = g->l->slot;
    uint64_t row;
    const struct array_object *o = object_at(g, i, &row);
    rows_aim(x, o, field);
    x->cache = rows_are_in_chunks(x->layout) ? &arrays_of(g->f)->cache : NULL;
    x->cache_key = ((uint64_t)(o - arrays_of(g->f)->object) * FB_MAX_FIELDS + (uint64_t)field)
                   << 32; /* array_check: fewer than 2^32 chunks */
    uint32_t at = g->l->place + i, origin = s->turn ? 0 : at;
    x->turn = s->turn ? s->turn + at : NULL;
    x->list = &s->place[origin].sample;
    x->list_step = sizeof(*s->place);
    x->base = o->first;
    x->to = slot_at(s, field, origin);
    for (x->count = 1; i + x->count < end && array_walk_row(x, x->count) < o->rows; x->count++)
        ;
}

/* Every field that is not in memory, in the one order that listing and taking follow. */
static int walk_rows(struct group *g, uint32_t first, uint32_t end, int (*visit)(struct array_walk *x, struct fb_error *e),
                     struct fb_error *e)
{
    const struct arrays *a = arrays_of(g->f);
    for (int k = 0; k < a->count; k++)
        for (uint32_t i = first; !a->is_resident[k] && i < end; i += (uint32_t)g->walk.count) {
            aim_walk(g, k, i, end);
            FB_TRY(visit(&g->walk, e));
        }
    return 0;
}

/* 0: all is on the stage or in its place. LOAD_IS_GONE: io brings it. */
static int read_group(struct group *g, struct fb_error *e)
{
    if (g->l->waited)
        return gather_resume(g->f, &g->walk.gather, g->l, e);
    gather_start(&g->walk.gather, g->walk.w);
    FB_TRY(walk_rows(g, 0, g->l->count, array_walk_list, e));
    return gather_read(g->f, &g->walk.gather, g->l, e);
}

static int take_rows(struct group *g, struct fb_error *e)
{
    for (int k = 0; k < arrays_of(g->f)->count; k++)
        if (arrays_of(g->f)->is_resident[k])
            take_resident(g, k, 0, g->l->count);
    return walk_rows(g, 0, g->l->count, array_walk_take, e);
}

/* A file that was written to under our hands: what is known of its structure may not hold any more. */
static int check_unchanged(struct group *g, const struct array_object *o, struct fb_error *e)
{
    struct stat st;
    if (arrays_of(g->f)->is_all_resident || !o->seen.mtime_ns || fstat(o->fd, &st) < 0)
        return 0;
    if ((uint64_t)st.st_size == o->seen.length && keep_mtime_ns(&st) == o->seen.mtime_ns)
        return 0;
    atomic_fetch_add_explicit(&g->f->changed, 1, memory_order_relaxed);
    error_set(e, FB_E_DATA, "read", "it was changed since the data set was opened");
    error_remedy(e, "open the loader again; leave the file alone while it is being read");
    error_at(e, o->seen.key, -1);
    return FB_E_DATA;
}

/* A file that is in the page cache as a whole is read by the cheaper call. Asked by one worker now and then, at most for a thousandth of
 * the time. */
static void look_for_memory(struct array_object *o, uint64_t now)
{
    uint64_t due = atomic_load_explicit(&o->look_again_ns, memory_order_relaxed);
    if (now < due ||
        !atomic_compare_exchange_strong_explicit(&o->look_again_ns, &due, UINT64_MAX, memory_order_relaxed, memory_order_relaxed))
        return;
    atomic_store_explicit(&o->is_in_memory, io_is_in_memory(o->fd, o->seen.length), memory_order_relaxed);
    uint64_t after = clock_now_ns(), pause = (after - now) * 1000;
    atomic_store_explicit(&o->look_again_ns, after + (pause < LOOK_EVERY_NS ? LOOK_EVERY_NS : pause), memory_order_relaxed);
}

/* Every file that the group has rows of, but none more often than once in a millisecond: file systems do not keep finer time anyway. A load
 * that waited for its reads comes here once more, and what was written meanwhile shows. */
static int check_files(struct group *g, uint64_t now, struct fb_error *e)
{
    struct array_object *last = NULL;
    for (uint32_t i = 0; i < g->l->count; i++) {
        uint64_t row;
        struct array_object *o = &arrays_of(g->f)->object[object_at(g, i, &row) - arrays_of(g->f)->object];
        if (o == last)
            continue;
        last = o;
        if (now - atomic_load_explicit(&o->checked_ns, memory_order_relaxed) < CHECK_EVERY_NS)
            continue;
        FB_TRY(check_unchanged(g, o, e));
        look_for_memory(o, now);
        atomic_store_explicit(&o->checked_ns, now, memory_order_relaxed);
    }
    return 0;
}

/* ---- when something goes wrong: row by row, with stand-ins ---- */

static int read_one(struct group *g, uint32_t i, struct fb_error *e)
{
    uint64_t row;
    FB_TRY(check_unchanged(g, object_at(g, i, &row), e));
    for (int k = 0; k < arrays_of(g->f)->count; k++)
        if (arrays_of(g->f)->is_resident[k])
            take_resident(g, k, i, i + 1);
    return walk_rows(g, i, i + 1, array_walk_here, e);
}

static int row_key(const struct feed *f, uint64_t row, char *out, size_t out_size)
{
    const struct array_object *o = arrays_object_of(arrays_of(f), row);
    return snprintf(out, out_size, "%s#%llu", o->seen.key, (unsigned long long)(row - o->first));
}

static int read_or_replace(struct group *g, uint32_t i, struct fb_error *e)
{
    struct feed *f = g->f;
    struct load *l = g->l;
    struct slot_place *p = place_at(l, i);
    uint32_t place = place_of(l, i);
    for (uint32_t attempt = 1;; attempt++) {
        error_clear(e);
        int rc = read_one(g, i, e);
        audit_row_attempt(l->slot, place, attempt - 1);
        if (rc == 0)
            return arrays_run_steps(g->walk.w, f, l->slot, place, attempt - 1, e);
        char key[1024];
        row_key(f, p->sample, key, sizeof(key));
        e->path[0] = 0; /* of the file; the row's key has it */
        if (!feed_redraws_bad(f, l->slot, place, p->selected, key, attempt, e))
            return rc;
        p->selected = feed_stand_in(f, l->slot, place, &attempt);
        p->sample = row_of(f, p->selected);
    }
}

static int read_singly(struct group *g, struct fb_error *e)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < g->l->count; i++)
        rc = read_or_replace(g, i, e);
    return rc;
}

/* ---- */

static void rows_run(struct worker *w, struct feed *f, struct load *l)
{
    struct group g = {.f = f, .l = l, .walk = {.f = f, .w = w}};
    struct fb_error e;
    error_clear(&e);
    uint64_t since = clock_now_ns();
    load_step(l, LOAD_DECODING);
    aim(&g);
    int rc = check_files(&g, since, &e);
    if (rc == 0)
        rc = read_group(&g, &e);
    if (rc == LOAD_IS_GONE)
        return;
    uint64_t read_ns = clock_now_ns();
    if (rc == 0)
        rc = take_rows(&g, &e);
    for (uint32_t i = 0; rc == 0 && i < l->count && array_steps_has_whole(&arrays_of(f)->steps); i++)
        rc = arrays_run_steps(w, f, l->slot, place_of(l, i), 0, &e);
    if (rc < 0 && f->skips_bad && !error_is_systemic(&e) && e.code != FB_E_BUDGET)
        rc = read_singly(&g, &e);
    for (uint32_t i = 0; rc == 0 && i < l->count; i++) {
        const struct slot_place *p = place_at(l, i);
        rc = load_copy_labels(f, l->slot, place_of(l, i), p->selected, p->sample, &e);
        audit_row(f, l->slot, place_of(l, i));
    }
    uint64_t now = clock_now_ns(), made = rc == 0 ? l->count : 0; /* one that comes again is counted then */
    meter_work(&f->meter, w->index, STAGE_DECODE, now - read_ns, made, made * arrays_of(f)->want[0].row_bytes);
    load_note_service(f, now - since);
    gather_drop(f, l);
    if (rc == 0)
        load_finish(f, l);
    else if (!load_waits_for_memory(f, l, &e))
        load_fail_batch(f, l, &e);
}

static uint64_t cache_block(const struct feed *f, const struct catalog_sample *s)
{
    (void)f;
    (void)s;
    return ARRAYS_CACHE_BLOCK;
}

static void give_back(struct feed *f, bool is_live)
{
    if (arrays_of(f)->is_chunked)
        chunk_cache_trim(&arrays_of(f)->cache, is_live);
}

/* Chunks that were decompressed and kept. */
static void chunk_metrics(struct feed *f, struct metrics *m)
{
    struct chunk_cache *c = &arrays_of(f)->cache;
    if (!arrays_of(f)->is_chunked)
        return;
    pthread_mutex_lock(&c->lock);
    metrics_set(m, "chunks.bytes", c->bytes);
    metrics_set(m, "chunks.limit", c->limit);
    metrics_set(m, "chunks.hits", c->hits);
    metrics_set(m, "chunks.unfiltered", c->misses);
    metrics_set(m, "chunks.evictions", c->evictions);
    pthread_mutex_unlock(&c->lock);
}

const struct load_ops load_rows = {
    .name = "row",
    .make = arrays_open,
    .choose = rows_choose,
    .open_labels = arrays_open_labels,
    .window = rows_window,
    .open = rows_preload,
    .add_fields = arrays_add_fields,
    .plan = rows_plan,
    .run = rows_run,
    .key = row_key,
    .show_draws = arrays_show_draws,
    .drop_waited = gather_drop,
    .cache_block = cache_block,
    .give_back = give_back,
    .metrics = chunk_metrics,
    .close = arrays_close,
};
