/* What the columns of a manifest are: which one names the file, which name further files of the sample, and the type of every other one.
 *
 * A column names further files when every cell of it has the extension of an image format that is decoded, and at least one of the first
 * rows' files is there: so a column of names that mean nothing here (where a picture once came from) stays a label. */
#ifndef FB_DATASET_MANIFEST_COLUMNS_H
#define FB_DATASET_MANIFEST_COLUMNS_H

#include "dataset/scan_progress.h"
#include "dataset/manifest/table.h"
#include "model/catalog/catalog.h"

struct columns {
    int path;                      /* the column with the paths */
    int group;                     /* the column whose equal values make one sample; -1: a row is a sample */
    int count;                     /* label fields */
    int source[TABLE_MAX_COLUMNS]; /* field -> column of the table */
    struct catalog_field field[TABLE_MAX_COLUMNS];
    int file_count; /* columns of further files */
    int file_source[TABLE_MAX_COLUMNS];
    uint64_t rows;
};

/* Reads the whole table once. FB_E_DATA: no column of paths (names the columns), a cell that is empty or does not fit its column (names
 * line and column), two columns of text (names both). FB_E_USAGE: no column is called `group`, which may be NULL. root_fd: what paths are
 * relative to; -1: no further files are needed. progress may be NULL. */
int columns_find(struct columns *out, struct table *t, const char *group, int root_fd, struct scan_progress *progress, struct fb_error *e);

/* The values of the row at hand. */
struct columns_row {
    int64_t integer[TABLE_MAX_COLUMNS];
    float number[TABLE_MAX_COLUMNS];
    const void *value[TABLE_MAX_COLUMNS];
};

/* Fills `row` from the table's current row; class names are added to `w`. FB_E_DATA: a number beyond float32, names line and column. */
int columns_read(const struct columns *c, const struct table *t, struct columns_row *row, struct catalog_writer *w, struct fb_error *e);

#endif
