#include "cache/cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/text/text.h"
#include "base/thread.h"
#include "cache/cache_internal.h"

/* ---- what the parts share ---- */

uint64_t cache_hash(const struct cache *c, const struct cache_unit *u)
{
    (void)c;
    return rng_mix(rng_mix(checksum_of(u->path, strlen(u->path)), u->offset), u->length);
}

int cache_identify(struct cache *c, const struct cache_unit *u, bool may_block, struct cache_identity *out)
{
    memset(out, 0, sizeof(*out));
    if (c->ask_ns && !may_block)
        return IO_BLOCKED;
    if (c->ask_ns)
        clock_sleep_until_ns(clock_now_ns() + c->ask_ns);
    if (c->source.identify)
        return c->source.identify(c->source.ctx, u, may_block, out);
    return cache_identify_file(u->dir_fd, u->path, may_block, out);
}

bool cache_same_identity(const struct cache_identity *a, const struct cache_identity *b)
{
    return a->length && a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

void cache_turn_off(struct cache *c, int sys_errno, const char *doing, bool is_write)
{
    char why[128];
    if (sys_errno != ENOSPC && sys_errno != EDQUOT && sys_errno != EROFS)
        is_write = false; /* not merely full */
    atomic_store_explicit(is_write ? &c->is_write_off : &c->is_disk_off, true, memory_order_relaxed);
    pthread_mutex_lock(&c->lock);
    bool was_warned = c->was_warned;
    c->was_warned = true;
    if (!was_warned)
        snprintf(c->why_off, sizeof(c->why_off), "cannot %s it: %s", doing, text_errno(sys_errno, why, sizeof(why)));
    pthread_mutex_unlock(&c->lock);
    if (!was_warned)
        log_line(&c->log, LOG_WARN, "the disk cache is off: %s; %s", c->why_off,
                 is_write ? "what it holds is still used" : "everything is read from the source");
}

bool cache_open_failed(struct cache *c, int sys_errno, const char *doing, bool is_write)
{
    if (sys_errno == EMFILE || sys_errno == ENFILE)
        return false;
    cache_turn_off(c, sys_errno, doing, is_write);
    return true;
}

void cache_finish(struct cache *c, struct io_request *r)
{
    r->done_ns = clock_now_ns();
    cache_count(&c->busy_ns, r->done_ns - r->submitted_ns);
    if (r->status < 0)
        cache_count(&c->failures, 1);
    atomic_fetch_sub_explicit(&c->in_flight, 1, memory_order_relaxed);
    r->done(r);
}

int cache_answer(struct io_request *r, const struct cache_unit *u, const uint8_t *data, uint64_t bytes, uint64_t object_size,
                 int64_t mtime_ns)
{
    uint64_t first = r->length == IO_WHOLE ? 0 : r->offset - u->offset;
    uint64_t left = bytes > first ? bytes - first : 0, n = r->length < left ? r->length : left;
    r->object_size = object_size;
    r->object_mtime_ns = mtime_ns;
    r->got = 0;
    if (n > r->capacity || r->capacity - n < (r->has_fd ? 0 : IO_TAIL))
        return IO_GREW;
    memcpy(r->buffer, data + first, n);
    r->got = n;
    return 0;
}

static int fail(struct io_request *r, int code, const char *cause)
{
    r->got = 0;
    r->status = error_set(r->error, code, "read", "%s", cause);
    error_at(r->error, r->path, -1);
    return r->status;
}

/* ---- the hooks ---- */

static void raise_peak(struct cache *c, uint32_t now)
{
    uint32_t seen = atomic_load_explicit(&c->in_flight_peak, memory_order_relaxed);
    while (now > seen && !atomic_compare_exchange_weak_explicit(&c->in_flight_peak, &seen, now, memory_order_relaxed, memory_order_relaxed))
        ;
}

static void cache_submit(struct io *io, struct io_request *r, bool more)
{
    struct cache *c = (struct cache *)io;
    (void)more;
    if (c->pid != getpid()) {
        fail(r, FB_E_FORKED, "the reader belongs to the parent process");
        r->done(r);
        return;
    }
    r->submitted_ns = clock_now_ns();
    raise_peak(c, atomic_fetch_add_explicit(&c->in_flight, 1, memory_order_relaxed) + 1);
    r->next = NULL;
    pthread_mutex_lock(&c->lock);
    bool is_taken = !c->is_closing;
    if (is_taken) {
        if (c->asked)
            c->asked_last->next = r;
        else
            c->asked = r;
        c->asked_last = r;
        is_taken = team_call(c, &c->lookup_team);
        if (!is_taken)
            c->asked = NULL; /* without any thread it is the only one */
    }
    bool is_closing = c->is_closing;
    pthread_mutex_unlock(&c->lock);
    if (is_taken)
        return;
    if (is_closing) {
        fail(r, FB_E_STATE, "the reader was closed before this read was over");
        cache_finish(c, r);
    } else {
        flight_pass(c, r);
    }
}

static int cache_try_now(struct io *io, struct io_request *r)
{
    struct cache *c = (struct cache *)io;
    if (c->pid != getpid())
        return fail(r, FB_E_FORKED, "the reader belongs to the parent process");
    r->submitted_ns = clock_now_ns();
    int rc = cache_look_now(c, r);
    if (rc == LOOK_NOT_OURS && c->inner->ops->try_now)
        return c->inner->ops->try_now(c->inner, r);
    if (rc != 0)
        return IO_BLOCKED;
    r->done_ns = clock_now_ns();
    cache_count(&c->busy_ns, r->done_ns - r->submitted_ns);
    return r->status;
}

static bool is_kept(struct cache *c, const struct io_piece *p)
{
    struct io_request r = {.path = p->path,
                           .has_fd = true,
                           .fd = p->fd,
                           .object = p->object,
                           .offset = p->offset,
                           .length = p->length,
                           .buffer = p->to,
                           .capacity = p->length};
    return cache_look_now(c, &r) == 0 && r.status == 0 && r.got == p->length;
}

/* Pieces of objects that are kept come from here or by submit, which keeps them; of others, from the source. */
static uint32_t cache_try_pieces(struct io *io, struct io_piece *p, uint32_t count)
{
    struct cache *c = (struct cache *)io;
    uint32_t there = 0;
    if (c->pid != getpid() || count == 0)
        return 0;
    if (!p->object)
        return c->inner->ops->try_pieces ? c->inner->ops->try_pieces(c->inner, p, count) : 0;
    for (uint32_t i = 0; i < count; i++)
        there += p[i].is_there = is_kept(c, &p[i]);
    return there;
}

static uint64_t get(const _Atomic uint64_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

static void cache_io_figures(struct io *io, struct io_figures *f)
{
    struct cache *c = (struct cache *)io;
    struct io_figures inner = {0};
    c->inner->ops->figures(c->inner, &inner);
    *f = (struct io_figures){
        .reads = get(&c->ram_hits) + get(&c->disk_hits) + get(&c->misses) + get(&c->joined),
        .bytes = get(&c->ram_hit_bytes) + get(&c->disk_hit_bytes) + get(&c->miss_bytes),
        .failures = get(&c->failures),
        .busy_ns = get(&c->busy_ns),
        .in_flight_ns = get(&c->busy_ns),
        .in_flight = atomic_load_explicit(&c->in_flight, memory_order_relaxed),
        .in_flight_peak = atomic_load_explicit(&c->in_flight_peak, memory_order_relaxed),
        .depth = inner.depth,
        .abandoned = inner.abandoned,
    };
}

void cache_read_figures(struct io *io, struct cache_figures *f)
{
    struct cache *c = (struct cache *)io;
    *f = (struct cache_figures){
        .ram_hits = get(&c->ram_hits),
        .disk_hits = get(&c->disk_hits),
        .misses = get(&c->misses),
        .ram_hit_bytes = get(&c->ram_hit_bytes),
        .disk_hit_bytes = get(&c->disk_hit_bytes),
        .miss_bytes = get(&c->miss_bytes),
        .filled = get(&c->filled),
        .filled_bytes = get(&c->filled_bytes),
        .stored = get(&c->stored),
        .stored_bytes = get(&c->stored_bytes),
        .evicted = get(&c->evicted),
        .evicted_bytes = get(&c->evicted_bytes),
        .damaged = get(&c->damaged),
        .changed = get(&c->changed),
        .joined = get(&c->joined),
        .ram_limit = c->ram.limit,
        .disk_bytes = c->has_disk ? dir_used(&c->dir) : 0,
        .disk_limit = c->has_disk ? c->dir.limit : 0,
        .has_disk = c->has_disk,
        .over = c->inner->ops->name,
    };
    pthread_mutex_lock(&c->lock);
    f->ram_bytes = c->ram.bytes;
    f->is_off = c->was_warned;
    memcpy(f->why_off, c->why_off, sizeof(f->why_off));
    pthread_mutex_unlock(&c->lock);
}

void cache_move(struct io *io, const struct cache_reader *r)
{
    struct cache *c = (struct cache *)io;
    pthread_mutex_lock(&c->lock);
    c->reader = *r;
    c->has_reader = true;
    pthread_cond_signal(&c->fill_wakes);
    pthread_mutex_unlock(&c->lock);
}

/* ---- opening and closing ---- */

static const struct io_ops cache_ops;

static void free_cache(struct cache *c)
{
    ram_close(&c->ram);
    present_close(&c->present, c->budget);
    if (c->has_disk)
        dir_close(&c->dir);
    pthread_cond_destroy(&c->lookup_team.wake);
    pthread_cond_destroy(&c->store_team.wake);
    pthread_cond_destroy(&c->quiet);
    pthread_cond_destroy(&c->fill_wakes);
    pthread_cond_destroy(&c->claim_over);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->future_lock);
    free(c);
}

static int prepare(struct cache *c, const struct cache_options *o, struct fb_error *e)
{
    if (!ram_open(&c->ram, o->ram_limit))
        return error_set(e, FB_E_NOMEM, "cache", "no memory for the cache");
    if (!o->dir)
        return 0;
    c->has_disk = true;
    FB_TRY(dir_open(&c->dir, o->dir, o->source.name, o->disk_limit, e));
    if (!o->source.is_known || !o->source.unit_at || !present_open(&c->present, c->budget, o->source.count))
        return 0;
    return fill_start(c, e);
}

int cache_open(struct io **out, const struct cache_options *o, struct fb_error *e)
{
    struct cache *c = calloc(1, sizeof(*c));
    if (!c) {
        o->inner->ops->close(o->inner, 0);
        return error_set(e, FB_E_NOMEM, "cache", "no memory for the cache");
    }
    c->io.ops = &cache_ops;
    c->inner = o->inner;
    c->pid = getpid();
    if (o->log)
        c->log = *o->log;
    c->budget = o->budget;
    c->source = o->source;
    c->depth = o->depth ? o->depth : 1;
    c->dir.place_fd = -1;
    uint64_t share = atomic_load_explicit(&o->budget->limit, memory_order_relaxed) / 16;
    c->store_limit = share < CACHE_STORE_QUEUE ? share : CACHE_STORE_QUEUE;
    c->ask_ns = o->inner->ops->ask_ns ? o->inner->ops->ask_ns(o->inner) : 0;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->future_lock, NULL);
    teams_init(c);
    thread_cond_init(&c->quiet);
    thread_cond_init(&c->fill_wakes);
    thread_cond_init(&c->claim_over);
    int rc = prepare(c, o, e);
    if (rc < 0) {
        c->inner->ops->close(c->inner, 0);
        free_cache(c);
        return rc;
    }
    *out = &c->io;
    return 0;
}

