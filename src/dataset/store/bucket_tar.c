/* Archives in a bucket: s3://bucket/train.tar, s3://bucket/train-{000000..000012}.tar. Packs are opened by their index, which is fetched
 * by four ranged reads per pack; samples are then ranges of them. Archives without an index are read through once (bucket_walk.h).
 *
 * The index is written to a file in memory, at the offset it has in the pack and with holes around it, so the code that reads packs on a
 * disk reads it too. Every range must come from the same version of the pack, and so must every sample later (io_request.must_match). If
 * one archive among packs has no index, all of them are walked.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "dataset/pack/pack_merge.h"
#include "dataset/pack/shards.h"
#include "dataset/store/bucket_walk.h"

struct s3_pack {
    struct archive archive; /* place: the file in memory */
    int fd;
    void *bytes; /* of the range under way */
};

struct s3_tar {
    const struct store_ops *ops;
    struct store *store;
    struct s3_pack *pack;
    struct archive *archive; /* the same, as pack_merge wants them */
    struct store_range *range;
    uint32_t count;
    bool is_all_packs;
};

static bool claims(const struct dataset_request *r, const struct stat *st)
{
    (void)st;
    return !r->paths && s3_url_is(r->source) && shards_is_name(r->source);
}

/* ---- ranges of all packs at once ---- */

static int wait_on(void *ctx, struct fb_error *e)
{
    return s3_url_beat(ctx, 0, e);
}

static int failed_at(const struct s3_pack *p, struct fb_error *e, int rc)
{
    if (e)
        snprintf(e->path, sizeof(e->path), "%s", p->archive.path);
    return rc;
}

static int check_version(struct s3_pack *p, const struct store_range *r, struct fb_error *e)
{
    if (p->archive.mtime_ns == 0) {
        p->archive.mtime_ns = r->mtime_ns;
        p->archive.size = r->object_size;
        return 0;
    }
    if (r->mtime_ns == p->archive.mtime_ns && (r->object_size == 0 || r->object_size == p->archive.size))
        return 0;
    return failed_at(p, e, error_set(e, FB_E_DATA, "dataset", "the pack was replaced while its index was read"));
}

/* Writes the fetched range to its place in the file in memory. */
static int place(struct s3_pack *p, const struct store_range *r, struct fb_error *e)
{
    if (r->status < 0)
        return failed_at(p, e, r->status);
    FB_TRY(check_version(p, r, e));
    if (r->got != r->length)
        return failed_at(p, e, error_set(e, FB_E_DATA, "dataset", "the archive ends before it should"));
    if (file_write_all_at(p->fd, r->out, r->got, r->offset, NULL) == 0)
        return 0;
    return error_set_errno(e, "dataset", errno, "keep a pack's index in memory");
}

/* Offset and length of each range are set; reads and places them. */
static int fetch(struct dataset_job *job, struct s3_tar *s, struct fb_error *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < s->count && rc == 0; i++) {
        s->range[i].key = s->pack[i].archive.object;
        s->range[i].out = malloc(s->range[i].length);
        if (!s->range[i].out)
            rc = dataset_no_memory(e);
    }
    if (rc == 0)
        rc = s->ops->read(s->store, s->range, s->count, wait_on, job, e);
    for (uint32_t i = 0; i < s->count && rc == 0; i++)
        rc = place(&s->pack[i], &s->range[i], e);
    for (uint32_t i = 0; i < s->count; i++) {
        free(s->range[i].out);
        s->range[i].out = NULL;
    }
    return rc;
}

static void want(struct s3_tar *s, uint32_t i, uint64_t offset, uint64_t length)
{
    s->range[i] = (struct store_range){.offset = offset, .length = length};
}

/* The foot is there: now the rest of the index, with the tar header before it. 1: it is no pack's. */
static int want_index(struct s3_tar *s, uint32_t i, struct fb_error *e)
{
    struct s3_pack *p = &s->pack[i];
    uint64_t size = p->archive.size, at = size - PACK_END_BYTES - sizeof(struct pack_foot);
    struct pack_foot foot;
    FB_TRY(pack_read_at(p->fd, at, &foot, sizeof(foot), p->archive.path, e));
    if (foot.magic != PACK_FOOT_MAGIC)
        return 1;
    bool is_whole = checksum_of(&foot, sizeof(foot) - sizeof(foot.foot_checksum)) == foot.foot_checksum;
    bool is_sensible = is_whole && foot.index_offset >= TAR_BLOCK && foot.index_offset < at && foot.pack_size == size;
    if (!is_sensible)
        return failed_at(p, e, error_set(e, FB_E_DATA, "dataset", "the pack is damaged: its foot is invalid"));
    want(s, i, foot.index_offset - TAR_BLOCK, at - (foot.index_offset - TAR_BLOCK));
    return 0;
}

