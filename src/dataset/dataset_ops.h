/* The shape of a kind of source: folder, glob, manifest, list, tar. One static const table per kind, listed in dataset_list.c.
 *
 * All hooks run on the thread that called dataset_open and may block on the file system; a long one calls scan_progress_report now and
 * then.
 */
#ifndef FB_DATASET_DATASET_OPS_H
#define FB_DATASET_DATASET_OPS_H

#include <sys/stat.h>

#include "dataset/dataset.h"
#include "dataset/scan_progress.h"

/* One dataset_open under way. */
struct dataset_job {
    const struct dataset_request *request;
    struct scan_progress progress;
    char *root;               /* set by locate: canonical path of the directory that keys are relative to */
    int root_fd;              /* open once locate has returned */
    char *identity;           /* set by locate: what the source is called among those of its kind; NULL: its catalog is not kept */
    void *own;                /* the back-end's, from locate to release */
    struct catalog_writer *w; /* in scan only */
    bool has_warned;          /* that the folder of catalogs is not trusted */
    char *io;                 /* MAY be set by locate: the io back-end that reads it */
};

struct dataset_ops {
    const char *name;   /* "folder" */
    bool has_no_folder; /* root is a URL: nothing is opened there */

    /* MUST. Is the request one for us? `st` is what lies at request->source, NULL if nothing does. Looks at its arguments only. */
    bool (*claims)(const struct dataset_request *r, const struct stat *st);

    /* MUST. Sets root, identity and own. Reads nothing but what it takes to find the root. */
    int (*locate)(struct dataset_job *job, struct fb_error *e);

    /* MAY. 1: the source has a catalog of its own, which is now open; none is kept. 0: it has none. */
    int (*open)(struct dataset_job *job, struct catalog **out, struct fb_error *e);

    /* MAY. False: the kept catalog does not fit the source any more. Directories have been compared already. */
    bool (*is_unchanged)(struct dataset_job *job, const struct catalog *kept);

    /* MUST. Adds fields, classes, samples, directories and notes to job->w. */
    int (*scan)(struct dataset_job *job, struct fb_error *e);

    /* MAY. Frees own; called after locate, whether that succeeded or not. */
    void (*release)(struct dataset_job *job);
};

static inline int dataset_no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "dataset", "no memory");
}

/* In the order they are asked; NULL-terminated. */
extern const struct dataset_ops *const dataset_kinds[];
extern const struct dataset_ops dataset_folder, dataset_glob, dataset_manifest, dataset_from_list, dataset_single, dataset_tar, dataset_s3,
    dataset_s3_tar;

#endif
