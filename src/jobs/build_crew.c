/* The workers. Three kinds of work, all by the same threads, the one nearest to the output first:
 *
 *   task   some recordings, one after the other in the plan -> rows
 *   pack   rows of a chunk -> shuffled, deflated (only when compressed)
 *   write  a chunk to its place in the file
 *
 * Tasks end in any order and are joined in theirs; joined rows fill chunks (a contiguous output has one "chunk" per task, of any length).
 * A chunk borrows its rows from the tasks, which live until it is committed: written, and so is everything before it. So the place of a row
 * depends on the order of the recordings alone. Committing adds an entry to the journal.
 *
 * Safety: everything in struct crew is under its lock but what a worker has taken: a running task, a chunk being packed or written. Blocking
 * work is done without it, except the journal's small writes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/thread.h"
#include "jobs/build_ahead.h"
#include "jobs/build_own.h"
#include "jobs/write_all.h"
#include "model/hdf5_adopt.h"

enum { PULSE_NS = 100000000, MOST_TASKS_PER_THREAD = 8 };

struct task {
    struct task *next;        /* in order */
    uint64_t first, count, skip;
    int split;
    bool is_done;
    int users;                /* chunks that borrow from it, and one until it is joined */
    uint64_t rows;
    struct scratch data, row; /* rows, and struct build_row of each */
    struct build_table bad;
    struct fb_error error;    /* a bad recording that ends the build */
};

enum chunk_state { CHUNK_OPEN, CHUNK_FULL, CHUNK_PACKING, CHUNK_PACKED, CHUNK_WRITING, CHUNK_WRITTEN };

struct part {
    struct task *task; /* NULL: rows kept by the chunk itself */
    uint64_t first, rows;
};

struct chunk {
    struct chunk *next;
    enum chunk_state state;
    struct build_piece piece;
    struct scratch part;          /* struct part */
    uint64_t parts;
    struct scratch kept, kept_row; /* rows copied out of tasks, so that those can go */
    uint64_t kept_rows;
    struct scratch packed;
    struct build_table bad;
};

struct crew {
    const struct build_plan *p;
    struct build_files *files;
    struct build_table *table;
    struct build_meter *meter;
    pthread_mutex_t lock;
    pthread_cond_t changed;       /* for workers */
    pthread_cond_t told;          /* for the caller */
    struct budget budget;
    struct build_ahead ahead;
    struct task *oldest, *newest, *spare_task;
    struct chunk *first, *last, *spare_chunk; /* in order; the last one may be open */
    uint64_t next_file, skip;     /* where the next task begins */
    uint64_t tasks, task_limit;
    uint64_t chunks_made, packed_next, offset_next;
    struct build_table bad;       /* met, not yet in a chunk */
    uint64_t files_done, rows_done, bad_count;
    int running;                  /* workers that have not ended */
    bool is_stopped;
    struct fb_error error;
};

struct build_worker {
    struct crew *c;
    pthread_t thread;
    struct build_sound sound;
    struct scratch gather;
    struct build_deflate deflate;
};

/* ---- ending ---- */

static void stop(struct crew *c, const struct fb_error *e)
{
    if (e && e->code && !c->error.code)
        c->error = *e;
    c->is_stopped = true;
    pthread_cond_broadcast(&c->changed);
    pthread_cond_signal(&c->told);
}

/* ---- tasks ---- */

static void release_task(struct crew *c, struct task *t)
{
    if (--t->users > 0)
        return;
    if (t->data.capacity > 2 * c->p->task_bytes)
        scratch_free(&t->data);
    t->next = c->spare_task;
    c->spare_task = t;
    c->tasks--;
}

static struct task *new_task(struct crew *c)
{
    struct task *t = c->spare_task;
    if (t)
        c->spare_task = t->next;
    else if ((t = calloc(1, sizeof(*t))))
        t->data.budget = &c->budget;
    return t;
}

