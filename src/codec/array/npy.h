/* The header of numpy's .npy: a magic, a version, and a Python literal that says dtype, order and shape. */
#ifndef FB_CODEC_ARRAY_NPY_H
#define FB_CODEC_ARRAY_NPY_H

#include "codec/array/array_window.h"

enum { NPY_MAGIC_BYTES = 6, NPY_PREFIX_BYTES = 12, NPY_MAX_HEADER = 1 << 16 };

bool npy_is_magic(const uint8_t *bytes, size_t n);

/* The length of everything before the numbers, from the first min(file, NPY_PREFIX_BYTES) bytes. FB_E_DATA: no header of ours. */
int npy_header_length(const uint8_t *bytes, size_t n, size_t *length, struct fb_error *e);

/* Reads the header (`length` bytes, as npy_header_length said) into dtype, code, stored_bytes, shape, is_fortran and bytes of `a`;
 * storage and offset are the caller's. FB_E_UNSUPPORTED: a kind of number that is not read here; the cause names it, and the shape is in
 * `a`. */
int npy_header_read(const uint8_t *bytes, size_t length, struct array_layout *a, struct fb_error *e);

#endif
