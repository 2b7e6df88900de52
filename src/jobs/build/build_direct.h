/* Writing past the page cache; see build_direct.c. */
#ifndef FB_JOBS_BUILD_BUILD_DIRECT_H
#define FB_JOBS_BUILD_BUILD_DIRECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { BUILD_PAGE = 4096, BUILD_SECTOR = 512, BUILD_LEAST_DIRECT = 16 * BUILD_PAGE };

struct build_direct {
    int usual_fd;        /* the caller's */
    int fd;              /* -1: the usual way only */
    _Atomic bool is_off; /* refused once. Relaxed: who does not see it is refused, too */
};

/* For a file that is open as `usual_fd` and called `name` in `dir_fd`. Without success, or a name, everything goes the usual way. */
void build_direct_open(struct build_direct *d, int usual_fd, int dir_fd, const char *name);
bool build_direct_is_on(const struct build_direct *d);
/* All of it, or why not. Any thread; writes may not overlap. Waits for the disk. */
int build_direct_write(struct build_direct *d, const uint8_t *bytes, size_t n, uint64_t offset, struct fb_error *e);
void build_direct_close(struct build_direct *d);

#endif
