/* Is it HDF5? The format's eight bytes stand at the beginning of a file, or behind a user block: 512 bytes of anything, or twice that,
 * again and again. So a file of n bytes has at most log2(n) places to look at. Names say nothing: MATLAB writes .mat, netCDF .nc. */
#ifndef FB_MODEL_HDF5_HDF5_SIGNATURE_H
#define FB_MODEL_HDF5_HDF5_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HDF5_SIGNATURE_BYTES = 8 };

/* The signature, at these eight bytes. */
bool hdf5_is_signature(const uint8_t *bytes);

/* The place after `at`, 0 being the first; 0: `size` bytes have no further one. */
uint64_t hdf5_next_place(uint64_t at, uint64_t size);

/* In a file that is open for reading, whose bytes from `base` on are the object. A byte that cannot be read is no signature. */
bool hdf5_is_file(int fd, uint64_t base, uint64_t size);

#endif
