#include "dataset/pack/pack_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "dataset/tar/tar_header.h"
#include "model/catalog/catalog_format.h"

static int damaged(const char *path, uint64_t at, struct fb_error *e, const char *what)
{
    error_set(e, FB_E_DATA, "dataset", "the pack is damaged: %s", what);
    error_remedy(e, "run 'fullbore verify' to see what is intact; then fetch the pack again, or make it again");
    error_at(e, path, (int64_t)at);
    return FB_E_DATA;
}

int pack_read_at(int fd, uint64_t offset, void *out, size_t n, const char *path, struct fb_error *e)
{
    size_t got = file_read_all_at(fd, out, n, offset);
    if (got == n)
        return 0;
    if (errno == 0)
        return damaged(path, offset + got, e, "it is shorter than it was");
    int rc = error_set_errno(e, "dataset", errno, "read the pack");
    error_at(e, path, (int64_t)(offset + got));
    return rc;
}

static uint64_t foot_at(uint64_t file_size)
{
    return file_size - PACK_END_BYTES - sizeof(struct pack_foot);
}

/* 1: there is a sound foot. */
static int read_foot(struct pack_index *x, int fd, uint64_t file_size, const char *path, struct fb_error *e)
{
    const struct pack_foot *f = &x->foot;
    if (file_size < sizeof(x->foot) + PACK_END_BYTES + 2 * TAR_BLOCK)
        return 0;
    uint64_t at = foot_at(file_size);
    FB_TRY(pack_read_at(fd, at, &x->foot, sizeof(x->foot), path, e));
    if (f->magic != PACK_FOOT_MAGIC)
        return 0;
    if (checksum_of(f, sizeof(*f) - sizeof(f->foot_checksum)) != f->foot_checksum)
        return damaged(path, at, e, "its foot does not match its checksum");
    return 1;
}

static int check_foot(const struct pack_index *x, uint64_t file_size, const char *path, struct fb_error *e)
{
    const struct pack_foot *f = &x->foot;
    uint64_t at = foot_at(file_size);
    if (f->pack_size < file_size)
        return damaged(path, file_size - f->pack_size, e,
                       "there are other bytes before it, perhaps another pack; each pack must be a file of its own");
    if (f->pack_size > file_size)
        return damaged(path, at, e, "it is shorter than its index says");
    bool is_sensible = f->index_length >= sizeof(x->head) + sizeof(*f) && f->index_length <= file_size - PACK_END_BYTES &&
                       f->index_offset == file_size - PACK_END_BYTES - f->index_length && f->index_offset >= 2 * TAR_BLOCK &&
                       f->index_offset % TAR_BLOCK == 0;
    return is_sensible ? 0 : damaged(path, at, e, "its foot is invalid");
}

static int check_head(const struct pack_index *x, const char *path, struct fb_error *e)
{
    const struct pack_head *h = &x->head;
    uint64_t at = x->foot.index_offset, most = x->foot.index_length - sizeof(x->foot);
    if (checksum_of(h, sizeof(*h)) != x->foot.head_checksum)
        return damaged(path, at, e, "the head of its index does not match its checksum");
    if (h->magic != PACK_HEAD_MAGIC || h->version != PACK_VERSION || h->section_count != PACK_SECTIONS) {
        error_set(e, FB_E_UNSUPPORTED, "dataset", "the pack's index is of version %u; this program reads version %d", h->version,
                  PACK_VERSION);
        error_at(e, path, (int64_t)at);
        return FB_E_UNSUPPORTED;
    }
    for (int i = 0; i < PACK_SECTIONS; i++) {
        const struct pack_section *s = &h->section[i];
        if (s->offset > most || s->length > most - s->offset || s->offset % 8 != 0)
            return damaged(path, at, e, "a section of its index lies outside the index");
    }
    if (h->members_end != at - TAR_BLOCK || h->last_start > h->members_end - TAR_BLOCK || h->samples == 0 ||
        h->section[PACK_RECORDS].length / sizeof(struct pack_record) != h->samples ||
        h->section[PACK_RECORDS].length % sizeof(struct pack_record) != 0 ||
        h->section[PACK_CATALOG].length < sizeof(struct catalog_header))
        return damaged(path, at, e, "the head of its index is invalid");
    return 0;
}

static int check_edge(int fd, uint64_t start, uint64_t checksum, const char *path, struct fb_error *e)
{
    uint8_t bytes[PACK_EDGE_BYTES];
    FB_TRY(pack_read_at(fd, start, bytes, sizeof(bytes), path, e));
    return checksum_of(bytes, sizeof(bytes)) == checksum
               ? 0
               : damaged(path, start, e, "its index belongs to another pack, or the bytes it describes were changed");
}

int pack_index_belongs(const struct pack_index *x, int fd, const char *path, struct fb_error *e)
{
    uint8_t block[TAR_BLOCK];
    struct tar_block header;
    uint64_t end = x->head.members_end;
    FB_TRY(pack_read_at(fd, end, block, sizeof(block), path, e));
    if (tar_parse_block(block, &header) != TAR_BLOCK_HEADER || strcmp(header.name, PACK_INDEX_NAME) != 0 || !header.is_pack ||
        header.size != x->foot.index_length)
        return damaged(path, end, e, "the tar header of its index is wrong");
    FB_TRY(check_edge(fd, 0, x->head.first_edge, path, e));
    return check_edge(fd, x->head.last_start, x->head.last_edge, path, e);
}

int pack_index_open(struct pack_index *x, int fd, uint64_t file_size, const char *path, struct fb_error *e)
{
    memset(x, 0, sizeof(*x));
    int rc = read_foot(x, fd, file_size, path, e);
    if (rc <= 0)
        return rc;
    FB_TRY(check_foot(x, file_size, path, e));
    FB_TRY(pack_read_at(fd, x->foot.index_offset, &x->head, sizeof(x->head), path, e));
    FB_TRY(check_head(x, path, e));
    return 1;
}

int pack_index_catalog(const struct pack_index *x, int fd, int64_t mtime_ns, const char *object, const char *path, struct catalog **out,
                       struct fb_error *e)
{
    const struct pack_section *s = &x->head.section[PACK_CATALOG];
    struct catalog_place place = {(char *)object, x->foot.pack_size, mtime_ns, .end = x->head.members_end};
    FB_TRY(catalog_open_part(fd, x->foot.index_offset + s->offset, s->length, &place, path, out, e));
    if (catalog_count(*out) == x->head.samples)
        return 0;
    catalog_close(*out);
    *out = NULL;
    return damaged(path, x->foot.index_offset + s->offset, e, "its catalog has another number of samples");
}

int pack_index_section(const struct pack_index *x, int fd, enum pack_section_id id, const char *path, void **out, struct fb_error *e)
{
    const struct pack_section *s = &x->head.section[id];
    *out = malloc(s->length + 1);
    if (!*out)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for %llu bytes of a pack's index", (unsigned long long)s->length);
    int rc = pack_read_at(fd, x->foot.index_offset + s->offset, *out, s->length, path, e);
    if (rc == 0 && checksum_of(*out, s->length) != s->checksum)
        rc = damaged(path, x->foot.index_offset + s->offset, e, "a section of its index does not match its checksum");
    if (rc < 0) {
        free(*out);
        *out = NULL;
    }
    return rc;
}
