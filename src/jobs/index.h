/* The index job: make the catalog, learn about the samples ahead of training, merge what was learnt. */
#ifndef FB_JOBS_INDEX_H
#define FB_JOBS_INDEX_H

#include <stdbool.h>

#include "base/error.h"

struct index_request {
    fb_options options; /* source, threads, memory, progress ... */
    bool must_learn;    /* decode every sample once */
};

struct index_result {
    uint64_t samples;
    uint64_t bytes;        /* of the samples */
    uint64_t records;      /* known after merging */
    uint64_t record_bytes; /* on disk */
    uint64_t bad;          /* samples that could not be decoded while learning */
    char *bad_list;        /* "path: cause" lines, or NULL; free() */
    double learn_seconds;
    bool is_fresh; /* the catalog was made now */
};

int index_run(const struct index_request *r, struct index_result *out, struct fb_error *e);

#endif
