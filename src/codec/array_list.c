/* The array formats, in the order in which they are asked. A new one is a file with its array_ops, a line in array_format.h and one
 * here. */
#include <string.h>

#include "codec/array_format.h"

const struct array_ops *const array_format_list[] = {&array_wav, &array_hdf5, &array_npy, &array_npz, &array_sound, &array_safetensors, NULL};

const struct array_ops *array_find_format(const uint8_t *bytes, size_t n)
{
    for (int i = 0; array_format_list[i]; i++)
        if (array_format_list[i]->probe(bytes, n))
            return array_format_list[i];
    return NULL;
}

const struct array_ops *array_format_by_name(const char *name)
{
    for (int i = 0; array_format_list[i]; i++)
        if (strcmp(array_format_list[i]->name, name) == 0)
            return array_format_list[i];
    return NULL;
}
