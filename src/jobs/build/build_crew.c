/* The workers. Three kinds of work, all by the same threads, the one nearest to the output first:
 *
 *   task   some recordings, one after the other in the plan -> rows
 *   pack   rows of a chunk -> shuffled, deflated (only when compressed)
 *   write  a chunk to its place in the file
 *
 * Where the file is written past the page cache (build_direct.c), a few threads more wait for the disk, and workers do not write.
 *
 * Tasks end in any order and are joined in theirs; joined rows fill chunks (a contiguous output has one "chunk" per task, of any length).
 * A chunk borrows its rows from the tasks, which live until it is committed: written, and so is everything before it. So the place of a row
 * depends on the order of the recordings alone. Committing adds an entry to the journal.
 *
 * A task has as many recordings as its share of the memory has room for, guessed by their sizes. When they turn out to need more, the task
 * ends before the one that does not fit, which becomes the first of another. One that does not fit into a task of its own waits until it is
 * the next to be joined, and then may take what the plan keeps for one that is large.
 *
 * Safety: everything in struct crew is under its lock but what a worker has taken: a running task, a chunk being packed or written.
 * Blocking work is done without it, except the journal's small writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/thread.h"
#include "jobs/build/build_crew.h"
#include "model/hdf5/hdf5_adopt.h"

enum { REPORT_NS = 100000000, WRITE_BACK_NS = 20000000, WRITERS = 2 };

/* ---- ending ---- */

static void stop(struct build_crew *c, const struct fb_error *e)
{
    if (e && e->code && !c->error.code)
        c->error = *e;
    c->is_stopped = true;
    pthread_cond_broadcast(&c->changed);
    pthread_cond_signal(&c->told);
}

/* ---- tasks ---- */

static void free_task(struct build_task *t)
{
    scratch_free(&t->data);
    scratch_free(&t->row);
    build_table_free(&t->bad);
    free(t);
}

/* Spare ones keep their memory for the next, so they and those at work must not be more than the plan has memory for: tasks that were split
 * off come on top of that while they wait. */
void build_release_task(struct build_crew *c, struct build_task *t)
{
    if (--t->users > 0)
        return;
    bool is_kept = t != c->large && t->data.capacity && c->tasks <= c->p->task_limit;
    c->large = t == c->large ? NULL : c->large;
    c->tasks--;
    if (!is_kept) {
        free_task(t);
        return;
    }
    t->next = c->spare_task;
    c->spare_task = t;
}

static struct build_task *new_task(struct build_crew *c)
{
    struct build_task *t = c->spare_task;
    if (t)
        c->spare_task = t->next;
    else if ((t = calloc(1, sizeof(*t))))
        t->data.budget = t->row.budget = &c->budget;
    return t;
}

/* A task of these recordings behind `before`, or the first of all. */
static struct build_task *add_task(struct build_crew *c, struct build_task *before, uint64_t first, uint64_t count)
{
    struct build_task *t = new_task(c);
    if (!t)
        return NULL;
    t->first = first;
    t->count = count;
    t->skip = 0;
    t->split = build_split_of(c->p, first);
    t->is_done = t->is_waiting = t->is_large = false;
    t->users = 1;
    t->rows = t->bad.bads = 0;
    error_clear(&t->error);
    t->next = before ? before->next : NULL;
    if (before)
        before->next = t;
    else
        c->oldest = t;
    if (!t->next)
        c->newest = t;
    c->tasks++;
    return t;
}

static struct build_task *start_task(struct build_crew *c)
{
    if (c->next_file >= c->p->files || c->tasks >= c->p->task_limit)
        return NULL;
    uint64_t first = c->next_file, end = c->p->splits ? c->p->split_first[build_split_of(c->p, first) + 1] : c->p->files;
    struct build_task *t = add_task(c, c->newest, first, build_files_of_task(c->p, first, end));
    if (!t)
        return NULL;
    t->skip = c->skip;
    c->next_file += t->count;
    c->skip = 0;
    build_ahead_move(&c->ahead, c->next_file);
    return t;
}

