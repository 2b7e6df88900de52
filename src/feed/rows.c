/* Loads of rows: a group of places, each filled by one row of every field.
 *
 * Fields that lie in memory are copied. Rows that are runs of bytes in their file are read straight into their places, as many at once as are
 * cached, the others by io. Rows inside filtered chunks come out of the chunk cache; the planner hands out their places sorted by chunk, and
 * no two loads of a batch share one, so that a chunk is unfiltered once per batch at most.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "codec/array_rows.h"
#include "feed/arrays.h"
#include "feed/crew.h"
#include "feed/gather.h"
#include "feed/rows_read.h"

enum { MOST_ATTEMPTS = 64 };

/* A chunk that waits on the stage. */
struct staged {
    uint64_t key;
    uint64_t at, length;
};

struct group {
    struct worker *w;
    struct feed *f;
    struct load *l;
    struct gather gather;
    size_t at[FB_MAX_FIELDS]; /* of each straight field's rows on the stage */
    struct staged *staged;    /* in w->mapped[0] while listed, then on the stage */
    uint8_t *stage;
};

static uint32_t place_of(const struct load *l, uint32_t i)
{
    return l->slot->turn ? l->slot->turn[l->place + i] : l->place + i;
}

static struct slot_place *at(const struct load *l, uint32_t i)
{
    return &l->slot->place[place_of(l, i)];
}

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
        struct slot_place *p = at(l, i);
        p->selected = order_at(&o, p->position);
        p->sample = row_of(f, p->selected);
    }
    l->needs_aim = false;
}

/* ---- planning ---- */

struct turn {
    uint64_t row;
    uint32_t place;
};

static int by_row(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    return x->row != y->row ? (x->row < y->row ? -1 : 1) : x->place < y->place ? -1 : 1;
}

/* Places in the order of their rows, so that those of one chunk come together. False: no memory; then they keep their order. */
static bool sort_places(struct slot *s)
{
    if (!s->turn)
        s->turn = malloc(s->shape->places * sizeof(*s->turn));
    struct turn *t = malloc(s->count * sizeof(*t));
    if (!s->turn || !t) {
        free(s->turn);
        s->turn = NULL;
        free(t);
        return false;
    }
    for (uint32_t i = 0; i < s->count; i++)
        t[i] = (struct turn){s->place[i].sample, i};
    qsort(t, s->count, sizeof(*t), by_row);
    for (uint32_t i = 0; i < s->count; i++)
        s->turn[i] = t[i].place;
    free(t);
    return true;
}

/* May a load end before the i-th place in turn? Not between rows of one chunk. */
static bool can_cut(const struct arrays *a, const struct slot *s, uint32_t i)
{
    if (!s->turn)
        return true;
    uint64_t before = s->place[s->turn[i - 1]].sample, next = s->place[s->turn[i]].sample;
    const struct array_object *o = arrays_object_of(a, before);
    return next >= o->first + o->rows || (before - o->first) / a->chunk_rows != (next - o->first) / a->chunk_rows;
}

struct load *rows_plan(struct feed *f, struct slot *s, const struct order *o, const uint64_t *given)
{
    const struct arrays *a = f->arrays;
    bool must_aim = !a->is_chunked && !given;
    for (uint32_t i = 0; i < s->count; i++) {
        struct slot_place *p = &s->place[i];
        p->key = NULL;
        if (must_aim)
            continue;
        p->selected = given ? given[i] : order_at(o, p->position);
        p->sample = row_of(f, p->selected);
    }
    if (a->is_chunked)
        sort_places(s);
    free(s->keys);
    s->keys = NULL;
    struct load *loads = s->loads, *first = NULL, **tail = &first;
    uint32_t count = 0;
    for (uint32_t i = 0, n; i < s->count; i += n) {
        for (n = 1; i + n < s->count && (n < ROWS_PER_LOAD || !can_cut(a, s, i + n)); n++)
            ;
        struct load *l = &loads[count++];
        load_init(l, s, i, s->place[i].position);
        l->count = n;
        l->needs_aim = must_aim;
        l->reads_itself = true;
        l->may_part = false;
        l->where = (struct catalog_sample){.key = "", .object = ""};
        *tail = l;
        tail = &l->next;
    }
    *tail = NULL;
    atomic_store_explicit(&s->remaining, count, memory_order_relaxed);
    return first;
}

