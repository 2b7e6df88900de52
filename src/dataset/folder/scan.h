/* Walking a tree of folders for images: the common part of folder and glob. */
#ifndef FB_DATASET_FOLDER_SCAN_H
#define FB_DATASET_FOLDER_SCAN_H

#include "dataset/dataset_ops.h"
#include "dataset/folder/pattern.h"

/* Adds every image below the root that matches the pattern, with its class (the first folder of its path) unless all lie in the root
 * itself. `kind` is "folder" or "glob", for messages. */
int scan_tree(struct dataset_job *job, const struct pattern *pattern, const char *kind, struct fb_error *e);

#endif
