/* What the parts of the info job share. */
#ifndef FB_JOBS_INFO_INFO_INTERNAL_H
#define FB_JOBS_INFO_INFO_INTERNAL_H

#include "dataset/dataset.h"
#include "jobs/info.h"

enum { INFO_PROBES = 256 }; /* files that are examined, spread over the data set */

void info_count_format(struct info *i, const char *name);
void info_note_damaged(struct info *i, const char *key, struct fb_error *e);

/* info_arrays.c */
void info_examine_arrays(const struct dataset *d, struct info *i, uint64_t memory);
/* info_remarks.c: what will be slow. After everything else is known; `memory` is the budget to judge by. */
void info_remark(struct info *i, uint64_t memory);

#endif
