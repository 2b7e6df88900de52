/* Verifying a pack. Checksums cover every record, every section of the index, its head and its foot; all other bytes are known headers or
 * zeros. So a flipped bit anywhere is found, and the report names the piece it lies in. */
#include "jobs/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "dataset/pack/pack_index.h"
#include "dataset/pack/shards.h"
#include "dataset/tar/tar_reader.h"
#include "jobs/output/pack_record.h"

enum { PIECE = 1 << 20 };

struct verifying {
    const struct verify_request *q;
    struct verify_result *out;
    const char *path;
    int fd;
    uint64_t size, bytes_total;
    struct pack_index index;
    struct pack_record *records; /* NULL: damaged */
    struct catalog *catalog;     /* NULL: damaged */
    uint8_t *piece;
};

/* ---- what is found ---- */

static void found(struct verifying *v, int64_t record, uint64_t offset, const char *key, const char *what)
{
    struct verify_result *r = v->out;
    if (r->damages++ >= VERIFY_NAMED)
        return;
    struct verify_damage *grown = realloc(r->damage, r->damages * sizeof(*grown));
    if (!grown) {
        r->damages--;
        return;
    }
    r->damage = grown;
    struct verify_damage *d = &grown[r->damages - 1];
    *d = (struct verify_damage){.path = strdup(v->path), .record = record, .offset = offset, .key = key ? strdup(key) : NULL};
    snprintf(d->what, sizeof(d->what), "%s", what);
}

/* An error that speaks of damage becomes a finding; any other stays an error. */
static int found_error(struct verifying *v, int rc, struct fb_error *e)
{
    if (rc != FB_E_DATA)
        return rc;
    found(v, -1, e->offset < 0 ? 0 : (uint64_t)e->offset, NULL, e->cause);
    error_clear(e);
    return 0;
}

static int advance(struct verifying *v, size_t n, struct fb_error *e)
{
    v->out->bytes += n;
    if (v->q->progress)
        v->q->progress(v->q->ctx, v->out->bytes, v->bytes_total);
    return v->q->interrupted && v->q->interrupted(v->q->ctx) ? error_set(e, FB_E_INTERRUPTED, "verify", "interrupted") : 0;
}

static int sum_range(struct verifying *v, uint64_t start, uint64_t end, uint64_t *sum, struct fb_error *e)
{
    struct checksum *c = checksum_open();
    int rc = c ? 0 : error_set(e, FB_E_NOMEM, "verify", "no memory");
    while (rc == 0 && start < end) {
        size_t n = end - start < PIECE ? (size_t)(end - start) : PIECE;
        rc = pack_read_at(v->fd, start, v->piece, n, v->path, e);
        if (rc == 0) {
            checksum_add(c, v->piece, n);
            start += n;
            rc = advance(v, n, e);
        }
    }
    *sum = c ? checksum_value(c) : 0;
    checksum_close(c);
    return rc;
}

static int check_zeros(struct verifying *v, uint64_t start, uint64_t end, struct fb_error *e)
{
    while (start < end) {
        size_t n = end - start < PIECE ? (size_t)(end - start) : PIECE;
        FB_TRY(pack_read_at(v->fd, start, v->piece, n, v->path, e));
        for (size_t i = 0; i < n; i++)
            if (v->piece[i]) {
                found(v, -1, start + i, NULL, "padding that must be zero is not");
                return 0;
            }
        start += n;
        FB_TRY(advance(v, n, e));
    }
    return 0;
}

/* ---- the index ---- */

static int check_section(struct verifying *v, enum pack_section_id id, struct fb_error *e)
{
    static const char *const names[] = {"the catalog", "the table of checksums", "the table of names", "what was learnt"};
    const struct pack_section *s = &v->index.head.section[id];
    uint64_t start = v->index.foot.index_offset + s->offset, sum;
    FB_TRY(sum_range(v, start, start + s->length, &sum, e));
    if (sum == s->checksum)
        return 0;
    char what[160];
    snprintf(what, sizeof(what), "%s in the index does not match its checksum", names[id]);
    found(v, -1, start, NULL, what);
    return 0;
}

