/* Loads of one sample that fill one place: read (if io has not), turned into the place by the kind's `fill`, file by file if the sample has
 * several; a bad one is replaced by another sample.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "feed/single/partial_read.h"

/* ---- planning ---- */

struct load *single_plan(struct feed *f, struct slot *s, const struct order *o, const uint64_t *given)
{
    struct load *loads = s->loads, *first = NULL, **tail = &first;
    for (uint32_t i = 0; i < s->count; i++) {
        struct load *l = &loads[i];
        load_init(l, s, i, s->place[i].position);
        load_aim(f, l, given ? given[i] : order_at(o, l->position));
        if (s->room)
            s->room[i] = f->kind->length(f, l->sample);
        *tail = l;
        tail = &l->next;
    }
    *tail = NULL;
    return first;
}

static void handle_bad(struct feed *f, struct load *l, struct fb_error *e)
{
    l->attempt++;
    if (!feed_redraws_bad(f, l->slot, l->place, l->selected, l->where.key, ++l->bad_tries, e)) {
        load_fail_batch(f, l, e);
        return;
    }
    load_give_buffer_back(f, l);
    error_free(l->error);
    l->error = NULL;
    l->needs_aim = true;
    planner_redo(f, l);
}

/* ---- reading ---- */

struct io_request single_request(const struct feed *f, struct load *l, uint8_t *buffer, size_t capacity, struct fb_error *e)
{
    const struct single_load *s = single_of(l);
    bool is_part = s->part != PART_ALL, is_whole = l->where.offset == 0 && l->where.length == l->where.object_size;
    return (struct io_request){
        .dir_fd = f->dataset.root_fd,
        .path = l->where.object,
        .offset = l->where.offset + s->part_first,
        .length = is_part    ? s->part_last - s->part_first
                  : is_whole ? IO_WHOLE
                             : l->where.length,
        .expected_size = l->size,
        .has_fd = f->object_fd >= 0 && !is_whole,
        .fd = f->object_fd,
        .buffer = buffer + s->part_first,
        .capacity = capacity - s->part_first,
        .owner = l,
        .goes_first = l->has_begun || l->attempt > 0,
        .expected_mtime_ns = l->where.mtime_ns,
        .must_match = !is_whole && !is_part, /* parts are compared by partial_read_is_spoilt */
        .error = e,
    };
}

/* A part of a larger file (a pack) that is not all there. */
static int check_part(const struct load *l, struct fb_error *e)
{
    const struct io_request *r = &l->request;
    if (r->length == IO_WHOLE || r->got == r->length || single_of(l)->part != PART_ALL)
        return 0;
    error_set(e, FB_E_DATA, "read", "%s ends at byte %llu, inside this sample (bytes %llu to %llu)", l->where.object,
              (unsigned long long)(r->offset + r->got), (unsigned long long)r->offset, (unsigned long long)(r->offset + r->length));
    error_remedy(e, "the file was cut short: copy it again");
    error_at(e, l->where.key, (int64_t)(r->offset + r->got));
    return FB_E_DATA;
}

static void note_cached(struct feed *f, bool is_cached)
{
    int score = atomic_load_explicit(&f->miss_score, memory_order_relaxed);
    score = is_cached ? score - (score + 7) / 8 : score + (256 - score + 7) / 8;
    atomic_store_explicit(&f->miss_score, score, memory_order_relaxed);
}

/* Reads on this thread if the bytes are in memory. LOAD_IS_GONE: io must do it. */
static int read_now(struct worker *w, struct feed *f, struct load *l, const uint8_t **bytes, size_t *n, struct fb_error *e)
{
    struct io_request *r = &l->request;
    for (;;) {
        uint8_t *buffer = worker_memory(f, &w->bytes, l->size + IO_TAIL, e);
        if (!buffer)
            return e->code;
        *r = single_request(f, l, buffer, w->bytes.capacity, e);
        uint64_t since = clock_now_ns();
        int rc = f->io->ops->try_now(f->io, r);
        if (rc == IO_GREW) {
            l->size = r->object_size;
            continue;
        }
        note_cached(f, rc != IO_BLOCKED);
        if (rc == IO_BLOCKED) {
            if (single_of(l)->part == PART_RANGE) { /* io reads into another buffer, which has no head yet: from the start */
                partial_read_give_up(l);
                single_of(l)->is_settled = false;
            }
            l->would_block = true;
            planner_redo(f, l);
            return LOAD_IS_GONE;
        }
        FB_TRY(rc);
        meter_work(&f->meter, w->index, STAGE_READ, clock_now_ns() - since, 1, r->got);
        atomic_fetch_add_explicit(&f->cached_reads, 1, memory_order_relaxed);
        *bytes = buffer;
        *n = single_of(l)->part == PART_ALL ? r->got : l->where.length;
        return 0;
    }
}

