/* The array formats, in the order in which they are asked. A new one is a file with its array_ops, a line in array_format.h and one
 * here. */
#include <string.h>

#include "codec/array/array_format.h"
#include "model/hdf5/hdf5_signature.h"

const struct array_ops *const array_format_list[] = {&array_wav,   &array_hdf5,        &array_npy, &array_npz,
                                                     &array_sound, &array_safetensors, NULL};

static const struct array_ops *by_first_bytes(const uint8_t *bytes, size_t n)
{
    for (int i = 0; array_format_list[i]; i++)
        if (array_format_list[i]->probe(bytes, n))
            return array_format_list[i];
    return NULL;
}

const struct array_ops *array_find_format(const uint8_t *bytes, size_t n)
{
    const struct array_ops *ops = by_first_bytes(bytes, n);
    for (uint64_t at = 0; !ops && (at = hdf5_next_place(at, n));)
        if (hdf5_is_signature(bytes + at))
            ops = &array_hdf5;
    return ops;
}

int array_find_source(const struct array_source *s, const struct array_ops **out, struct fb_error *e)
{
    uint8_t bytes[ARRAY_PROBE_BYTES];
    uint64_t n = s->size < sizeof(bytes) ? s->size : sizeof(bytes);
    *out = NULL;
    if (n == 0)
        return error_set(e, FB_E_DATA, "decode", "the file is empty");
    FB_TRY(s->read(s->ctx, 0, n, bytes, e));
    *out = by_first_bytes(bytes, n);
    for (uint64_t at = 0; !*out && (at = hdf5_next_place(at, s->size));) {
        FB_TRY(s->read(s->ctx, at, HDF5_SIGNATURE_BYTES, bytes, e));
        *out = hdf5_is_signature(bytes) ? &array_hdf5 : NULL;
    }
    return 0;
}

const struct array_ops *array_format_by_name(const char *name)
{
    for (int i = 0; array_format_list[i]; i++)
        if (strcmp(array_format_list[i]->name, name) == 0)
            return array_format_list[i];
    return NULL;
}
