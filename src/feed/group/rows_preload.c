/* Arrays that are read into memory at the start: small fields (labels beside features), arrays that cannot be read row by row, and with
 * preload= everything. */
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "base/thread.h"
#include "feed/worker.h"
#include "feed/group/rows_group.h"

enum { PIECE_BYTES = 1 << 20, THREADS_MOST = 64 };
#define SMALL_BYTES ((uint64_t)64 << 20)

/* One field of one file, cut into pieces that threads take in turn. */
struct preload {
    struct feed *f;
    struct array_object *o;
    int field;
    uint64_t piece_rows;
    pthread_t caller;
    _Atomic uint64_t next;
    _Atomic bool has_failed;
    pthread_mutex_t lock;
    struct fb_error *error; /* of the first piece that failed */
    uint64_t error_row;
};

static void note_error(struct preload *p, uint64_t row, const struct fb_error *e)
{
    pthread_mutex_lock(&p->lock);
    if (!p->error->code || row < p->error_row) {
        *p->error = *e;
        p->error_row = row;
    }
    atomic_store(&p->has_failed, true);
    pthread_mutex_unlock(&p->lock);
}

/* The caller's thread asks whether it should stop: only that one may. */
static bool is_interrupted(struct preload *p)
{
    struct feed *f = p->f;
    if (!pthread_equal(p->caller, pthread_self()) || !f->interrupted || !f->interrupted(f->ctx))
        return false;
    struct fb_error e;
    error_clear(&e);
    error_set(&e, FB_E_INTERRUPTED, "feed", "interrupted while rows were read into memory");
    note_error(p, 0, &e);
    return true;
}

static void *preload_main(void *arg)
{
    struct preload *p = arg;
    struct array_object *o = p->o;
    size_t row_bytes = arrays_of(p->f)->want[p->field].row_bytes;
    struct worker *w = worker_new(0, p->f->budget);
    struct array_walk x = {.f = p->f, .w = w};
    struct fb_error e;
    error_clear(&e);
    if (!w) {
        error_set(&e, FB_E_NOMEM, "feed", "no memory to read rows with");
        note_error(p, 0, &e);
        return NULL;
    }
    rows_aim(&x, o, p->field);
    for (uint64_t first; !atomic_load(&p->has_failed) && (first = atomic_fetch_add(&p->next, p->piece_rows)) < o->rows;) {
        x.first = first;
        x.count = o->rows - first < p->piece_rows ? o->rows - first : p->piece_rows;
        x.to = o->resident[p->field] + first * row_bytes;
        error_clear(&e);
        if (!is_interrupted(p) && array_walk_here(&x, &e) < 0)
            note_error(p, first, &e);
    }
    worker_delete(w);
    return NULL;
}

static int run_threads(struct preload *p, struct fb_error *e)
{
    pthread_t thread[THREADS_MOST];
    int wanted = crew_threads(), started = 0;
    wanted = wanted < THREADS_MOST ? wanted : THREADS_MOST;
    while (started < wanted - 1 && thread_start(&thread[started], "fb-load", preload_main, p, NULL) == 0)
        started++;
    preload_main(p);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return e->code;
}

static uint64_t rows_per_piece(const struct array_layout *l, size_t row_bytes)
{
    if (!array_is_straight(l) && l->storage != ARRAY_CHUNKED)
        return array_rows(l); /* only as a whole */
    uint64_t rows = PIECE_BYTES / (row_bytes ? row_bytes : 1) + 1;
    if (l->storage == ARRAY_CHUNKED)
        rows = (rows + l->chunk_shape[0] - 1) / l->chunk_shape[0] * l->chunk_shape[0];
    return rows;
}

static int load_object(struct feed *f, struct array_object *o, int field, struct fb_error *e)
{
    size_t row_bytes = arrays_of(f)->want[field].row_bytes;
    if (o->rows == 0)
        return 0;
    o->resident[field] = memory_map(o->rows * row_bytes);
    if (!o->resident[field])
        return error_set(e, FB_E_NOMEM, "feed", "no memory for %llu rows", (unsigned long long)o->rows);
    struct preload p = {
        .f = f, .o = o, .field = field, .piece_rows = rows_per_piece(o->layout[field], row_bytes), .error = e, .caller = pthread_self()};
    pthread_mutex_init(&p.lock, NULL);
    int rc = run_threads(&p, e);
    pthread_mutex_destroy(&p.lock);
    return rc;
}

static uint64_t field_bytes(const struct arrays *a, int field)
{
    return a->rows * a->want[field].row_bytes;
}

static bool must_be_resident(const struct arrays *a, int field)
{
    for (uint64_t i = 0; i < a->objects; i++)
        if (!array_is_straight(a->object[i].layout[field]) && a->object[i].layout[field]->storage != ARRAY_CHUNKED)
            return true;
    return false;
}

static int refuse(const struct feed *f, int field, bool is_everything, struct fb_error *e)
{
    char need[32], limit[32];
    const struct array_want *w = &arrays_of(f)->want[field];
    error_set(e, FB_E_BUDGET, "feed", "'%s' has %s, which the memory budget of %s does not have left", w->name,
              text_size(field_bytes(arrays_of(f), field), need, sizeof(need)),
              text_size(atomic_load(&f->budget->limit), limit, sizeof(limit)));
    error_remedy(e, is_everything
                        ? "raise memory=, leave preload= out, or choose fewer fields="
                        : "its rows cannot be read one by one (Fortran order, or stored inside the file's structure): raise memory=");
    return FB_E_BUDGET;
}

