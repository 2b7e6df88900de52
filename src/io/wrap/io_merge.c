/* "merge": reads of neighbouring ranges as one, around a back-end that reads files.
 *
 *   lanes=N        reads under way at once (default 4)
 *   most=SIZE      bytes of one at most (default 1MiB)
 *   over=SPEC      what reads (default pread); last
 *
 * Up to `lanes` requests go on at once, each as it came. Those that come while all lanes are busy wait; when a lane is free it takes the
 * first of them, and with it every other one that lies beside it, or before or behind it with no more than GAP bytes between (the
 * headers and labels of a pack). So where reads are slow or many they become few and large, and where they are not nothing changes. It pays
 * when neighbours are asked for together: archives in their own order, or mixed by windows.
 *
 * A merged read goes into memory of the lane's own, from there to those who asked. If it fails, each of them is read alone, so that only
 * the one that is bad fails.
 *
 * Safety: the queue and the list of free lanes are under the lock; a busy lane belongs to the inner back-end, then to the thread that calls
 * its done. Neither submit nor done is called under the lock.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "io/io_count.h"
#include "io/io_list.h"
#include "io/io_shared.h"
#include "io/io_queue.h"

enum { GAP = 16 << 10, LANES_MOST = 64, ALONE = 1 };

struct merge_options {
    int64_t lanes;
    uint64_t most;
};

struct lane {
    struct io_request r; /* what the inner back-end sees */
    struct merge *merge;
    struct io_request *first; /* who asked: linked by `next`, by offset */
    uint8_t *buffer;          /* of merged reads; made when first needed */
    struct lane *next_free;
};

struct merge {
    struct io io;
    struct io *inner;
    struct merge_options options;
    unsigned forks;        /* at open */
    struct io_count count; /* of what never reached the inner back-end */
    pthread_mutex_t lock;
    struct io_queue queue;
    struct lane *free_lane;
    bool is_pumping;
    bool is_closing;
    struct lane lane[LANES_MOST];
};

static const struct option options[] = {
    {"lanes", OPTION_INT, offsetof(struct merge_options, lanes), 1, LANES_MOST, NULL, "N", "reads under way at once (default 4)"},
    {"most", OPTION_SIZE, offsetof(struct merge_options, most), 4096, 64 << 20, NULL, "SIZE", "largest read in bytes (default 1MiB)"},
    {0},
};

/* ---- which go together ---- */

static bool can_merge(const struct merge *m, const struct io_request *r)
{
    return r->length != IO_WHOLE && r->own[0] != ALONE && r->length < m->options.most;
}

static bool is_same_file(const struct io_request *a, const struct io_request *b)
{
    if (a->has_fd || b->has_fd)
        return a->has_fd && b->has_fd && a->fd == b->fd;
    return a->dir_fd == b->dir_fd && (a->path == b->path || strcmp(a->path, b->path) == 0);
}

/* Where r fits to the range [*start, *end) of `first`: then the range grows. */
static bool joins(const struct merge *m, const struct io_request *first, const struct io_request *r, uint64_t *start, uint64_t *end)
{
    if (!can_merge(m, r) || r->must_match != first->must_match || r->expected_mtime_ns != first->expected_mtime_ns ||
        !is_same_file(r, first))
        return false;
    uint64_t from = r->offset < *start ? r->offset : *start, to = r->offset + r->length > *end ? r->offset + r->length : *end;
    if (r->offset > *end + GAP || r->offset + r->length + GAP < *start || to - from > m->options.most)
        return false;
    *start = from;
    *end = to;
    return true;
}

static void insert(struct io_request **list, struct io_request *r)
{
    while (*list && (*list)->offset <= r->offset)
        list = &(*list)->next;
    r->next = *list;
    *list = r;
}

/* Takes out of the queue what joins; again and again, since a range that grew has other neighbours. */
static struct io_request *gather(struct merge *m, struct io_request *first, uint64_t *start, uint64_t *end)
{
    struct io_request *taken = first;
    bool has_grown = can_merge(m, first);
    first->next = NULL;
    while (has_grown) {
        struct io_request *rest = io_queue_take_all(&m->queue), *next;
        has_grown = false;
        for (; rest; rest = next) {
            next = rest->next;
            if (joins(m, first, rest, start, end)) {
                insert(&taken, rest);
                has_grown = true;
            } else {
                io_queue_add(&m->queue, rest);
            }
        }
    }
    return taken;
}

/* ---- reading ---- */

static void pump(struct merge *m);

static void deliver(const struct lane *l, struct io_request *r)
{
    uint64_t skipped = r->offset - l->r.offset, got = l->r.got > skipped ? l->r.got - skipped : 0;
    r->status = l->r.status;
    r->got = got < r->length ? got : r->length;
    r->object_size = l->r.object_size;
    r->object_mtime_ns = l->r.object_mtime_ns;
    r->submitted_ns = l->r.submitted_ns;
    r->done_ns = l->r.done_ns;
    if (l->r.buffer != r->buffer)
        memcpy(r->buffer, l->r.buffer + skipped, r->got);
}

/* False: there is no again. */
static bool ask_again(struct merge *m, struct io_request *r)
{
    r->own[0] = ALONE;
    pthread_mutex_lock(&m->lock);
    bool is_closing = m->is_closing;
    if (!is_closing)
        io_queue_add(&m->queue, r);
    pthread_mutex_unlock(&m->lock);
    return !is_closing;
}

static void give_lane_back(struct lane *l)
{
    struct merge *m = l->merge;
    pthread_mutex_lock(&m->lock);
    l->next_free = m->free_lane;
    m->free_lane = l;
    bool is_closing = m->is_closing;
    pthread_mutex_unlock(&m->lock);
    if (!is_closing)
        pump(m);
}

