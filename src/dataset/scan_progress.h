/* Progress of a long scan: about every 50 ms it reports how far the scan is and asks whether to stop. The first question comes at once, the
 * first report after 50 ms, because a scan that has ended by then needs no progress line. */
#ifndef FB_DATASET_SCAN_PROGRESS_H
#define FB_DATASET_SCAN_PROGRESS_H

#include <stdint.h>

#include "dataset/dataset.h"

struct scan_progress {
    const struct dataset_request *request;
    const char *what;
    uint64_t tell_ns, ask_ns; /* not before */
    uint32_t calls;
};

void scan_progress_start(struct scan_progress *p, const struct dataset_request *r, const char *what);
/* Cheap enough for every file. total 0: not known. FB_E_INTERRUPTED. */
int scan_progress_report(struct scan_progress *p, uint64_t done, uint64_t total, struct fb_error *e);

#endif