/* The index is there: now the header of the last member, which shows whose index it is. 1: there is none. */
static int want_edge(struct s3_tar *s, uint32_t i, struct fb_error *e)
{
    struct pack_index x;
    struct s3_pack *p = &s->pack[i];
    int rc = pack_index_open(&x, p->fd, p->archive.size, p->archive.path, e);
    if (rc <= 0)
        return rc < 0 ? failed_at(p, e, rc) : 1;
    want(s, i, x.head.last_start, PACK_EDGE_BYTES);
    return 0;
}

static int check_edges(struct s3_pack *p, struct fb_error *e)
{
    struct pack_index x;
    int rc = pack_index_open(&x, p->fd, p->archive.size, p->archive.path, e);
    if (rc == 1)
        rc = pack_index_belongs(&x, p->fd, p->archive.path, e);
    p->archive.is_pack = rc == 0;
    return rc < 0 ? failed_at(p, e, rc) : 0;
}

/* `next` says what is wanted of a pack. 1: of one of them nothing, because it is none. */
static int fetch_from_all(struct dataset_job *job, struct s3_tar *s, int (*next)(struct s3_tar *, uint32_t, struct fb_error *),
                          struct fb_error *e)
{
    for (uint32_t i = 0; i < s->count; i++) {
        int rc = next(s, i, e);
        if (rc != 0)
            return rc;
    }
    return fetch(job, s, e);
}

static int want_start(struct s3_tar *s, uint32_t i, struct fb_error *e)
{
    (void)e;
    want(s, i, 0, PACK_EDGE_BYTES);
    return 0;
}

/* Its size is known by now. */
static int make_room(struct s3_tar *s, struct fb_error *e)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (ftruncate(s->pack[i].fd, (off_t)s->pack[i].archive.size) < 0)
            return error_set_errno(e, "dataset", errno, "keep a pack's index in memory");
    return 0;
}

static int want_foot(struct s3_tar *s, uint32_t i, struct fb_error *e)
{
    (void)e;
    uint64_t size = s->pack[i].archive.size, foot = PACK_END_BYTES + sizeof(struct pack_foot);
    if (size < foot + 2 * TAR_BLOCK)
        return 1;
    want(s, i, size - foot, foot);
    return 0;
}

static int fetch_indexes(struct dataset_job *job, struct s3_tar *s, struct fb_error *e)
{
    FB_TRY(fetch_from_all(job, s, want_start, e));
    FB_TRY(make_room(s, e));
    int rc = fetch_from_all(job, s, want_foot, e);
    if (rc == 0)
        rc = fetch_from_all(job, s, want_index, e);
    if (rc == 0)
        rc = fetch_from_all(job, s, want_edge, e);
    for (uint32_t i = 0; i < s->count && rc == 0; i++)
        rc = check_edges(&s->pack[i], e);
    s->is_all_packs = rc == 0;
    return rc < 0 ? rc : 0;
}

/* ---- which packs ---- */

static int open_pack_memory(struct s3_pack *p, const char *root, const char *name, struct fb_error *e)
{
    p->fd = memfd_create("fullbore-pack", MFD_CLOEXEC);
    if (p->fd < 0)
        return error_set_errno(e, "dataset", errno, "keep a pack's index in memory");
    p->archive.object = strdup(name);
    if (!p->archive.object || asprintf(&p->archive.place, "/proc/self/fd/%d", p->fd) < 0) {
        p->archive.place = NULL;
        return dataset_no_memory(e);
    }
    if (asprintf(&p->archive.path, "%s/%s", root, name) < 0) {
        p->archive.path = NULL;
        return dataset_no_memory(e);
    }
    return 0;
}

static int locate_all(struct dataset_job *job, struct s3_tar *s, const struct shards *names, struct fb_error *e)
{
    s->pack = calloc(names->count, sizeof(*s->pack));
    s->archive = calloc(names->count, sizeof(*s->archive));
    s->range = calloc(names->count, sizeof(*s->range));
    if (!s->pack || !s->archive || !s->range)
        return dataset_no_memory(e);
    for (uint32_t i = 0; i < names->count; i++) {
        s->pack[i].fd = -1;
        s->count++;
        FB_TRY(open_pack_memory(&s->pack[i], job->root, names->path[i], e));
    }
    FB_TRY(fetch_indexes(job, s, e));
    for (uint32_t i = 0; i < s->count; i++)
        s->archive[i] = s->pack[i].archive;
    return 0;
}

