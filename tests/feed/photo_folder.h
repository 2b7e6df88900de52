/* A folder of small JPEGs for engine tests: FOLDER/class<k>/<i>.jpg, each with its own content, and a private catalog directory. */
#ifndef FB_TESTS_PHOTO_FOLDER_H
#define FB_TESTS_PHOTO_FOLDER_H

#include <fullbore/fullbore.h>

struct photo_folder {
    char root[256]; /* the data set */
    char home[256]; /* catalogs */
    int count;
};

void photo_folder_make(struct photo_folder *p, int count, int classes);
void photo_folder_remove(struct photo_folder *p);
/* Overwrites file i with `n` bytes. */
void photo_folder_spoil(const struct photo_folder *p, int i, int classes, const void *bytes, size_t n);

/* Options for a loader over it: uint8 random crops of 32 x 32 pixels, 2 threads, 64 MiB. */
fb_options photo_options(const struct photo_folder *p);

#endif