/* The oldest can always start, in the place of a large one if need be: no later task is joined before it. */
static struct build_task *take_task(struct build_crew *c)
{
    struct build_task *t = c->waiting ? c->oldest : NULL;
    while (t && !t->is_waiting)
        t = t->next;
    bool fits = t && !t->is_large && c->tasks <= c->p->task_limit; /* it is one of them */
    if (!fits && (!t || t != c->oldest || c->large))
        return start_task(c);
    t->is_large = !fits;
    c->large = fits ? c->large : t;
    t->is_waiting = false;
    c->waiting--;
    return t;
}

static void put_back(struct build_crew *c, struct build_task *t, bool is_large)
{
    t->is_waiting = true;
    t->is_large = is_large;
    c->waiting++;
}

/* It had room for the first `done` of its recordings. The others wait, in a task of their own. */
static int end_task(struct build_crew *c, struct build_task *t, uint64_t done, struct fb_error *e)
{
    if (done == 0 && !t->error.code) {
        put_back(c, t, true);
        return 0;
    }
    if (done < t->count && !t->error.code) {
        struct build_task *rest = add_task(c, t, t->first + done, t->count - done);
        if (!rest)
            return error_set(e, FB_E_NOMEM, "build", "no memory for a task");
        put_back(c, rest, false);
        t->count = done;
    }
    t->is_done = true;
    return build_join_tasks(c, e);
}

/* A bad recording ends the task, unless it may be left out. */
static bool meet_bad(const struct build_worker *w, struct build_task *t, uint64_t file, const char *key, struct fb_error *e)
{
    struct build_bad bad = {.needed = w->sound.needed, .file = (uint32_t)file};
    error_at(e, key, -1);
    if (w->c->p->q->skips_bad && !error_is_systemic(e)) {
        text_escape(e->cause, bad.cause, sizeof(bad.cause));
        if (build_table_add_bad(&t->bad, &bad, &t->error) == 0)
            return true;
    } else if (!t->error.code) {
        t->error = *e;
    }
    return false;
}

#define NO_ROOM INT64_MAX

static int64_t make_rows(struct build_worker *w, struct build_task *t, uint64_t file, const char **key, struct build_figures *n,
                         struct fb_error *e)
{
    struct build_crew *c = w->c;
    struct catalog_sample where = {.key = ""};
    uint64_t since, between, until, row = c->p->row_bytes + sizeof(struct build_row);
    bool may_be_large = t->is_large && file == t->first;
    w->sound.room = may_be_large ? c->p->large_bytes : c->p->sound_bytes;
    uint64_t left = t->rows < c->p->task_rows ? (c->p->task_rows - t->rows) * row : 0;
    w->sound.room_for_rows = may_be_large ? c->p->large_bytes : t->rows ? left : c->p->task_bytes;
    int rc = catalog_sample(c->p->dataset.catalog, c->p->file[file], &where, e);
    *key = where.key;
    if (rc < 0)
        return rc;
    since = build_meter_move(c->meter, -1, BUILD_READ, build_ahead_depth(&c->ahead));
    rc = build_sound_read(&w->sound, &where, e);
    between = build_meter_move(c->meter, BUILD_READ, BUILD_COMPUTE, 0);
    int64_t rows = rc != 0 ? (rc < 0 ? rc : NO_ROOM)
                           : build_sound_rows(&w->sound, (uint32_t)file, file == t->first ? t->skip : 0, &t->data, &t->row, t->rows, e);
    until = build_meter_move(c->meter, BUILD_COMPUTE, -1, 0);
    n->bytes_read += w->sound.have;
    n->seconds[BUILD_READ] += (double)(between - since) / 1e9;
    n->seconds[BUILD_COMPUTE] += (double)(until - between) / 1e9;
    if (rows != NO_ROOM) /* it is yet to be done */
        build_meter_slow(c->meter, where.key, until - since);
    return rows;
}

static uint64_t waits_so_far(void)
{
    struct rusage u;
    return getrusage(RUSAGE_THREAD, &u) == 0 ? (uint64_t)u.ru_nvcsw : 0;
}

