/* Arrays in files: where the numbers of a named array lie.
 *
 * Every array format comes down to this: npy, npz, safetensors, HDF5, WAV. A format's parser says where things are; reading, decompressing
 * and converting are the same for all. The first dimension is the one that rows, instances of a bag and frames of sound are counted in.
 *
 * A layout is made from hostile bytes: array_check has passed on each one before anybody uses it. Pointers in it point into memory of the
 * struct array_file it belongs to.
 */
#ifndef FB_MODEL_ARRAY_ARRAY_H
#define FB_MODEL_ARRAY_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    ARRAY_MAX_DIMS = FB_MAX_DIMS - 1, /* the batch is one more */
    ARRAY_MAX_FILTERS = 8,
    ARRAY_MAX_IN_FILE = 256,
    ARRAY_NAME_BYTES = 256,
    ARRAY_FILL_BYTES = 16
};

/* How one number is stored. Everything but PLAIN and SWAPPED is sound and gives float32 (or int16, where that loses nothing). */
enum array_code {
    ARRAY_PLAIN,   /* the dtype's own bytes, little-endian */
    ARRAY_SWAPPED, /* big-endian */
    ARRAY_PCM_U8,  /* 8-bit sound, 128 is silence */
    ARRAY_PCM_S16,
    ARRAY_PCM_S24,
    ARRAY_PCM_S32,
    ARRAY_PCM_F32,
    ARRAY_PCM_F64,
    ARRAY_ALAW,
    ARRAY_MULAW
};

enum array_storage {
    ARRAY_CONTIGUOUS, /* `bytes` at `offset` */
    ARRAY_CHUNKED,    /* a grid of chunks, each filtered by itself */
    ARRAY_INLINE,     /* `bytes` at `inline_data`: the file's structure holds them (HDF5 compact) */
    ARRAY_OPAQUE      /* only the format's own reader can: variable-length, compound, compressed sound */
};

/* HDF5's registered numbers; a zip member is one chunk with ARRAY_CRC32 (a sum of the numbers, which it does not change) and
 * ARRAY_RAW_DEFLATE. */
enum array_filter_id {
    ARRAY_DEFLATE = 1,
    ARRAY_SHUFFLE = 2,
    ARRAY_FLETCHER32 = 3,
    ARRAY_LZF = 32000,
    ARRAY_LZ4 = 32004,
    ARRAY_ZSTD = 32015,
    ARRAY_RAW_DEFLATE = 1 << 20,
    ARRAY_CRC32
};

struct array_filter {
    uint32_t id;
    uint32_t param; /* shuffle: bytes of an element; raw deflate: bytes before the array in what comes out (npy header);
                     * crc32: the sum; else 0 */
};

#define ARRAY_NO_CHUNK UINT64_MAX

struct array_chunk {
    uint64_t offset; /* in the file; ARRAY_NO_CHUNK: never written, all fill value */
    uint32_t length; /* as stored */
    uint32_t skips;  /* bit i: filter i was not applied to this chunk */
};

struct array_layout {
    char name[ARRAY_NAME_BYTES]; /* "features"; HDF5: path without the leading slash; a file with one array: "" */
    enum fb_dtype dtype;         /* of the numbers as they come out */
    enum array_code code;
    uint32_t stored_bytes; /* of one number in the file (after decompressing) */
    int ndim;              /* 0: a single number */
    uint64_t shape[FB_MAX_DIMS];
    bool is_fortran; /* the first dimension varies fastest (npy) */
    enum array_storage storage;

    uint64_t offset, bytes; /* contiguous, inline: of the whole array */
    const uint8_t *inline_data;

    uint64_t chunk_shape[FB_MAX_DIMS];
    uint64_t chunk_count;            /* of the whole grid */
    const struct array_chunk *chunk; /* by chunk coordinates, last dimension fastest */
    int filter_count;                /* in the order of writing: undone from the last to the first */
    struct array_filter filter[ARRAY_MAX_FILTERS];
    uint8_t fill[ARRAY_FILL_BYTES]; /* one stored number */

    uint32_t rate;        /* sound: samples per second; else 0 */
    char why_opaque[128]; /* "variable-length strings" */
};

/* What a file holds. */
struct array_file {
    const char *format; /* "npy", "npz", "safetensors", "hdf5", "wav", "sound" */
    uint64_t object_size;
    int count;
    struct array_layout *array; /* `count` of them */
    void *memory;               /* one block that everything above points into; freed by array_file_free */
};

void array_file_free(struct array_file *f);
/* The array of that name ("" or NULL: the only one), or NULL. */
const struct array_layout *array_find(const struct array_file *f, const char *name);

/* Everything inside the file, no product overflows, chunk grid and shapes agree, filters known, sizes of numbers right. FB_E_DATA says
 * what is not so; an unknown filter is FB_E_UNSUPPORTED, named. */
int array_check(const struct array_layout *a, uint64_t object_size, struct fb_error *e);

/* No table of chunks is larger: a hostile description must not cost more memory than the file it is about could be worth. */
uint64_t array_most_chunks(uint64_t object_size);

/* Bytes of one row (everything but the first dimension), as stored and as it comes out. */
uint64_t array_row_bytes(const struct array_layout *a);
uint64_t array_rows(const struct array_layout *a); /* 1 for a single number */

/* A layout as a learnt record and back. Chunk tables of even spacing shrink to a few bytes, others to a few bytes per chunk. `out` NULL:
 * only the size is told. Reading is safe for any bytes and calls array_check. */
size_t array_record_write(const struct array_file *f, uint8_t *out, size_t capacity);
int array_record_read(struct array_file *f, const uint8_t *record, size_t n, uint64_t object_size, struct fb_error *e);

#endif
