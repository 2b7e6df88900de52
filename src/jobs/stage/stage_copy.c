/* Moving the bytes: this thread asks io for pieces, many in flight; io's completions go to writers, who put them in place. Memory and
 * pieces in flight are bounded, so a slow target holds the reading back and a slow source leaves the writers idle. No io_wait: with that
 * one thread submits and waits, while here several take what comes, a writer may ask again for a file that grew, and each piece has a
 * buffer of its size.
 *
 * Safety: everything in struct copier is under its lock but the queue and the pieces, each of which belongs to one thread at a time:
 * asker, io, writer. A large file belongs to the pieces under way; whoever finishes the last one finishes the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/queue.h"
#include "base/round_up.h"
#include "base/thread.h"
#include "jobs/stage/stage_internal.h"

enum { WRITERS = 4, WRITERS_MOST = 64, PIECES_MOST = 512, BYTES_MOST = 128 << 20, GROWS_MOST = 3 };

struct large {
    struct stage_large file;
    uint64_t under_way; /* pieces asked for and not over, plus one while more are to come; under lock */
    bool has_failed;
};

struct piece {
    struct queue_item link;
    struct io_request r;
    struct fb_error error;
    struct copier *copier;
    struct stage_item *item;
    struct large *large; /* NULL: the whole file */
    uint64_t number;     /* of the piece in it */
    uint64_t size;       /* counted in bytes */
    int grows;
};

struct copier {
    struct stage_job *job;
    struct queue ready; /* pieces that came, for the writers */
    pthread_mutex_t lock;
    pthread_cond_t written;
    uint32_t under_way, sending;
    uint64_t bytes;
    bool is_halted; /* halted: what is not read yet comes back as closed */
    int fatal;      /* the target fails: nothing goes on */
    struct fb_error fatal_error;
    pthread_t writer[WRITERS_MOST];
    int writers;
};

/* ---- what became of it ---- */

static void note_failed(struct copier *c, const struct stage_item *item, const struct fb_error *e)
{
    struct stage_job *j = c->job;
    pthread_mutex_lock(&j->lock);
    j->out->failed++;
    pthread_mutex_unlock(&j->lock);
    stage_note(j, stage_name(&j->list, item->name), e->cause[0] ? e->cause : "it could not be read");
}

static void note_fatal(struct copier *c, const struct stage_item *item, const struct fb_error *e)
{
    pthread_mutex_lock(&c->lock);
    if (!c->fatal) {
        c->fatal = e->code ? e->code : FB_E_IO;
        c->fatal_error = *e;
        error_at(&c->fatal_error, stage_name(&c->job->list, item->name), -1);
    }
    pthread_mutex_unlock(&c->lock);
}

/* A name that is refused is one file's trouble, a disk that is full everybody's. */
static void note_unwritten(struct copier *c, const struct stage_item *item, const struct fb_error *e)
{
    if (e->code == FB_E_DATA || e->sys_errno == ENAMETOOLONG || e->sys_errno == EILSEQ || e->sys_errno == EINVAL)
        note_failed(c, item, e);
    else
        note_fatal(c, item, e);
}

/* A file is whole and has its name. */
static void note_copied(struct copier *c, struct stage_item *item, uint64_t size, int64_t mtime_ns, uint64_t checksum)
{
    struct stage_job *j = c->job;
    struct fb_error e;
    error_clear(&e);
    if (stage_log_add(&j->log, stage_name(&j->list, item->name), size, mtime_ns, checksum, &e) < 0) {
        note_fatal(c, item, &e);
        return;
    }
    pthread_mutex_lock(&j->lock);
    j->out->copied++;
    j->out->copied_bytes += size;
    j->out->changed += size != item->size || mtime_ns != item->mtime_ns;
    pthread_mutex_unlock(&j->lock);
    item->size = size;
    item->mtime_ns = mtime_ns;
}

/* ---- writing ---- */

static int64_t time_of(const struct piece *p)
{
    bool is_file = p->item->length == IO_WHOLE && p->r.object_mtime_ns;
    return is_file ? p->r.object_mtime_ns : p->item->mtime_ns;
}

/* Is what was read another version than the one that was listed? Ranges of a store's object are compared by the store (must_match), which
 * need not tell how large the whole is. */
static bool is_replaced(const struct piece *p)
{
    const struct stage_item *item = p->item;
    bool is_compared = p->r.must_match && p->r.length != IO_WHOLE;
    if (!p->r.object_mtime_ns || is_compared)
        return false;
    return p->r.object_mtime_ns != item->mtime_ns || p->r.object_size != item->object_size;
}

