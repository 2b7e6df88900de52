/* The shape of an array format: bytes of a file -> where its arrays lie. One static const table per format, listed in
 * codec/array/array_list.c.
 *
 * Any worker calls the hooks, several at once. What they read is hostile.
 */
#ifndef FB_MODEL_ARRAY_OPS_H
#define FB_MODEL_ARRAY_OPS_H

#include "model/array/array.h"

enum { ARRAY_PROBE_BYTES = 16 };

/* A file to look into. Reads block; they may come from memory. */
struct array_source {
    const char *path; /* absolute, for formats whose reader is another program; NULL: only bytes */
    uint64_t size;
    int (*read)(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e); /* all of it, or an error */
    void *ctx;
    bool allows_external; /* data outside the file may be followed */
};

struct array_ops {
    const char *name; /* "npy" */

    /* MUST. Does it look like ours? `bytes` holds the first min(n, ARRAY_PROBE_BYTES) bytes; never fails. */
    bool (*probe)(const uint8_t *bytes, size_t n);

    /* MUST. Fills `out` with layouts that array_check has passed. On failure `out` holds nothing. */
    int (*describe)(const struct array_source *s, struct array_file *out, struct fb_error *e);

    /* MAY; formats with ARRAY_OPAQUE layouts only. Rows [first, first + rows) as numbers of the layout's dtype. */
    int (*read_rows)(const struct array_source *s, const struct array_layout *a, uint64_t first, uint64_t rows, void *out,
                     struct fb_error *e);
};

#endif
