/* The structure of an archive in a bucket that has no index. */
#ifndef FB_DATASET_STORE_BUCKET_WALK_H
#define FB_DATASET_STORE_BUCKET_WALK_H

#include "dataset/store/store_url.h"
#include "dataset/tar/tar_table.h"

/* Reads the archive through and lays what tar_table and tar_labels need into `fd`, which has its size already. Every range must be of the
 * version that `a` has. */
int s3_walk(struct dataset_job *job, const struct store_ops *ops, struct store *store, const struct archive *a, int fd, struct fb_error *e);

#endif