/* Returns how many of its recordings it had room for. */
static uint64_t run_task(struct build_worker *w, struct build_task *t)
{
    struct build_figures n = {0};
    uint64_t since = clock_now_ns(), cpu_ns = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID), waits = waits_so_far();
    uint64_t i = 0;
    for (; i < t->count && !t->error.code; i++) {
        struct fb_error e = {0};
        const char *key;
        error_clear(&e);
        w->sound.have = w->sound.needed = 0;
        int64_t rows = make_rows(w, t, t->first + i, &key, &n, &e);
        if (rows == NO_ROOM)
            break;
        if (rows < 0 && !meet_bad(w, t, t->first + i, key, &e))
            break;
        n.bad += rows < 0;
        n.files += rows >= 0;
        n.rows += rows > 0 ? (uint64_t)rows : 0;
        t->rows += rows > 0 ? (uint64_t)rows : 0;
    }
    n.file_cpu_seconds = (double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns) / 1e9;
    if (i > 0 || t->error.code) { /* else it waits for room, and is done another time */
        n.batches = 1;
        n.batch_seconds = n.batch_most = (double)(clock_now_ns() - since) / 1e9;
    }
    build_ahead_saw(&w->c->ahead, (uint64_t)(n.seconds[BUILD_READ] * 1e9), t->count, waits_so_far() - waits);
    build_meter_add(w->c->meter, t->split, &n);
    return i;
}

/* ---- a worker ---- */

/* One piece of work, if there is any; the lock is held before and after. */
static bool work_once(struct build_worker *w, struct fb_error *e)
{
    struct build_crew *c = w->c;
    struct build_chunk *k;
    struct build_task *t;
    int rc = 0;
    if (w->is_writer == (c->writers > 0) && (k = build_find_chunk(c, BUILD_CHUNK_PACKED))) {
        k->state = BUILD_CHUNK_WRITING;
        pthread_mutex_unlock(&c->lock);
        rc = build_write_chunk(w, k, e);
        pthread_mutex_lock(&c->lock);
        k->state = rc < 0 ? BUILD_CHUNK_WRITING : BUILD_CHUNK_WRITTEN; /* nor does anybody else note what did not arrive */
        rc = rc < 0 ? rc : build_commit_chunks(c, e);
    } else if (w->is_writer) {
        return false;
    } else if ((k = build_find_chunk(c, BUILD_CHUNK_FULL))) {
        k->state = BUILD_CHUNK_PACKING;
        pthread_mutex_unlock(&c->lock);
        rc = build_pack_chunk(w, k, e);
        pthread_mutex_lock(&c->lock);
        k->state = BUILD_CHUNK_PACKED;
        build_place_chunks(c);
    } else if (build_is_stuck(c)) {
        rc = build_keep_rows(c, c->last, e);
    } else if ((t = take_task(c))) {
        pthread_mutex_unlock(&c->lock);
        uint64_t done = run_task(w, t);
        pthread_mutex_lock(&c->lock);
        rc = end_task(c, t, done, e);
    } else {
        return false;
    }
    if (rc < 0)
        stop(c, e);
    pthread_cond_broadcast(&c->changed);
    return true;
}

static bool is_over(const struct build_crew *c)
{
    return c->is_stopped || (c->next_file >= c->p->files && !c->oldest && !c->first);
}

