/* From recordings to words, JSON or one page of HTML that needs nothing else. */
#ifndef FB_JOBS_REPORT_H
#define FB_JOBS_REPORT_H

#include <stdbool.h>

#include "base/error.h"
#include "base/text/text.h"

/* One run, or two to compare. `page`: the file to write; NULL: text (or JSON) into `out`. *lost_bytes: of torn tails. */
int report_run(const char *const *recordings, int count, const char *page, bool json, struct text *out, uint64_t *lost_bytes,
               struct fb_error *e);

#endif
