#include "jobs/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/safe_path.h"
#include "base/clock.h"
#include "dataset/pack/pack_index.h"
#include "dataset/pack/shards.h"
#include "dataset/tar/tar_reader.h"
#include "jobs/unpack/unpack_file.h"

enum { PIECE = 4 << 20, NAMED = 1000 };

struct unpacking {
    const struct unpack_request *q;
    struct unpack_result *out;
    struct safe_place place;
    const char *path;
    int fd;
    uint64_t size;
    char *piece;
    struct text list;
    uint64_t total;
};

static void note(struct unpacking *u, const char *name, const char *why)
{
    char shown[600];
    if (u->out->damaged + u->out->refused <= NAMED)
        text_printf(&u->list, "%s: %s\n", text_escape(name, shown, sizeof(shown)), why);
}

/* What came of one file; names that are refused do not end the run. */
static int count(struct unpacking *u, const char *name, const struct unpack_bytes *b, int rc, struct fb_error *e)
{
    if (rc == UNPACK_WRITTEN) {
        u->out->files++;
        u->out->bytes += b->size;
    } else if (rc == UNPACK_THERE) {
        u->out->there++;
    } else if (rc == UNPACK_DAMAGED) {
        u->out->damaged++;
        note(u, name, "its bytes do not match their checksum");
    } else if (rc == FB_E_DATA) {
        u->out->refused++;
        note(u, name, e->cause);
        error_clear(e);
    }
    struct fb_progress p = {"unpacking", u->out->files + u->out->there, u->total};
    if (u->q->progress)
        u->q->progress(u->q->ctx, &p);
    if (u->q->interrupted && u->q->interrupted(u->q->ctx))
        return error_set(e, FB_E_INTERRUPTED, "unpack", "interrupted");
    return rc < 0 && rc != FB_E_DATA ? rc : 0;
}

static int unpack_one(struct unpacking *u, const char *name, const struct unpack_bytes *b, struct fb_error *e)
{
    return count(u, name, b, unpack_file(&u->place, name, b, u->piece, PIECE, e), e);
}

/* ---- a pack: by its index ---- */

struct tables {
    struct catalog *catalog;
    void *records, *names;
    uint64_t name_bytes, name_count;
};

static int by_sample(const void *wanted, const void *name)
{
    uint64_t a = *(const uint64_t *)wanted, b = ((const struct pack_name *)name)->sample;
    return a < b ? -1 : a > b;
}

/* The texts follow the table, so the first text is where it ends. */
static uint64_t count_names(const struct tables *t)
{
    struct pack_name first;
    if (t->name_bytes < sizeof(first))
        return 0;
    memcpy(&first, t->names, sizeof(first));
    return first.text <= t->name_bytes ? first.text / sizeof(first) : 0;
}

/* A key that cannot be a path below a folder (absolute, "..") was packed under a name that can. */
static int name_of(const struct tables *t, uint64_t i, const char *key, struct text *out)
{
    const struct pack_name *names = t->names;
    out->length = 0;
    text_append(out, key, strlen(key));
    if (safe_path_is_clean(key))
        return out->failed ? -1 : 0;
    const struct pack_name *found = t->name_count ? bsearch(&i, names, t->name_count, sizeof(*names), by_sample) : NULL;
    if (found && found->text <= t->name_bytes && found->length <= t->name_bytes - found->text) {
        out->length = 0;
        text_append(out, (const char *)t->names + found->text, found->length);
    }
    return out->failed ? -1 : 0;
}

static int unpack_samples(struct unpacking *u, const struct tables *t, struct fb_error *e)
{
    const struct pack_record *records = t->records;
    struct text name = {.limit = 1 << 20};
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < catalog_count(t->catalog); i++) {
        struct catalog_sample s;
        rc = catalog_sample(t->catalog, i, &s, e);
        if (rc == 0 && name_of(t, i, s.key, &name) < 0)
            rc = error_set(e, FB_E_NOMEM, "unpack", "no memory");
        struct unpack_bytes b = {u->fd, s.offset, s.length, records[i].mtime_ns, &records[i].checksum};
        if (rc == 0)
            rc = unpack_one(u, name.data, &b, e);
    }
    text_free(&name);
    return rc;
}

static int unpack_pack(struct unpacking *u, const struct pack_index *x, struct fb_error *e)
{
    struct tables t = {.name_bytes = x->head.section[PACK_NAMES].length};
    u->total += x->head.samples;
    int rc = pack_index_catalog(x, u->fd, 0, "", u->path, &t.catalog, e);
    if (rc == 0)
        rc = pack_index_section(x, u->fd, PACK_RECORDS, u->path, &t.records, e);
    if (rc == 0)
        rc = pack_index_section(x, u->fd, PACK_NAMES, u->path, &t.names, e);
    if (rc == 0) {
        t.name_count = count_names(&t);
        rc = unpack_samples(u, &t, e);
    }
    catalog_close(t.catalog);
    free(t.records);
    free(t.names);
    return rc;
}

