/* Rows of a manifest: CSV, TSV and JSONL behind one interface. The bytes are hostile; the whole file is in memory.
 *
 * Limits: TABLE_MAX_RECORD bytes per record, TABLE_MAX_COLUMNS columns, names of TABLE_MAX_NAME bytes. What exceeds them is FB_E_DATA and
 * names the line.
 */
#ifndef FB_DATASET_MANIFEST_TABLE_H
#define FB_DATASET_MANIFEST_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/manifest/cell.h"

enum { TABLE_MAX_RECORD = 1 << 20, TABLE_MAX_COLUMNS = 32, TABLE_MAX_NAME = 63 };

struct table_format;

struct table {
    const struct table_format *format;
    const char *bytes; /* the caller's; lives as long as the table */
    size_t size, at;
    size_t first_row; /* where the rows start */
    uint64_t line;    /* of `at`, from 1 */
    uint64_t first_row_line;
    int columns;
    char name[TABLE_MAX_COLUMNS][TABLE_MAX_NAME + 1];
    /* the row at hand, until the next call */
    uint64_t row_line;
    struct cell cell[TABLE_MAX_COLUMNS];
    struct text text;                       /* CSV: its cells, unquoted */
    struct text floats;                     /* the vectors' elements */
    size_t vector_start[TABLE_MAX_COLUMNS]; /* JSONL: in floats */
    void *own;                              /* JSONL: the parsed line */
};

struct table_format {
    const char *name, *extension;
    bool is_typed;                                    /* text is text even if it looks like a number */
    int (*open)(struct table *t, struct fb_error *e); /* reads the column names; sets first_row */
    int (*next)(struct table *t, struct fb_error *e); /* 1: a row. 0: the end */
    void (*close)(struct table *t);
};

extern const struct table_format table_csv, table_tsv, table_jsonl;

/* The format for a file name, or NULL. */
const struct table_format *table_format_of(const char *path);

/* FB_E_DATA, FB_E_NOMEM. On failure nothing needs closing. */
int table_open(struct table *t, const struct table_format *format, const char *bytes, size_t size, struct fb_error *e);
/* 1: the next row is in `cell`; 0: there are no more. */
int table_next(struct table *t, struct fb_error *e);
void table_rewind(struct table *t);
void table_close(struct table *t);

/* For the formats. After the cells of a row are parsed: vectors point into `floats`, which does not move any more. */
void table_point_vectors(struct table *t);
/* An error that names the line. */
int table_refuse(const struct table *t, uint64_t line, struct fb_error *e, const char *format, ...) __attribute__((format(printf, 4, 5)));
int table_add_column(struct table *t, const char *name, size_t length, struct fb_error *e);

#endif
