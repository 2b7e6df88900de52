#include "feed/gather.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { WAITS_FOR_MEMORY = 200 };

/* ---- waiting ---- */

static void piece_done(struct io_request *r)
{
    struct waited *x = r->owner;
    struct feed *f = x->feed;
    meter_work(&f->meter, 0, STAGE_READ, r->done_ns > r->submitted_ns ? r->done_ns - r->submitted_ns : 0, 1, r->status == 0 ? r->got : 0);
    if (r->status == 0 && r->got < r->length) {
        error_set(r->error, FB_E_DATA, "read", "it ends at byte %llu, inside of what is wanted", (unsigned long long)(r->offset + r->got));
        error_remedy(r->error, "the file was cut short: copy it again");
        error_at(r->error, r->path, (int64_t)(r->offset + r->got));
        r->status = FB_E_DATA;
    }
    atomic_fetch_add_explicit(&f->io_reads, 1, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&x->pending, 1, memory_order_acq_rel) == 1)
        crew_push(f, x->load);
}

static struct waited *waited_new(struct feed *f, uint32_t count, size_t stage_bytes, struct fb_error *e)
{
    size_t head = sizeof(struct waited) + count * (sizeof(struct io_request) + sizeof(struct fb_error));
    head = (head + 63) & ~(size_t)63;
    uint64_t bytes = (head + stage_bytes + IO_TAIL + 63) & ~(size_t)63;
    bool is_paid = false;
    for (int i = 0; i < WAITS_FOR_MEMORY && !(is_paid = budget_take(f->budget, MEMORY_READS, bytes)); i++) {
        if (atomic_load_explicit(&f->is_closing, memory_order_relaxed))
            break;
        uint32_t seen = budget_seen(f->budget);
        crew_press(NULL);
        budget_wait(f->budget, seen, 5000000);
    }
    struct waited *x = is_paid ? aligned_alloc(64, bytes) : NULL;
    if (!x) {
        if (is_paid)
            budget_give(f->budget, MEMORY_READS, bytes);
        error_set(e, is_paid ? FB_E_NOMEM : FB_E_BUDGET, "read", "no memory for %zu bytes to be read", stage_bytes);
        error_remedy(e, "raise memory=, or lower batch_size=");
        return NULL;
    }
    *x = (struct waited){.feed = f, .count = count, .taken = bytes, .stage = (uint8_t *)x + head, .fd = -1};
    x->error = (struct fb_error *)(x->request + count);
    return x;
}

static int hand_to_io(struct feed *f, struct gather *g, struct load *l, const char *path, uint32_t there, const uint8_t *stage,
                      struct fb_error *e)
{
    struct waited *x = waited_new(f, g->count - there, g->stage_bytes, e);
    if (!x)
        return e->code;
    if (g->stage_bytes)
        memcpy(x->stage, stage, g->stage_bytes);
    x->load = l;
    x->fd = g->fd;
    g->fd = -1;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct io_piece *p = &g->piece[i];
        if (p->is_there)
            continue;
        error_clear(&x->error[n]);
        uint8_t *to = g->piece[i].is_staged ? x->stage + ((uint8_t *)p->to - stage) : p->to;
        x->request[n] = (struct io_request){.path = path, .has_fd = true, .fd = p->fd, .offset = p->offset, .length = p->length, .buffer = to,
                                            .capacity = p->length, .done = piece_done, .owner = x, .error = &x->error[n], .dir_fd = -1};
        n++;
    }
    l->waited = x;
    atomic_store_explicit(&x->pending, n, memory_order_relaxed);
    load_step(l, LOAD_READING);
    for (uint32_t i = 0; i < n; i++)
        f->io->ops->submit(f->io, &x->request[i], i + 1 < n);
    return 1;
}

int gather_read(struct feed *f, struct gather *g, struct load *l, const char *path, uint8_t **stage, struct fb_error *e)
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
    return hand_to_io(f, g, l, path, there, *stage, e);
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
    if (x->fd >= 0)
        close(x->fd);
    budget_give(f->budget, MEMORY_READS, x->taken);
    free(x);
}