/* Recordings may have more rows than the first one promised: then fewer tasks are under way. */
static bool may_start(struct crew *c)
{
    if (c->next_file >= c->p->files || c->tasks >= c->task_limit)
        return false;
    uint64_t more = c->spare_task ? 0 : c->p->task_bytes;
    return !c->oldest || atomic_load_explicit(&c->budget.used, memory_order_relaxed) + more <= c->p->memory;
}

static struct task *start_task(struct crew *c)
{
    struct task *t = new_task(c);
    if (!t)
        return NULL;
    uint64_t first = c->next_file, count = c->p->files_per_task;
    int split = build_split_of(c->p, first);
    uint64_t end = c->p->splits ? c->p->split_first[split + 1] : c->p->files;
    t->first = first;
    t->count = end - first < count ? end - first : count;
    t->skip = c->skip;
    t->split = split;
    t->is_done = false;
    t->users = 1;
    t->rows = t->bad.bads = 0;
    t->next = NULL;
    error_clear(&t->error);
    if (c->newest)
        c->newest->next = t;
    else
        c->oldest = t;
    c->newest = t;
    c->next_file += t->count;
    c->skip = 0;
    c->tasks++;
    build_ahead_move(&c->ahead, c->next_file);
    return t;
}

static bool is_systemic(const struct fb_error *e)
{
    return e->code == FB_E_NOMEM || e->sys_errno == EMFILE || e->sys_errno == ENFILE;
}

/* A bad recording ends the task, unless it may be left out. */
static bool meet_bad(const struct crew *c, struct task *t, uint64_t file, const char *key, struct fb_error *e)
{
    struct build_bad bad = {.file = (uint32_t)file};
    error_at(e, key, -1);
    if (c->p->q->skips_bad && !is_systemic(e)) {
        text_escape(e->cause, bad.cause, sizeof(bad.cause));
        if (build_table_add_bad(&t->bad, &bad, &t->error) == 0)
            return true;
    } else if (!t->error.code) {
        t->error = *e;
    }
    return false;
}

static int64_t make_rows(struct build_worker *w, struct task *t, uint64_t file, const char **key, struct build_figures *n, struct fb_error *e)
{
    struct crew *c = w->c;
    struct catalog_sample where = {.key = ""};
    uint64_t cpu = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID), since, between, until;
    int rc = catalog_sample(c->p->dataset.catalog, c->p->file[file], &where, e);
    *key = where.key;
    if (rc < 0)
        return rc;
    since = build_meter_move(c->meter, -1, BUILD_READ, build_ahead_depth(&c->ahead));
    rc = build_sound_read(&w->sound, &where, e);
    between = build_meter_move(c->meter, BUILD_READ, BUILD_COMPUTE, 0);
    int64_t rows = rc < 0 ? rc
                          : build_sound_rows(&w->sound, (uint32_t)file, file == t->first ? t->skip : 0, &t->data, &t->row, t->rows, e);
    until = build_meter_move(c->meter, BUILD_COMPUTE, -1, 0);
    double used = (double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - cpu) / 1e9;
    n->bytes_read += w->sound.size;
    n->seconds[BUILD_READ] += (double)(between - since) / 1e9;
    n->seconds[BUILD_COMPUTE] += (double)(until - between) / 1e9;
    n->file_cpu_seconds += used;
    n->file_cpu_most = used > n->file_cpu_most ? used : n->file_cpu_most;
    build_meter_slow(c->meter, where.key, until - since);
    build_ahead_saw(&c->ahead, between - since);
    return rows;
}

static void run_task(struct build_worker *w, struct task *t)
{
    struct build_figures n = {.batches = 1};
    uint64_t since = clock_now_ns();
    for (uint64_t i = 0; i < t->count && !t->error.code; i++) {
        struct fb_error e = {0};
        const char *key;
        error_clear(&e);
        w->sound.size = 0;
        int64_t rows = make_rows(w, t, t->first + i, &key, &n, &e);
        if (rows < 0 && !meet_bad(w->c, t, t->first + i, key, &e))
            break;
        n.bad += rows < 0;
        n.files += rows >= 0;
        n.rows += rows > 0 ? (uint64_t)rows : 0;
        t->rows += rows > 0 ? (uint64_t)rows : 0;
    }
    n.batch_seconds = n.batch_most = (double)(clock_now_ns() - since) / 1e9;
    build_meter_add(w->c->meter, t->split, &n);
}

