/* The labels of a batch: which fields there are, in which order, and where their values come from: the catalog, or columns given by the
 * caller with one row per selected sample. Constant after open; any thread. */
#ifndef FB_FEED_LABELS_H
#define FB_FEED_LABELS_H

#include "model/catalog/catalog.h"
#include "order/subset/subset.h"

struct label_field {
    char name[64];
    struct fb_column shown; /* name, dtype, ndim, shape, for those who ask */
    size_t bytes;           /* of one value */
    int catalog_field;      /* or -1: */
    const uint8_t *rows;    /* one value after another, by selected sample */
    bool is_class;          /* labels of classes, renumbered when classes were chosen */
    int batch_field;        /* known with the shape of a batch */
};

struct labels {
    const struct catalog *catalog;
    const struct subset *subset;
    int count;
    struct label_field field[FB_MAX_FIELDS];
    void *memory;
};

/* FB_E_USAGE: rows that do not match the selection; a field that is not there. Columns that are given change the selection's fingerprint.
 * */
int labels_open(struct labels *l, const struct catalog *c, struct subset *s, const fb_options *o, struct fb_error *e);
void labels_close(struct labels *l);

/* The field of that name, or -1. */
int labels_find(const struct labels *l, const char *name);
/* One value: `selected` counts in the selection, `sample` in the catalog. */
int labels_get(const struct labels *l, int field, uint64_t selected, uint64_t sample, void *to, struct fb_error *e);
/* Where each lies if they lie one after another in `memory` (NULL: the size is asked for); returns the bytes they take. */
size_t labels_lay_out(const struct labels *l, uint8_t *memory, void **to);
/* All of them, each to where `to` says. */
int labels_copy(const struct labels *l, uint64_t selected, uint64_t sample, void *const *to, struct fb_error *e);
/* The field that says which class a sample belongs to: the class field, or the only one of single integers; -1: there is none. */
int labels_class_field(const struct labels *l);

/* A label that a transform refers to: a field, or one number of a vector. */
struct label_at {
    int field;
    size_t offset; /* bytes, inside the value */
    int count;     /* numbers */
    enum fb_dtype dtype;
};

/* "yaw" or "pose[2]". */
int labels_refer(const struct labels *l, const char *name, struct label_at *out, struct fb_error *e);
double label_read(const struct label_at *at, void *const *values);
void label_negate(const struct label_at *at, void *const *values);
void label_swap(const struct label_at *a, const struct label_at *b, void *const *values);
/* Can it be read as one number; can its sign change? */
bool label_is_number(const struct label_at *at);
bool label_has_sign(const struct label_at *at);

#endif