static void unload_field(struct feed *f, int field)
{
    struct arrays *a = arrays_of(f);
    for (uint64_t i = 0; i < a->objects; i++) {
        struct array_object *o = &a->object[i];
        memory_unmap(o->resident[field], o->rows * a->want[field].row_bytes);
        o->resident[field] = NULL;
    }
    budget_give(f->budget, MEMORY_CACHE, field_bytes(a, field));
}

static int load_field(struct feed *f, int field, struct fb_error *e)
{
    struct arrays *a = arrays_of(f);
    for (uint64_t i = 0; i < a->objects; i++) {
        int rc = load_object(f, &a->object[i], field, e);
        if (rc < 0) {
            unload_field(f, field);
            return rc;
        }
    }
    a->is_resident[field] = true;
    return 0;
}

/* Damaged rows are no error here, because an epoch may not need them: each is handled when its turn comes. */
static int load_or_leave(struct feed *f, int field, bool is_wanted, bool is_must, struct fb_error *e)
{
    int rc = load_field(f, field, e);
    bool may_go_on = !is_must && (!is_wanted || f->skips_bad) && rc != FB_E_INTERRUPTED && rc != FB_E_NOMEM;
    if (rc == 0 || !may_go_on)
        return rc;
    char line[1024];
    fb_format_error(e, line, sizeof(line));
    log_line(&f->log, LOG_WARN, "'%s' is read row by row, not kept in memory: %s", arrays_of(f)->want[field].name, line);
    error_clear(e);
    return 0;
}

/* That a row of that file takes in the cache of decompressed chunks. */
static uint64_t decompressed_row_bytes(const struct arrays *a, const struct array_object *o)
{
    uint64_t bytes = 0;
    for (int k = 0; k < a->count; k++)
        bytes += a->is_resident[k] || !rows_are_in_chunks(o->layout[k]) ? 0 : array_row_bytes(o->layout[k]);
    return bytes;
}

/* That all rows take. */
static uint64_t decompressed_total(const struct arrays *a)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < a->objects; i++)
        bytes += a->object[i].rows * decompressed_row_bytes(a, &a->object[i]);
    return bytes;
}

/* That `rows` rows take at most, from whichever files they are. */
static uint64_t decompressed_bytes(const struct arrays *a, uint64_t rows)
{
    uint64_t most = 0;
    for (uint64_t i = 0; i < a->objects; i++) {
        uint64_t bytes = decompressed_row_bytes(a, &a->object[i]);
        most = bytes > most ? bytes : most;
    }
    return most * rows;
}

/* In window order a chunk is not wanted any more when its window is over. Unless all of them can be kept for the next epoch, those of the
 * windows and batches at work are enough, in memory that is used again and stays in the processor's reach. */
static void limit_to_windows(struct feed *f)
{
    struct chunk_cache *c = &arrays_of(f)->cache;
    uint64_t rows = 2 * (f->window_block * f->window_blocks + f->batch_size);
    if (!arrays_of(f)->is_chunked || !f->window_block || decompressed_total(arrays_of(f)) <= c->limit)
        return;
    uint64_t wanted = decompressed_bytes(arrays_of(f), rows);
    c->limit = wanted < c->limit ? wanted : c->limit;
}

/* Chunks that will be decompressed again and again, for want of memory to keep them in. */
static void warn_of_chunks(const struct feed *f)
{
    const struct arrays *a = arrays_of(f);
    uint64_t room = atomic_load(&f->budget->limit) / 3, window = f->window_block * f->window_blocks;
    char need[32], has[32];
    if (!a->is_chunked || !f->is_shuffled || a->chunk_rows < 2)
        return;
    uint64_t bytes = window && window < f->subset.count ? decompressed_bytes(a, window) : decompressed_total(a);
    if (bytes <= room)
        return;
    text_size(bytes, need, sizeof(need));
    text_size(room, has, sizeof(has));
    if (window)
        log_line(&f->log, LOG_WARN,
                 "a window of %llu rows takes %s decompressed, more than the %s that are kept of chunks: they are decompressed "
                 "several times; lower window=, or raise memory=",
                 (unsigned long long)window, need, has);
    else
        log_line(&f->log, LOG_WARN,
                 "rows lie in compressed chunks of %llu and take %s decompressed, more than the %s that are kept of them: in random "
                 "order a chunk is decompressed up to %llu times an epoch; use shuffle=\"window\", or raise memory=",
                 (unsigned long long)a->chunk_rows, need, has, (unsigned long long)a->chunk_rows);
}

int rows_preload(struct feed *f, const fb_options *o, struct fb_error *e)
{
    struct arrays *a = arrays_of(f);
    bool is_everything = o->preload != 0;
    uint64_t limit = atomic_load(&f->budget->limit);
    for (int i = 0; i < a->count; i++) {
        uint64_t bytes = field_bytes(a, i);
        bool is_small = bytes <= SMALL_BYTES && bytes <= limit / 16 && a->want[i].row_bytes <= 256;
        bool is_must = must_be_resident(a, i);
        if (!bytes || (!is_everything && !is_must && !is_small))
            continue;
        if (budget_take(f->budget, MEMORY_CACHE, bytes))
            FB_TRY(load_or_leave(f, i, is_everything, is_must, e));
        else if (is_everything || is_must)
            return refuse(f, i, is_everything, e);
    }
    a->is_all_resident = true;
    for (int i = 0; i < a->count; i++)
        a->is_all_resident &= a->is_resident[i];
    warn_of_chunks(f);
    limit_to_windows(f);
    return 0;
}