static void write_small(struct copier *c, struct safe_place *place, struct piece *p)
{
    const char *name = stage_name(&c->job->list, p->item->name);
    struct fb_error e;
    error_clear(&e);
    bool is_range = p->item->length != IO_WHOLE, has_other = is_range && is_replaced(p);
    if (has_other || (is_range && p->r.got != p->item->length)) {
        error_set(&e, FB_E_DATA, "stage", "%s",
                  has_other ? "its archive changed while it was copied" : "its archive ends before the end of this file");
        note_failed(c, p->item, &e);
        return;
    }
    if (stage_write_file(place, name, p->r.buffer, p->r.got, time_of(p), &e) < 0)
        note_unwritten(c, p->item, &e);
    else
        note_copied(c, p->item, p->r.got, time_of(p), checksum_of(p->r.buffer, p->r.got));
}

/* Under no lock; the last one of a large file. */
static void finish_large(struct copier *c, struct large *g, struct stage_item *item)
{
    struct fb_error e;
    uint64_t checksum;
    error_clear(&e);
    if (!g->has_failed && g->file.left == 0) {
        if (stage_large_finish(&g->file, item->size, item->mtime_ns, &checksum, &e) < 0)
            note_unwritten(c, item, &e);
        else
            note_copied(c, item, item->size, item->mtime_ns, checksum);
    }
    stage_large_close(&g->file);
    free(g);
}

/* A piece of it is over, well or not. */
static void leave_large(struct copier *c, struct large *g, struct stage_item *item, bool is_good)
{
    pthread_mutex_lock(&c->lock);
    g->file.left -= is_good;
    bool is_last = --g->under_way == 0;
    pthread_mutex_unlock(&c->lock);
    if (is_last)
        finish_large(c, g, item);
}

/* The first failure of a large file is the one that is told. */
static void fail_large(struct copier *c, struct large *g, struct stage_item *item, const struct fb_error *e, bool is_target)
{
    pthread_mutex_lock(&c->lock);
    bool was_told = g->has_failed;
    g->has_failed = true;
    pthread_mutex_unlock(&c->lock);
    if (was_told)
        return;
    if (is_target)
        note_unwritten(c, item, e);
    else
        note_failed(c, item, e);
}

static void write_large(struct copier *c, struct piece *p)
{
    struct fb_error e;
    error_clear(&e);
    uint64_t want = p->r.length;
    bool is_good = p->r.got == want && !is_replaced(p);
    if (!is_good) {
        error_set(&e, FB_E_DATA, "stage", "%s changed while it was copied", p->item->length == IO_WHOLE ? "it" : "its archive");
        fail_large(c, p->large, p->item, &e, false);
    } else if (stage_large_write(&p->large->file, p->number, p->r.buffer, p->r.got, &e) < 0) {
        fail_large(c, p->large, p->item, &e, true);
        is_good = false;
    }
    leave_large(c, p->large, p->item, is_good);
}

static void end_piece(struct copier *c, struct piece *p)
{
    pthread_mutex_lock(&c->lock);
    c->under_way--;
    c->bytes -= p->size;
    pthread_cond_signal(&c->written);
    pthread_mutex_unlock(&c->lock);
    free(p->r.buffer);
    free(p);
}

static bool ask_again(struct copier *c, struct piece *p);

static void write_piece(struct copier *c, struct safe_place *place, struct piece *p)
{
    if (p->r.status == IO_GREW && ask_again(c, p))
        return;
    pthread_mutex_lock(&c->lock);
    bool goes_on = !c->fatal && !(c->is_halted && p->r.status == FB_E_STATE);
    pthread_mutex_unlock(&c->lock);
    if (p->r.status != 0) {
        if (goes_on && p->large)
            fail_large(c, p->large, p->item, &p->error, false);
        else if (goes_on)
            note_failed(c, p->item, &p->error);
        if (p->large)
            leave_large(c, p->large, p->item, false);
    } else if (p->large) {
        write_large(c, p);
    } else if (goes_on) {
        write_small(c, place, p);
    }
    end_piece(c, p);
}

static void *writer_main(void *arg)
{
    struct copier *c = arg;
    struct safe_place place = safe_place_at(c->job->target_fd, "stage");
    for (struct piece *p; (p = queue_take(&c->ready));)
        write_piece(c, &place, p);
    safe_place_close(&place);
    return NULL;
}

