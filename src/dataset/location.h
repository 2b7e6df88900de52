/* Paths as sources give them. */
#ifndef FB_DATASET_LOCATION_H
#define FB_DATASET_LOCATION_H

#include "base/error.h"

/* The canonical path of something that exists; the caller frees it. FB_E_NOT_FOUND says how much of the path is there. */
int location_canonical(const char *path, char **out, struct fb_error *e);
/* FB_E_NOT_FOUND in words. */
int location_missing(const char *path, struct fb_error *e);
/* A path in its shortest spelling, in place: no "./", no "//", no `root` in front if it is below that. ".." stays: it may cross a link. */
void location_shorten(char *path, const char *root);

#endif
