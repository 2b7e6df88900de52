/* Small copies of a data set to try remedies on: files spread over it, under names of our own. */
#ifndef FB_JOBS_DOCTOR_DOCTOR_SAMPLE_H
#define FB_JOBS_DOCTOR_DOCTOR_SAMPLE_H

#include <stdbool.h>

#include "base/error.h"

/* A folder of ours, removed with everything in it at the end. near: on the same file system as that path; NULL: in memory (/dev/shm).
 * False: there is no place that can be written. */
struct scratch_folder {
    char path[512];
};
bool scratch_folder_make(struct scratch_folder *f, const char *near);
void scratch_folder_remove(struct scratch_folder *f);

/* Copies up to `wanted` samples into `into`/CLASS/NUMBER.EXT; *copied says how many, *bytes how much. */
int sample_copy(const fb_options *o, const char *into, uint64_t wanted, uint64_t *copied, uint64_t *bytes, struct fb_error *e);

#endif
