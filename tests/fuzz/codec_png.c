/* PNG: half of the inputs get their checksums mended first, or no change to a chunk would ever reach the decoder. */
#include <zlib.h>

#include "codec/codec_internal.h"
#include "codec_region.h"

static void put_big_endian_32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void mend_checksums(uint8_t *bytes, size_t n)
{
    for (size_t at = 8; n >= at && n - at >= 12;) {
        size_t length = big_endian_32(bytes + at);
        if (length > n - at - 12)
            break;
        put_big_endian_32(bytes + at + 8 + length, (uint32_t)crc32(0, bytes + at + 4, (uInt)length + 4));
        at += length + 12;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= REGION_BYTES || data[size - 1] & 1)
        return fuzz_region(&codec_png, data, size);
    uint8_t *copy = malloc(size);
    PROMISE(copy);
    memcpy(copy, data, size);
    mend_checksums(copy, size - REGION_BYTES);
    fuzz_region(&codec_png, copy, size);
    free(copy);
    return 0;
}
