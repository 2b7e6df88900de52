/* Making room on disk: one process at a time (a flock on the folder), one thread of it (future_lock).
 *
 * What goes first, until there is room:
 *   1. data sets that nobody uses now, the one unused longest first;
 *   2. entries of this data set that are not among this run's samples, if nobody else uses the data set;
 *   3. entries of this run, the one needed last first, as long as it is needed later than what comes in.
 * What other running jobs use is not touched: two runs that share a cache keep what they have instead of taking turns.
 *
 * "Needed last" comes from the order: a walk backwards from the end of the next epoch, over samples that were used in this one already,
 * then back through the rest of this epoch. The walk starts over when the reader has advanced by a sixteenth of an epoch, or by a 64th if
 * the walk found nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cache/cache_internal.h"

enum { PLACES_MOST = 1024, TRIES = 4, WALKS = 16, WALKS_IN_NEED = 64 /* walks per epoch */, STEPS_MOST = 1 << 20 /* 50 ms */ };
static const uint64_t look_again_ns = 30000000000;

struct clearing {
    struct cache *c;
    uint64_t freed, wanted;
    struct stock_list *there; /* entries of this data set, */
    struct present mine;      /* and which of them stay */
};

static void note_evicted(struct clearing *g, uint64_t bytes)
{
    if (!bytes)
        return;
    g->freed += bytes;
    cache_count(&g->c->evicted, 1);
    cache_count(&g->c->evicted_bytes, bytes);
}

/* ---- other data sets ---- */

static bool clear_entry(void *ctx, int place_fd, const char *name, uint64_t hash, bool is_part)
{
    struct clearing *g = ctx;
    (void)hash;
    if (is_part)
        unlinkat(place_fd, name, 0); /* nobody uses the data set: its holder is dead */
    else
        note_evicted(g, dir_remove(&g->c->dir, place_fd, name));
    return g->freed < g->wanted;
}

static void remove_place(const struct cache_dir *d, int place_fd, const char *place)
{
    char folder[3];
    static const char hex[] = "0123456789abcdef";
    for (int i = 0; i < 256; i++) {
        folder[0] = hex[i / 16];
        folder[1] = hex[i % 16];
        folder[2] = 0;
        unlinkat(place_fd, folder, AT_REMOVEDIR);
    }
    unlinkat(place_fd, "source", 0);
    unlinkat(place_fd, "used", 0);
    unlinkat(d->fd, place, AT_REMOVEDIR);
}