static int locate(struct dataset_job *job, struct fb_error *e)
{
    struct s3_tar *s = calloc(1, sizeof(*s));
    const char *source = job->request->source, *slash = strrchr(source, '/');
    struct shards names = {0};
    job->own = s;
    job->root = strndup(source, (size_t)(slash - source));
    if (!s || !job->root)
        return dataset_no_memory(e);
    if (strpbrk(slash, "*?[")) {
        error_set(e, FB_E_USAGE, "dataset", "packs in a bucket are named one by one or with braces, not with wildcards");
        error_remedy(e, "train-{000000..000012}.tar names thirteen");
        error_at(e, source, -1);
        return FB_E_USAGE;
    }
    FB_TRY(s3_url_open(job, job->root, &s->ops, &s->store, e));
    int rc = shards_expand(&names, slash + 1, e);
    if (rc == 0)
        rc = locate_all(job, s, &names, e);
    shards_free(&names);
    if (rc == 0 && asprintf(&job->identity, "%s %s", s->ops->name(s->store), slash + 1) < 0) {
        job->identity = NULL;
        rc = dataset_no_memory(e);
    }
    return rc < 0 ? rc : s3_url_set_io(job, e);
}

static void release(struct dataset_job *job)
{
    struct s3_tar *s = job->own;
    if (!s)
        return;
    if (s->store)
        s->ops->close(s->store);
    for (uint32_t i = 0; i < s->count; i++) {
        free(s->pack[i].archive.path);
        free(s->pack[i].archive.place);
        free(s->pack[i].archive.object);
        if (s->pack[i].fd >= 0)
            close(s->pack[i].fd);
    }
    free(s->pack);
    free(s->archive);
    free(s->range);
    free(s);
}

/* ---- catalogs ---- */

static int open_one(struct dataset_job *job, struct catalog **out, struct fb_error *e)
{
    const struct s3_tar *s = job->own;
    if (s->count != 1 || !s->is_all_packs)
        return 0;
    int rc = pack_open_catalog(&s->archive[0], out, e);
    return rc < 0 ? failed_at(&s->pack[0], e, rc) : 1;
}

static int describe(const struct s3_tar *s, char *out, size_t out_size)
{
    struct checksum *sum = checksum_open();
    if (!sum)
        return -1;
    for (uint32_t i = 0; i < s->count; i++) {
        checksum_add(sum, &s->archive[i].size, sizeof(s->archive[i].size));
        checksum_add(sum, &s->archive[i].mtime_ns, sizeof(s->archive[i].mtime_ns));
    }
    snprintf(out, out_size, "%u packs, %016llx", s->count, (unsigned long long)checksum_value(sum));
    checksum_close(sum);
    return 0;
}

static bool is_unchanged(struct dataset_job *job, const struct catalog *kept)
{
    const char *then = catalog_note(kept, "archives");
    char now[64];
    return then && describe(job->own, now, sizeof(now)) == 0 && strcmp(then, now) == 0;
}

/* Messages name the archive, not the file in memory. */
static int walk_all(struct dataset_job *job, struct s3_tar *s, struct fb_error *e)
{
    for (uint32_t i = 0; i < s->count; i++) {
        int rc = s3_walk(job, s->ops, s->store, &s->archive[i], s->pack[i].fd, e);
        if (rc < 0)
            return failed_at(&s->pack[i], e, rc);
    }
    return tar_add_samples(job, s->archive, s->count, e);
}

static int scan(struct dataset_job *job, struct fb_error *e)
{
    struct s3_tar *s = job->own;
    char what[64];
    if (describe(s, what, sizeof(what)) < 0)
        return dataset_no_memory(e);
    FB_TRY(s->is_all_packs ? pack_merge(job, s->archive, s->count, e) : walk_all(job, s, e));
    return catalog_add_note(job->w, "archives", what, e);
}

const struct dataset_ops dataset_s3_tar = {.name = "s3-tar",
                                           .has_no_folder = true,
                                           .claims = claims,
                                           .locate = locate,
                                           .open = open_one,
                                           .is_unchanged = is_unchanged,
                                           .scan = scan,
                                           .release = release};
