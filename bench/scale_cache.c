/* The disk cache at the same scale: the real cache code, a data set that is computed instead of stored.
 *
 * Samples are 4 KiB of one object and come from the back-end "null". The eight ranks of a machine share a folder; machines come one after
 * the other, each with a folder of its own. Each rank opens its cache, reads its part of a global batch in the middle of an epoch (nothing
 * is there: all of it is fetched, once), and reads it again. On the first machine the fillers then walk the order for a while.
 */
#include "scale.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "io/io.h"
#include "io/wrap/io_null.h"
#include "order/order.h"

enum { UNIT_BYTES = 4096, MOST_BATCH = 1024, DISK_LIMIT = 64 << 20, WALK_US = 500000 };

struct rank {
    struct rank_layout layout;
    struct order order[2]; /* of this epoch and the next */
    struct budget budget;
    struct io *io;
    uint64_t start;
    _Atomic uint64_t *walked; /* steps of all fillers */
};

struct totals {
    uint64_t open_ns, worst_open_ns, first_ns, again_ns, close_ns, samples, misses, hits, filled, stored, wrong, walk_ns;
    uint64_t table_bytes, resident_bytes;
};

/* ---- the source ---- */

static bool unit_at(void *ctx, uint64_t index, struct cache_unit *u)
{
    (void)ctx;
    *u = (struct cache_unit){AT_FDCWD, "a billion samples", index * UNIT_BYTES, UNIT_BYTES, UNIT_BYTES, index, 0, 0};
    return true;
}

static bool unit_of(void *ctx, const struct io_request *r, struct cache_unit *u)
{
    return unit_at(ctx, r->offset / UNIT_BYTES, u);
}

static int identify(void *ctx, const struct cache_unit *u, bool may_block, struct cache_identity *out)
{
    (void)ctx;
    (void)may_block;
    out->is_young = false;
    out->length = 1; /* one version for ever */
    out->bytes[0] = 1;
    (void)u;
    return 0;
}

static uint64_t any_at(void *ctx, uint64_t epoch, uint64_t position)
{
    return order_at(&((struct rank *)ctx)->order[epoch % 2], position);
}

static uint64_t position_of(void *ctx, uint64_t epoch, uint64_t index)
{
    return order_position_of(&((struct rank *)ctx)->order[epoch % 2], index);
}

static uint64_t at(void *ctx, const struct cache_reader *where, uint64_t epoch, uint64_t position)
{
    struct rank *r = ctx;
    uint64_t start = epoch == where->epoch ? where->start : 0;
    atomic_fetch_add_explicit(r->walked, 1, memory_order_relaxed);
    if (position < start)
        return CACHE_NO_INDEX;
    struct batch_span s = ranks_batch(&r->layout, start, (position - start) / r->layout.global_batch);
    return position >= s.first && position - s.first < s.count ? any_at(r, epoch, position) : CACHE_NO_INDEX;
}

/* ---- a rank ---- */

static void open_rank(struct rank *r, const char *dir)
{
    struct fb_error e = {0};
    struct io *inner;
    if (io_open(&inner, "null:now=0", 16, NULL, &e) < 0)
        abort();
    struct cache_options o = {
        .inner = inner,
        .dir = dir,
        .disk_limit = DISK_LIMIT,
        .budget = &r->budget,
        .depth = 16,
        .source = {.ctx = r,
                   .name = "scale",
                   .count = r->layout.count,
                   .unit_of = unit_of,
                   .unit_at = unit_at,
                   .identify = identify,
                   .is_known = true,
                   .at = at,
                   .any_at = any_at,
                   .position_of = position_of},
    };
    if (cache_open(&r->io, &o, &e) < 0) {
        fprintf(stderr, "scale: %s: %s\n", e.path, e.cause);
        exit(1);
    }
}

static void is_done(struct io_request *r)
{
    atomic_store((_Atomic bool *)r->owner, true);
}

static bool is_right(const uint8_t *bytes, uint64_t offset)
{
    for (uint64_t i = 0; i < UNIT_BYTES; i += 511)
        if (bytes[i] != io_null_byte(offset + i))
            return false;
    return true;
}

/* One sample; as a reader that waits for each, so that times are those of one. */
static bool read_sample(struct rank *r, uint64_t index)
{
    static uint8_t buffer[UNIT_BYTES + IO_TAIL];
    _Atomic bool done = false;
    struct io_request q = {.dir_fd = AT_FDCWD,
                           .path = "a billion samples",
                           .offset = index * UNIT_BYTES,
                           .length = UNIT_BYTES,
                           .expected_size = UNIT_BYTES,
                           .buffer = buffer,
                           .capacity = sizeof(buffer),
                           .done = is_done,
                           .owner = &done};
    r->io->ops->submit(r->io, &q, false);
    while (!atomic_load(&done))
        sched_yield();
    return q.status == 0 && q.got == UNIT_BYTES && is_right(buffer, q.offset);
}