/* ---- chunks ---- */

static struct chunk *new_chunk(struct crew *c)
{
    struct chunk *k = c->spare_chunk;
    if (k)
        c->spare_chunk = k->next;
    else if ((k = calloc(1, sizeof(*k))))
        k->kept.budget = k->packed.budget = &c->budget;
    if (!k)
        return NULL;
    k->next = NULL;
    k->state = CHUNK_OPEN;
    k->piece = (struct build_piece){.number = c->chunks_made++};
    k->parts = k->kept_rows = k->bad.bads = 0;
    if (c->last)
        c->last->next = k;
    else
        c->first = k;
    c->last = k;
    return k;
}

static int add_part(struct chunk *k, struct task *t, uint64_t first, uint64_t rows, struct fb_error *e)
{
    struct part *part = scratch_grow(&k->part, k->parts * sizeof(*part), (k->parts + 1) * sizeof(*part), e);
    if (!part)
        return FB_E_NOMEM;
    part[k->parts++] = (struct part){t, first, rows};
    k->piece.rows += rows;
    if (t)
        t->users++;
    return 0;
}

/* Nothing more will be added. Where it lies is known now, unless it is yet to be deflated. */
static int close_chunk(struct crew *c, struct chunk *k, struct fb_error *e)
{
    k->state = CHUNK_FULL;
    for (uint64_t i = 0; i < c->bad.bads; i++)
        FB_TRY(build_table_add_bad(&k->bad, &((const struct build_bad *)c->bad.bad.data)[i], e));
    c->bad.bads = 0;
    if (c->p->q->deflate)
        return 0;
    k->state = CHUNK_PACKED;
    k->piece.offset = c->offset_next;
    k->piece.length = (c->p->chunk_rows ? c->p->chunk_rows : k->piece.rows) * c->p->row_bytes;
    c->offset_next += k->piece.length;
    return 0;
}

static int join_rows(struct crew *c, struct task *t, struct fb_error *e)
{
    for (uint64_t at = 0; at < t->rows;) {
        struct chunk *k = c->last && c->last->state == CHUNK_OPEN ? c->last : new_chunk(c);
        if (!k)
            return error_set(e, FB_E_NOMEM, "build", "no memory for a chunk");
        uint64_t room = c->p->chunk_rows ? c->p->chunk_rows - k->piece.rows : t->rows, n = t->rows - at < room ? t->rows - at : room;
        FB_TRY(add_part(k, t, at, n, e));
        at += n;
        if (n == room)
            FB_TRY(close_chunk(c, k, e));
    }
    return 0;
}

static int join_task(struct crew *c, struct task *t, struct fb_error *e)
{
    if (t->error.code) {
        *e = t->error;
        return e->code;
    }
    for (uint64_t i = 0; i < t->bad.bads; i++)
        FB_TRY(build_table_add_bad(&c->bad, &((const struct build_bad *)t->bad.bad.data)[i], e));
    c->bad_count += t->bad.bads;
    FB_TRY(join_rows(c, t, e));
    c->files_done += t->count;
    c->rows_done += t->rows;
    return 0;
}

/* All tasks that are done, in order; at the end the chunk that is not full. */
static int join_tasks(struct crew *c, struct fb_error *e)
{
    while (c->oldest && c->oldest->is_done) {
        struct task *t = c->oldest;
        FB_TRY(join_task(c, t, e));
        c->oldest = t->next;
        if (!c->oldest)
            c->newest = NULL;
        release_task(c, t);
    }
    if (!c->oldest && c->next_file == c->p->files && c->last && c->last->state == CHUNK_OPEN)
        FB_TRY(close_chunk(c, c->last, e));
    return 0;
}

static const uint8_t *part_data(const struct crew *c, const struct chunk *k, const struct part *x)
{
    return (const uint8_t *)(x->task ? x->task->data.data : k->kept.data) + x->first * c->p->row_bytes;
}

