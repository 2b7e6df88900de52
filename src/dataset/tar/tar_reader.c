#include "dataset/tar/tar_reader.h"

#include <string.h>

#include "base/round_up.h"

enum { LOOK_BEHIND_END = 64 }; /* blocks: tar pads to 20, some to 64 */

void tar_open(struct tar_reader *r, const struct tar_bytes *bytes)
{
    memset(r, 0, sizeof(*r));
    r->bytes = *bytes;
    r->data.limit = TAR_MAX_PAX;
    r->all.path.limit = r->next.path.limit = TAR_MAX_LONG_NAME + 1;
}

void tar_close(struct tar_reader *r)
{
    text_free(&r->data);
    text_free(&r->all.path);
    text_free(&r->next.path);
}

static int damaged(uint64_t at, struct fb_error *e, const char *what)
{
    error_set(e, FB_E_DATA, "dataset", "the archive is damaged: %s", what);
    error_at(e, NULL, (int64_t)at);
    return FB_E_DATA;
}

static int cut_off(const struct tar_reader *r, uint64_t claimed, struct fb_error *e)
{
    char name[120];
    error_set(e, FB_E_DATA, "dataset", "the archive is cut off: the member '%s' claims %llu bytes, the archive ends at byte %llu",
              text_escape(r->block.name, name, sizeof(name)), (unsigned long long)claimed, (unsigned long long)r->bytes.size);
    error_at(e, NULL, (int64_t)r->at);
    return FB_E_DATA;
}

/* 1: a header is in r->block. 0: the end. */
static int read_block(struct tar_reader *r, struct fb_error *e)
{
    uint8_t block[TAR_BLOCK];
    uint64_t left = r->bytes.size - r->at;
    if (left == 0 && r->at > 0)
        return 0;
    if (left < TAR_BLOCK)
        return damaged(r->at, e, left || r->at ? "it ends inside a header" : "it is empty");
    FB_TRY(r->bytes.read(r->bytes.ctx, r->at, block, sizeof(block), e));
    switch (tar_parse_block(block, &r->block)) {
    case TAR_BLOCK_ZERO: r->has_end = true; return 0;
    case TAR_BLOCK_BAD_SUM:
        return damaged(r->at, e, r->at ? "a header does not match its checksum" : "it does not begin like a tar archive");
    case TAR_BLOCK_BAD_NUMBER: return damaged(r->at, e, "a header has an impossible size");
    default: return 1;
    }
}

/* The content of a pax or long name header into r->data. */
static int read_content(struct tar_reader *r, uint64_t most, struct fb_error *e)
{
    uint64_t n = r->block.size, start = r->at + TAR_BLOCK;
    if (n > r->bytes.size - start)
        return cut_off(r, n, e);
    if (n > most)
        return damaged(r->at, e, "a name or extended header is too long");
    char piece[4096];
    r->data.length = 0;
    for (uint64_t done = 0; done < n;) {
        size_t part = n - done < sizeof(piece) ? (size_t)(n - done) : sizeof(piece);
        FB_TRY(r->bytes.read(r->bytes.ctx, start + done, piece, part, e));
        text_append(&r->data, piece, part);
        done += part;
    }
    return r->data.failed ? error_set(e, FB_E_NOMEM, "dataset", "no memory for a tar header") : 0;
}

static int take_long_name(struct tar_reader *r, struct fb_error *e)
{
    FB_TRY(read_content(r, TAR_MAX_LONG_NAME + 1, e));
    r->next.path.length = 0;
    r->next.has_path = true;
    if (r->data.length)
        text_append(&r->next.path, r->data.data, strnlen(r->data.data, r->data.length));
    return r->next.path.failed ? error_set(e, FB_E_NOMEM, "dataset", "no memory for a tar header") : 0;
}

static int take_pax(struct tar_reader *r, struct tar_override *o, struct fb_error *e)
{
    FB_TRY(read_content(r, TAR_MAX_PAX - 1, e));
    return !r->data.length || tar_parse_pax(r->data.data, r->data.length, o) ? 0 : damaged(r->at, e, "an extended header is malformed");
}