static uint64_t read_part(struct rank *r, struct totals *t)
{
    struct batch_span s = ranks_batch(&r->layout, r->start, 0);
    uint64_t since = clock_now_ns();
    for (uint64_t i = 0; i < s.count && i < MOST_BATCH; i++)
        t->wrong += !read_sample(r, any_at(r, 0, s.first + i));
    t->samples += s.count;
    return clock_now_ns() - since;
}

static uint64_t resident(void)
{
    unsigned long pages = 0, skipped;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu %lu", &skipped, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What was stored lags behind what was read. */
static void wait_until_stored(struct rank *r)
{
    struct cache_figures f;
    uint64_t until = clock_now_ns() + 5000000000;
    do {
        cache_read_figures(r->io, &f);
        if (f.stored >= f.misses + f.filled)
            return;
        usleep(1000);
    } while (clock_now_ns() < until);
}

/* ---- a machine ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

/* All fillers of a machine at once, for a while. */
static void walk_ahead(struct rank *rank, int count, struct totals *t)
{
    uint64_t since = clock_now_ns();
    for (int i = 0; i < count; i++)
        cache_move(rank[i].io, &(struct cache_reader){0, rank[i].start, rank[i].start});
    usleep(WALK_US);
    t->walk_ns = clock_now_ns() - since;
}

static void run_machine(struct rank *rank, int count, struct totals *t)
{
    char dir[512];
    const char *scratch = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/fullbore-scale-XXXXXX", scratch && *scratch ? scratch : "/tmp");
    if (!mkdtemp(dir))
        abort();
    uint64_t before = resident();
    for (int i = 0; i < count; i++) {
        uint64_t since = clock_now_ns();
        open_rank(&rank[i], dir);
        since = clock_now_ns() - since;
        t->open_ns += since;
        t->worst_open_ns = since > t->worst_open_ns ? since : t->worst_open_ns;
        t->table_bytes += atomic_load(&rank[i].budget.used_by[MEMORY_CACHE]);
    }
    for (int i = 0; i < count; i++)
        t->first_ns += read_part(&rank[i], t);
    for (int i = 0; i < count; i++)
        wait_until_stored(&rank[i]);
    for (int i = 0; i < count; i++)
        t->again_ns += read_part(&rank[i], t);
    if (!t->walk_ns)
        walk_ahead(rank, count, t);
    t->resident_bytes += resident() > before ? resident() - before : 0;
    for (int i = 0; i < count; i++) {
        struct cache_figures f;
        cache_read_figures(rank[i].io, &f);
        t->misses += f.misses;
        t->hits += f.disk_hits;
        t->filled += f.filled;
        t->stored += f.stored;
        uint64_t since = clock_now_ns();
        rank[i].io->ops->close(rank[i].io, 5000000000);
        t->close_ns += clock_now_ns() - since;
    }
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

bool scale_caches(struct rank_layout layout, uint64_t seed)
{
    struct totals t = {0};
    struct rank rank[RANKS_PER_MACHINE];
    _Atomic uint64_t walked = 0;
    uint64_t since = clock_now_ns(), world = layout.world;
    for (uint64_t first = 0; first < world; first += RANKS_PER_MACHINE) {
        int count = world - first < RANKS_PER_MACHINE ? (int)(world - first) : RANKS_PER_MACHINE;
        memset(rank, 0, sizeof(rank));
        for (int i = 0; i < count; i++) {
            struct rank *r = &rank[i];
            r->layout = layout;
            r->layout.rank = (uint32_t)first + (uint32_t)i;
            r->start = layout.count / 3 / layout.global_batch * layout.global_batch;
            r->walked = &walked;
            atomic_store(&r->budget.limit, UINT64_C(1) << 30);
            for (uint64_t e = 0; e < 2; e++)
                order_init(&r->order[e], layout.count, seed, e, true, NULL);
        }
        run_machine(rank, count, &t);
    }
    double w = (double)world, half = (double)t.samples / 2;
    printf("{\"table_bytes_per_rank\":%.0f,\"resident_bytes_per_rank\":%.0f,", (double)t.table_bytes / w, (double)t.resident_bytes / w);
    printf("\"open_mean_us\":%.1f,\"open_worst_us\":%.1f,\"close_mean_us\":%.1f,", (double)t.open_ns / w / 1e3,
           (double)t.worst_open_ns / 1e3, (double)t.close_ns / w / 1e3);
    printf("\"samples_per_rank\":%.0f,\"miss_us\":%.1f,\"hit_us\":%.1f,\"read_wrong\":%" PRIu64 ",", half / w,
           (double)t.first_ns / half / 1e3, (double)t.again_ns / half / 1e3, t.wrong);
    printf("\"fetched\":%" PRIu64 ",\"hits\":%" PRIu64 ",\"fetched_ahead_by_the_first_machine\":%" PRIu64 ",", t.misses, t.hits, t.filled);
    printf("\"walk_positions_per_s_of_a_machine\":%.0f,\"seconds\":%.1f}", (double)atomic_load(&walked) / ((double)t.walk_ns / 1e9),
           (double)(clock_now_ns() - since) / 1e9);
    return t.wrong == 0 && t.misses == t.samples / 2;
}
