/* The verify job: reads every byte of a pack and compares it with the index. */
#ifndef FB_JOBS_VERIFY_H
#define FB_JOBS_VERIFY_H

#include <stdbool.h>

#include "base/error.h"

struct verify_request {
    const char *source; /* a pack, or several by braces or wildcards */
    void (*progress)(void *ctx, uint64_t bytes, uint64_t bytes_total);
    int (*interrupted)(void *ctx);
    void *ctx;
};

struct verify_damage {
    char *path;      /* of the file */
    int64_t record;  /* which sample of it, or -1 */
    uint64_t offset; /* where the damage lies, or where the damaged piece starts */
    char *key;       /* of the sample, or NULL */
    char what[160];
};

enum { VERIFY_NAMED = 10000 };

struct verify_result {
    uint32_t files, without_index; /* the latter: other tars, of which only the headers could be checked */
    uint64_t samples, bytes;
    uint64_t damages; /* all; the first VERIFY_NAMED are in the list */
    struct verify_damage *damage;
    double seconds;
};

/* 0: everything was read; out->damages says what was found. Negative: it could not be. `out` must be freed in any case. */
int verify_run(const struct verify_request *q, struct verify_result *out, struct fb_error *e);
void verify_free(struct verify_result *r);

#endif
