/* Samples whose paths are given: the common part of manifest and list of files. Each path is checked. Missing files are counted and the
 * first few named; a duplicate is reported with both its places. */
#ifndef FB_DATASET_MANIFEST_PATH_TABLE_H
#define FB_DATASET_MANIFEST_PATH_TABLE_H

#include "base/text/text.h"
#include "dataset/dataset_ops.h"
#include "model/catalog/name_table.h"

struct path_table {
    struct dataset_job *job;
    const char *place_word; /* "line", "number": what `place` counts */
    uint64_t missing;
    char first_missing[384];
    struct text places;     /* uint64_t per sample, as it came */
    struct text path, dir;  /* at hand */
    struct name_table dirs; /* those of the files; each is added to the catalog */
};

void path_table_start(struct path_table *l, struct dataset_job *job, const char *place_word);
/* A further file of the sample that is added next: its number in the catalog, the value of its field. A missing one is no error: whoever
 * reads it finds out, and the sample is a bad one. */
int path_table_file(struct path_table *l, const char *path, size_t path_length, uint64_t place, int64_t *number, struct fb_error *e);
/* 1: the file is there, its path as keys are in l->path. 0: it is missing, which is an error in path_table_finish. */
int path_table_find(struct path_table *l, const char *path, size_t path_length, uint64_t place, struct stat *st, struct fb_error *e);
/* values: one per field of the catalog. FB_E_DATA: not a usable path. A missing file is not an error until path_table_finish. */
int path_table_add(struct path_table *l, const char *path, size_t path_length, uint64_t place, const void *const *values,
                   struct fb_error *e);
/* FB_E_DATA: files are missing, or a file is named twice. */
int path_table_finish(struct path_table *l, struct fb_error *e);
void path_table_end(struct path_table *l);

#endif