static const struct build_row *part_row(const struct chunk *k, const struct part *x)
{
    return (const struct build_row *)(x->task ? x->task->row.data : k->kept_row.data) + x->first;
}

/* Small tasks fill a large chunk slowly: when they are all taken, their rows are copied and they are free again. */
static int keep_rows(struct crew *c, struct chunk *k, struct fb_error *e)
{
    struct part *part = k->part.data;
    uint64_t row_bytes = c->p->row_bytes, n = k->kept_rows, count = k->piece.rows;
    uint8_t *data = scratch_grow(&k->kept, n * row_bytes, c->p->chunk_rows * row_bytes, e);
    struct build_row *row = data ? scratch_grow(&k->kept_row, n * sizeof(*row), c->p->chunk_rows * sizeof(*row), e) : NULL;
    if (!row)
        return FB_E_NOMEM;
    for (uint64_t i = 0; i < k->parts; i++) {
        if (!part[i].task)
            continue;
        memcpy(data + n * row_bytes, part_data(c, k, &part[i]), part[i].rows * row_bytes);
        memcpy(row + n, part_row(k, &part[i]), part[i].rows * sizeof(*row));
        n += part[i].rows;
        release_task(c, part[i].task);
    }
    k->kept_rows = n;
    part[0] = (struct part){NULL, 0, count};
    k->parts = 1;
    return 0;
}

static bool is_stuck(const struct crew *c)
{
    return c->next_file < c->p->files && c->tasks >= c->task_limit && !c->oldest && c->first && c->first == c->last &&
           c->first->state == CHUNK_OPEN;
}

/* ---- packing and writing ---- */

static const uint8_t *gather(struct build_worker *w, const struct chunk *k, uint64_t bytes, struct fb_error *e)
{
    const struct part *part = k->part.data;
    uint64_t at = 0;
    if (k->parts == 1 && part[0].rows == w->c->p->chunk_rows)
        return part_data(w->c, k, &part[0]);
    uint8_t *to = scratch_need(&w->gather, bytes, e);
    for (uint64_t i = 0; to && i < k->parts; i++) {
        uint64_t n = part[i].rows * w->c->p->row_bytes;
        memcpy(to + at, part_data(w->c, k, &part[i]), n);
        at += n;
    }
    if (to)
        memset(to + at, 0, bytes - at);
    return to;
}

static int pack_rows(struct build_worker *w, struct chunk *k, struct fb_error *e)
{
    const struct build_plan *p = w->c->p;
    uint64_t bytes = p->chunk_rows * p->row_bytes;
    const uint8_t *rows = gather(w, k, bytes, e), *packed;
    if (!rows)
        return FB_E_NOMEM;
    FB_TRY(build_deflate_run(&w->deflate, p->q->deflate, rows, bytes, fb_dtype_size(p->dtype), &packed, &k->piece.length, e));
    uint8_t *out = scratch_need(&k->packed, k->piece.length, e);
    if (!out)
        return FB_E_NOMEM;
    memcpy(out, packed, k->piece.length);
    k->piece.hash = checksum_of(out, k->piece.length);
    return 0;
}

static int pack_chunk(struct build_worker *w, struct chunk *k, struct fb_error *e)
{
    uint64_t since = build_meter_move(w->c->meter, -1, BUILD_COMPRESS, 0);
    int rc = pack_rows(w, k, e);
    uint64_t until = build_meter_move(w->c->meter, BUILD_COMPRESS, -1, 0);
    const struct part *part = k->part.data;
    struct build_figures f = {.seconds = {[BUILD_COMPRESS] = (double)(until - since) / 1e9}};
    build_meter_add(w->c->meter, part[0].task ? part[0].task->split : 0, &f);
    return rc;
}