/* Head, sections in their order, foot: what is between them is padding. */
static int check_index(struct verifying *v, struct fb_error *e)
{
    const struct pack_foot *f = &v->index.foot;
    uint64_t at = f->index_offset + sizeof(v->index.head);
    for (int i = 0; i < PACK_SECTIONS; i++) {
        const struct pack_section *s = &v->index.head.section[i];
        uint64_t start = f->index_offset + s->offset;
        if (start < at) {
            found(v, -1, start, NULL, "sections of the index overlap");
            return 0;
        }
        FB_TRY(check_zeros(v, at, start, e));
        FB_TRY(check_section(v, (enum pack_section_id)i, e));
        at = start + s->length;
    }
    FB_TRY(check_zeros(v, at, f->index_offset + f->index_length - sizeof(*f), e));
    return check_zeros(v, f->index_offset + f->index_length, v->size, e);
}

static int check_index_header(struct verifying *v, struct fb_error *e)
{
    struct text expected = {.limit = 4096};
    uint8_t block[TAR_BLOCK];
    pack_put_header(&expected, PACK_INDEX_NAME, v->index.foot.index_length, 0);
    int rc = expected.failed ? error_set(e, FB_E_NOMEM, "verify", "no memory")
                             : pack_read_at(v->fd, v->index.head.members_end, block, sizeof(block), v->path, e);
    if (rc == 0 && memcmp(block, expected.data, sizeof(block)) != 0)
        found(v, -1, v->index.head.members_end, NULL, "the tar header of the index was changed");
    text_free(&expected);
    return rc;
}

/* ---- records ---- */

static uint64_t end_of(const struct verifying *v, uint64_t i)
{
    return i + 1 < v->index.head.samples ? v->records[i + 1].start : v->index.head.members_end;
}

/* Which part of a damaged record it is. */
static int name_damage(struct verifying *v, uint64_t i, struct fb_error *e)
{
    struct catalog_sample s;
    uint64_t sum = 0;
    if (!v->catalog || catalog_sample(v->catalog, i, &s, NULL) < 0) {
        found(v, (int64_t)i, v->records[i].start, NULL, "the record does not match its checksum");
        return 0;
    }
    bool is_inside = s.offset >= v->records[i].start && s.offset <= end_of(v, i) && s.length <= end_of(v, i) - s.offset;
    if (is_inside)
        FB_TRY(sum_range(v, s.offset, s.offset + s.length, &sum, e));
    bool is_data = is_inside && sum != v->records[i].checksum;
    found(v, (int64_t)i, is_data ? s.offset : v->records[i].start, s.key,
          is_data ? "the sample's bytes do not match their checksum"
                  : "the sample is whole, but its tar header, padding or labels are damaged");
    return 0;
}

static int check_records(struct verifying *v, struct fb_error *e)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < v->index.head.samples; i++) {
        uint64_t sum, start = v->records[i].start, end = end_of(v, i);
        if (start != at || end <= start || end > v->index.head.members_end) {
            found(v, (int64_t)i, at, NULL, "the records do not lie one after another");
            return 0;
        }
        FB_TRY(sum_range(v, start, end, &sum, e));
        if (sum != v->records[i].record_checksum)
            FB_TRY(name_damage(v, i, e));
        at = end;
    }
    v->out->samples += v->index.head.samples;
    return 0;
}

static int open_tables(struct verifying *v, struct fb_error *e)
{
    void *records = NULL;
    int rc = pack_index_section(&v->index, v->fd, PACK_RECORDS, v->path, &records, e);
    v->records = records;
    if (rc < 0) /* check_index names it */
        error_clear(e);
    if (rc < 0 && rc != FB_E_DATA)
        return rc;
    rc = pack_index_catalog(&v->index, v->fd, 0, "", v->path, &v->catalog, e);
    return rc < 0 ? found_error(v, rc, e) : 0;
}

