/* The index of a pack, opened: foot and head are checked, sections are not read yet. */
#ifndef FB_DATASET_PACK_PACK_INDEX_H
#define FB_DATASET_PACK_PACK_INDEX_H

#include <stdbool.h>

#include "dataset/pack/pack_format.h"
#include "model/catalog/catalog.h"

struct pack_index {
    struct pack_foot foot;
    struct pack_head head;
};

/* 1: the file ends like a pack. 0: it has no foot, so it is another tar or a pack that was cut off. FB_E_DATA: it
 * has a foot that does not fit: damaged, two packs in one, changed by another program. `path` is for messages. */
int pack_index_open(struct pack_index *x, int fd, uint64_t file_size, const char *path, struct fb_error *e);
/* FB_E_DATA: the index is that of another pack, as far as two headers of the members tell; `fullbore verify` asks all of them. */
int pack_index_belongs(const struct pack_index *x, int fd, const char *path, struct fb_error *e);

/* The pack's catalog; its object is called `object`. */
int pack_index_catalog(const struct pack_index *x, int fd, int64_t mtime_ns, const char *object, const char *path, struct catalog **out,
                       struct fb_error *e);

/* A section's bytes, whole and checked; the caller frees them. *out is never NULL on success. */
int pack_index_section(const struct pack_index *x, int fd, enum pack_section_id id, const char *path, void **out, struct fb_error *e);

/* n bytes at `offset`; the file ending before is FB_E_DATA. */
int pack_read_at(int fd, uint64_t offset, void *out, size_t n, const char *path, struct fb_error *e);

#endif