static void clear_place(struct clearing *g, const char *place)
{
    struct cache_dir *d = &g->c->dir;
    int place_fd = openat(d->fd, place, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int used_fd = place_fd < 0 ? -1 : openat(place_fd, "used", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (used_fd >= 0 && flock(used_fd, LOCK_EX | LOCK_NB) == 0) {
        dir_walk(place_fd, clear_entry, g);
        if (g->freed < g->wanted) /* everything is gone */
            remove_place(d, place_fd, place);
    }
    if (used_fd >= 0)
        close(used_fd);
    if (place_fd >= 0)
        close(place_fd);
}

struct place {
    char name[20];
    int64_t used_ns;
};

static int by_use(const void *a, const void *b)
{
    int64_t x = ((const struct place *)a)->used_ns, y = ((const struct place *)b)->used_ns;
    return x < y ? -1 : x > y;
}

static int list_places(struct cache_dir *d, struct place *out)
{
    struct stat own, st;
    int count = 0, fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *top = fd >= 0 && fstat(d->place_fd, &own) == 0 ? fdopendir(fd) : NULL;
    for (struct dirent *e; top && count < PLACES_MOST && (e = readdir(top));) {
        char path[40];
        if (strlen(e->d_name) != 16 || fstatat(d->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
            st.st_ino == own.st_ino)
            continue;
        memcpy(path, e->d_name, 16);
        memcpy(path + 16, "/used", 6);
        memcpy(out[count].name, e->d_name, 17);
        out[count].used_ns = fstatat(d->fd, path, &st, 0) == 0 ? (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec : 0;
        count++;
    }
    if (top)
        closedir(top);
    else if (fd >= 0)
        close(fd);
    return count;
}

static void clear_others(struct clearing *g)
{
    struct place *place = malloc(PLACES_MOST * sizeof(*place));
    int count = place ? list_places(&g->c->dir, place) : 0;
    if (count)
        qsort(place, (size_t)count, sizeof(*place), by_use);
    for (int i = 0; i < count && g->freed < g->wanted; i++)
        clear_place(g, place[i].name);
    free(place);
}

/* ---- this data set, but not this run ---- */

/* Entries that appeared after the list was made belong to a running process, and stay. */
static bool clear_stranger(void *ctx, int place_fd, const char *name, uint64_t hash, bool is_part)
{
    struct clearing *g = ctx;
    uint64_t i = is_part ? g->there->count : stock_list_find(g->there, hash);
    if (i < g->there->count && !present_has(&g->mine, i))
        note_evicted(g, dir_remove(&g->c->dir, place_fd, name));
    return g->freed < g->wanted;
}

/* Under the flock. Which entries are of units of this run; false: not all units are known. */
static bool find_mine(struct clearing *g)
{
    struct cache *c = g->c;
    struct cache_unit u;
    for (uint64_t i = 0; i < c->source.count; i++) {
        if (!c->source.unit_at(c->source.ctx, i, &u))
            return false;
        present_put(&g->mine, stock_list_find(g->there, cache_hash(c, &u)));
    }
    return true;
}

/* Memory goes by what is there, not by the data set; time by both, so very large ones are left alone. */
static void clear_strangers(struct clearing *g)
{
    struct cache *c = g->c;
    struct stock_list there;
    if (!c->source.unit_at || !c->source.count || c->source.count > CACHE_LOOK_MOST)
        return;
    if (flock(c->dir.used_fd, LOCK_EX | LOCK_NB) == 0) {
        stock_list_make(&there, c);
        g->there = &there;
        if (present_open(&g->mine, c->budget, there.count)) {
            if (find_mine(g))
                dir_walk(c->dir.place_fd, clear_stranger, g);
            present_close(&g->mine, c->budget);
        }
        stock_list_free(&there);
    }
    flock(c->dir.used_fd, LOCK_SH); /* a refused change of a flock loses the old one, too; other evictors wait for the folder's */
}

/* ---- this run ---- */

/* Is it time to start the walk over? What it passed because it was not there, or was still needed in this epoch, may have become the
 * furthest. */
static bool is_walk_old(const struct cache *c, const struct cache_reader *r, uint64_t parts)
{
    uint64_t part = c->source.count / parts;
    bool is_other_run = !c->is_far_known || c->far_epoch != r->epoch || r->position < c->far_position;
    return is_other_run || r->position - c->far_position > part;
}

static void start_walk(struct cache *c, const struct cache_reader *r)
{
    c->far_step = 2 * c->source.count;
    c->far_epoch = r->epoch;
    c->far_position = r->position;
    c->is_far_known = true;
}

/* The walk's next candidate: the index of an entry that is there and was not passed yet; CACHE_NO_INDEX: none is needed later than `step`,
 * or none was met for long: a folder that holds a thousandth of the data has one in a thousand steps. The next call goes on from there. */
static uint64_t next_from_far(struct cache *c, const struct cache_reader *r, uint64_t step)
{
    const struct cache_source *s = &c->source;
    uint64_t n = s->count;
    for (int left = STEPS_MOST; left > 0 && c->far_step > step + 1 && c->far_step > r->position; left--) {
        uint64_t at = --c->far_step;
        uint64_t i = at >= n ? s->any_at(s->ctx, r->epoch + 1, at - n) : s->any_at(s->ctx, r->epoch, at);
        if (!present_has(&c->present, i))
            continue;
        if (at < n || s->position_of(s->ctx, r->epoch, i) < r->position)
            return i;
    }
    return CACHE_NO_INDEX;
}

static void clear_own(struct clearing *g, const struct cache_reader *r, uint64_t step)
{
    struct cache *c = g->c;
    char name[DIR_NAME_BYTES];
    while (g->freed < g->wanted) {
        if (is_walk_old(c, r, WALKS))
            start_walk(c, r);
        uint64_t i = next_from_far(c, r, step);
        struct cache_unit u;
        if (i == CACHE_NO_INDEX && is_walk_old(c, r, WALKS_IN_NEED)) {
            start_walk(c, r);
            i = next_from_far(c, r, step);
        }
        if (i == CACHE_NO_INDEX || !c->source.unit_at(c->source.ctx, i, &u))
            return;
        present_drop(&c->present, i);
        note_evicted(g, dir_remove(&c->dir, c->dir.place_fd, dir_entry_name(cache_hash(c, &u), name)));
    }
}

/* ---- the door ---- */

/* Under future_lock and the folder's flock. False: nothing went. */
static bool clear(struct cache *c, uint64_t bytes, const struct cache_reader *r, uint64_t step)
{
    struct clearing g = {.c = c, .wanted = bytes};
    uint64_t now = clock_now_ns();
    if (now >= c->others_after_ns) {
        uint64_t batch = c->dir.limit == CACHE_NO_LIMIT ? bytes : c->dir.limit / 64;
        g.wanted = batch > bytes ? batch : bytes; /* a look at everything should be worth it */
        clear_others(&g);
        if (g.freed < bytes)
            clear_strangers(&g);
        if (g.freed < bytes)
            c->others_after_ns = now + look_again_ns;
        g.wanted = bytes;
    }
    if (c->present.word && r && g.freed < bytes)
        clear_own(&g, r, step);
    return g.freed > 0;
}

static int reserve_at(struct cache *c, uint64_t bytes, const struct cache_reader *r, uint64_t step)
{
    int why = dir_reserve(&c->dir, bytes);
    if (why != ENOSPC || bytes > c->dir.limit)
        return why;
    pthread_mutex_lock(&c->future_lock);
    if (flock(c->dir.fd, LOCK_EX | LOCK_NB) == 0) {
        for (int i = 0; i < TRIES && why == ENOSPC && clear(c, bytes, r, step); i++)
            why = dir_reserve(&c->dir, bytes);
        flock(c->dir.fd, LOCK_UN);
    }
    pthread_mutex_unlock(&c->future_lock);
    return why;
}

static bool read_reader(struct cache *c, struct cache_reader *r)
{
    pthread_mutex_lock(&c->lock);
    *r = c->reader;
    bool has = c->has_reader && c->source.is_known;
    pthread_mutex_unlock(&c->lock);
    return has;
}

int evict_and_reserve(struct cache *c, uint64_t bytes, uint64_t epoch, uint64_t position)
{
    struct cache_reader r;
    if (!read_reader(c, &r) || epoch < r.epoch || epoch > r.epoch + 1)
        return reserve_at(c, bytes, NULL, 0);
    return reserve_at(c, bytes, &r, epoch == r.epoch ? position : c->source.count + position);
}

int evict_and_reserve_again(struct cache *c, uint64_t bytes, uint64_t index)
{
    struct cache_reader r;
    if (!read_reader(c, &r) || index >= c->source.count)
        return reserve_at(c, bytes, NULL, 0);
    return reserve_at(c, bytes, &r, c->source.count + c->source.position_of(c->source.ctx, r.epoch + 1, index));
}