static int write_parts(int fd, struct iovec *v, int count, uint64_t offset, struct fb_error *e)
{
    while (count > 0) {
        ssize_t n = pwritev(fd, v, count, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(e, "write", errno, "write the file");
        offset += (uint64_t)n;
        while (count > 0 && (size_t)n >= v->iov_len) {
            n -= (ssize_t)v->iov_len;
            v++;
            count--;
        }
        if (count > 0) {
            v->iov_base = (char *)v->iov_base + n;
            v->iov_len -= (size_t)n;
        }
    }
    return 0;
}

/* Rows from where they are; a last chunk that is not full is followed by zeros. */
static int write_rows(struct build_worker *w, const struct chunk *k, struct fb_error *e)
{
    const struct part *part = k->part.data;
    struct iovec v[64];
    uint64_t offset = k->piece.offset, end = k->piece.offset + k->piece.length;
    for (uint64_t i = 0; i < k->parts;) {
        int n = 0;
        uint64_t bytes = 0;
        for (; i < k->parts && n < 64; i++, n++) {
            v[n] = (struct iovec){(void *)(uintptr_t)part_data(w->c, k, &part[i]), part[i].rows * w->c->p->row_bytes};
            bytes += v[n].iov_len;
        }
        FB_TRY(write_parts(w->c->files->data_fd, v, n, offset, e));
        offset += bytes;
    }
    uint8_t *zeros = offset < end ? scratch_need(&w->gather, end - offset, e) : NULL;
    if (offset < end && !zeros)
        return FB_E_NOMEM;
    if (zeros)
        memset(zeros, 0, end - offset);
    return zeros ? write_all_at(w->c->files->data_fd, zeros, end - offset, offset, e) : 0;
}

static int write_chunk(struct build_worker *w, struct chunk *k, struct fb_error *e)
{
    uint64_t since = build_meter_move(w->c->meter, -1, BUILD_WRITE, 0);
    int rc = w->c->p->q->deflate ? write_all_at(w->c->files->data_fd, k->packed.data, k->piece.length, k->piece.offset, e) : write_rows(w, k, e);
    uint64_t until = build_meter_move(w->c->meter, BUILD_WRITE, -1, 0);
    const struct part *part = k->part.data;
    struct build_figures f = {.seconds = {[BUILD_WRITE] = (double)(until - since) / 1e9}};
    build_meter_add(w->c->meter, part[0].task ? part[0].task->split : 0, &f);
    return rc;
}

/* ---- committing ---- */

static int commit(struct crew *c, struct chunk *k, struct fb_error *e)
{
    const struct part *part = k->part.data;
    uint64_t before = c->table->rows;
    struct build_row *row = scratch_grow(&c->table->row, before * sizeof(*row), (before + k->piece.rows) * sizeof(*row), e);
    if (!row)
        return FB_E_NOMEM;
    uint64_t at = before;
    for (uint64_t i = 0; i < k->parts; i++, at += part[i - 1].rows)
        memcpy(row + at, part_row(k, &part[i]), part[i].rows * sizeof(*row));
    FB_TRY(build_files_note(c->files, &k->piece, row + before, k->bad.bad.data, k->bad.bads, e));
    for (uint64_t i = 0; i < k->bad.bads; i++)
        FB_TRY(build_table_add_bad(c->table, &((const struct build_bad *)k->bad.bad.data)[i], e));
    return build_table_add(c->table, &k->piece, row + before, e);
}

static int commit_chunks(struct crew *c, struct fb_error *e)
{
    while (c->first && c->first->state == CHUNK_WRITTEN) {
        struct chunk *k = c->first;
        struct part *part = k->part.data;
        FB_TRY(commit(c, k, e));
        c->first = k->next;
        if (!c->first)
            c->last = NULL;
        for (uint64_t i = 0; i < k->parts; i++)
            if (part[i].task)
                release_task(c, part[i].task);
        k->next = c->spare_chunk;
        c->spare_chunk = k;
    }
    return 0;
}

/* Deflated chunks get their places in order, as their lengths become known. */
static void place_chunks(struct crew *c)
{
    if (!c->p->q->deflate)
        return;
    for (struct chunk *k = c->first; k && k->state >= CHUNK_PACKED; k = k->next)
        if (k->state == CHUNK_PACKED && k->piece.number == c->packed_next) {
            k->piece.offset = c->offset_next;
            c->offset_next += k->piece.length;
            c->packed_next++;
        }
}

static struct chunk *find_chunk(const struct crew *c, enum chunk_state state)
{
    for (struct chunk *k = c->first; k; k = k->next)
        if (k->state == state && (state != CHUNK_PACKED || k->piece.offset))
            return k;
    return NULL;
}

/* ---- a worker ---- */

/* One piece of work, if there is any; the lock is held before and after. */
static bool work_once(struct build_worker *w, struct fb_error *e)
{
    struct crew *c = w->c;
    struct chunk *k;
    struct task *t;
    int rc = 0;
    if ((k = find_chunk(c, CHUNK_PACKED))) {
        k->state = CHUNK_WRITING;
        pthread_mutex_unlock(&c->lock);
        rc = write_chunk(w, k, e);
        pthread_mutex_lock(&c->lock);
        k->state = CHUNK_WRITTEN;
        rc = rc < 0 ? rc : commit_chunks(c, e);
    } else if ((k = find_chunk(c, CHUNK_FULL))) {
        k->state = CHUNK_PACKING;
        pthread_mutex_unlock(&c->lock);
        rc = pack_chunk(w, k, e);
        pthread_mutex_lock(&c->lock);
        k->state = CHUNK_PACKED;
        place_chunks(c);
    } else if (is_stuck(c)) {
        rc = keep_rows(c, c->last, e);
    } else if (may_start(c) && (t = start_task(c))) {
        pthread_mutex_unlock(&c->lock);
        run_task(w, t);
        pthread_mutex_lock(&c->lock);
        t->is_done = true;
        rc = join_tasks(c, e);
    } else {
        return false;
    }
    if (rc < 0)
        stop(c, e);
    pthread_cond_broadcast(&c->changed);
    return true;
}

static bool is_over(const struct crew *c)
{
    return c->is_stopped || (c->next_file >= c->p->files && !c->oldest && !c->first);
}

static void *work(void *arg)
{
    struct build_worker *w = arg;
    struct crew *c = w->c;
    pthread_mutex_lock(&c->lock);
    while (!is_over(c)) {
        struct fb_error e = {0};
        error_clear(&e);
        if (!work_once(w, &e) && !is_over(c))
            pthread_cond_wait(&c->changed, &c->lock);
    }
    c->running--;
    pthread_cond_broadcast(&c->changed);
    pthread_cond_signal(&c->told);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- the caller ---- */

static void tell(struct crew *c, uint64_t started_ns)
{
    const struct build_request *q = c->p->q;
    struct build_progress now = {c->files_done, c->p->files, c->table->rows, c->table->bads, (double)(clock_now_ns() - started_ns) / 1e9,
                                 build_meter_bottleneck(c->meter)};
    pthread_mutex_unlock(&c->lock);
    if (q->progress)
        q->progress(q->ctx, &now);
    bool is_interrupted = q->options.interrupted && q->options.interrupted(q->options.ctx);
    pthread_mutex_lock(&c->lock);
    if (is_interrupted && !c->is_stopped) {
        struct fb_error e = {0};
        error_set(&e, FB_E_INTERRUPTED, "build", "interrupted");
        stop(c, &e);
    }
}

static void wait_for_end(struct crew *c, uint64_t started_ns)
{
    pthread_mutex_lock(&c->lock);
    while (c->running > 0) {
        thread_cond_wait_until(&c->told, &c->lock, clock_now_ns() + PULSE_NS);
        tell(c, started_ns);
    }
    pthread_mutex_unlock(&c->lock);
}

/* From the row behind the last one that is there. */
static void find_start(struct crew *c)
{
    const struct build_table *t = c->table;
    c->offset_next = HDF5_ADOPT_FIRST;
    if (!t->rows)
        return;
    const struct build_row *last = &((const struct build_row *)t->row.data)[t->rows - 1];
    const struct build_piece *piece = &((const struct build_piece *)t->piece.data)[t->pieces - 1];
    c->next_file = c->files_done = last->file;
    c->skip = last->segment + 1;
    c->chunks_made = c->packed_next = t->pieces;
    c->offset_next = piece->offset + piece->length;
}

static uint64_t limit_of(const struct build_plan *p)
{
    uint64_t most = p->task_memory / p->task_bytes, usual = (uint64_t)p->threads * MOST_TASKS_PER_THREAD;
    return most < usual ? most : usual;
}

static void free_all(struct crew *c)
{
    for (struct task *t = c->oldest, *next; t; t = next) {
        next = t->next;
        t->next = c->spare_task;
        c->spare_task = t;
    }
    for (struct chunk *k = c->first, *next; k; k = next) {
        next = k->next;
        for (uint64_t i = 0; i < k->parts; i++)
            if (((struct part *)k->part.data)[i].task)
                release_task(c, ((struct part *)k->part.data)[i].task);
        k->next = c->spare_chunk;
        c->spare_chunk = k;
    }
    for (struct task *t = c->spare_task, *next; t; t = next) {
        next = t->next;
        scratch_free(&t->data);
        scratch_free(&t->row);
        build_table_free(&t->bad);
        free(t);
    }
    for (struct chunk *k = c->spare_chunk, *next; k; k = next) {
        next = k->next;
        scratch_free(&k->part);
        scratch_free(&k->kept);
        scratch_free(&k->kept_row);
        scratch_free(&k->packed);
        build_table_free(&k->bad);
        free(k);
    }
    build_table_free(&c->bad);
}

static void free_worker(struct build_worker *w)
{
    build_sound_free(&w->sound);
    scratch_free(&w->gather);
    build_deflate_free(&w->deflate);
}

static int run_workers(struct crew *c, struct build_worker *all, struct fb_error *e)
{
    uint64_t started_ns = clock_now_ns();
    int started = 0, rc = 0;
    for (; started < c->p->threads && rc == 0; started++) {
        struct build_worker *w = &all[started];
        w->c = c;
        w->sound.p = c->p;
        w->sound.bytes.budget = w->sound.signal.budget = w->sound.wide.budget = &c->budget;
        w->gather.budget = w->deflate.shuffled.budget = w->deflate.packed.budget = &c->budget;
        char name[16];
        snprintf(name, sizeof(name), "fb-b%d", started);
        pthread_mutex_lock(&c->lock);
        c->running++;
        pthread_mutex_unlock(&c->lock);
        rc = thread_start(&w->thread, name, work, w, e);
        if (rc < 0) {
            pthread_mutex_lock(&c->lock);
            c->running--;
            stop(c, e);
            pthread_mutex_unlock(&c->lock);
            break;
        }
    }
    build_ahead_start(&c->ahead, c->p);
    wait_for_end(c, started_ns);
    build_ahead_stop(&c->ahead);
    for (int i = 0; i < started; i++)
        pthread_join(all[i].thread, NULL);
    return rc;
}

int build_crew_run(const struct build_plan *p, struct build_files *f, struct build_table *t, struct build_meter *m,
                   struct build_result *out, struct fb_error *e)
{
    struct crew c = {.p = p, .files = f, .table = t, .meter = m, .task_limit = limit_of(p)};
    struct build_worker *all = calloc((size_t)p->threads, sizeof(*all));
    if (!all)
        return error_set(e, FB_E_NOMEM, "build", "no memory for workers");
    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.changed, NULL);
    thread_cond_init(&c.told);
    atomic_store(&c.budget.limit, UINT64_MAX / 2); /* counted, not limited: the number of tasks keeps it inside the budget */
    find_start(&c);
    run_workers(&c, all, e);
    /* bad ones behind the last row */
    for (uint64_t i = 0; i < c.bad.bads && !c.error.code; i++)
        build_table_add_bad(t, &((const struct build_bad *)c.bad.bad.data)[i], &c.error);
    out->memory_peak = atomic_load(&c.budget.peak);
    for (int i = 0; i < p->threads; i++)
        free_worker(&all[i]);
    free_all(&c);
    free(all);
    pthread_cond_destroy(&c.told);
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.lock);
    if (c.error.code && e && !e->code)
        *e = c.error;
    return c.error.code;
}
