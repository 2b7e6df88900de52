/* Writing one unpacked file: under a temporary name in its own folder, then renamed to its own, never over anything. */
#ifndef FB_JOBS_UNPACK_UNPACK_FILE_H
#define FB_JOBS_UNPACK_UNPACK_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/file/safe_path.h"

struct unpack_bytes {
    int fd;
    uint64_t offset, size;
    int64_t mtime_ns;
    const uint64_t *checksum; /* NULL: not known */
};

enum { UNPACK_WRITTEN = 0, UNPACK_THERE = 1, UNPACK_DAMAGED = 2 };

/* Copies the bytes to `name` below the root. FB_E_DATA: the name is refused. FB_E_USAGE: another file is there. */
int unpack_file(struct safe_place *p, const char *name, const struct unpack_bytes *b, char *piece, size_t piece_bytes, struct fb_error *e);

#endif
