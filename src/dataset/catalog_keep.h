/* Where catalogs are kept between runs, and whether a kept one still fits its source.
 *
 * One file per source, named by a hash of its kind and canonical name; both are also in the catalog's notes and compared, so a collision
 * costs a scan and nothing else. Directories are compared by mtime, files are not: each is compared when it is read. A directory that
 * changed less than two seconds before the scan began counts as changed, because a later change in the same tick of a coarse clock would
 * not show (ext3, NFS, FAT).
 *
 * A kept catalog says which files are read, so it is believed only if it and its folder belong to this user or root and not everybody may
 * write to them (base/file/file_owner.h); otherwise the folder is not used, with a warning.
 */
#ifndef FB_DATASET_CATALOG_KEEP_H
#define FB_DATASET_CATALOG_KEEP_H

#include "dataset/dataset_ops.h"

enum { KEEP_SLACK_NS = 2000000000 };

/* The catalog's file, or NULL: there is no place for it. The caller frees it. */
char *keep_path(struct dataset_job *job, const char *kind);
/* Where what is learnt of its samples is kept, or NULL. The caller frees it. */
char *keep_learnt_dir(struct dataset_job *job, const char *kind);
/* Opens the kept catalog if it is there, whole and still fits; NULL otherwise. FB_E_INTERRUPTED goes to `e`. */
struct catalog *keep_find(struct dataset_job *job, const struct dataset_ops *ops, const char *path, struct fb_error *e);
/* Tries to put *c there; failing is said in the log and costs a scan next time. */
void keep_store(struct dataset_job *job, const char *path, struct catalog **c);

/* mkdir -p of the path's directory; failures show when the file is written. */
void keep_make_folder(const char *path);

int64_t keep_mtime_ns(const struct stat *st);

#endif
