/* Emptying the page cache of a data set's files, for cold measurements. */
#ifndef FB_JOBS_BENCH_PAGE_CACHE_EVICT_H
#define FB_JOBS_BENCH_PAGE_CACHE_EVICT_H

#include "base/error.h"

/* Writes back and drops the pages of every file of the source. Returns the share of sampled pages that are gone (mincore). */
int evict_source(const fb_options *o, double *gone_share, struct fb_error *e);

#endif
