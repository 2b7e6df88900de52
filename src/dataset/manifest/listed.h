/* Samples whose paths are given: the common part of manifest and list of files. Each path is checked. Missing files are counted and the
 * first few named; a duplicate is reported with both its places. */
#ifndef FB_DATASET_MANIFEST_LISTED_H
#define FB_DATASET_MANIFEST_LISTED_H

#include "base/text/text.h"
#include "dataset/dataset_ops.h"
#include "model/catalog/name_table.h"

struct listed {
    struct dataset_job *job;
    const char *place_word; /* "line", "number": what `place` counts */
    uint64_t missing;
    char first_missing[384];
    struct text places;     /* uint64_t per sample, as it came */
    struct text path, dir;  /* at hand */
    struct name_table dirs; /* those of the files; each is added to the catalog */
};

void listed_start(struct listed *l, struct dataset_job *job, const char *place_word);
/* A further file of the sample that is added next: its number in the catalog, the value of its field. A missing one is no error: whoever
 * reads it finds out, and the sample is a bad one. */
int listed_file(struct listed *l, const char *path, size_t path_length, uint64_t place, int64_t *number, struct fb_error *e);
/* 1: the file is there, its path as keys are in l->path. 0: it is missing, which is an error in listed_finish. */
int listed_find(struct listed *l, const char *path, size_t path_length, uint64_t place, struct stat *st, struct fb_error *e);
/* values: one per field of the catalog. FB_E_DATA: not a usable path. A missing file is not an error until listed_finish. */
int listed_add(struct listed *l, const char *path, size_t path_length, uint64_t place, const void *const *values, struct fb_error *e);
/* FB_E_DATA: files are missing, or a file is named twice. */
int listed_finish(struct listed *l, struct fb_error *e);
void listed_end(struct listed *l);

#endif
