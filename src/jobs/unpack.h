/* The unpack job: the files of a pack (or of any tar) back into a folder, byte for byte, with the times they had. */
#ifndef FB_JOBS_UNPACK_H
#define FB_JOBS_UNPACK_H

#include <stdbool.h>

#include "base/error.h"

struct unpack_request {
    const char *source; /* a pack, or several by braces or wildcards */
    const char *folder; /* made if it is not there */
    void (*progress)(void *ctx, const struct fb_progress *p);
    int (*interrupted)(void *ctx);
    void *ctx;
};

struct unpack_result {
    uint64_t files, bytes; /* written */
    uint64_t there;        /* files that were there already, with the right size and time */
    uint64_t damaged;      /* samples whose bytes do not match their checksum: not written */
    uint64_t refused;      /* names that lead outside, links and the like: not written */
    char *list;            /* "name: why" lines of the first thousand of the last two, or NULL; free() */
    double seconds;
};

/* FB_E_USAGE: a file is there that differs. `out` must be freed in any case. */
int unpack_run(const struct unpack_request *q, struct unpack_result *out, struct fb_error *e);
void unpack_free(struct unpack_result *r);

#endif
