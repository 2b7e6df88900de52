/* What `fullbore-hdf5 rechunk` is told, and what it says.
 *
 * The struct below is its standard input; descriptor HDF5_RECHUNK_FD is the empty file it fills. On its standard output it says, line by
 * line: "p DONE TOTAL" (bytes of data, now and then), "r DATASETS RECHUNKED" at the end, or "e CODE CAUSE" and "h REMEDY". The exit status
 * is 0 when all went well. Both ends are of one build on one machine; the magic changes when the struct does.
 */
#ifndef FB_MODEL_HDF5_HDF5_RECHUNK_H
#define FB_MODEL_HDF5_HDF5_RECHUNK_H

#include <stdint.h>

#include "model/hdf5/hdf5_protocol.h"

enum {
    HDF5_RECHUNK_MAGIC = 0x31524866, /* "fHR1" */
    HDF5_RECHUNK_FD = 3,
    HDF5_RECHUNK_THREADS = 64
};

enum hdf5_rechunk_filters { HDF5_FILTERS_KEPT, HDF5_FILTERS_NONE, HDF5_FILTERS_GZIP };

struct hdf5_rechunk {
    uint32_t magic, filters; /* enum hdf5_rechunk_filters */
    uint64_t rows;           /* of a chunk */
    uint32_t threads;
    uint32_t allows_external;
    char path[HDF5_MAX_PATH + 1];
};

#endif
