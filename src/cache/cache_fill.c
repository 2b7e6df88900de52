/* Filling the disk ahead of the reader: one thread that walks the order from where the reader is, to one whole epoch further, and fetches
 * what is missing, soonest first. It takes only what the reader leaves of the source: the more reads the reader itself has in flight, the
 * fewer are added; and none while all processors work for the reader. When the disk is full and everything in it is needed sooner than the
 * next missing unit, it waits until the reader has moved on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cache/cache_internal.h"

static const uint64_t nap_ns = 100000000, touch_every_ns = 60000000000;

struct walk {
    struct cache_reader reader;
    uint64_t epoch, position; /* the next one to look at */
    uint64_t touched_ns;
};

/* ---- one unit ---- */

enum fill_answer { FILL_NEXT, FILL_WAIT, FILL_FULL };

static void give_up(struct cache *c, struct flight *f)
{
    claim_drop(&c->dir, f->hash, &f->claim);
    if (f->reserved)
        dir_release(&c->dir, f->reserved);
    f->reserved = 0;
}

static bool is_there(struct cache *c, const struct flight *f)
{
    if (!dir_has_entry(&c->dir, f->hash))
        return false;
    present_put(&c->present, f->unit.index);
    return true;
}

static enum fill_answer claim_and_fetch(struct cache *c, struct flight *f)
{
    int rc = claim_take(&c->dir, f->hash, &f->claim);
    if (rc < 0)
        return cache_open_failed(c, -rc, "write to", true) ? FILL_NEXT : FILL_WAIT;
    if (rc == 0)
        return FILL_NEXT; /* somebody else is at it */
    if (is_there(c, f)) { /* published just before */
        give_up(c, f);
        return FILL_NEXT;
    }
    uint64_t bytes = entry_file_bytes(&c->dir, &f->unit, &f->identity, f->unit.size);
    int why = evict_and_reserve(c, bytes, f->need_epoch, f->need_position);
    if (why) {
        give_up(c, f);
        if (why != ENOSPC)
            cache_turn_off(c, why, "write to", true);
        return why == ENOSPC ? FILL_FULL : FILL_NEXT;
    }
    f->reserved = bytes;
    if (flight_ahead(c, f))
        return FILL_NEXT;
    give_up(c, f);
    return FILL_WAIT;
}

static enum fill_answer fill_one(struct cache *c, struct walk *w, uint64_t index)
{
    struct flight f = {.need_epoch = w->epoch, .need_position = w->position, .claim = {-1}};
    if (index >= c->source.count || present_has(&c->present, index))
        return FILL_NEXT;
    if (!c->source.unit_at(c->source.ctx, index, &f.unit))
        return FILL_NEXT;
    f.hash = cache_hash(c, &f.unit);
    if (flight_is_listed(c, f.hash) || is_there(c, &f))
        return FILL_NEXT;
    if (cache_identify(c, &f.unit, true, &f.identity) != 0 || f.identity.is_young ||
        !entry_fits(&c->dir, &f.unit, &f.identity, f.unit.size))
        return FILL_NEXT;
    return claim_and_fetch(c, &f);
}

/* ---- the walk ---- */

/* Under lock. The reader has left less than a fetch ahead would take. */
static bool is_busy(const struct cache *c)
{
    bool has_memory = c->store_bytes < c->store_limit / 2;
    return !has_memory || !claim_may(&c->dir) || c->demand_in_flight + c->fill_in_flight >= CACHE_FILL_DEPTH;
}

/* Steps from the reader to the walk; negative: behind it, or in a run that is over. */
static int64_t ahead_of_reader(const struct cache *c, const struct walk *w)
{
    if (w->epoch != w->reader.epoch && w->epoch != w->reader.epoch + 1)
        return -1;
    uint64_t step = (w->epoch - w->reader.epoch) * c->source.count + w->position;
    return (int64_t)step - (int64_t)w->reader.position;
}

static void follow_reader(struct cache *c, struct walk *w)
{
    bool is_other_run = w->reader.start != c->reader.start;
    w->reader = c->reader;
    int64_t ahead = ahead_of_reader(c, w);
    if (ahead < 0 || is_other_run) {
        w->epoch = w->reader.epoch;
        w->position = w->reader.position;
    }
}

/* Under lock. */
static void nap(struct cache *c)
{
    if (!c->is_closing)
        thread_cond_wait_until(&c->fill_wakes, &c->lock, clock_now_ns() + nap_ns);
}

static void step_on(struct cache *c, struct walk *w)
{
    if (++w->position < c->source.count)
        return;
    w->position = 0;
    w->epoch++;
}

static void touch_now_and_then(struct cache *c, struct walk *w)
{
    uint64_t now = clock_now_ns();
    if (now - w->touched_ns < touch_every_ns)
        return;
    w->touched_ns = now;
    futimens(c->dir.used_fd, NULL);
}

/* Full: until the reader is elsewhere. */
static void wait_for_reader(struct cache *c, const struct walk *w)
{
    pthread_mutex_lock(&c->lock);
    while (!c->is_closing && c->has_reader && c->reader.epoch == w->reader.epoch && c->reader.position == w->reader.position)
        nap(c);
    pthread_mutex_unlock(&c->lock);
}

static void wait_a_little(struct cache *c)
{
    pthread_mutex_lock(&c->lock);
    nap(c);
    pthread_mutex_unlock(&c->lock);
}

/* Waits until there may be something to do. False: it is over. */
static bool wait_for_turn(struct cache *c, struct walk *w)
{
    pthread_mutex_lock(&c->lock);
    for (;;) {
        bool is_off = !cache_has_disk(c) || atomic_load_explicit(&c->is_write_off, memory_order_relaxed);
        if (c->is_closing)
            break;
        if (c->has_reader && !is_off && !is_busy(c)) {
            follow_reader(c, w);
            if (ahead_of_reader(c, w) < (int64_t)c->source.count)
                break;
        }
        nap(c);
        touch_now_and_then(c, w);
    }
    bool goes_on = !c->is_closing;
    pthread_mutex_unlock(&c->lock);
    return goes_on;
}

static void *fill_main(void *arg)
{
    struct cache *c = arg;
    struct walk w = {.touched_ns = clock_now_ns()};
    present_find(c);
    while (wait_for_turn(c, &w)) {
        if (c->source.is_busy && c->source.is_busy(c->source.ctx)) {
            wait_a_little(c);
            continue;
        }
        uint64_t index = c->source.at(c->source.ctx, &w.reader, w.epoch, w.position);
        enum fill_answer a = fill_one(c, &w, index);
        if (a == FILL_NEXT)
            step_on(c, &w);
        else if (a == FILL_FULL)
            wait_for_reader(c, &w);
        else
            wait_a_little(c);
        touch_now_and_then(c, &w);
    }
    pthread_mutex_lock(&c->lock);
    c->is_filler_over = true;
    pthread_cond_broadcast(&c->quiet);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int fill_start(struct cache *c, struct fb_error *e)
{
    FB_TRY(thread_start(&c->filler, "fb-fill", fill_main, c, e));
    c->has_filler = true;
    return 0;
}
