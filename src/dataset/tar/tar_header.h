/* One 512-byte header block of a tar archive: v7, ustar, GNU, star and pax alike. The bytes are hostile. */
#ifndef FB_DATASET_TAR_TAR_HEADER_H
#define FB_DATASET_TAR_TAR_HEADER_H

#include <stdbool.h>
#include <stdint.h>

enum { TAR_BLOCK = 512, TAR_MAX_NAME = 255 + 1 }; /* prefix, slash, name */

enum tar_block_kind {
    TAR_BLOCK_HEADER,
    TAR_BLOCK_ZERO,       /* the end of the archive */
    TAR_BLOCK_BAD_SUM,    /* not a header, or a damaged one */
    TAR_BLOCK_BAD_NUMBER, /* its checksum is right, but its size is not a number, or a negative one */
};

struct tar_block {
    char type;        /* as written: '0', 'L', 'x' ... */
    bool is_gnu;      /* the prefix is not one: GNU tar keeps times and sparse maps there */
    bool is_extended; /* old GNU sparse member: another block of its map follows */
    bool is_pack;     /* marked as written by `fullbore pack` */
    uint64_t size;
    int64_t mtime_s; /* 0 if it is not a number */
    char name[TAR_MAX_NAME + 1];
};

enum tar_block_kind tar_parse_block(const uint8_t block[TAR_BLOCK], struct tar_block *out);

/* The sum of a block's bytes with its checksum field taken for spaces. */
uint32_t tar_sum(const uint8_t block[TAR_BLOCK]);

/* What marks the headers of a pack, in the fields for the names of owner and group. */
#define TAR_PACK_OWNER "fullbore"
#define TAR_PACK_GROUP "fullbore-pack"

/* Where the fields of a header are; each is as long as the way to the next. */
enum {
    TAR_AT_NAME = 0,
    TAR_AT_MODE = 100,
    TAR_AT_UID = 108,
    TAR_AT_GID = 116,
    TAR_AT_SIZE = 124,
    TAR_AT_MTIME = 136,
    TAR_AT_SUM = 148,
    TAR_AT_TYPE = 156,
    TAR_AT_LINK = 157,
    TAR_AT_MAGIC = 257,
    TAR_AT_VERSION = 263,
    TAR_AT_OWNER = 265,
    TAR_AT_GROUP = 297,
    TAR_AT_MAJOR = 329,
    TAR_AT_MINOR = 337,
    TAR_AT_PREFIX = 345,
    TAR_AT_END = 500,
    TAR_AT_STAR_END = 476,       /* star's prefix is shorter: times follow it */
    TAR_AT_STAR_MARK = 508,      /* "tar" and a NUL */
    TAR_AT_SPARSE_MORE = 482,    /* old GNU sparse header: does a block of the map follow? */
    TAR_AT_SPARSE_MORE_MAP = 504 /* the same in such a block */
};

#endif
