/* The catalog: the table of samples of a data set, in bytewise order of their keys. One file, immutable, mapped, replaced by rename.
 *
 * A sample is an extent of an object (a file, a member of a pack, a row of an array) plus one value per label field. Keys are paths
 * relative to the source. The fingerprint is xxh3 over (n, keys, labels) and says nothing about places, sizes or times: a folder, its pack
 * and its bucket are the same data set.
 *
 * Layout: header | block checksums | sections, each section cut into 64 KiB blocks that are checked when first touched; so a catalog of a
 * million samples opens in the time of reading its header, and a flipped bit is found before it is used. Integers are little-endian.
 * Readers may be on any thread; accessors return pointers into the map that live as long as the catalog.
 */
#ifndef FB_MODEL_CATALOG_CATALOG_H
#define FB_MODEL_CATALOG_CATALOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct catalog;

/* A label field. Class fields are int64 with names; other numbers keep their type. */
struct catalog_field {
    char name[64];
    enum fb_dtype dtype;
    int ndim; /* 0 or 1 */
    int64_t shape[FB_MAX_DIMS];
    bool is_class; /* values index catalog_class_name; at most one field is */
};

/* Where a sample's bytes are. */
struct catalog_sample {
    const char *key;    /* relative path; also the object's path unless `object` differs */
    const char *object; /* path to open, relative to the source's root or absolute */
    uint64_t offset;
    uint64_t length;      /* bytes of the sample */
    uint64_t object_size; /* as it was when the catalog was made */
    int64_t mtime_ns;
};

/* ---- reading ---- */
int catalog_open(const char *path, struct catalog **out, struct fb_error *e);
void catalog_close(struct catalog *c);

uint64_t catalog_count(const struct catalog *c);
uint64_t catalog_fingerprint(const struct catalog *c);
int catalog_sample(const struct catalog *c, uint64_t i, struct catalog_sample *out, struct fb_error *e);
/* NULL when the block is damaged. */
const char *catalog_key(const struct catalog *c, uint64_t i, struct fb_error *e);
int catalog_field_count(const struct catalog *c);
const struct catalog_field *catalog_field(const struct catalog *c, int field);
size_t catalog_field_bytes(const struct catalog_field *f); /* of one sample's value */
/* The value of sample i in C order; NULL when damaged. */
const void *catalog_value(const struct catalog *c, uint64_t i, int field, struct fb_error *e);
int catalog_class_count(const struct catalog *c);
const char *catalog_class_name(const struct catalog *c, int label);
/* Index of the class field, or -1. */
int catalog_class_field(const struct catalog *c);

/* Further files of every sample, by name: a mask beside its picture. They are not label fields, and their names count in the fingerprint as
 * keys do. */
int catalog_file_count(const struct catalog *c);
const char *catalog_file_name(const struct catalog *c, int file);
/* Where file `file` of sample i is, key and object both being its path. One that was missing when the catalog was made is 0 bytes long. */
int catalog_file(const struct catalog *c, uint64_t i, int file, struct catalog_sample *out, struct fb_error *e);

/* Samples that are several files each, the slides of a patient: their parts, in the order in which they were added. The key is then a
 * name and no path. Without such samples, every one has one part, which is itself. A part's key is its path; paths count in the
 * fingerprint. */
bool catalog_has_parts(const struct catalog *c);
int catalog_part_count(const struct catalog *c, uint64_t i, uint64_t *out, struct fb_error *e);
int catalog_part(const struct catalog *c, uint64_t i, uint64_t part, struct catalog_sample *out, struct fb_error *e);

/* All samples are parts of one object: a pack. */
bool catalog_is_one_object(const struct catalog *c);

/* What the source looked like when it was catalogued: the directories with their mtimes, for noticing changes. */
int catalog_dir_count(const struct catalog *c);
int catalog_dir(const struct catalog *c, int i, const char **path, int64_t *mtime_ns, struct fb_error *e);
int64_t catalog_made_ns(const struct catalog *c); /* wall clock at the start of the scan */
/* Free text kept with the catalog: the source's canonical name and what was left out ("104052 .mat"). */
const char *catalog_note(const struct catalog *c, const char *name);
/* 1: its samples are bare RGB pixels of this size, which is within the limits of model/image.h, so that 3 x height x width cannot overflow.
 * 0: they are files of a format. FB_E_DATA: it claims a size that no picture has. A sample's length must still be compared with it. */
int catalog_decoded_size(const struct catalog *c, uint32_t *height, uint32_t *width, struct fb_error *e);
/* How the .npy of such a table begins: rows x height x width x 3 bytes, as numpy writes it. False: more rows than fit into it. */
enum { DECODED_HEADER_BYTES = 128 };
bool catalog_decoded_header(uint64_t rows, uint32_t height, uint32_t width, char out[DECODED_HEADER_BYTES]);

/* ---- writing ---- */
/* Collects samples in any order; finish sorts by key. All of it is in memory until finish writes, fsyncs and renames. */
struct catalog_writer;
int catalog_writer_open(struct catalog_writer **out, struct fb_error *e);
/* Fields and classes come before the first sample. */
int catalog_add_field(struct catalog_writer *w, const struct catalog_field *f, struct fb_error *e);
int catalog_add_class(struct catalog_writer *w, const char *name, struct fb_error *e); /* returns its label */
/* The fields and classes of another, so that labels have the same numbers. */
int catalog_add_fields_of(struct catalog_writer *w, const struct catalog *like, struct fb_error *e);
/* After the label fields: a further file of every sample. Its value in catalog_add_sample is an int64_t, the number of such a file. */
int catalog_add_file_field(struct catalog_writer *w, const char *name, struct fb_error *e);
int64_t catalog_add_file(struct catalog_writer *w, const char *path, uint64_t size, int64_t mtime_ns, struct fb_error *e);
/* Instead of that: samples have parts. Those of a sample are added as files one right after the other, then the sample, whose object is
 * its first part and whose last value is an int64_t, the number of its parts. */
int catalog_add_parts_field(struct catalog_writer *w, struct fb_error *e);
/* values: one pointer per field, those of files last, each catalog_field_bytes long. Class labels may be final only at catalog_finish. */
int catalog_add_sample(struct catalog_writer *w, const struct catalog_sample *s, const void *const *values, struct fb_error *e);
int catalog_add_dir(struct catalog_writer *w, const char *path, int64_t mtime_ns, struct fb_error *e);
int catalog_add_note(struct catalog_writer *w, const char *name, const char *text, struct fb_error *e);
/* Sorts, refuses duplicate keys (FB_E_DATA), writes. path NULL: into anonymous memory (*out is then open and the only reference).
 * With a path, `out` may be NULL. The writer is freed in any case. */
int catalog_finish(struct catalog_writer *w, const char *path, struct catalog **out, struct fb_error *e);
void catalog_writer_discard(struct catalog_writer *w);

#endif
