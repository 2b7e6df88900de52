/* The array formats: which one is this file? */
#ifndef FB_CODEC_ARRAY_ARRAY_FORMAT_H
#define FB_CODEC_ARRAY_ARRAY_FORMAT_H

#include "model/array_ops.h"

/* By the first `n` bytes of the file, at least min(its size, ARRAY_PROBE_BYTES) of them; NULL: none of ours. Names do not count. HDF5
 * behind a user block other than MATLAB's is seen only when the bytes reach that far (512, 1024, 2048 ...), and only if no other format
 * knows the beginning. */
const struct array_ops *array_find_format(const uint8_t *bytes, size_t n);

/* The same with the whole file at hand, so that a user block of any size is looked behind. *out NULL: none of ours. */
int array_find_source(const struct array_source *s, const struct array_ops **out, struct fb_error *e);

/* By the name in a struct array_file ("hdf5"); NULL: no such. */
const struct array_ops *array_format_by_name(const char *name);

extern const struct array_ops *const array_format_list[]; /* ends with NULL */

extern const struct array_ops array_hdf5, array_npy, array_npz, array_safetensors, array_sound, array_wav;

#endif
