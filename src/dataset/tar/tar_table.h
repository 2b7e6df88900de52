/* What the archives of a data set hold: images, and the labels that lie beside them under the same WebDataset key.
 *
 * A WebDataset key is a member's name up to the first dot of its last part; "0001.jpg", "0001.cls" and "0001.json" are one sample, in any
 * order and at any distance inside their archive. Only places are kept here; labels are read from the archive when they are needed.
 */
#ifndef FB_DATASET_TAR_TAR_TABLE_H
#define FB_DATASET_TAR_TAR_TABLE_H

#include "dataset/dataset_ops.h"
#include "dataset/folder/skipped_files.h"
#include "dataset/tar/tar_reader.h"
#include "model/catalog/name_table.h"

/* One archive of the source. */
struct archive {
    char *path;   /* as the user knows it */
    char *place;  /* what to open instead: what a compressed one was unpacked into, what is known of one in a bucket; NULL: itself */
    char *object; /* as the catalog names it: relative to the root, or absolute */
    uint64_t size;
    int64_t mtime_ns;
    bool is_pack; /* it has a sound index */
};

/* What to open. */
static inline const char *archive_place(const struct archive *a)
{
    return a->place ? a->place : a->path;
}

enum tar_side_kind { SIDE_CLS, SIDE_JSON, SIDE_TXT, SIDE_KINDS };

struct tar_side {
    uint64_t offset;
    uint64_t size; /* UINT64_MAX: there is none */
};

struct tar_group {
    struct tar_side side[SIDE_KINDS];
};

struct tar_image {
    uint64_t key; /* where it starts in `keys` */
    uint64_t offset, size;
    uint32_t archive, group;
};

struct tar_table {
    struct text images; /* struct tar_image each; sorted by tar_table_sort */
    struct text keys;
    struct text groups; /* struct tar_group each */
    struct name_table group_names;
    bool has_sides;   /* any labels beside images */
    bool has_clashes; /* two archives have members of the same name: keys begin with the archive's name */
    struct skipped_files left_out;
    uint64_t not_decoded;
};

/* An open archive, read through a window. */
struct tar_window {
    int fd;
    const char *path;
    uint64_t size, start;
    size_t have, wanted; /* bytes in the window; to read next time */
    uint8_t *bytes;
};

int tar_window_open(struct tar_window *w, const struct archive *a, struct fb_error *e);
int tar_window_read(void *window, uint64_t offset, void *out, size_t n, struct fb_error *e);
void tar_window_close(struct tar_window *w);

void tar_table_init(struct tar_table *t);
void tar_table_free(struct tar_table *t);
/* Adds the members of one archive; its number is that of the archive in the source. */
int tar_table_read(struct tar_table *t, struct dataset_job *job, const struct archive *a, uint32_t number, struct fb_error *e);
/* By key; of members with the same name in the same archive the last one stays, as tar has it. */
int tar_table_sort(struct tar_table *t, struct fb_error *e);

/* tar.c: adds the samples of all archives to job->w, with their labels, and the notes about what was left out. */
int tar_add_samples(struct dataset_job *job, const struct archive *archives, uint32_t count, struct fb_error *e);

static inline uint64_t tar_table_count(const struct tar_table *t)
{
    return t->images.length / sizeof(struct tar_image);
}

static inline struct tar_image *tar_table_image(const struct tar_table *t, uint64_t i)
{
    return (struct tar_image *)(void *)t->images.data + i;
}

static inline const char *tar_table_key(const struct tar_table *t, const struct tar_image *image)
{
    return t->keys.data + image->key;
}

#endif
