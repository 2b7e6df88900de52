/* What a worker does with a load: read (if io has not), decode the region the transforms want, transform into the place, publish. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "feed/arrays.h"
#include "feed/crew.h"
#include "feed/gather_reads.h"
#include "feed/partial_read.h"

enum {
    WAITS_FOR_MEMORY = 200,
    WAITS_FOR_SYSTEM = 20, /* when the budget has enough, but malloc does not */
    MEMORY_NAP_NS = 5000000,
    AWAITED_MOST_NS = 300000000
};

void load_step(struct load *l, uint32_t step)
{
    atomic_store_explicit(&l->step, step, memory_order_relaxed);
    atomic_store_explicit(&l->since_ns, clock_now_ns(), memory_order_relaxed);
}

void load_init(struct load *l, struct slot *s, uint32_t place, uint64_t position)
{
    l->slot = s;
    l->place = place;
    l->count = 1;
    l->waited = NULL;
    l->reads_itself = false;
    l->attempt = l->bad_tries = 0;
    l->poor_since_ns = 0;
    l->position = position;
    l->buffer = NULL;
    l->error = NULL;
    l->next = NULL;
    load_step(l, LOAD_PLANNED);
}

void load_aim(struct feed *f, struct load *l, uint64_t sample)
{
    l->needs_aim = l->would_block = l->has_begun = false;
    l->file = 0;
    part_give_up(l);
    l->selected = sample;
    l->sample = f->subset.sample ? f->subset.sample[sample] : sample;
    struct fb_error *e = NULL;
    if (catalog_sample(f->dataset.catalog, l->sample, &l->where, NULL) < 0) {
        e = error_new();
        if (!error_is_shared(e))
            catalog_sample(f->dataset.catalog, l->sample, &l->where, e);
        l->where = (struct catalog_sample){.key = "", .object = ""};
    }
    l->error = e;
    l->size = l->where.length;
    l->may_part = f->learnt && l->size >= PART_FROM_BYTES;
    l->reads_itself = f->arrays && arrays_reads_itself(f, l);
    l->may_part &= !f->arrays && !f->raw_height;
    l->slot->place[l->place].sample = l->sample;
    l->slot->place[l->place].key = l->where.key;
}

/* ---- finishing ---- */

/* f->lock is held. */
static bool is_full(const struct feed *f)
{
    for (const struct slot *s = f->ahead_first; s; s = s->next)
        if (s->state == SLOT_FILLING)
            return false;
    return f->ahead >= f->look_ahead;
}

static void publish(struct feed *f, struct slot *s)
{
    if (s->shape->has_rows && !s->error)
        slot_finish_rows(s);
    pthread_mutex_lock(&f->lock);
    if (s->generation != atomic_load_explicit(&f->generation, memory_order_relaxed)) {
        feed_recycle(f, s);
    } else {
        s->state = ship_filled(f, s);
        s->ready_ns = clock_now_ns();
        if (is_full(f))
            atomic_store_explicit(&f->is_ample, true, memory_order_relaxed);
        if (s->state == SLOT_READY && f->is_consumer_waiting && s == f->ahead_first)
            pthread_cond_signal(&f->consumer_wakes);
    }
    pthread_mutex_unlock(&f->lock);
}

static void give_buffer_back(struct feed *f, struct load *l)
{
    if (!l->buffer)
        return;
    pthread_mutex_lock(&f->lock);
    reads_give(&f->reads, l->buffer);
    pthread_cond_signal(&f->planner_wakes);
    pthread_mutex_unlock(&f->lock);
    l->buffer = NULL;
}

void load_finish(struct feed *f, struct load *l)
{
    struct slot *s = l->slot;
    give_buffer_back(f, l);
    waited_free(f, l->waited);
    l->waited = NULL;
    error_free(l->error);
    l->error = NULL;
    atomic_store_explicit(&l->step, LOAD_IDLE, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&s->remaining, 1, memory_order_acq_rel) == 1)
        publish(f, s);
}

void load_fail_batch(struct feed *f, struct load *l, const struct fb_error *e)
{
    struct slot *s = l->slot;
    pthread_mutex_lock(&f->lock);
    if (!s->error || l->place < s->error_place) {
        if (!s->error)
            s->error = error_new();
        if (!error_is_shared(s->error))
            *s->error = *e;
        s->error_place = l->place;
    }
    pthread_mutex_unlock(&f->lock);
    load_finish(f, l);
}

bool load_is_systemic(const struct fb_error *e)
{
    return e->code == FB_E_NOMEM || e->sys_errno == EMFILE || e->sys_errno == ENFILE || e->sys_errno == ENOMEM;
}

/* Batches that are ready and not taken yet have memory, and so do other workers: a load waits for it as long as the consumer does not wait
 * for the load itself. */
