/* What is kept in memory: small fields (labels beside features), arrays that cannot be read row by row, and with preload= everything. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/thread.h"
#include "codec/array_rows.h"
#include "feed/crew.h"
#include "feed/rows_read.h"

enum { PIECE_BYTES = 4 << 20, THREADS_MOST = 64 };
#define SMALL_BYTES ((uint64_t)64 << 20)

/* One field of one file, cut into pieces that threads take in turn. */
struct preload {
    struct feed *f;
    struct array_object *o;
    int field;
    uint64_t piece_rows;
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

static void *preload_main(void *arg)
{
    struct preload *p = arg;
    struct array_object *o = p->o;
    size_t row_bytes = p->f->arrays->want[p->field].row_bytes;
    struct rows_reader r;
    rows_reader_init(&r, NULL);
    for (uint64_t first; !atomic_load(&p->has_failed) && (first = atomic_fetch_add(&p->next, p->piece_rows)) < o->rows;) {
        uint64_t rows = o->rows - first < p->piece_rows ? o->rows - first : p->piece_rows;
        struct fb_error e;
        error_clear(&e);
        if (rows_read(&r, p->f->arrays, o, p->field, first, rows, o->resident[p->field] + first * row_bytes, &e) < 0)
            note_error(p, first, &e);
    }
    rows_reader_free(&r);
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
    size_t row_bytes = f->arrays->want[field].row_bytes;
    if (o->rows == 0)
        return 0;
    o->resident[field] = memory_map(o->rows * row_bytes);
    if (!o->resident[field]) {
        budget_give(f->budget, MEMORY_CACHE, o->rows * row_bytes);
        return error_set(e, FB_E_NOMEM, "feed", "no memory for %llu rows", (unsigned long long)o->rows);
    }
    struct preload p = {.f = f, .o = o, .field = field, .piece_rows = rows_per_piece(o->layout[field], row_bytes), .error = e};
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
    const struct array_want *w = &f->arrays->want[field];
    error_set(e, FB_E_BUDGET, "feed", "'%s' has %s, which the memory budget of %s does not have left", w->name,
              text_size(field_bytes(f->arrays, field), need, sizeof(need)),
              text_size(atomic_load(&f->budget->limit), limit, sizeof(limit)));
    error_remedy(e, is_everything ? "raise memory=, leave preload= out, or choose fewer fields="
                                  : "its rows cannot be read one by one (Fortran order, or stored inside the file's structure): raise memory=");
    return FB_E_BUDGET;
}

static int load_field(struct feed *f, int field, struct fb_error *e)
{
    struct arrays *a = f->arrays;
    for (uint64_t i = 0; i < a->objects; i++)
        FB_TRY(load_object(f, &a->object[i], field, e));
    return 0;
}

int arrays_preload(struct feed *f, bool is_everything, struct fb_error *e)
{
    struct arrays *a = f->arrays;
    if (a->unit == ARRAYS_FILES)
        return is_everything ? error_set(e, FB_E_USAGE, "feed", "preload=True is for rows; with sample=\"file\" use cache_ram=") : 0;
    uint64_t limit = atomic_load(&f->budget->limit);
    for (int i = 0; i < a->count; i++) {
        uint64_t bytes = field_bytes(a, i);
        bool is_small = bytes <= SMALL_BYTES && bytes <= limit / 16 && a->want[i].row_bytes <= 256;
        bool is_must = is_everything || must_be_resident(a, i);
        if (!is_must && !is_small)
            continue;
        if (!budget_take(f->budget, MEMORY_CACHE, bytes)) {
            if (is_must)
                return refuse(f, i, is_everything, e);
            continue;
        }
        FB_TRY(load_field(f, i, e));
    }
    rows_choose_ways(a);
    return 0;
}
