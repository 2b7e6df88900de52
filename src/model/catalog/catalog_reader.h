/* An open catalog, as the files that check it (catalog_open.c) and read it (catalog_read.c) see it. */
#ifndef FB_MODEL_CATALOG_CATALOG_READER_H
#define FB_MODEL_CATALOG_CATALOG_READER_H

#include <pthread.h>
#include <stdatomic.h>

#include "model/catalog/catalog_format.h"

struct catalog {
    uint8_t *map; /* read-only except for catalog_set_fingerprint, and for blocks of a part that are not checked yet */
    size_t size;
    char *path; /* for messages; NULL: in memory */
    struct catalog_header header;
    struct catalog_field fields[FB_MAX_FIELDS];
    uint64_t column[FB_MAX_FIELDS]; /* where the field's values start in VALUES */
    int file_count, field_count, class_field, class_count;
    bool has_parts; /* the column after those of labels says how many */
    const uint64_t *block_sum;
    /* One bit per block, set once its sum was found right. Mapped files: the bytes are there before and never change; two threads that both
     * see it unset both check, and set the same bit. Parts: the block is read under fill_lock before its bit is set with release order, so
     * whoever sees the bit (acquire) sees the bytes. */
    _Atomic uint64_t *is_checked;
    /* A part of a larger file, read block by block when first touched: -1 if the whole is mapped. */
    int part_fd;
    uint64_t part_offset;
    pthread_mutex_t fill_lock;
    struct catalog_place place; /* of a part: what its one object really is */
};

/* FB_E_DATA in words. */
int catalog_damaged(const struct catalog *c, struct fb_error *e, int64_t offset, const char *what);
/* Reads n bytes at `start` of a part into its place in the map. */
int catalog_fill(const struct catalog *c, uint64_t start, uint64_t n, struct fb_error *e);
/* n > 0 checked bytes at `position` of a section, or NULL. */
const void *catalog_bytes_at(const struct catalog *c, enum catalog_section_id id, uint64_t position, uint64_t n, struct fb_error *e);
/* A NUL-terminated string, checked, or NULL; the section's last byte must be known to be NUL. */
const char *catalog_string_at(const struct catalog *c, enum catalog_section_id id, uint64_t position, struct fb_error *e);

static inline uint64_t catalog_entries(const struct catalog *c, enum catalog_section_id id, size_t entry_bytes)
{
    return c->header.section[id].length / entry_bytes;
}

#endif