static int get_bytes(struct worker *w, struct feed *f, struct load *l, const uint8_t **bytes, size_t *n, struct fb_error *e)
{
    if (l->error) {
        *e = *l->error;
        return e->code;
    }
    if (!l->buffer)
        return read_now(w, f, l, bytes, n, e);
    if (l->request.status < 0) {
        *e = l->buffer->error;
        if (!e->code)
            error_set(e, l->request.status, "read", "the read failed");
        return e->code;
    }
    *bytes = l->buffer->data;
    *n = single_of(l)->part == PART_ALL ? l->request.got : l->where.length;
    return 0;
}

static void note_changed(struct feed *f, const struct load *l)
{
    const struct io_request *r = &l->request;
    bool is_other_size = r->length == IO_WHOLE && r->got != l->where.length;
    bool is_other_time = r->object_mtime_ns && l->where.mtime_ns && r->object_mtime_ns != l->where.mtime_ns;
    if (is_other_size || is_other_time)
        atomic_fetch_add_explicit(&f->changed, 1, memory_order_relaxed);
}

/* Is there more of it to read before it can be decoded? */
static bool reads_on(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes)
{
    if (partial_read_is_spoilt(l))
        partial_read_give_up(l);
    else if (single_of(l)->part == PART_HEAD)
        partial_read_choose(w, f, l, bytes);
    else
        return false;
    return true;
}

/* All of the sample's bytes, or as many as its part has. LOAD_IS_GONE, to come back with more. */
static int bring_bytes(struct worker *w, struct feed *f, struct load *l, const uint8_t **bytes, size_t *n, struct fb_error *e)
{
    int rc = get_bytes(w, f, l, bytes, n, e);
    while (rc == 0 && reads_on(w, f, l, *bytes)) {
        if (l->buffer) {
            planner_redo(f, l);
            return LOAD_IS_GONE;
        }
        rc = get_bytes(w, f, l, bytes, n, e);
    }
    return rc == 0 ? check_part(l, e) : rc;
}

/* From the bytes to the place. LOAD_IS_GONE: the part that was read was not enough. */
static int fill_place(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct fb_error *e)
{
    note_changed(f, l);
    int rc = f->kind->fill(w, f, l, bytes, n, e);
    if (rc != FILL_NEEDS_MORE)
        return rc;
    partial_read_give_up(l);
    l->request.status = 0;
    load_give_buffer_back(f, l);
    planner_redo(f, l);
    return LOAD_IS_GONE;
}

static int fill_by_itself(struct worker *w, struct feed *f, struct load *l, struct fb_error *e)
{
    if (!l->error)
        return f->kind->fill_itself(w, f, l, e);
    *e = *l->error;
    return e->code;
}

/* Aims at the sample's next file. FILL_NEXT_FILE; 0: there is none; LOAD_IS_GONE. */
static int next_file(struct feed *f, struct load *l, struct fb_error *e)
{
    int rc = f->kind->next_file ? f->kind->next_file(f, l, e) : 0;
    if (rc != FILL_NEXT_FILE)
        return rc;
    l->size = l->where.length;
    l->would_block = false;
    l->has_begun = l->is_further = true;
    partial_read_give_up(l);
    single_of(l)->is_settled = false;
    if (!l->buffer)
        return FILL_NEXT_FILE;
    planner_redo(f, l); /* with its buffer, if that is large enough */
    return LOAD_IS_GONE;
}

/* Further files are not searched for before they are read, so this one may never have existed. */
static int explain_missing(const struct load *l, struct fb_error *e)
{
    char shown[300];
    int code = e->code;
    error_clear(e);
    error_set(e, code, "read", "there is no such file, but the manifest names it as the %s of %s", single_of(l)->file_name,
              text_escape(l->slot->place[l->place].key, shown, sizeof(shown)));
    error_remedy(e, "paths are relative to the manifest's folder, or absolute");
    e->sys_errno = ENOENT;
    return code;
}

/* The file at hand. LOAD_IS_GONE. */
static int run_file(struct worker *w, struct feed *f, struct load *l, const uint8_t **bytes, size_t *n, struct fb_error *e)
{
    int rc = bring_bytes(w, f, l, bytes, n, e);
    if (rc < 0 && l->is_further && e->sys_errno == ENOENT)
        return explain_missing(l, e);
    return rc == 0 ? fill_place(w, f, l, *bytes, *n, e) : rc;
}

void single_run(struct worker *w, struct feed *f, struct load *l)
{
    struct fb_error e;
    error_clear(&e);
    const uint8_t *bytes = NULL;
    size_t n = 0;
    uint64_t since = clock_now_ns();
    load_step(l, LOAD_DECODING);
    int rc = l->reads_itself ? fill_by_itself(w, f, l, &e) : run_file(w, f, l, &bytes, &n, &e);
    while (rc == 0 && (rc = next_file(f, l, &e)) == FILL_NEXT_FILE)
        rc = run_file(w, f, l, &bytes, &n, &e);
    if (rc == LOAD_IS_GONE)
        return;
    load_note_service(f, clock_now_ns() - since);
    if (rc < 0) {
        if (!load_waits_for_memory(f, l, &e))
            handle_bad(f, l, &e);
        return;
    }
    audit_placed(f, l, single_of(l)->part == PART_ALL ? bytes : NULL, n);
    load_finish(f, l);
}
