/* Progress of a long job on stderr: a line that moves on a terminal, else one line per tenth. */
#ifndef FB_CLI_PROGRESS_H
#define FB_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    bool is_terminal, is_over;
    int tenths;
    double told_at;             /* seconds */
    const char *before, *after; /* what stands around the line */
};

struct progress progress_start(void);
/* Is it time for a line? `share` of the work, from 0 to 1, is done after `seconds`. */
bool progress_is_due(struct progress *p, double share, bool is_over, double seconds);
/* "3 min 20 s": how long what is left will take at the rate so far. */
const char *progress_rest(uint64_t done, uint64_t total, double seconds, char *out, size_t out_size);

#endif