static void on_done(struct io_request *inner)
{
    struct lane *l = inner->owner;
    struct io_request *r = l->first, *next, *over = NULL, **end = &over;
    bool is_merged = r->next != NULL;
    for (; r; r = next) {
        next = r->next;
        if (is_merged && inner->status != 0 && ask_again(l->merge, r))
            continue;
        if (is_merged && inner->status != 0)
            io_fail_closed(r);
        else
            deliver(l, r);
        *end = r;
        end = &r->next;
        r->next = NULL;
    }
    give_lane_back(l);
    for (; over; over = next) {
        next = over->next;
        io_done_here(over);
    }
}

static void aim(struct lane *l, uint64_t start, uint64_t end)
{
    struct io_request *first = l->first;
    l->r = *first;
    l->r.done = on_done;
    l->r.owner = l;
    l->r.next = NULL;
    if (!first->next)
        return;
    l->r.offset = start;
    l->r.length = end - start;
    l->r.buffer = l->buffer;
    l->r.capacity = l->merge->options.most + IO_TAIL;
    l->r.error = NULL; /* each is asked again alone, and says its own */
}

/* The next lane to go, or NULL: none is free, or nobody waits. Under the lock. */
static struct lane *load_lane(struct merge *m)
{
    struct lane *l = m->free_lane;
    struct io_request *first = l ? io_queue_take(&m->queue) : NULL;
    if (!first)
        return NULL;
    uint64_t start = first->offset, end = first->offset + (first->length == IO_WHOLE ? 0 : first->length);
    if (!l->buffer)
        l->buffer = malloc(m->options.most + IO_TAIL);
    m->free_lane = l->next_free;
    first->next = NULL;
    l->first = l->buffer ? gather(m, first, &start, &end) : first;
    aim(l, start, end);
    return l;
}

/* One thread at a time; whoever comes meanwhile leaves its request in the queue, which is looked at again before that thread goes. */
static void pump(struct merge *m)
{
    pthread_mutex_lock(&m->lock);
    if (!m->is_pumping) {
        m->is_pumping = true;
        for (struct lane *l; !m->is_closing && (l = load_lane(m));) {
            pthread_mutex_unlock(&m->lock);
            m->inner->ops->submit(m->inner, &l->r, false);
            pthread_mutex_lock(&m->lock);
        }
        m->is_pumping = false;
    }
    pthread_mutex_unlock(&m->lock);
}

/* ---- hooks ---- */

static void merge_submit(struct io *io, struct io_request *r, bool more)
{
    struct merge *m = (struct merge *)io;
    if (m->forks != io_fork_count()) {
        io_refuse_forked(r);
        return;
    }
    r->own[0] = 0;
    pthread_mutex_lock(&m->lock);
    bool is_closing = m->is_closing;
    if (!is_closing)
        io_queue_add(&m->queue, r);
    pthread_mutex_unlock(&m->lock);
    if (is_closing) {
        io_fail_closed(r);
        io_done_here(r);
    } else if (!more) {
        pump(m);
    }
}

static int merge_try_now(struct io *io, struct io_request *r)
{
    struct merge *m = (struct merge *)io;
    return m->inner->ops->try_now ? m->inner->ops->try_now(m->inner, r) : IO_BLOCKED;
}

static uint32_t merge_try_pieces(struct io *io, struct io_piece *p, uint32_t count)
{
    struct merge *m = (struct merge *)io;
    return m->inner->ops->try_pieces ? m->inner->ops->try_pieces(m->inner, p, count) : 0;
}

static void merge_figures(struct io *io, struct io_figures *f)
{
    struct merge *m = (struct merge *)io;
    m->inner->ops->figures(m->inner, f);
}

static void free_merge(struct merge *m)
{
    for (int i = 0; i < LANES_MOST; i++)
        free(m->lane[i].buffer);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static uint32_t merge_close(struct io *io, uint64_t timeout_ns)
{
    struct merge *m = (struct merge *)io;
    if (m->forks != io_fork_count())
        return 0; /* the parent's */
    pthread_mutex_lock(&m->lock);
    m->is_closing = true;
    struct io_request *waiting = io_queue_take_all(&m->queue);
    pthread_mutex_unlock(&m->lock);
    io_cancel_list(&m->count, waiting);
    uint32_t left_behind = m->inner->ops->close(m->inner, timeout_ns);
    if (left_behind == 0)
        free_merge(m); /* else lanes are with a stuck thread: left alone */
    return left_behind;
}

static int merge_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    struct io_spec parts;
    struct merge_options o = {.lanes = 4, .most = 1 << 20};
    FB_TRY(io_spec_split(&parts, "merge", spec, e));
    FB_TRY(io_spec_options(options, &o, "merge", parts.text, e));
    struct merge *m = io_alloc(sizeof(*m), e);
    if (!m)
        return FB_E_NOMEM;
    m->io.ops = &io_merge;
    m->options = o;
    m->forks = io_fork_count();
    pthread_mutex_init(&m->lock, NULL);
    for (int i = 0; i < o.lanes; i++) {
        m->lane[i].merge = m;
        m->lane[i].next_free = m->free_lane;
        m->free_lane = &m->lane[i];
    }
    int rc = io_open(&m->inner, parts.over, (uint32_t)o.lanes < depth ? (uint32_t)o.lanes : depth, log, e);
    if (rc < 0)
        free_merge(m);
    else
        *out = &m->io;
    return rc;
}

const struct io_ops io_merge = {
    .name = "merge",
    .open = merge_open,
    .submit = merge_submit,
    .try_now = merge_try_now,
    .try_pieces = merge_try_pieces,
    .figures = merge_figures,
    .close = merge_close,
};
