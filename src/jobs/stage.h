/* The stage job: a data set, or a part of it, copied to where it can be read fast.
 *
 * From a folder, a mount, a pack, a single file or a bucket into a folder: the same names, sizes and times, so that a loader sees the same
 * samples, labels and fingerprint. The part is chosen as Loader(classes=, class_seed=, per_class=, fraction=) chooses. A folder with train/
 * and val/ (or test/) in it is staged part by part, each chosen by itself, as the loaders for each would.
 *
 * Copied by many reads at once; a file appears under its name only when it is whole (rename), large files are made of pieces that a second
 * run does not read again. What was copied is written down with checksums in the target (.fullbore-stage), for --resume and --verify.
 */
#ifndef FB_JOBS_STAGE_H
#define FB_JOBS_STAGE_H

#include <stdbool.h>

#include "base/error.h"

enum stage_to { STAGE_TO_ANY, STAGE_TO_RAM, STAGE_TO_SSD };

struct stage_progress {
    uint64_t files, files_total, bytes, bytes_total; /* of this run: what was there already is not counted */
    double seconds;
    bool is_verifying;
};

struct stage_request {
    const char *source, *target;
    const char *classes; /* as in fb_options */
    uint64_t class_count, class_seed, per_class;
    double fraction;  /* 1: all */
    const char *keys; /* a file with one key per line, or NULL */
    enum stage_to to;
    bool resumes, verifies, is_dry;
    int threads;    /* that write; 0: 4 */
    const char *io; /* as in fb_options */
    const char *catalog_dir;
    void (*progress)(void *ctx, const struct stage_progress *p);
    void (*found)(void *ctx, const struct fb_progress *p); /* while looking for samples */
    int (*interrupted)(void *ctx);
    void (*log)(void *ctx, int level, const char *line);
    void *ctx;
};

enum { STAGE_PARTS_MOST = 6 };

struct stage_part {
    char name[16]; /* "train", "val"; "": the whole */
    uint64_t files, bytes;
    uint64_t samples; /* 0: files were taken as they are, not as samples */
    int classes;
    int lost_classes;     /* of those, without a sample in the part: a loader of the copy renumbers the others */
    uint64_t fingerprint; /* of the samples chosen; 0: not known */
};

struct stage_result {
    struct stage_part part[STAGE_PARTS_MOST];
    int parts;
    uint64_t files, bytes; /* wanted */
    uint64_t copied, copied_bytes;
    uint64_t there, there_bytes;                   /* from an earlier run */
    uint64_t failed;                               /* could not be read or may not be written: named in list */
    uint64_t changed;                              /* files that are not as the catalog says; copied as they are now */
    uint64_t verified, damaged;                    /* files read again from the target; those that differ: removed */
    uint64_t needed_bytes, free_bytes, keep_bytes; /* on the target's file system: for what is missing; there is; must stay */
    bool fits, is_memory;                          /* the target is main memory: free and keep count that */
    double fits_share;                             /* how much of it would fit, 0 to 1 */
    char source_device[64], target_device[64];
    char *list;     /* "name: why" lines of the first thousand failed or damaged, or NULL */
    double seconds; /* of copying; not of looking */
};

/* FB_E_USAGE: the target holds something else, or the options do not go together; FB_E_BUDGET: it does not fit (fits_share says what
 * would); FB_E_IO: the target fails; FB_E_INTERRUPTED. What could not be copied otherwise is counted. `out` must be freed in any case. */
int stage_run(const struct stage_request *q, struct stage_result *out, struct fb_error *e);
void stage_free(struct stage_result *r);

#endif
