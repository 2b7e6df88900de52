#include "feed/gather_reads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static int ends_early(struct fb_error *e, const char *path, uint64_t end)
{
    error_set(e, FB_E_DATA, "read", "it ends at byte %llu, inside of what is wanted", (unsigned long long)end);
    error_remedy(e, "the file was cut short: copy it again");
    error_at(e, path, (int64_t)end);
    return FB_E_DATA;
}

/* ---- waiting ---- */

static void piece_done(struct io_request *r)
{
    struct waited *x = r->owner;
    struct feed *f = x->feed;
    meter_work(&f->meter, 0, STAGE_READ, r->done_ns > r->submitted_ns ? r->done_ns - r->submitted_ns : 0, 1, r->status == 0 ? r->got : 0);
    if (r->status == 0 && r->got < r->length)
        r->status = ends_early(r->error, r->path, r->offset + r->got);
    atomic_fetch_add_explicit(&f->io_reads, 1, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&x->pending, 1, memory_order_acq_rel) == 1)
        crew_push(f, x->load);
}

/* NULL: the budget has nothing left for it. Nobody waits for memory here: those who would give some back may be waiting for this worker. */
static struct waited *waited_new(struct feed *f, uint32_t count, uint32_t files, size_t stage_bytes)
{
    size_t head =
        sizeof(struct waited) + count * (sizeof(struct io_request) + sizeof(struct fb_error)) + files * sizeof(struct gather_file);
    head = (head + 63) & ~(size_t)63;
    uint64_t bytes = (head + stage_bytes + IO_TAIL + 63) & ~(size_t)63;
    if (!budget_take(f->budget, MEMORY_READS, bytes))
        return NULL;
    struct waited *x = aligned_alloc(64, bytes);
    if (!x) {
        budget_give(f->budget, MEMORY_READS, bytes);
        return NULL;
    }
    *x = (struct waited){.feed = f, .count = count, .taken = bytes, .stage = (uint8_t *)x + head};
    x->file = (struct gather_file *)(x->request + count);
    x->error = (struct fb_error *)(x->file + files);
    return x;
}

/* The short way when there is no memory to wait with: the worker waits itself. */
static int read_here(struct feed *f, const struct gather *g, struct fb_error *e)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const struct io_piece *p = &g->piece[i];
        for (uint64_t got = p->is_there ? p->length : 0; got < p->length;) {
            ssize_t n = pread(p->fd, (char *)p->to + got, p->length - got, (off_t)(p->offset + got));
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0) {
                int rc = error_set_errno(e, "read", errno, "read the file");
                error_at(e, p->path, (int64_t)(p->offset + got));
                return rc;
            }
            if (n == 0)
                return ends_early(e, p->path, p->offset + got);
            got += (uint64_t)n;
        }
    }
    atomic_fetch_add_explicit(&f->io_reads, g->count, memory_order_relaxed);
    return 0;
}

/* A piece's object may be one of those that move with the files. */
static const struct io_object *moved_object(const struct gather *g, const struct waited *x, const struct io_object *object)
{
    for (uint32_t i = 0; object && i < x->files; i++)
        if (object == &g->file[i].object)
            return &x->file[i].object;
    return object;
}

static int hand_to_io(struct feed *f, struct gather *g, struct load *l, uint32_t there, const uint8_t *stage, struct fb_error *e)
{
    struct waited *x = waited_new(f, g->count - there, g->files, g->stage_bytes);
    if (!x)
        return read_here(f, g, e);
    if (g->stage_bytes)
        memcpy(x->stage, stage, g->stage_bytes);
    x->load = l;
    x->files = g->files;
    for (; g->files > 0; g->files--)
        x->file[g->files - 1] = g->file[g->files - 1];
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct io_piece *p = &g->piece[i];
        if (p->is_there)
            continue;
        error_clear(&x->error[n]);
        uint8_t *to = g->piece[i].is_staged ? x->stage + ((uint8_t *)p->to - stage) : p->to;
        x->request[n] = (struct io_request){.path = p->path,
                                            .has_fd = true,
                                            .fd = p->fd,
                                            .offset = p->offset,
                                            .length = p->length,
                                            .buffer = to,
                                            .capacity = p->length,
                                            .done = piece_done,
                                            .owner = x,
                                            .error = &x->error[n],
                                            .dir_fd = -1,
                                            .object = moved_object(g, x, p->object)};
        n++;
    }
    l->waited = x;
    atomic_store_explicit(&x->pending, n, memory_order_relaxed);
    load_step(l, LOAD_READING);
    for (uint32_t i = 0; i < n; i++)
        f->io->ops->submit(f->io, &x->request[i], i + 1 < n);
    return 1;
}

int gather_read(struct feed *f, struct gather *g, struct load *l, uint8_t **stage, struct fb_error *e)
{
    *stage = NULL;
    if (g->stage_bytes && !(*stage = worker_memory(f, &g->w->bytes, g->stage_bytes + IO_TAIL, e)))
        return e->code;
    for (uint32_t i = 0; g->stage_bytes && i < g->count; i++)
        if (g->piece[i].is_staged)
            g->piece[i].to = *stage + (size_t)g->piece[i].to;
    uint64_t since = clock_now_ns(), bytes = 0;
    uint32_t there = f->io->ops->try_pieces ? f->io->ops->try_pieces(f->io, g->piece, g->count) : 0;
    if (there == g->count || !g->count) {
        for (uint32_t i = 0; i < g->count; i++)
            bytes += g->piece[i].length;
        meter_work(&f->meter, g->w->index, STAGE_READ, clock_now_ns() - since, g->count, bytes);
        atomic_fetch_add_explicit(&f->cached_reads, g->count, memory_order_relaxed);
        return 0;
    }
    if (!f->io->ops->try_pieces)
        for (uint32_t i = 0; i < g->count; i++)
            g->piece[i].is_there = false;
    return hand_to_io(f, g, l, there, *stage, e);
}

int waited_check(const struct waited *x, struct fb_error *e)
{
    for (uint32_t i = 0; i < x->count; i++)
        if (x->request[i].status < 0) {
            *e = x->error[i];
            if (!e->code)
                error_set(e, x->request[i].status, "read", "the read failed");
            return e->code;
        }
    return 0;
}

void waited_free(struct feed *f, struct waited *x)
{
    if (!x)
        return;
    for (uint32_t i = 0; i < x->files; i++)
        gather_close_file(&x->file[i]);
    budget_give(f->budget, MEMORY_READS, x->taken);
    free(x);
}
