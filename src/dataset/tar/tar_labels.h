/* Labels that lie beside the images of an archive: .cls, else .json, else .txt. */
#ifndef FB_DATASET_TAR_TAR_LABELS_H
#define FB_DATASET_TAR_TAR_LABELS_H

#include "dataset/manifest/cell.h"
#include "dataset/tar/tar_table.h"
#include "model/catalog/catalog.h"

enum { LABELS_MOST = FB_MAX_FIELDS - 1 };

struct label_column {
    char name[64];
    uint32_t kinds;   /* bits of enum cell_kind that were seen */
    uint64_t present; /* in so many samples */
    uint32_t vector_length;
    bool has_spaces;            /* a text of several words: a caption rather than a class */
    bool is_ragged;             /* vectors of several lengths */
    struct catalog_field field; /* once chosen */
    struct cell cell;           /* of the sample at hand */
};

struct tar_labels {
    const struct tar_table *table;
    const struct archive *archives;
    int side; /* enum tar_side_kind, or -1: there are none */
    int count;
    struct label_column column[LABELS_MOST];
    struct text bytes, floats; /* of the sample at hand */
    void *json;
    size_t vector_at[LABELS_MOST];
    struct tar_window window;
    uint32_t open_archive; /* UINT32_MAX: none */
    int64_t integer[LABELS_MOST];
    float number[LABELS_MOST];
    const void *value[LABELS_MOST];
};

void tar_labels_init(struct tar_labels *l, const struct tar_table *t, const struct archive *archives);
/* Reads all labels once and decides which fields there are; none: l->count is 0. FB_E_DATA: labels of some samples are missing or unlike.
 */
int tar_labels_choose(struct tar_labels *l, struct dataset_job *job, struct fb_error *e);
/* The values of one image, in l->value. */
int tar_labels_read(struct tar_labels *l, const struct tar_image *image, struct catalog_writer *w, struct fb_error *e);
void tar_labels_free(struct tar_labels *l);

#endif
