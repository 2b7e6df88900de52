/* Writing all of it, or saying why not. */
#ifndef FB_JOBS_WRITE_ALL_H
#define FB_JOBS_WRITE_ALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

int write_all(int fd, const void *bytes, size_t n, struct fb_error *e);
int write_all_at(int fd, const void *bytes, size_t n, uint64_t offset, struct fb_error *e);
/* fsync; file systems that have none (EINVAL, ENOTSUP) have nothing to wait for. */
int write_sync(int fd, struct fb_error *e);

#endif
