#include "model/hdf5/hdf5_signature.h"

#include <string.h>

#include "base/file/file.h"

enum { SMALLEST_BLOCK = 512 };

bool hdf5_is_signature(const uint8_t *bytes)
{
    static const uint8_t signature[HDF5_SIGNATURE_BYTES] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    return memcmp(bytes, signature, sizeof(signature)) == 0;
}

uint64_t hdf5_next_place(uint64_t at, uint64_t size)
{
    if (at > INT64_MAX / 2)
        return 0;
    uint64_t next = at ? 2 * at : SMALLEST_BLOCK;
    return size >= HDF5_SIGNATURE_BYTES && next <= size - HDF5_SIGNATURE_BYTES ? next : 0;
}

bool hdf5_is_file(int fd, uint64_t base, uint64_t size)
{
    uint8_t bytes[HDF5_SIGNATURE_BYTES];
    uint64_t at = 0;
    if (size < sizeof(bytes) || base > INT64_MAX || size > INT64_MAX - base)
        return false;
    do {
        if (file_read_all_at(fd, bytes, sizeof(bytes), base + at) == sizeof(bytes) && hdf5_is_signature(bytes))
            return true;
    } while ((at = hdf5_next_place(at, size)));
    return false;
}
