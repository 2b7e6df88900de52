#include "base/round_up.h"
#include "feed/gather_reads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file/file.h"
#include "feed/load_ops.h"

enum { JOIN_MOST = 4 << 20 }; /* beyond that, reads side by side are faster than a single one */

static int ends_early(struct fb_error *e, const char *path, uint64_t end)
{
    error_set(e, FB_E_DATA, "read", "the file ends at byte %llu, inside the part that is needed", (unsigned long long)end);
    error_remedy(e, "the file was cut short: copy it again");
    error_at(e, path, (int64_t)end);
    return FB_E_DATA;
}

static void close_file(struct gather_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    array_file_free(&file->arrays);
}

void gather_close_files(struct gather *g)
{
    for (uint32_t i = 0; i < g->files; i++)
        close_file(&g->file[i]);
    g->files = 0;
}

/* ---- listing ---- */

void gather_start(struct gather *g, struct worker *w)
{
    *g = (struct gather){.w = w, .piece = w->pieces.data, .staged = w->known.data};
}

/* Is that what comes next after the last piece, in the file and in memory? */
static bool goes_on(const struct gather *g, const struct gather_source *from, uint64_t offset, const void *to, bool is_staged)
{
    if (!g->count)
        return false;
    const struct io_piece *p = &g->piece[g->count - 1];
    bool begins_block = from->object && from->object->block && offset % from->object->block == 0;
    return p->offset + p->length == offset && (const uint8_t *)p->to + p->length == to && p->fd == from->fd && p->is_staged == is_staged &&
           p->length < JOIN_MOST && !begins_block;
}

static int add_piece(struct gather *g, const struct gather_source *from, uint64_t offset, uint64_t length, void *to, size_t stage_at,
                     struct fb_error *e)
{
    bool is_staged = !to;
    if (is_staged)
        to = (void *)stage_at;
    if (goes_on(g, from, offset, to, is_staged)) {
        g->piece[g->count - 1].length += length;
        return 0;
    }
    size_t bytes = g->count * sizeof(*g->piece);
    g->piece = scratch_grow(&g->w->pieces, bytes, bytes + sizeof(*g->piece), e);
    if (!g->piece)
        return e->code;
    g->piece[g->count++] = (struct io_piece){from->fd, offset, length, to, false, is_staged, from->is_sure, from->path, from->object};
    return 0;
}

int gather_add(struct gather *g, const struct gather_source *from, uint64_t offset, uint64_t length, void *to, size_t stage_at,
               struct fb_error *e)
{
    uint64_t block = from->object ? from->object->block : 0;
    if (!length)
        return 0; /* an array without numbers */
    for (uint64_t n; block && length > block - offset % block; offset += n, length -= n, stage_at += n) {
        n = block - offset % block;
        FB_TRY(add_piece(g, from, offset, n, to, stage_at, e));
        to = to ? (uint8_t *)to + n : NULL;
    }
    return add_piece(g, from, offset, length, to, stage_at, e);
}

static int reserve_at(struct gather *g, const void *what, size_t at, uint64_t bytes, struct fb_error *e)
{
    size_t listed = g->staged_count * sizeof(*g->staged);
    g->staged = scratch_grow(&g->w->known, listed, listed + sizeof(*g->staged), e);
    if (!g->staged)
        return e->code;
    g->staged[g->staged_count++] = (struct staged){what, at};
    g->stage_bytes = at + bytes;
    return 0;
}

int gather_reserve(struct gather *g, const void *what, uint64_t bytes, size_t *at, struct fb_error *e)
{
    *at = memory_rounded(g->stage_bytes);
    return reserve_at(g, what, *at, bytes, e);
}

int gather_stage(struct gather *g, const struct gather_source *from, const void *what, uint64_t offset, uint64_t length, struct fb_error *e)
{
    size_t at = goes_on(g, from, offset, (void *)g->stage_bytes, true) ? g->stage_bytes : memory_rounded(g->stage_bytes);
    FB_TRY(reserve_at(g, what, at, length, e));
    return gather_add(g, from, offset, length, NULL, at, e);
}

uint8_t *gather_next(struct gather *g, const void *what)
{
    if (g->staged_next == g->staged_count || g->staged[g->staged_next].what != what)
        return NULL;
    return g->stage + g->staged[g->staged_next++].at;
}

/* ---- reading ---- */

static int make_stage(struct feed *f, struct gather *g, struct fb_error *e)
{
    if (g->stage_bytes && !(g->stage = worker_memory(f, &g->w->bytes, g->stage_bytes + IO_TAIL, e)))
        return e->code;
    for (uint32_t i = 0; g->stage_bytes && i < g->count; i++)
        if (g->piece[i].is_staged)
            g->piece[i].to = g->stage + (size_t)g->piece[i].to;
    return 0;
}

int gather_read_one(const struct gather_source *from, uint64_t offset, uint64_t length, void *to, struct fb_error *e)
{
    uint64_t got = file_read_all_at(from->fd, to, length, offset);
    if (got == length)
        return 0;
    if (errno == 0)
        return ends_early(e, from->path, offset + got);
    int rc = error_set_errno(e, "read", errno, "read the file");
    error_at(e, from->path, (int64_t)(offset + got));
    return rc;
}

static int read_pieces(const struct gather *g, struct fb_error *e)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const struct io_piece *p = &g->piece[i];
        if (!p->is_there)
            FB_TRY(gather_read_one(&(struct gather_source){.fd = p->fd, .path = p->path}, p->offset, p->length, p->to, e));
    }
    return 0;
}

int gather_read_here(struct feed *f, struct gather *g, struct fb_error *e)
{
    FB_TRY(make_stage(f, g, e));
    return read_pieces(g, e);
}

