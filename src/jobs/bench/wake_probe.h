/* A probe of the host: how late does a thread wake that wants to wake every millisecond? That is what kernel launches meet. */
#ifndef FB_JOBS_BENCH_WAKE_PROBE_H
#define FB_JOBS_BENCH_WAKE_PROBE_H

#include "base/error.h"

struct probe;
int probe_start(struct probe **out, struct fb_error *e);
/* Ends it; the 99th percentile of the lateness in seconds. */
double probe_stop(struct probe *p);

#endif