/* ---- chunks ---- */

static uint64_t chunk_key(const struct arrays *a, const struct array_object *o, int field, uint64_t chunk)
{
    return ((uint64_t)(o - a->object) * FB_MAX_FIELDS + (uint64_t)field) << 40 ^ chunk;
}

static int list_chunk(struct group *g, const struct array_object *o, int field, uint64_t chunk, struct fb_error *e)
{
    struct arrays *a = g->f->arrays;
    const struct array_chunk *c = &o->layout[field]->chunk[chunk];
    uint64_t key = chunk_key(a, o, field, chunk);
    struct load *l = g->l;
    if (c->offset == ARRAY_NO_CHUNK || (l->staged && g->staged[l->staged - 1].key == key) || chunk_cache_has(&a->cache, key))
        return 0;
    size_t listed = l->staged * sizeof(*g->staged);
    g->staged = scratch_grow(&g->w->mapped[0], listed, listed + sizeof(*g->staged), e);
    if (!g->staged)
        return e->code;
    size_t to = (g->gather.stage_bytes + 63) & ~(size_t)63;
    g->staged[l->staged++] = (struct staged){key, to, c->length};
    return gather_add(&g->gather, o->fd, c->offset, c->length, NULL, to, e);
}

static int list_chunks(struct group *g, int field, struct fb_error *e)
{
    struct arrays *a = g->f->arrays;
    for (uint32_t i = 0; i < g->l->count; i++) {
        const struct array_object *o = arrays_object_of(a, at(g->l, i)->sample);
        uint64_t chunk, count;
        array_chunks_of_rows(o->layout[field], at(g->l, i)->sample - o->first, 1, &chunk, &count);
        for (; count > 0; chunk++, count--)
            FB_TRY(list_chunk(g, o, field, chunk, e));
    }
    return 0;
}

static const struct staged *find_staged(const struct group *g, uint64_t key)
{
    for (uint32_t i = 0; i < g->l->staged; i++)
        if (g->staged[i].key == key)
            return &g->staged[i];
    return NULL;
}

static int unfilter(struct group *g, const struct array_object *o, int field, uint64_t chunk, uint8_t *out, struct fb_error *e)
{
    const struct array_layout *l = o->layout[field];
    const struct array_chunk *c = &l->chunk[chunk];
    const struct staged *s = find_staged(g, chunk_key(g->f->arrays, o, field, chunk));
    const uint8_t *stored = s ? g->stage + s->at : NULL;
    if (!stored) { /* it was in the cache when the reads were listed, and is not any more */
        uint8_t *again = worker_memory(g->f, &g->w->mapped[1], c->length + IO_TAIL, e);
        if (!again)
            return e->code;
        FB_TRY(rows_pread(o, c->offset, c->length, again, e));
        stored = again;
    }
    int rc = unfilter_chunk(&g->w->unfilter, l, c->skips, stored, c->length, out, e);
    error_at(e, o->key, (int64_t)c->offset);
    return rc;
}

/* What a chunk has of a row, to `out`. */
static int row_from_chunk(struct group *g, const struct array_object *o, int field, uint64_t chunk, uint64_t row, void *out, struct fb_error *e)
{
    struct arrays *a = g->f->arrays;
    const struct array_layout *l = o->layout[field];
    if (l->chunk[chunk].offset == ARRAY_NO_CHUNK) {
        array_copy_from_chunk(l, chunk, NULL, row, 1, out);
        return 0;
    }
    bool is_mine;
    size_t bytes = unfilter_chunk_bytes(l);
    struct chunk_entry *x = chunk_cache_get(&a->cache, chunk_key(a, o, field, chunk), bytes, &is_mine);
    uint8_t *data = x ? x->data : worker_memory(g->f, &g->w->pixels, bytes, e);
    if (!data)
        return e->code;
    int rc = is_mine || !x ? unfilter(g, o, field, chunk, data, e) : 0;
    if (is_mine)
        chunk_cache_filled(&a->cache, x, rc == 0);
    if (rc == 0)
        array_copy_from_chunk(l, chunk, data, row, 1, out);
    if (x)
        chunk_cache_unpin(&a->cache, x);
    return rc;
}