static void *work(void *arg)
{
    struct build_worker *w = arg;
    struct build_crew *c = w->c;
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

static void tell(struct build_crew *c, uint64_t started_ns)
{
    const struct build_request *q = c->p->q;
    uint64_t now_ns = clock_now_ns();
    struct build_progress now = {.files = c->files_done,
                                 .files_total = c->p->files,
                                 .rows = c->table->rows,
                                 .bad = c->table->bads,
                                 .files_before = c->files_before,
                                 .seconds = (double)(now_ns - started_ns) / 1e9,
                                 .bottleneck = build_meter_bottleneck(c->meter, now_ns)};
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

/* The disk may begin with what is there, so that little is left to wait for at the end. That is all there where rows begin at
 * sectors and go past the page cache; where only tasks do, a bad recording is enough to move those behind it out of step. */
static void write_back(const struct build_crew *c, uint64_t *done, uint64_t end)
{
    bool is_written = build_direct_is_on(&c->files->direct) && c->p->row_bytes % BUILD_SECTOR == 0;
    if (end <= *done)
        return;
    if (!is_written)
        sync_file_range(c->files->data_fd, (off_t)*done, (off_t)(end - *done), SYNC_FILE_RANGE_WRITE);
    *done = end;
}

static void wait_for_end(struct build_crew *c, uint64_t started_ns)
{
    uint64_t next_report = started_ns + REPORT_NS;
    pthread_mutex_lock(&c->lock);
    uint64_t written = c->offset_next;
    while (c->running > 0) {
        thread_cond_wait_until(&c->told, &c->lock, clock_now_ns() + WRITE_BACK_NS);
        uint64_t end = c->first && c->first->piece.offset ? c->first->piece.offset : c->offset_next; /* no place yet: behind all others */
        pthread_mutex_unlock(&c->lock);
        write_back(c, &written, end);
        pthread_mutex_lock(&c->lock);
        if (clock_now_ns() < next_report && c->running > 0)
            continue;
        next_report = clock_now_ns() + REPORT_NS;
        tell(c, started_ns);
    }
    pthread_mutex_unlock(&c->lock);
}

/* From the row behind the last one that is there. */
static void find_start(struct build_crew *c)
{
    const struct build_table *t = c->table;
    c->offset_next = HDF5_ADOPT_FIRST;
    if (!t->rows)
        return;
    const struct build_row *last = &((const struct build_row *)t->row.data)[t->rows - 1];
    const struct build_piece *piece = &((const struct build_piece *)t->piece.data)[t->pieces - 1];
    c->next_file = c->files_done = c->files_before = last->file;
    c->skip = last->segment + 1;
    c->chunks_made = c->packed_next = t->pieces;
    c->offset_next = piece->offset + piece->length;
}

static void free_all(struct build_crew *c)
{
    for (struct build_task *t = c->oldest, *next; t; t = next) {
        next = t->next;
        t->next = c->spare_task;
        c->spare_task = t;
    }
    for (struct build_chunk *k = c->first, *next; k; k = next) {
        next = k->next;
        for (uint64_t i = 0; i < k->parts; i++)
            if (((struct build_part *)k->part.data)[i].task)
                build_release_task(c, ((struct build_part *)k->part.data)[i].task);
        k->next = c->spare_chunk;
        c->spare_chunk = k;
    }
    for (struct build_task *t = c->spare_task, *next; t; t = next) {
        next = t->next;
        free_task(t);
    }
    for (struct build_chunk *k = c->spare_chunk, *next; k; k = next) {
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

static int run_workers(struct build_crew *c, struct build_worker *all, struct fb_error *e)
{
    uint64_t started_ns = clock_now_ns();
    int started = 0, rc = 0;
    build_ahead_start(&c->ahead, c->p);
    for (; started < c->p->threads + c->writers && rc == 0; started++) {
        struct build_worker *w = &all[started];
        w->c = c;
        w->is_writer = started >= c->p->threads;
        w->sound.p = c->p;
        w->sound.bytes.budget = w->sound.signal.budget = w->sound.wide.budget = w->sound.work.budget = &c->budget;
        w->gather.budget = w->deflate.shuffled.budget = w->deflate.packed.budget = &c->budget;
        char name[16];
        snprintf(name, sizeof(name), w->is_writer ? "fb-bw%d" : "fb-b%d", started);
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
    wait_for_end(c, started_ns);
    build_ahead_stop(&c->ahead);
    for (int i = 0; i < started; i++)
        pthread_join(all[i].thread, NULL);
    return rc;
}

int build_crew_run(const struct build_plan *p, struct build_files *f, struct build_table *t, struct build_meter *m,
                   struct build_result *out, struct fb_error *e)
{
    struct build_crew c = {.p = p, .files = f, .table = t, .meter = m};
    c.writers = build_direct_is_on(&f->direct) ? WRITERS : 0;
    m->threads = p->threads;
    m->writers = c.writers;
    struct build_worker *all = calloc((size_t)(p->threads + c.writers), sizeof(*all));
    if (!all)
        return error_set(e, FB_E_NOMEM, "build", "no memory for workers");
    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.changed, NULL);
    thread_cond_init(&c.told);
    atomic_store(&c.budget.limit, UINT64_MAX / 2); /* counted, not limited: the plan has divided it */
    find_start(&c);
    run_workers(&c, all, e);
    /* bad ones behind the last row */
    for (uint64_t i = 0; i < c.bad.bads && !c.error.code; i++)
        build_table_add_bad(t, &((const struct build_bad *)c.bad.bad.data)[i], &c.error);
    out->writers = (uint32_t)c.writers;
    out->memory_peak = atomic_load(&c.budget.peak) + t->rows * sizeof(struct build_row);
    for (int i = 0; i < p->threads + c.writers; i++)
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