/* ---- reading ---- */

static void read_done(struct io_request *r)
{
    struct piece *p = r->owner;
    queue_put(&p->copier->ready, &p->link);
}

/* Writers may ask again, so halting waits until nobody is in here. */
static void send(struct copier *c, struct piece *p)
{
    pthread_mutex_lock(&c->lock);
    struct io *io = c->is_halted ? NULL : c->job->list.source[p->item->source].io;
    c->sending += io != NULL;
    pthread_mutex_unlock(&c->lock);
    if (!io) {
        p->r.status = FB_E_STATE;
        read_done(&p->r);
        return;
    }
    io->ops->submit(io, &p->r, false);
    pthread_mutex_lock(&c->lock);
    c->sending--;
    pthread_cond_signal(&c->written);
    pthread_mutex_unlock(&c->lock);
}

/* Ends the reading: what is in flight is cancelled. Reads that cannot be are left behind. */
static void halt(struct copier *c)
{
    struct stage_list *l = &c->job->list;
    uint32_t left = 0;
    pthread_mutex_lock(&c->lock);
    c->is_halted = true;
    while (c->sending > 0)
        pthread_cond_wait(&c->written, &c->lock);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < l->sources; i++) {
        left += l->source[i].io ? l->source[i].io->ops->close(l->source[i].io, 200000000) : 0;
        l->source[i].io = NULL;
    }
    pthread_mutex_lock(&c->lock);
    c->under_way -= left;
    pthread_mutex_unlock(&c->lock);
}

/* A file that is larger than the catalog says: with a larger buffer. False: it could not be asked for. */
static bool ask_again(struct copier *c, struct piece *p)
{
    uint64_t size = p->r.object_size;
    bool may_grow = size <= STAGE_PIECE * 16 && ++p->grows <= GROWS_MOST;
    uint8_t *more = may_grow ? aligned_alloc(64, round_up(size + 2 * IO_TAIL, 64)) : NULL;
    if (!more) {
        error_set(&p->error, FB_E_DATA, "stage", "it grows while it is copied");
        p->r.status = FB_E_DATA;
        return false;
    }
    free(p->r.buffer);
    p->r.buffer = more;
    p->r.capacity = size + 2 * IO_TAIL;
    p->r.expected_size = size;
    send(c, p);
    return true;
}