static int take_from_chunks(struct group *g, int field, struct fb_error *e)
{
    struct arrays *a = g->f->arrays;
    for (uint32_t i = 0; i < g->l->count; i++) {
        const struct array_object *o = arrays_object_of(a, at(g->l, i)->sample);
        const struct array_layout *l = o->layout[field];
        uint64_t row = at(g->l, i)->sample - o->first, chunk, count;
        void *to = slot_at(g->l->slot, field, place_of(g->l, i)), *out = to;
        bool is_copy = array_conversion_is_copy(&o->conversion[field]);
        if (!is_copy && !(out = worker_memory(g->f, &g->w->work, array_row_bytes(l), e)))
            return e->code;
        array_chunks_of_rows(l, row, 1, &chunk, &count);
        for (; count > 0; chunk++, count--)
            FB_TRY(row_from_chunk(g, o, field, chunk, row, out, e));
        if (!is_copy)
            array_convert(&o->conversion[field], out, to, a->want[field].row_bytes / o->conversion[field].to_bytes);
    }
    return 0;
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
    return gather_add(&g->gather, o->fd, offset, bytes, to, g->at[field] + i * bytes, e);
}

static void take_straight(struct group *g, int field)
{
    struct arrays *a = g->f->arrays;
    for (uint32_t i = 0; i < g->l->count; i++) {
        const struct array_object *o = arrays_object_of(a, at(g->l, i)->sample);
        const struct array_layout *l = o->layout[field];
        const struct array_conversion *c = &o->conversion[field];
        bool is_copy = o->is_copied[field];
        if (is_copy && !o->has_gaps[field])
            continue;
        void *to = slot_at(g->l->slot, field, place_of(g->l, i));
        uint8_t *stored = is_copy ? to : g->stage + g->at[field] + i * o->stored_bytes[field];
        uint64_t row = at(g->l, i)->sample - o->first;
        if (o->has_gaps[field] && l->chunk[row / l->chunk_shape[0]].offset == ARRAY_NO_CHUNK)
            array_fill(l, stored, o->stored_bytes[field]); /* it was never written */
        if (!is_copy)
            array_convert(c, stored, to, a->want[field].row_bytes / c->to_bytes);
    }
}

static void take_resident(struct group *g, int field)
{
    struct arrays *a = g->f->arrays;
    size_t bytes = a->want[field].row_bytes;
    for (uint32_t i = 0; i < g->l->count; i++) {
        const struct array_object *o = arrays_object_of(a, at(g->l, i)->sample);
        memcpy(slot_at(g->l->slot, field, place_of(g->l, i)), o->resident[field] + (at(g->l, i)->sample - o->first) * bytes, bytes);
    }
}

/* ---- the three steps: list, read, take ---- */

enum row_way { WAY_RESIDENT, WAY_STRAIGHT, WAY_CHUNKS };

/* The same for all files: arrays_preload sees to that. */
static enum row_way way_of(const struct arrays *a, int field)
{
    if (a->object[0].resident[field])
        return WAY_RESIDENT;
    for (uint64_t i = 0; i < a->objects; i++)
        if (!array_is_straight(a->object[i].layout[field]))
            return WAY_CHUNKS;
    return WAY_STRAIGHT;
}

