#include "cache_fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

static void set_time(const struct source *s, const char *name, int64_t seconds)
{
    struct timespec t[2] = {{seconds, 0}, {seconds, 0}};
    assert_int_equal(utimensat(s->folder.fd, name, t, 0), 0);
}

void source_make(struct source *s, uint64_t count, uint64_t file_bytes)
{
    memset(s, 0, sizeof(*s));
    folder_make(&s->folder, NULL);
    s->count = count;
    s->file_bytes = file_bytes;
    s->budget.limit = 256 << 20;
    for (uint64_t i = 0; i < count; i++) {
        snprintf(s->name[i], sizeof(s->name[i]), "f%03u", (unsigned)i);
        file_write(&s->folder, s->name[i], file_bytes);
        set_time(s, s->name[i], 1000000000);
    }
    snprintf(s->dir, sizeof(s->dir), "%s-cache", s->folder.path);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void source_remove(struct source *s)
{
    remove_tree(s->dir);
    folder_remove(&s->folder);
}

void rewrite(struct source *s, uint64_t index, const char *as, int64_t seconds)
{
    char from[16];
    snprintf(from, sizeof(from), "%s", as);
    file_write(&s->folder, from, s->file_bytes);
    assert_int_equal(renameat(s->folder.fd, from, s->folder.fd, s->name[index]), 0);
    set_time(s, s->name[index], seconds);
}

/* ---- the source as the cache sees it ---- */

static bool unit_at(void *ctx, uint64_t index, struct cache_unit *u)
{
    struct source *s = ctx;
    *u = (struct cache_unit){s->folder.fd, s->name[index], 0, IO_WHOLE, s->file_bytes, index, 0};
    return true;
}

static bool unit_of(void *ctx, const struct io_request *r, struct cache_unit *u)
{
    struct source *s = ctx;
    for (uint64_t i = 0; i < s->count; i++)
        if (strcmp(r->path, s->name[i]) == 0)
            return unit_at(ctx, i, u);
    return false;
}

uint64_t index_at(const struct source *s, uint64_t epoch, uint64_t position)
{
    return (17 * position + 5 * epoch) % s->count;
}

static uint64_t any_at(void *ctx, uint64_t epoch, uint64_t position)
{
    return index_at(ctx, epoch, position);
}

static uint64_t at(void *ctx, const struct cache_reader *r, uint64_t epoch, uint64_t position)
{
    (void)r;
    return index_at(ctx, epoch, position);
}

static uint64_t position_of(void *ctx, uint64_t epoch, uint64_t index)
{
    struct source *s = ctx;
    for (uint64_t p = 0; p < s->count; p++)
        if (index_at(s, epoch, p) == index)
            return p;
    fail();
    return 0;
}

static bool is_busy(void *ctx)
{
    return ((struct source *)ctx)->is_busy;
}

static void note_warning(void *ctx, int level, const char *line)
{
    struct source *s = ctx;
    if (level <= LOG_WARN) {
        s->warnings++;
        snprintf(s->warned, sizeof(s->warned), "%s", line);
    }
}

int source_try_open(struct source *s, const struct choice *c, struct fb_error *e)
{
    struct log log = {note_warning, s};
    struct io *inner;
    uint32_t depth = c->depth ? c->depth : 16;
    assert_int_equal(io_open(&inner, c->inner ? c->inner : "pread", depth, &log, NULL), 0);
    struct cache_options o = {
        .inner = inner,
        .dir = c->no_disk ? NULL
               : c->dir   ? c->dir
                          : s->dir,
        .disk_limit = c->disk_limit,
        .ram_limit = c->ram_limit,
        .budget = &s->budget,
        .log = &log,
        .depth = depth,
        .source = {.ctx = s,
                   .name = c->name ? c->name : s->folder.path,
                   .count = s->count,
                   .unit_of = unit_of,
                   .unit_at = unit_at,
                   .is_known = !c->is_unknown,
                   .at = at,
                   .any_at = any_at,
                   .position_of = position_of,
                   .is_busy = is_busy},
    };
    error_clear(e);
    return cache_open(&s->io, &o, e);
}

void source_open(struct source *s, const struct choice *c)
{
    struct fb_error e;
    int rc = source_try_open(s, c, &e);
    if (rc < 0)
        fail_msg("the cache did not open: %s: %s", e.path, e.cause);
}

void source_close(struct source *s)
{
    uint64_t since = clock_now_ns();
    assert_int_equal(s->io->ops->close(s->io, 2000000000), 0);
    assert_true(clock_now_ns() - since < UINT64_C(10000000000));
    assert_int_equal(s->budget.used, 0);
}

struct cache_figures figures(struct source *s)
{
    struct cache_figures f;
    cache_read_figures(s->io, &f);
    return f;
}

void read_file(struct source *s, uint64_t index)
{
    struct call c;
    call_init(&c, &s->folder, s->name[index], s->file_bytes);
    if (call_run(s->io, &c) != 0)
        fail_msg("%s: %s", s->name[index], c.error.cause);
    call_assert_bytes(&c, s->name[index], 0, s->file_bytes);
    assert_int_equal(c.r.object_size, s->file_bytes);
    call_free(&c);
}

void read_all(struct source *s)
{
    for (uint64_t i = 0; i < s->count; i++)
        read_file(s, i);
}

void move_to(struct source *s, uint64_t epoch, uint64_t position)
{
    cache_move(s->io, &(struct cache_reader){epoch, 0, position});
}

/* ---- what lies there ---- */

static struct stock found; /* nftw has no context */

static int look_at(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    const char *name = path + where->base;
    size_t hex = strspn(name, "0123456789abcdef");
    if (kind != FTW_F || hex != 16 || where->level != 3)
        return 0;
    if (name[16]) {
        found.parts++;
        return 0;
    }
    found.entries++;
    found.bytes += ((uint64_t)st->st_size + 4095) & ~UINT64_C(4095);
    snprintf(found.first, sizeof(found.first), "%s", path);
    return 0;
}

struct stock take_stock(const char *dir)
{
    found = (struct stock){0};
    nftw(dir, look_at, 16, FTW_PHYS);
    char path[128];
    snprintf(path, sizeof(path), "%s/usage", dir);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || pread(fd, &found.counted, 8, 0) != 8)
        found.counted = 0;
    if (fd >= 0)
        close(fd);
    return found;
}

static struct {
    const char *name;
    char path[256];
} wanted;

/* An entry has the path of its source in its head, after 64 fixed bytes and the data set's name. */
static int look_inside(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    char head[512] = "";
    size_t hex = strspn(path + where->base, "0123456789abcdef");
    if (kind != FTW_F || hex != 16 || path[where->base + 16])
        return 0;
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : pread(fd, head, sizeof(head), 0);
    if (fd >= 0)
        close(fd);
    if (n > 64 && memmem(head + 64, (size_t)n - 64, wanted.name, strlen(wanted.name)))
        snprintf(wanted.path, sizeof(wanted.path), "%s", path);
    return 0;
}

bool find_entry(struct source *s, uint64_t index, char *path, size_t path_size)
{
    wanted.name = s->name[index];
    wanted.path[0] = 0;
    nftw(s->dir, look_inside, 16, FTW_PHYS);
    snprintf(path, path_size, "%s", wanted.path);
    return wanted.path[0] != 0;
}