bool load_waits_for_memory(struct feed *f, struct load *l, const struct fb_error *e)
{
    if (e->code != FB_E_BUDGET || atomic_load_explicit(&f->is_closing, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&f->lock);
    bool is_awaited = f->is_consumer_waiting && f->ahead_first == l->slot;
    pthread_mutex_unlock(&f->lock);
    uint64_t now = clock_now_ns();
    if (!is_awaited || !l->poor_since_ns)
        l->poor_since_ns = is_awaited ? now : 0;
    if (is_awaited && now - l->poor_since_ns > AWAITED_MOST_NS)
        return false;
    uint32_t seen = budget_seen(f->budget);
    crew_press(f, false);
    budget_wait(f->budget, seen, MEMORY_NAP_NS);
    crew_push(f, l);
    return true;
}

/* A place before this one has been given up: its error is the batch's, whatever becomes of this one. */
static bool is_lost_anyway(struct feed *f, const struct load *l)
{
    pthread_mutex_lock(&f->lock);
    bool is_lost = l->slot->error && l->slot->error_place < l->place;
    pthread_mutex_unlock(&f->lock);
    return is_lost;
}

static void handle_bad(struct feed *f, struct load *l, struct fb_error *e)
{
    error_at(e, l->where.key, -1);
    e->sample = (int64_t)l->sample;
    if (!f->skips_bad || load_is_systemic(e) || l->slot->generation != atomic_load_explicit(&f->generation, memory_order_relaxed)) {
        load_fail_batch(f, l, e);
        return;
    }
    feed_note_bad(f, e, l->slot->epoch);
    audit_bad(f, l->slot->epoch, l->selected, l->where.key, e->cause);
    l->attempt++;
    if (++l->bad_tries == FEED_MOST_BAD_TRIES || f->subset.count == 1) {
        feed_give_up_place(e, l->bad_tries);
        load_fail_batch(f, l, e);
        return;
    }
    if (is_lost_anyway(f, l)) {
        load_fail_batch(f, l, e);
        return;
    }
    pthread_mutex_lock(&f->lock);
    l->slot->redraws++;
    pthread_mutex_unlock(&f->lock);
    give_buffer_back(f, l);
    error_free(l->error);
    l->error = NULL;
    l->needs_aim = true;
    planner_redo(f, l);
}

/* ---- reading ---- */

struct io_request load_request(const struct feed *f, struct load *l, uint8_t *buffer, size_t capacity, struct fb_error *e)
{
    bool is_part = l->part != PART_ALL, is_whole = l->where.offset == 0 && l->where.length == l->where.object_size;
    return (struct io_request){
        .dir_fd = f->dataset.root_fd,
        .path = l->where.object,
        .offset = l->where.offset + l->part_first,
        .length = is_part    ? l->part_last - l->part_first
                  : is_whole ? IO_WHOLE
                             : l->where.length,
        .expected_size = l->size,
        .has_fd = f->object_fd >= 0 && !is_whole,
        .fd = f->object_fd,
        .buffer = buffer + l->part_first,
        .capacity = capacity - l->part_first,
        .owner = l,
        .goes_first = l->has_begun || l->attempt > 0,
        .expected_mtime_ns = l->where.mtime_ns,
        .must_match = !is_whole && !is_part, /* parts are compared by part_is_spoilt */
        .error = e,
    };
}

/* A part of a larger file (a pack) that is not all there. */
static int check_part(const struct load *l, struct fb_error *e)
{
    const struct io_request *r = &l->request;
    if (r->length == IO_WHOLE || r->got == r->length || l->part != PART_ALL)
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

void *worker_memory(struct feed *f, struct scratch *s, size_t bytes, struct fb_error *e)
{
    if (s->data && bytes <= s->capacity)
        return s->data; /* nearly always */
    for (int i = 0; i < WAITS_FOR_MEMORY; i++) {
        struct fb_error why;
        error_clear(&why);
        bool is_hopeless = bytes > atomic_load_explicit(&f->budget->limit, memory_order_relaxed);
        if (scratch_need(s, bytes, &why) || is_hopeless || atomic_load_explicit(&f->is_closing, memory_order_relaxed))
            break;
        if (why.code == FB_E_NOMEM && i >= WAITS_FOR_SYSTEM)
            break;
        uint32_t seen = budget_seen(f->budget);
        crew_press(f, false);
        budget_wait(f->budget, seen, MEMORY_NAP_NS);
    }
    return scratch_need(s, bytes, e);
}

/* Reads on this thread if the bytes are in memory. 1: io must do it (the load is gone). */
static int read_now(struct worker *w, struct feed *f, struct load *l, const uint8_t **bytes, size_t *n, struct fb_error *e)
{
    struct io_request *r = &l->request;
    for (;;) {
        uint8_t *buffer = worker_memory(f, &w->bytes, l->size + IO_TAIL, e);
        if (!buffer)
            return e->code;
        *r = load_request(f, l, buffer, w->bytes.capacity, e);
        uint64_t since = clock_now_ns();
        int rc = f->io->ops->try_now(f->io, r);
        if (rc == IO_GREW) {
            l->size = r->object_size;
            continue;
        }
        note_cached(f, rc != IO_BLOCKED);
        if (rc == IO_BLOCKED) {
            if (l->part == PART_RANGE) { /* io reads into another buffer, which has no head yet: from the start */
                part_give_up(l);
                l->may_part = true;
            }
            l->would_block = true;
            planner_redo(f, l);
            return 1;
        }
        FB_TRY(rc);
        meter_work(&f->meter, w->index, STAGE_READ, clock_now_ns() - since, 1, r->got);
        atomic_fetch_add_explicit(&f->cached_reads, 1, memory_order_relaxed);
        *bytes = buffer;
        *n = l->part == PART_ALL ? r->got : l->where.length;
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
    *n = l->part == PART_ALL ? l->request.got : l->where.length;
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

void load_note_service(struct feed *f, uint64_t ns)
{
    uint64_t mean = atomic_load_explicit(&f->service_ns, memory_order_relaxed);
    atomic_store_explicit(&f->service_ns, mean ? mean - mean / 16 + ns / 16 : ns, memory_order_relaxed);
    histogram_add(&f->load_histogram, ns);
}

/* Is there more of it to read before it can be decoded? */
static bool reads_on(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes)
{
    if (part_is_spoilt(l))
        part_give_up(l);
    else if (l->part == PART_HEAD)
        part_choose(w, f, l, bytes);
    else
        return false;
    return true;
}

/* All of the sample's bytes, or as many as its part has. 1: the load is gone, to come back with more. */
static int bring_bytes(struct worker *w, struct feed *f, struct load *l, const uint8_t **bytes, size_t *n, struct fb_error *e)
{
    int rc = get_bytes(w, f, l, bytes, n, e);
    while (rc == 0 && reads_on(w, f, l, *bytes)) {
        if (l->buffer) {
            planner_redo(f, l);
            return 1;
        }
        rc = get_bytes(w, f, l, bytes, n, e);
    }
    return rc == 0 ? check_part(l, e) : rc;
}

/* From the bytes to the place. 1: the load is gone: the part that was read was not enough. */
static int fill_place(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct fb_error *e)
{
    note_changed(f, l);
    if (f->arrays)
        return bag_place(w, f, l, bytes, n, e);
    int rc = passage_run(w, f, l, bytes, n, e);
    if (rc == 1) {
        part_give_up(l);
        l->request.status = 0;
        give_buffer_back(f, l);
        planner_redo(f, l);
    }
    return rc;
}

static int fill_by_itself(struct worker *w, struct feed *f, struct load *l, struct fb_error *e)
{
    if (!l->error)
        return bag_run(w, f, l, e);
    *e = *l->error;
    return e->code;
}

int load_next_file(struct feed *f, struct load *l, struct fb_error *e)
{
    FB_TRY(catalog_file(f->dataset.catalog, l->sample, f->files.field[l->file].catalog_file, &l->where, e));
    l->file++;
    l->size = l->where.length;
    l->would_block = false;
    l->has_begun = true;
    part_give_up(l);
    l->may_part = f->learnt && l->size >= PART_FROM_BYTES;
    if (!l->buffer)
        return 0;
    planner_redo(f, l); /* with its buffer, if that is large enough */
    return 1;
}

/* Further files are not looked for before they are read: nobody knows whether this one ever was there. */
static int explain_missing(const struct feed *f, const struct load *l, struct fb_error *e)
{
    char shown[300];
    int code = e->code;
    error_clear(e);
    error_set(e, code, "read", "there is no such file, but the manifest names it as the %s of %s", f->files.field[l->file - 1].name,
              text_escape(l->slot->place[l->place].key, shown, sizeof(shown)));
    error_remedy(e, "paths are relative to the manifest's folder, or absolute");
    e->sys_errno = ENOENT;
    return code;
}

/* The file at hand. 1: the load is gone. */
static int run_file(struct worker *w, struct feed *f, struct load *l, const uint8_t **bytes, size_t *n, struct fb_error *e)
{
    int rc = bring_bytes(w, f, l, bytes, n, e);
    if (rc < 0 && l->file && e->sys_errno == ENOENT)
        return explain_missing(f, l, e);
    return rc == 0 ? fill_place(w, f, l, *bytes, *n, e) : rc;
}

void load_run(struct worker *w, struct feed *f, struct load *l)
{
    if (l->slot->generation != atomic_load_explicit(&f->generation, memory_order_relaxed)) {
        load_finish(f, l);
        return;
    }
    if (f->arrays && f->arrays->unit == ARRAYS_ROWS) {
        rows_run(w, f, l);
        return;
    }
    struct fb_error e;
    error_clear(&e);
    const uint8_t *bytes = NULL;
    size_t n = 0;
    uint64_t since = clock_now_ns();
    load_step(l, LOAD_DECODING);
    int rc = l->reads_itself ? fill_by_itself(w, f, l, &e) : run_file(w, f, l, &bytes, &n, &e);
    while (rc == 0 && l->file < f->files.count) {
        rc = load_next_file(f, l, &e);
        if (rc == 0)
            rc = run_file(w, f, l, &bytes, &n, &e);
    }
    if (rc == 1)
        return;
    load_note_service(f, clock_now_ns() - since);
    if (rc < 0) {
        if (!load_waits_for_memory(f, l, &e))
            handle_bad(f, l, &e);
        return;
    }
    audit_placed(f, l, bytes, n);
    load_finish(f, l);
}