static int list_reads(struct group *g, struct fb_error *e)
{
    struct arrays *a = g->f->arrays;
    g->l->staged = 0;
    for (int k = 0; k < a->count; k++) {
        if (a->way[k] == WAY_CHUNKS)
            FB_TRY(list_chunks(g, k, e));
        if (a->way[k] != WAY_STRAIGHT)
            continue;
        g->at[k] = (g->gather.stage_bytes + 63) & ~(size_t)63;
        for (uint32_t i = 0; i < g->l->count; i++) {
            uint64_t row = at(g->l, i)->sample;
            const struct array_object *o = arrays_object_of(a, row);
            FB_TRY(list_row(g, k, i, o, row - o->first, e));
        }
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
    return gather_read(g->f, &g->gather, l, g->f->arrays->object[0].path, &g->stage, e);
}

static int take_rows(struct group *g, struct fb_error *e)
{
    struct arrays *a = g->f->arrays;
    for (int k = 0; k < a->count; k++) {
        if (a->way[k] == WAY_RESIDENT)
            take_resident(g, k);
        else if (a->way[k] == WAY_STRAIGHT)
            take_straight(g, k);
        else
            FB_TRY(take_from_chunks(g, k, e));
    }
    return 0;
}

static int copy_labels(const struct group *g, uint32_t i, struct fb_error *e)
{
    const struct feed *f = g->f;
    for (int k = 0; k < f->labels.count; k++) {
        void *to = slot_at(g->l->slot, f->arrays->count + k, place_of(g->l, i));
        FB_TRY(labels_get(&f->labels, k, at(g->l, i)->selected, at(g->l, i)->sample, to, e));
    }
    return 0;
}

/* A file that was written to under our hands: what is known of its structure may not hold any more. One file is asked per group. */
static int check_unchanged(struct group *g, struct fb_error *e)
{
    struct arrays *a = g->f->arrays;
    const struct array_object *o = arrays_object_of(a, at(g->l, 0)->sample);
    struct stat st;
    if (!o->mtime_ns || fstat(o->fd, &st) < 0)
        return 0;
    if ((uint64_t)st.st_size == o->size && st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec == o->mtime_ns)
        return 0;
    atomic_fetch_add_explicit(&g->f->changed, 1, memory_order_relaxed);
    error_set(e, FB_E_DATA, "read", "it was changed since the data set was opened");
    error_remedy(e, "open the loader again; leave the file alone while it is being read");
    error_at(e, o->key, -1);
    return FB_E_DATA;
}

/* ---- when something goes wrong: row by row, with stand-ins ---- */

static int read_one(struct group *g, uint32_t i, struct fb_error *e)
{
    struct arrays *a = g->f->arrays;
    const struct array_object *o = arrays_object_of(a, at(g->l, i)->sample);
    struct rows_reader r;
    rows_reader_init(&r, g->f->budget);
    int rc = 0;
    for (int k = 0; rc == 0 && k < a->count; k++) {
        void *to = slot_at(g->l->slot, k, place_of(g->l, i));
        uint64_t row = at(g->l, i)->sample - o->first;
        if (o->resident[k])
            memcpy(to, o->resident[k] + row * a->want[k].row_bytes, a->want[k].row_bytes);
        else
            rc = rows_read(&r, a, o, k, row, 1, to, e);
    }
    rows_reader_free(&r);
    return rc;
}

static int read_or_replace(struct group *g, uint32_t i, struct fb_error *e)
{
    struct feed *f = g->f;
    struct load *l = g->l;
    struct slot_place *p = at(l, i);
    struct order o;
    feed_order(f, l->slot->epoch, &o);
    for (uint32_t attempt = 1;; attempt++) {
        error_clear(e);
        int rc = read_one(g, i, e);
        audit_row_attempt(l->slot, place_of(l, i), attempt - 1);
        if (rc == 0)
            return 0;
        char key[1024];
        arrays_row_key(f->arrays, p->sample, key, sizeof(key));
        e->path[0] = 0;
        error_at(e, key, e->offset);
        e->sample = (int64_t)p->sample;
        if (attempt > MOST_ATTEMPTS || f->subset.count == 1)
            return rc;
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
    for (uint32_t i = 0; i < g->l->count; i++)
        FB_TRY(read_or_replace(g, i, e));
    return 0;
}

/* ---- */

void rows_run(struct worker *w, struct feed *f, struct load *l)
{
    struct group g = {.w = w, .f = f, .l = l};
    struct fb_error e;
    error_clear(&e);
    uint64_t since = clock_now_ns();
    load_step(l, LOAD_DECODING);
    aim(&g);
    int rc = check_unchanged(&g, &e);
    if (rc == 0)
        rc = read_group(&g, &e);
    if (rc == 1)
        return;
    uint64_t read_ns = clock_now_ns();
    if (rc == 0)
        rc = take_rows(&g, &e);
    if (rc < 0 && f->skips_bad && !load_is_systemic(&e))
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
    if (rc < 0)
        load_fail_batch(f, l, &e);
    else
        load_finish(f, l);
}

void rows_choose_ways(struct arrays *a)
{
    for (int k = 0; k < a->count; k++)
        a->way[k] = (uint8_t)way_of(a, k);
}
