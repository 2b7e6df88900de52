/* Loads of rows: a group of places, each filled by one row of every field.
 *
 * Fields that lie in memory are copied. Rows that are runs of bytes in their file are read straight into their places, as many at once as
 * are cached, the others by io. Rows inside filtered chunks come out of the chunk cache (rows_chunks.c).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "codec/array/array_rows.h"
#include "feed/group/rows_group.h"
#include "feed/rows_read.h"
#include "io/io.h"

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

/* ---- rows that are runs of bytes ---- */

static int list_row(struct group *g, int field, uint32_t i, const struct array_object *o, uint64_t row, struct fb_error *e)
{
    const struct array_layout *l = o->layout[field];
    uint64_t bytes = o->stored_bytes[field], offset = l->offset + row * bytes;
    uint8_t *to = o->is_copied[field] ? slot_at(g->l->slot, field, place_of(g->l, i)) : NULL;
    if (l->storage == ARRAY_CHUNKED) { /* of whole rows, or it would not be straight */
        const struct array_chunk *c = &l->chunk[row / l->chunk_shape[0]];
        if (c->offset == ARRAY_NO_CHUNK)
            return 0;
        offset = c->offset + row % l->chunk_shape[0] * bytes;
    }
    return gather_add(&g->gather, o->fd, o->key, offset, bytes, to, g->at[field] + i * bytes, e);
}

static void take_row(struct group *g, int field, uint32_t i, const struct array_object *o, uint64_t row)
{
    const struct array_layout *l = o->layout[field];
    const struct array_conversion *c = &o->conversion[field];
    bool is_copy = o->is_copied[field];
    if (is_copy && !o->has_gaps[field])
        return; /* it was read into its place */
    void *to = slot_at(g->l->slot, field, place_of(g->l, i));
    uint8_t *stored = is_copy ? to : g->stage + g->at[field] + i * o->stored_bytes[field];
    if (o->has_gaps[field] && l->chunk[row / l->chunk_shape[0]].offset == ARRAY_NO_CHUNK)
        array_fill(l, stored, o->stored_bytes[field]); /* it was never written */
    if (!is_copy)
        array_convert(c, stored, to, g->f->arrays->want[field].row_bytes / c->to_bytes);
}

static void take_resident(struct group *g, int field)
{
    size_t bytes = g->f->arrays->want[field].row_bytes;
    for (uint32_t i = 0; i < g->l->count; i++) {
        uint64_t row;
        const struct array_object *o = object_at(g, i, &row);
        if (i + FETCH_AHEAD < g->l->count) { /* it lies anywhere in memory: ask for it early; a row of another file is asked for in vain */
            uint64_t next = place_at(g->l, i + FETCH_AHEAD)->sample - o->first;
            __builtin_prefetch(o->resident[field] + (next < o->rows ? next : row) * bytes);
        }
        memcpy(slot_at(g->l->slot, field, place_of(g->l, i)), o->resident[field] + row * bytes, bytes);
    }
}

/* ---- the three steps: list, read, take ---- */

/* Straight rows of the field lie together on the stage if they wait there: room for all of the group's, from whichever files they come. */
static void reserve_stage(struct group *g, int field)
{
    g->at[field] = (g->gather.stage_bytes + 63) & ~(size_t)63;
    g->gather.stage_bytes = g->at[field] + g->l->count * g->f->arrays->staged_bytes[field];
}

static int list_field(struct group *g, int field, struct fb_error *e)
{
    for (uint32_t i = 0, n; i < g->l->count; i += n) {
        uint64_t row;
        const struct array_object *o = object_at(g, i, &row);
        g->gather.is_sure = atomic_load_explicit(&o->is_in_memory, memory_order_relaxed);
        g->gather.object = g->f->cache ? &o->kept : NULL;
        int rc = o->is_straight[field] ? list_row(g, field, i, o, row, e) : band_list(g, field, i, e);
        if (rc < 0)
            return rc;
        n = o->is_straight[field] ? 1 : (uint32_t)rc;
    }
    return 0;
}

