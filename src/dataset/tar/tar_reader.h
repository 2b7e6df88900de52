/* Walking a tar archive: one member after the other, with the long names and sizes that pax and GNU headers give them.
 *
 * The archive is reached through a `read` hook, so it may lie in a file or in memory. Nothing is believed: every size is compared with the
 * archive's before it is used, and what a header claims is never allocated without a limit. Members that are not files (links, folders,
 * devices, sparse files) are returned with their kind and without data.
 */
#ifndef FB_DATASET_TAR_TAR_READER_H
#define FB_DATASET_TAR_TAR_READER_H

#include "base/error.h"
#include "base/text/text.h"
#include "dataset/tar/tar_header.h"

enum { TAR_MAX_LONG_NAME = 65535, TAR_MAX_PAX = 1 << 20 };

enum tar_kind { TAR_FILE, TAR_FOLDER, TAR_LINK, TAR_DEVICE, TAR_SPARSE, TAR_OTHER };

struct tar_bytes {
    /* n bytes at `offset`; the caller has checked that they are inside `size`. FB_E_IO. */
    int (*read)(void *ctx, uint64_t offset, void *out, size_t n, struct fb_error *e);
    void *ctx;
    uint64_t size;
};

struct tar_member {
    enum tar_kind kind;
    const char *name;      /* until the next call; "" if it cannot be used (a NUL byte, nothing) */
    uint64_t start;        /* of its first header: of the pax or GNU header before its own, if there is one */
    uint64_t offset, size; /* of its data */
    int64_t mtime_s;
};

/* What headers before a member say about it. */
struct tar_override {
    struct text path;
    uint64_t size;
    bool has_path, has_size, is_sparse;
};

struct tar_reader {
    struct tar_bytes bytes;
    uint64_t at;                   /* of the next header */
    bool is_pack;                  /* the first header is marked as a pack's */
    bool has_end;                  /* once tar_next has returned 0: there was an end mark, not just the end */
    struct tar_override all, next; /* from global headers; for the next member */
    struct text data;              /* of a pax or long name header */
    struct tar_block block;
};

void tar_open(struct tar_reader *r, const struct tar_bytes *bytes);
/* 1: a member. 0: the end. FB_E_DATA names the offset; FB_E_IO; FB_E_NOMEM. */
int tar_next(struct tar_reader *r, struct tar_member *m, struct fb_error *e);
/* After the end: where something other than zeros follows within the next blocks, else 0. */
uint64_t tar_leftover(struct tar_reader *r);
void tar_close(struct tar_reader *r);

/* Applies pax records to `o`. False: they are malformed. */
bool tar_parse_pax(const char *bytes, size_t n, struct tar_override *o);

#endif
