/* Chunks, any bytes at all: one byte for the number of filters, one for each filter, one for those skipped, two of size, then the chunk.
 * Promises: a failure has words, nothing is written outside of the place. */
#include <stdlib.h>
#include <string.h>

#include "codec/array/hdf5/decompress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint32_t ids[] = {ARRAY_DEFLATE, ARRAY_RAW_DEFLATE, ARRAY_SHUFFLE, ARRAY_FLETCHER32,
                               ARRAY_LZF,     ARRAY_LZ4,         ARRAY_ZSTD,    ARRAY_CRC32};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct array_layout a = {.name = "x", .dtype = FB_UINT8, .stored_bytes = 1, .ndim = 1, .storage = ARRAY_CHUNKED};
    if (size < 8)
        return 0;
    a.filter_count = data[0] % 5;
    for (int i = 0; i < a.filter_count; i++) {
        a.filter[i].id = ids[data[1 + i] % 8];
        if (a.filter[i].id == ARRAY_SHUFFLE || a.filter[i].id == ARRAY_RAW_DEFLATE)
            a.filter[i].param = 1 + data[1 + i] / 8;
    }
    a.shape[0] = a.chunk_shape[0] = (uint64_t)data[6] << 8 | data[7];
    uint8_t *out = malloc(a.shape[0] + 1);
    struct decompress u;
    struct fb_error e = {0};
    if (!out)
        abort();
    decompress_init(&u, NULL);
    int rc = decompress_chunk(&u, &a, data[5], data + 8, size - 8, out, &e);
    if (rc != e.code || (rc < 0 && !e.cause[0]))
        abort();
    decompress_free(&u);
    free(out);
    return 0;
}
