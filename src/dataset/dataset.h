/* From a location to a catalog.
 *
 * The catalog's notes (catalog_note): "kind" as below; "source", its canonical name; "left out", what a scan met and did not take
 * ("104052 .mat, 3 .txt"; absent if nothing was); "manifest", the manifest's own size and time; "path column", what its column of paths is
 * called.
 */
#ifndef FB_DATASET_DATASET_H
#define FB_DATASET_DATASET_H

#include "base/log.h"
#include "model/catalog/catalog.h"
#include "model/store_ops.h"

struct dataset_request {
    const char *source;       /* folder, glob or manifest; or the root for `paths` */
    const char *const *paths; /* files given one by one; NULL otherwise */
    uint64_t path_count;
    const struct fb_column *columns;
    int column_count;
    const char *group_by;    /* of a manifest: rows with one value in this column are one sample; NULL: each is one */
    const char *catalog_dir; /* NULL: XDG's */
    void (*progress)(void *ctx, const struct fb_progress *p);
    int (*interrupted)(void *ctx);
    void *ctx;
    struct log log;
    const struct store_ops *const *stores; /* for URLs; NULL: there are none */
};

/* What the options of a loader say of it, without `paths`, `columns` and `group_by`. */
struct dataset_request dataset_request_of(const fb_options *o, const struct store_ops *const *stores);

/* What the samples are: the family of the files' names. */
enum data_family { FAMILY_IMAGE, FAMILY_SOUND, FAMILY_ARRAY };

struct dataset {
    struct catalog *catalog;
    int root_fd;      /* directory that object paths are relative to; AT_FDCWD never; -1: a URL */
    char *root;       /* its path, for messages */
    const char *kind; /* "folder", "glob", "manifest", "list", "tar", "file" */
    enum data_family family;
    char *learnt_dir; /* where what is learnt of its samples is kept, beside the catalog; NULL: nowhere */
    bool is_fresh;    /* scanned now, not found in the cache */
    char *io;         /* the io back-end that reads it ("s3:url=s3://bucket/prefix"); NULL: any that reads files */
};

/* Finds the back-end, uses the kept catalog if nothing changed, else scans and keeps a new one. */
int dataset_open(struct dataset *d, const struct dataset_request *r, struct fb_error *e);
void dataset_close(struct dataset *d);

/* FB_E_UNSUPPORTED if samples have further files, which `who` ("pack") does not take along. */
int dataset_refuse_files(const struct dataset *d, const char *who, struct fb_error *e);

#endif
