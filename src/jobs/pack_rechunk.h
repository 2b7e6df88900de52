/* The rechunk job: an HDF5 file with as many rows per chunk as one asks for; everything else in it stays as it is. */
#ifndef FB_JOBS_PACK_RECHUNK_H
#define FB_JOBS_PACK_RECHUNK_H

#include "jobs/pack.h"
#include "model/hdf5/hdf5_rechunk.h"

struct rechunk_request {
    fb_options options; /* source, threads, log, interrupted */
    const char *output; /* ends in .h5, .hdf5 ... */
    uint64_t rows;      /* of a chunk; more where rows are tiny */
    enum hdf5_rechunk_filters filters;
    bool allows_external;
    bool overwrites;                                            /* replace an output that is there, at the end */
    void (*progress)(void *ctx, const struct pack_progress *p); /* samples are bytes; may be NULL */
    void *ctx;
};

struct rechunk_result {
    uint64_t datasets, rechunked;
    uint64_t source_bytes, bytes; /* of the files */
    double seconds;
};

/* FB_E_UNSUPPORTED: something in it cannot be kept, and is named. FB_E_STATE: the output is there, or the source changed meanwhile. On
 * failure nothing is under the final name that was not there before, and nothing beside it. */
int pack_rechunk_run(const struct rechunk_request *q, struct rechunk_result *out, struct fb_error *e);

#endif
