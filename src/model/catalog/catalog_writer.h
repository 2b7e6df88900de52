/* What a catalog writer holds while samples come in, shared by the files that collect (catalog_write.c) and lay out (catalog_image.c). */
#ifndef FB_MODEL_CATALOG_CATALOG_WRITER_H
#define FB_MODEL_CATALOG_CATALOG_WRITER_H

#include "model/catalog/catalog_format.h"
#include "model/catalog/name_table.h"

#define WRITER_IS_EXTENT (UINT64_C(1) << 63) /* in writer_sample.key: `mtime_ns` is then an index into `extents` */

struct writer_sample {
    uint64_t key; /* where its key starts in `keys` */
    uint64_t length;
    int64_t mtime_ns;
};

struct writer_extent {
    uint64_t offset, object;
};

struct writer_object {
    uint64_t size;
    int64_t mtime_ns;
};

/* `struct text` serves as a growing array of anything. */
struct catalog_writer {
    int64_t made_ns;
    struct catalog_field fields[FB_MAX_FIELDS];
    size_t field_offset[FB_MAX_FIELDS], row_bytes; /* a row holds one value of each field, unaligned */
    int field_count, class_field;
    int file_count; /* of the fields, the last so many */
    bool has_parts; /* the last field says how many */
    uint64_t count;
    struct text samples, keys, rows; /* struct writer_sample; NUL-terminated keys; row_bytes each */
    struct text extents, objects;    /* struct writer_extent, struct writer_object */
    struct name_table object_paths, classes;
    struct text dirs, dir_paths;   /* struct dir_record with `path` in dir_paths */
    struct text notes, note_texts; /* struct note_record with both in note_texts */
    uint64_t *order;               /* place -> sample as it came; NULL: not sorted since the last sample */
    uint64_t duplicate[2];         /* once sorted: see catalog_writer_sort */
};

static inline const struct writer_sample *writer_sample(const struct catalog_writer *w, uint64_t i)
{
    return (const struct writer_sample *)(const void *)w->samples.data + i;
}

static inline const char *writer_key(const struct catalog_writer *w, uint64_t i)
{
    return w->keys.data + (writer_sample(w, i)->key & ~WRITER_IS_EXTENT);
}

/* The sorted samples as a catalog in private memory, fingerprint and all. */
int catalog_image(struct catalog_writer *w, struct catalog **out, struct fb_error *e);

#endif
