/* What is said between the library and fullbore-hdf5, the program that opens HDF5 files for it: one request, one answer, over one socket.
 *
 * Both ends are of one build on one machine, so structs go as they are; the magic changes when they do. The library takes every answer for
 * hostile all the same: the other end has had its hands in a file from anywhere.
 */
#ifndef FB_MODEL_HDF5_HDF5_PROTOCOL_H
#define FB_MODEL_HDF5_HDF5_PROTOCOL_H

#include <stdint.h>

enum {
    HDF5_MAGIC = 0x31354866, /* "fH51" */
    HDF5_MAX_PATH = 4096,
    HDF5_MAX_NAME = 256,
    HDF5_MAX_TEXT = 1024,
    HDF5_MAX_RECORD = 1 << 28, /* bytes of a description */
    HDF5_MAX_ROWS = 1 << 28
}; /* bytes of rows in one answer */

enum hdf5_op { HDF5_DESCRIBE = 1, HDF5_ROWS = 2 };

/* Followed by path_bytes of path and name_bytes of the array's name, neither with a NUL. */
struct hdf5_request {
    uint32_t magic, op;
    uint32_t allows_external, timeout_s; /* CPU seconds, too */
    uint32_t path_bytes, name_bytes;
    uint64_t first, rows;
    uint64_t bytes; /* HDF5_ROWS: how many the caller expects */
};

/* Followed by `bytes` bytes. code 0: an array record (array_record_read), or rows. A negative FB_E_*: the cause, a NUL, the remedy. */
struct hdf5_answer {
    uint32_t magic;
    int32_t code;
    uint64_t bytes;
};

#endif