static int list_reads(struct group *g, struct fb_error *e)
{
    const struct arrays *a = g->f->arrays;
    g->l->staged = 0;
    for (int k = 0; k < a->count; k++) {
        if (a->is_resident[k] || !a->want[k].row_bytes)
            continue;
        reserve_stage(g, k);
        FB_TRY(list_field(g, k, e));
    }
    return 0;
}

/* 0: all is on the stage or in its place. 1: the load is gone. */
static int read_group(struct group *g, struct fb_error *e)
{
    struct load *l = g->l;
    if (l->waited) {
        FB_TRY(waited_check(l->waited, e));
        g->stage = l->waited->stage;
        g->staged = (struct staged *)(g->stage + l->list_at);
        memcpy(g->at, g->stage + l->list_at + l->staged * sizeof(*g->staged), sizeof(g->at));
        return 0;
    }
    gather_start(&g->gather, g->w);
    g->staged = g->w->mapped[0].data;
    FB_TRY(list_reads(g, e));
    l->list_at = (g->gather.stage_bytes + 63) & ~(size_t)63;
    size_t list = l->staged * sizeof(*g->staged);
    g->gather.stage_bytes = l->list_at + list + sizeof(g->at);
    uint8_t *stage = worker_memory(g->f, &g->w->bytes, g->gather.stage_bytes + IO_TAIL, e);
    if (!stage)
        return e->code;
    if (list)
        memcpy(stage + l->list_at, g->staged, list);
    memcpy(stage + l->list_at + list, g->at, sizeof(g->at));
    g->staged = (struct staged *)(stage + l->list_at);
    return gather_read(g->f, &g->gather, l, &g->stage, e);
}

static int take_field(struct group *g, int field, struct fb_error *e)
{
    for (uint32_t i = 0, n; i < g->l->count; i += n) {
        uint64_t row;
        const struct array_object *o = object_at(g, i, &row);
        n = 1;
        if (o->is_straight[field]) {
            take_row(g, field, i, o, row);
            continue;
        }
        int rc = band_take(g, field, i, e);
        if (rc < 0)
            return rc;
        n = (uint32_t)rc;
    }
    return 0;
}

static int take_rows(struct group *g, struct fb_error *e)
{
    const struct arrays *a = g->f->arrays;
    for (int k = 0; k < a->count; k++) {
        if (!a->want[k].row_bytes)
            continue;
        if (a->is_resident[k])
            take_resident(g, k);
        else if (a->needs_take[k])
            FB_TRY(take_field(g, k, e));
    }
    return 0;
}

static int copy_labels(const struct group *g, uint32_t i, struct fb_error *e)
{
    const struct feed *f = g->f;
    for (int k = 0; k < f->labels.count; k++) {
        void *to = slot_at(g->l->slot, f->arrays->count + k, place_of(g->l, i));
        FB_TRY(labels_get(&f->labels, k, place_at(g->l, i)->selected, place_at(g->l, i)->sample, to, e));
    }
    return 0;
}