static void cancel_asked(struct cache *c)
{
    pthread_mutex_lock(&c->lock);
    struct io_request *asked = c->asked;
    c->asked = NULL;
    pthread_mutex_unlock(&c->lock);
    while (asked) {
        struct io_request *r = asked;
        asked = r->next;
        fail(r, FB_E_STATE, "the reader was closed before this read was over");
        cache_finish(c, r);
    }
}

/* A stuck thread may still use it, so the handle stays; reachable, because it is left on purpose. */
static void keep_for_ever(struct cache *c)
{
    static _Atomic(struct cache *) kept;
    atomic_store(&kept, c);
}

static uint32_t cache_close(struct io *io, uint64_t timeout_ns)
{
    struct cache *c = (struct cache *)io;
    if (c->pid != getpid())
        return 0;
    uint64_t deadline_ns = clock_now_ns() + timeout_ns;
    pthread_mutex_lock(&c->lock);
    c->is_closing = true;
    pthread_cond_broadcast(&c->fill_wakes);
    while (c->sending > 0) /* submit never blocks */
        pthread_cond_wait(&c->quiet, &c->lock);
    pthread_mutex_unlock(&c->lock);
    cancel_asked(c);
    uint32_t left = c->inner->ops->close(c->inner, timeout_ns / 2); /* ends what is in flight */
    pthread_mutex_lock(&c->lock);
    c->flights_alive -= left < c->flights_alive ? left : c->flights_alive; /* these will not come back */
    pthread_mutex_unlock(&c->lock);
    left += teams_end(c, deadline_ns);
    if (left)
        keep_for_ever(c);
    else
        free_cache(c);
    return left;
}

static const struct io_ops cache_ops = {
    .name = "cache",
    .submit = cache_submit,
    .try_now = cache_try_now,
    .try_pieces = cache_try_pieces,
    .figures = cache_io_figures,
    .close = cache_close,
};