/* ---- waiting ---- */

static void piece_done(struct io_request *r)
{
    struct waited *x = r->owner;
    struct feed *f = x->feed;
    meter_work(&f->meter, 0, STAGE_READ, r->done_ns > r->submitted_ns ? r->done_ns - r->submitted_ns : 0, 1, r->status == 0 ? r->got : 0);
    atomic_fetch_add_explicit(&f->io_reads, 1, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&x->pending, 1, memory_order_acq_rel) == 1)
        crew_push(f, x->load);
}

/* NULL: the budget has nothing left for it. Nobody waits for memory here: those who would give some back may be waiting for this worker. */
static struct waited *waited_new(struct feed *f, const struct gather *g, uint32_t count)
{
    size_t head = sizeof(struct waited) + count * sizeof(struct io_request) + g->files * sizeof(struct gather_file) +
                  g->staged_count * sizeof(struct staged);
    head = memory_rounded(head);
    uint64_t bytes = memory_rounded(head + g->stage_bytes + IO_TAIL);
    if (!budget_take(f->budget, MEMORY_READS, bytes))
        return NULL;
    struct waited *x = aligned_alloc(64, bytes);
    if (!x) {
        budget_give(f->budget, MEMORY_READS, bytes);
        return NULL;
    }
    *x = (struct waited){.feed = f, .count = count, .taken = bytes, .stage = (uint8_t *)x + head};
    x->file = (struct gather_file *)(x->request + count);
    x->staged = (struct staged *)(x->file + g->files);
    return x;
}

/* A piece's object may be one of those that move with the files. */
static const struct io_object *moved_object(const struct gather *g, const struct waited *x, const struct io_object *object)
{
    for (uint32_t i = 0; object && i < x->files; i++)
        if (object == &g->file[i].object)
            return &x->file[i].object;
    return object;
}

/* All that is known goes with the load. */
static void move_to(struct waited *x, struct gather *g)
{
    if (g->stage_bytes)
        memcpy(x->stage, g->stage, g->stage_bytes);
    x->staged_count = g->staged_count;
    if (g->staged_count)
        memcpy(x->staged, g->staged, g->staged_count * sizeof(*g->staged));
    x->files = g->files;
    for (; g->files > 0; g->files--)
        x->file[g->files - 1] = g->file[g->files - 1];
}

static int hand_to_io(struct feed *f, struct gather *g, struct load *l, uint32_t there, struct fb_error *e)
{
    struct waited *x = waited_new(f, g, g->count - there);
    if (!x) { /* the worker waits itself */
        atomic_fetch_add_explicit(&f->io_reads, g->count - there, memory_order_relaxed);
        return read_pieces(g, e);
    }
    x->load = l;
    move_to(x, g);
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct io_piece *p = &g->piece[i];
        if (p->is_there)
            continue;
        x->request[n++] = (struct io_request){.path = p->path,
                                              .has_fd = true,
                                              .fd = p->fd,
                                              .offset = p->offset,
                                              .length = p->length,
                                              .buffer = p->is_staged ? x->stage + ((uint8_t *)p->to - g->stage) : p->to,
                                              .capacity = p->length,
                                              .done = piece_done,
                                              .owner = x,
                                              .dir_fd = -1,
                                              .object = moved_object(g, x, p->object)};
    }
    l->waited = x;
    atomic_store_explicit(&x->pending, n, memory_order_relaxed);
    load_step(l, LOAD_READING);
    for (uint32_t i = 0; i < n; i++)
        f->io->ops->submit(f->io, &x->request[i], i + 1 < n);
    return LOAD_IS_GONE;
}

int gather_read(struct feed *f, struct gather *g, struct load *l, struct fb_error *e)
{
    FB_TRY(make_stage(f, g, e));
    uint64_t since = clock_now_ns(), bytes = 0;
    uint32_t there = f->io->ops->try_pieces ? f->io->ops->try_pieces(f->io, g->piece, g->count) : 0;
    if (there < g->count)
        return hand_to_io(f, g, l, there, e);
    for (uint32_t i = 0; i < g->count; i++)
        bytes += g->piece[i].length;
    meter_work(&f->meter, g->w->index, STAGE_READ, clock_now_ns() - since, g->count, bytes);
    atomic_fetch_add_explicit(&f->cached_reads, g->count, memory_order_relaxed);
    return 0;
}

static int ask_again(struct feed *f, struct waited *x, struct io_request *r)
{
    error_clear(&x->error);
    r->error = &x->error;
    atomic_store_explicit(&x->pending, 1, memory_order_relaxed);
    load_step(x->load, LOAD_READING);
    f->io->ops->submit(f->io, r, false);
    return LOAD_IS_GONE;
}

int gather_resume(struct feed *f, struct gather *g, struct load *l, struct fb_error *e)
{
    struct waited *x = l->waited;
    g->stage = x->stage;
    g->staged = x->staged;
    g->staged_count = x->staged_count;
    for (uint32_t i = 0; i < x->count; i++) {
        struct io_request *r = &x->request[i];
        if (r->status >= 0 && r->got < r->length)
            return ends_early(e, r->path, r->offset + r->got);
        if (r->status >= 0)
            continue;
        if (!r->error)
            return ask_again(f, x, r);
        *e = x->error;
        return e->code ? e->code : error_set(e, r->status, "read", "the read failed");
    }
    return 0;
}

void gather_drop(struct feed *f, struct load *l)
{
    struct waited *x = l->waited;
    if (!x)
        return;
    for (uint32_t i = 0; i < x->files; i++)
        close_file(&x->file[i]);
    budget_give(f->budget, MEMORY_READS, x->taken);
    free(x);
    l->waited = NULL;
}