/* Until there is room for a piece of this size. Negative: it is over. */
static int wait_for_room(struct copier *c, uint64_t size, struct fb_error *e)
{
    struct stage_job *j = c->job;
    pthread_mutex_lock(&c->lock);
    while (!c->fatal && c->under_way > 0 && (c->under_way >= PIECES_MOST || c->bytes + size > BYTES_MOST)) {
        thread_cond_wait_until(&c->written, &c->lock, clock_now_ns() + 100000000);
        pthread_mutex_unlock(&c->lock);
        bool is_interrupted = j->q->interrupted && j->q->interrupted(j->q->ctx);
        if (is_interrupted)
            return error_set(e, FB_E_INTERRUPTED, "stage", "interrupted");
        pthread_mutex_lock(&c->lock);
    }
    int rc = c->fatal;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

static void show_progress(struct copier *c)
{
    struct stage_job *j = c->job;
    if (!j->q->progress)
        return;
    pthread_mutex_lock(&j->lock);
    struct stage_progress p = {j->out->copied,
                               j->out->files - j->out->there,
                               j->out->copied_bytes,
                               j->out->bytes - j->out->there_bytes,
                               (double)(clock_now_ns() - j->started_ns) / 1e9,
                               false};
    pthread_mutex_unlock(&j->lock);
    j->q->progress(j->q->ctx, &p);
}

static int ask(struct copier *c, struct stage_item *item, struct large *large, uint64_t number, uint64_t offset, uint64_t length,
               uint64_t size, struct fb_error *e)
{
    const struct stage_list *l = &c->job->list;
    FB_TRY(wait_for_room(c, size, e));
    struct piece *p = calloc(1, sizeof(*p));
    uint8_t *buffer = aligned_alloc(64, round_up(size + IO_TAIL, 64));
    if (!p || !buffer) {
        free(p);
        free(buffer);
        return error_set(e, FB_E_NOMEM, "stage", "no memory for reading");
    }
    *p = (struct piece){.copier = c, .item = item, .large = large, .number = number, .size = size};
    error_clear(&p->error);
    p->r = (struct io_request){.dir_fd = l->source[item->source].root_fd,
                               .path = stage_name(l, item->object),
                               .offset = offset,
                               .length = length,
                               .expected_size = size,
                               .buffer = buffer,
                               .capacity = size + IO_TAIL,
                               .done = read_done,
                               .owner = p,
                               .error = &p->error,
                               .expected_mtime_ns = item->mtime_ns,
                               .must_match = l->source[item->source].dataset.io != NULL};
    pthread_mutex_lock(&c->lock);
    c->under_way++;
    c->bytes += size;
    if (large)
        large->under_way++;
    pthread_mutex_unlock(&c->lock);
    send(c, p);
    return 0;
}

static int ask_large(struct copier *c, struct stage_item *item, struct fb_error *e)
{
    struct stage_job *j = c->job;
    struct large *g = calloc(1, sizeof(*g));
    if (!g)
        return error_set(e, FB_E_NOMEM, "stage", "no memory");
    g->under_way = 1; /* ours, until all pieces are asked for */
    struct fb_error why;
    error_clear(&why);
    int rc = stage_large_open(&g->file, j->target_fd, stage_name(&j->list, item->name), item->size, item->mtime_ns, j->q->resumes, &why);
    if (rc < 0)
        fail_large(c, g, item, &why, true);
    uint64_t first = item->length == IO_WHOLE ? 0 : item->offset;
    rc = 0;
    for (uint64_t i = 0; rc == 0 && !g->has_failed && i < g->file.pieces; i++) {
        uint64_t at = i * STAGE_PIECE, n = item->size - at < STAGE_PIECE ? item->size - at : STAGE_PIECE;
        if (!g->file.is_done[i])
            rc = ask(c, item, g, i, first + at, n, n, e);
        show_progress(c);
    }
    leave_large(c, g, item, false);
    return rc;
}

static int ask_all(struct copier *c, struct fb_error *e)
{
    struct stage_job *j = c->job;
    for (uint64_t i = 0; i < j->list.count; i++) {
        struct stage_item *item = stage_item(&j->list, i);
        if (item->is_there)
            continue;
        if (j->q->interrupted && j->q->interrupted(j->q->ctx))
            return error_set(e, FB_E_INTERRUPTED, "stage", "interrupted");
        if (item->size > STAGE_PIECE)
            FB_TRY(ask_large(c, item, e));
        else
            FB_TRY(ask(c, item, NULL, 0, item->offset, item->length, item->size, e));
        if (i % 16 == 0)
            show_progress(c);
    }
    return 0;
}

/* Everything that was asked for comes back and is written, unless it is over before. */
static int drain(struct copier *c, int rc, struct fb_error *e)
{
    const struct stage_request *q = c->job->q;
    pthread_mutex_lock(&c->lock);
    while (c->under_way > 0) {
        bool must_halt = (rc < 0 || c->fatal) && !c->is_halted;
        if (!must_halt)
            thread_cond_wait_until(&c->written, &c->lock, clock_now_ns() + 100000000);
        pthread_mutex_unlock(&c->lock);
        if (must_halt)
            halt(c);
        else if (rc == 0 && q->interrupted && q->interrupted(q->ctx))
            rc = error_set(e, FB_E_INTERRUPTED, "stage", "interrupted");
        show_progress(c);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    queue_close(&c->ready);
    return rc;
}

int stage_copy(struct stage_job *j, struct fb_error *e)
{
    struct copier c = {.job = j};
    int wanted = j->q->threads > 0 ? j->q->threads : WRITERS, rc = 0;
    pthread_mutex_init(&c.lock, NULL);
    queue_init(&c.ready);
    thread_cond_init(&c.written);
    for (; rc == 0 && c.writers < wanted && c.writers < WRITERS_MOST; c.writers++)
        if ((rc = thread_start(&c.writer[c.writers], "fb-stage", writer_main, &c, c.writers ? NULL : e)) < 0)
            break;
    if (c.writers > 0)
        rc = drain(&c, ask_all(&c, e), e);
    for (int i = 0; i < c.writers; i++)
        pthread_join(c.writer[i], NULL);
    struct fb_error why;
    error_clear(&why);
    if (stage_log_flush(&j->log, &why) < 0 && !c.fatal) {
        c.fatal = why.code;
        c.fatal_error = why;
    }
    if (c.fatal) {
        *e = c.fatal_error;
        rc = c.fatal;
    }
    show_progress(&c);
    queue_destroy(&c.ready);
    pthread_cond_destroy(&c.written);
    pthread_mutex_destroy(&c.lock);
    return rc;
}