static int check_pack(struct verifying *v, struct fb_error *e)
{
    FB_TRY(open_tables(v, e));
    if (v->records)
        FB_TRY(check_records(v, e));
    FB_TRY(check_index_header(v, e));
    return check_index(v, e);
}

/* ---- other archives ---- */

static int read_file(void *ctx, uint64_t offset, void *out, size_t n, struct fb_error *e)
{
    struct verifying *v = ctx;
    return pack_read_at(v->fd, offset, out, n, v->path, e);
}

/* No index: the headers can be walked, and a pack without its index is damaged. */
static int check_tar(struct verifying *v, struct fb_error *e)
{
    struct tar_reader r;
    struct tar_member m;
    tar_open(&r, &(struct tar_bytes){read_file, v, v->size});
    int rc;
    uint64_t members = 0;
    while ((rc = tar_next(&r, &m, e)) == 1)
        members++;
    bool is_pack = r.is_pack;
    tar_close(&r);
    if (rc < 0)
        return found_error(v, rc, e);
    if (is_pack)
        found(v, -1, v->size, NULL, "the pack is cut off, or was changed by another program: its index is not at its end");
    v->out->without_index += !is_pack;
    v->out->samples += members;
    return 0;
}

/* ---- files ---- */

static int verify_open_file(struct verifying *v, struct fb_error *e)
{
    int rc = pack_index_open(&v->index, v->fd, v->size, v->path, e);
    if (rc == 1)
        return check_pack(v, e);
    if (rc == 0)
        return check_tar(v, e);
    return found_error(v, rc, e);
}

static int verify_file(struct verifying *v, struct fb_error *e)
{
    struct stat st;
    v->fd = open(v->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int rc = v->fd < 0 || fstat(v->fd, &st) < 0 ? error_set_errno(e, "verify", errno, "open the pack") : 0;
    if (rc == 0 && !S_ISREG(st.st_mode))
        rc = error_set(e, FB_E_USAGE, "verify", "it is not a file");
    if (rc == 0) {
        v->size = (uint64_t)st.st_size;
        posix_fadvise(v->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        rc = verify_open_file(v, e);
    }
    if (v->fd >= 0)
        close(v->fd);
    free(v->records);
    catalog_close(v->catalog);
    v->records = NULL;
    v->catalog = NULL;
    if (rc < 0)
        error_at(e, v->path, -1);
    return rc;
}

static int expand(const char *source, struct shards *s, struct fb_error *e)
{
    struct stat st;
    if (stat(source, &st) != 0 && shards_is_several(source))
        return shards_expand(s, source, e);
    *s = (struct shards){calloc(1, sizeof(char *)), 1, 1};
    if (s->path)
        s->path[0] = strdup(source);
    return s->path && s->path[0] ? 0 : error_set(e, FB_E_NOMEM, "verify", "no memory");
}

int verify_run(const struct verify_request *q, struct verify_result *out, struct fb_error *e)
{
    memset(out, 0, sizeof(*out));
    struct shards s;
    struct stat st;
    uint64_t since = clock_now_ns();
    FB_TRY(expand(q->source, &s, e));
    struct verifying v = {.q = q, .out = out, .fd = -1, .piece = malloc(PIECE)};
    int rc = v.piece ? 0 : error_set(e, FB_E_NOMEM, "verify", "no memory");
    for (uint32_t i = 0; i < s.count; i++)
        v.bytes_total += stat(s.path[i], &st) == 0 ? (uint64_t)st.st_size : 0;
    for (uint32_t i = 0; rc == 0 && i < s.count; i++) {
        v.path = s.path[i];
        rc = verify_file(&v, e);
        out->files += rc == 0;
    }
    free(v.piece);
    shards_free(&s);
    out->seconds = (double)(clock_now_ns() - since) / 1e9;
    return rc;
}

void verify_free(struct verify_result *r)
{
    uint64_t n = r->damages < VERIFY_NAMED ? r->damages : VERIFY_NAMED;
    for (uint64_t i = 0; i < n; i++) {
        free(r->damage[i].path);
        free(r->damage[i].key);
    }
    free(r->damage);
}