/* 1: the header spoke about the next member only. 0: it is a member. */
static int take_extension(struct tar_reader *r, struct fb_error *e)
{
    int rc;
    switch (r->block.type) {
    case 'x':
    case 'X': rc = take_pax(r, &r->next, e); break;
    case 'g': rc = take_pax(r, &r->all, e); break;
    case 'L': rc = take_long_name(r, e); break;
    case 'K': rc = read_content(r, TAR_MAX_LONG_NAME + 1, e); break; /* where a link leads: not asked */
    default: return 0;
    }
    FB_TRY(rc);
    uint64_t padded = round_up(r->block.size, TAR_BLOCK);
    r->at += TAR_BLOCK + (padded <= r->bytes.size - r->at - TAR_BLOCK ? padded : r->block.size);
    return 1;
}

static enum tar_kind kind_of(char type, const char *name, bool is_sparse)
{
    size_t n = strlen(name);
    switch (type) {
    case 0: return n && name[n - 1] == '/' ? TAR_FOLDER : TAR_FILE; /* v7 had no other way to say it */
    case '0':
    case '7': return is_sparse ? TAR_SPARSE : TAR_FILE;
    case '1':
    case '2': return TAR_LINK;
    case '3':
    case '4':
    case '6': return TAR_DEVICE;
    case '5': return TAR_FOLDER;
    case 'S': return TAR_SPARSE;
    default: return TAR_OTHER;
    }
}

/* Links, devices and folders have no data, whatever their size field says. */
static bool has_data(char type)
{
    return !(type >= '1' && type <= '6');
}

/* The map of an old sparse member goes on in blocks behind its header. */
static int skip_sparse_map(struct tar_reader *r, uint64_t *data, struct fb_error *e)
{
    uint8_t block[TAR_BLOCK];
    bool has_more = r->block.is_extended;
    while (has_more) {
        if (r->bytes.size - *data < TAR_BLOCK)
            return damaged(*data, e, "it ends inside the map of a sparse member");
        FB_TRY(r->bytes.read(r->bytes.ctx, *data, block, sizeof(block), e));
        has_more = block[TAR_AT_SPARSE_MORE_MAP] != 0;
        *data += TAR_BLOCK;
    }
    return 0;
}

static int finish_member(struct tar_reader *r, struct tar_member *m, struct fb_error *e)
{
    const struct tar_override *path = r->next.has_path ? &r->next : r->all.has_path ? &r->all : NULL;
    const struct tar_override *size = r->next.has_size ? &r->next : r->all.has_size ? &r->all : NULL;
    uint64_t data = r->at + TAR_BLOCK;
    m->name = path ? (path->path.length ? path->path.data : "") : r->block.name;
    m->kind = kind_of(r->block.type, m->name, r->next.is_sparse);
    m->mtime_s = r->block.mtime_s;
    m->size = !has_data(r->block.type) ? 0 : size ? size->size : r->block.size;
    FB_TRY(skip_sparse_map(r, &data, e));
    m->offset = data;
    if (m->size > r->bytes.size - data)
        return cut_off(r, m->size, e);
    uint64_t padded = round_up(m->size, TAR_BLOCK), left = r->bytes.size - data;
    r->at = data + (padded < left ? padded : left); /* some writers leave the last padding out */
    return 1;
}

int tar_next(struct tar_reader *r, struct tar_member *m, struct fb_error *e)
{
    bool is_first = r->at == 0;
    m->start = r->at;
    r->next.has_path = r->next.has_size = r->next.is_sparse = false;
    for (;;) {
        int rc = read_block(r, e);
        if (rc == 0 && (r->next.has_path || r->next.has_size || r->next.is_sparse))
            return damaged(r->at, e, "an extended header has no member");
        if (rc <= 0)
            return rc;
        r->is_pack |= is_first && r->block.is_pack;
        is_first = false;
        rc = take_extension(r, e);
        if (rc < 0)
            return rc;
        if (rc == 0)
            return finish_member(r, m, e);
    }
}

uint64_t tar_leftover(struct tar_reader *r)
{
    uint8_t block[TAR_BLOCK];
    struct tar_block parsed;
    uint64_t at = r->at;
    for (int i = 0; i < LOOK_BEHIND_END && at <= r->bytes.size && r->bytes.size - at >= TAR_BLOCK; i++, at += TAR_BLOCK)
        if (r->bytes.read(r->bytes.ctx, at, block, sizeof(block), NULL) < 0 || tar_parse_block(block, &parsed) != TAR_BLOCK_ZERO)
            return at;
    return 0;
}