/* A file that was written to under our hands: what is known of its structure may not hold any more. */
static int check_unchanged(struct group *g, const struct array_object *o, struct fb_error *e)
{
    struct stat st;
    if (g->f->arrays->is_all_resident || !o->mtime_ns || fstat(o->fd, &st) < 0)
        return 0;
    if ((uint64_t)st.st_size == o->size && st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec == o->mtime_ns)
        return 0;
    atomic_fetch_add_explicit(&g->f->changed, 1, memory_order_relaxed);
    error_set(e, FB_E_DATA, "read", "it was changed since the data set was opened");
    error_remedy(e, "open the loader again; leave the file alone while it is being read");
    error_at(e, o->key, -1);
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
    atomic_store_explicit(&o->is_in_memory, io_is_in_memory(o->fd, o->size), memory_order_relaxed);
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
        struct array_object *o = &g->f->arrays->object[object_at(g, i, &row) - g->f->arrays->object];
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

static int read_one(struct group *g, struct rows_reader *r, uint32_t i, struct fb_error *e)
{
    const struct arrays *a = g->f->arrays;
    uint64_t row;
    const struct array_object *o = object_at(g, i, &row);
    FB_TRY(check_unchanged(g, o, e));
    for (int k = 0; k < a->count; k++) {
        void *to = slot_at(g->l->slot, k, place_of(g->l, i));
        if (!a->want[k].row_bytes)
            continue;
        if (a->is_resident[k])
            memcpy(to, o->resident[k] + row * a->want[k].row_bytes, a->want[k].row_bytes);
        else
            FB_TRY(rows_read(r, a, o, k, row, 1, to, e));
    }
    return 0;
}

static int read_or_replace(struct group *g, struct rows_reader *r, uint32_t i, struct fb_error *e)
{
    struct feed *f = g->f;
    struct load *l = g->l;
    struct slot_place *p = place_at(l, i);
    struct order o;
    feed_order(f, l->slot->epoch, &o);
    for (uint32_t attempt = 1;; attempt++) {
        error_clear(e);
        int rc = read_one(g, r, i, e);
        audit_row_attempt(l->slot, place_of(l, i), attempt - 1);
        if (rc == 0)
            return 0;
        char key[1024];
        arrays_row_key(f->arrays, p->sample, key, sizeof(key));
        e->path[0] = 0;
        error_at(e, key, e->offset);
        e->sample = (int64_t)p->sample;
        if (load_is_systemic(e))
            return rc;
        if (attempt == FEED_MOST_BAD_TRIES || f->subset.count == 1) {
            feed_give_up_place(e, attempt);
            return rc;
        }
        feed_note_bad(f, e, l->slot->epoch);
        audit_bad(f, l->slot->epoch, p->selected, key, e->cause);
        pthread_mutex_lock(&f->lock);
        l->slot->redraws++;
        pthread_mutex_unlock(&f->lock);
        p->selected = order_redraw(&o, p->position, attempt);
        p->sample = row_of(f, p->selected);
    }
}

static int read_singly(struct group *g, struct fb_error *e)
{
    struct rows_reader r;
    rows_reader_init(&r, g->f->budget);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < g->l->count; i++)
        rc = read_or_replace(g, &r, i, e);
    rows_reader_free(&r);
    return rc;
}

/* ---- */

void rows_run(struct worker *w, struct feed *f, struct load *l)
{
    struct group g = {.w = w, .f = f, .l = l, .held = NO_KEY};
    struct fb_error e;
    error_clear(&e);
    uint64_t since = clock_now_ns();
    load_step(l, LOAD_DECODING);
    aim(&g);
    int rc = check_files(&g, since, &e);
    if (rc == 0)
        rc = read_group(&g, &e);
    if (rc == 1)
        return;
    uint64_t read_ns = clock_now_ns();
    if (rc == 0)
        rc = take_rows(&g, &e);
    if (rc < 0 && f->skips_bad && !load_is_systemic(&e) && e.code != FB_E_BUDGET)
        rc = read_singly(&g, &e);
    for (uint32_t i = 0; rc == 0 && i < l->count; i++) {
        rc = copy_labels(&g, i, &e);
        audit_row(f, l->slot, place_of(l, i));
    }
    uint64_t now = clock_now_ns();
    meter_work(&f->meter, w->index, STAGE_DECODE, now - read_ns, l->count, l->count * f->arrays->want[0].row_bytes);
    load_note_service(f, now - since);
    waited_free(f, l->waited);
    l->waited = NULL;
    if (rc == 0)
        load_finish(f, l);
    else if (!load_waits_for_memory(f, l, &e))
        load_fail_batch(f, l, &e);
}
