/* Folders that are really a bucket: mounts of mountpoint-s3. Reading through them costs a round trip per file and read; the bucket itself
 * can be read many objects at a time, so its URL is offered, once per process. */
#ifndef FB_DATASET_STORE_BUCKET_MOUNT_H
#define FB_DATASET_STORE_BUCKET_MOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"

/* Says it in the log if the open folder is one. `root` is its canonical path. */
void s3_mount_offer(int root_fd, const char *root, const struct log *log);
/* The same by the mount table alone; `proc` as below. */
void s3_mount_say(const char *proc, const char *root, const struct log *log);

/* Is `path` inside such a mount? `proc` is "/proc" (or what a test puts in its place). *url is "s3://bucket/..." as far as the mounting
 * program's arguments tell, "" otherwise. */
bool s3_mount_find(const char *proc, const char *path, char *url, size_t url_size);

#endif