/* ---- any other tar: member by member ---- */

static int read_file(void *ctx, uint64_t offset, void *out, size_t n, struct fb_error *e)
{
    struct unpacking *u = ctx;
    return pack_read_at(u->fd, offset, out, n, u->path, e);
}

static int unpack_member(struct unpacking *u, const struct tar_member *m, struct fb_error *e)
{
    static const char *const why[] = {"", "", "it is a link", "it is a device", "it is a sparse file", "it is no file"};
    const char *name = m->name;
    while (name[0] == '.' && name[1] == '/') /* as tar writes them */
        name += 2;
    if (m->kind == TAR_FOLDER)
        return 0;
    if (m->kind != TAR_FILE) {
        u->out->refused++;
        note(u, m->name, why[m->kind]);
        return 0;
    }
    struct unpack_bytes b = {u->fd, m->offset, m->size, m->mtime_s > INT32_MAX * INT64_C(2) || m->mtime_s < 0 ? 0 : m->mtime_s * 1000000000,
                             NULL};
    return unpack_one(u, name, &b, e);
}

static int unpack_tar(struct unpacking *u, struct fb_error *e)
{
    struct tar_reader r;
    struct tar_member m;
    tar_open(&r, &(struct tar_bytes){read_file, u, u->size});
    int rc;
    while ((rc = tar_next(&r, &m, e)) == 1)
        if ((rc = unpack_member(u, &m, e)) < 0)
            break;
    if (rc == 0 && r.is_pack)
        rc = error_set(e, FB_E_DATA, "unpack",
                       "the pack is cut off: its index is not at its end; what was there is unpacked, labels as well");
    tar_close(&r);
    return rc;
}

/* ---- files ---- */

static int unpack_archive(struct unpacking *u, struct fb_error *e)
{
    struct stat st;
    struct pack_index x;
    u->fd = open(u->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int rc = u->fd < 0 || fstat(u->fd, &st) < 0 ? error_set_errno(e, "unpack", errno, "open the pack") : 0;
    if (rc == 0 && !S_ISREG(st.st_mode))
        rc = error_set(e, FB_E_USAGE, "unpack", "it is not a file");
    if (rc == 0) {
        u->size = (uint64_t)st.st_size;
        rc = pack_index_open(&x, u->fd, u->size, u->path, e);
        rc = rc < 0 ? rc : rc == 1 ? unpack_pack(u, &x, e) : unpack_tar(u, e);
    }
    if (u->fd >= 0)
        close(u->fd);
    if (rc < 0)
        error_at(e, u->path, -1);
    return rc;
}

static int open_folder(struct unpacking *u, struct fb_error *e)
{
    mkdir(u->q->folder, 0777);
    u->place.root_fd = open(u->q->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (u->place.root_fd >= 0)
        return 0;
    int rc = error_set_errno(e, "unpack", errno, "open or make the folder");
    error_at(e, u->q->folder, -1);
    return rc;
}

static int unpack_all(struct unpacking *u, struct fb_error *e)
{
    struct shards s = {0};
    struct stat st;
    FB_TRY(open_folder(u, e));
    if (stat(u->q->source, &st) == 0 || !shards_is_several(u->q->source)) {
        u->path = u->q->source;
        return unpack_archive(u, e);
    }
    FB_TRY(shards_expand(&s, u->q->source, e));
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < s.count; i++) {
        u->path = s.path[i];
        rc = unpack_archive(u, e);
    }
    shards_free(&s);
    return rc;
}

int unpack_run(const struct unpack_request *q, struct unpack_result *out, struct fb_error *e)
{
    memset(out, 0, sizeof(*out));
    uint64_t since = clock_now_ns();
    struct unpacking u = {.q = q, .out = out, .place = safe_place_at(-1, "unpack"), .piece = malloc(PIECE), .list = {.limit = 4 << 20}};
    int rc = u.piece ? unpack_all(&u, e) : error_set(e, FB_E_NOMEM, "unpack", "no memory");
    safe_place_close(&u.place);
    if (rc == 0 && u.place.root_fd >= 0 && syncfs(u.place.root_fd) < 0) /* once for all files */
        rc = error_set_errno(e, "unpack", errno, "write everything to the disk");
    if (u.place.root_fd >= 0)
        close(u.place.root_fd);
    free(u.piece);
    out->list = u.list.data;
    out->seconds = (double)(clock_now_ns() - since) / 1e9;
    return rc;
}

void unpack_free(struct unpack_result *r)
{
    free(r->list);
}
