/* Opening a folder inside a source as a source: train/ beside val/, in a directory or in a bucket. */
#ifndef FB_DATASET_INNER_FOLDER_H
#define FB_DATASET_INNER_FOLDER_H

#include "dataset/dataset.h"

/* 1: there is a folder `name` in the source, *out is its location (the caller frees it). 0: there is none, or the source has no folders. A
 * bucket is asked: it has a folder if an object lies below it. */
int inner_find(const struct dataset_request *r, const char *name, char **out, struct fb_error *e);

#endif
