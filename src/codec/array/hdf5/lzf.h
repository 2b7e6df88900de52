/* LZF, the compressor that h5py brings. */
#ifndef FB_CODEC_ARRAY_HDF5_LZF_H
#define FB_CODEC_ARRAY_HDF5_LZF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Expands `n` bytes into at most `capacity`; *made: how many there are. False: the stream is damaged or wants more room. Safe for any
 * bytes. */
bool lzf_expand(const uint8_t *in, size_t n, uint8_t *out, size_t capacity, size_t *made);

#endif
