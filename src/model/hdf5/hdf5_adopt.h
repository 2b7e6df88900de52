/* What fullbore-hdf5 is told to make an HDF5 file out of data that is in its place already.
 *
 * The library writes numbers into a file wherever it likes, from as many threads as it likes, and leaves the first HDF5_ADOPT_FIRST bytes
 * free. Then `fullbore-hdf5 adopt` gets the description below as its standard input and the file as descriptor HDF5_ADOPT_FD: it writes
 * the structure behind the data, and the superblock at the beginning. Not one byte of data goes through libhdf5. What went wrong is one
 * line on its standard output; the exit status is 0 when all went well.
 *
 * Both ends are of one build on one machine, so structs go as they are; the magic changes when they do.
 */
#ifndef FB_MODEL_HDF5_HDF5_ADOPT_H
#define FB_MODEL_HDF5_HDF5_ADOPT_H

#include <stdint.h>

#include <fullbore/fullbore.h>

enum {
    HDF5_ADOPT_MAGIC = 0x31414866, /* "fHA1" */
    HDF5_ADOPT_FIRST = 4096,
    HDF5_ADOPT_FD = 3,
    HDF5_ADOPT_NAME = 64,
    HDF5_ADOPT_DIMS = 8,
    HDF5_ADOPT_DATASETS = 64,
    HDF5_ADOPT_ATTRIBUTES = 256,
    HDF5_ADOPT_TEXT = 32 << 10
};

/* Followed by its datasets, each with its chunks, then by its attributes, each with its value. */
struct hdf5_adopt {
    uint32_t magic, datasets, attributes, reserved;
    uint64_t end; /* data is before it, structure goes behind it */
};

struct hdf5_adopt_dataset {
    char name[HDF5_ADOPT_NAME];
    uint32_t dtype; /* enum fb_dtype; 0: UTF-8 strings of element_bytes, filled up with NUL */
    uint32_t element_bytes;
    uint32_t ndim, deflate; /* level, 1-9; 0: not deflated. Deflated chunks are shuffled before */
    uint64_t shape[HDF5_ADOPT_DIMS];
    uint64_t chunk_rows; /* 0: contiguous, at `offset` */
    uint64_t offset;
    uint64_t chunks; /* one for each chunk_rows rows, the last one full-sized */
};

struct hdf5_adopt_chunk {
    uint64_t offset, length;
};

enum hdf5_adopt_kind { HDF5_ADOPT_STRING = 1, HDF5_ADOPT_INT64, HDF5_ADOPT_FLOAT64 };

/* Of the dataset of that index, or (UINT32_MAX) of the file. Followed by value_bytes: text without a NUL, or that many numbers. */
struct hdf5_adopt_attribute {
    char name[HDF5_ADOPT_NAME];
    uint32_t dataset, kind, value_bytes, reserved;
};

#endif
