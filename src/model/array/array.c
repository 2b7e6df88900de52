#include "model/array/array.h"

#include <stdlib.h>
#include <string.h>

void array_file_free(struct array_file *f)
{
    free(f->memory);
    memset(f, 0, sizeof(*f));
}

const struct array_layout *array_find(const struct array_file *f, const char *name)
{
    if (!name || !name[0])
        return f->count == 1 ? &f->array[0] : NULL;
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->array[i].name, name) == 0)
            return &f->array[i];
    return NULL;
}

uint64_t array_rows(const struct array_layout *a)
{
    return a->ndim ? a->shape[0] : 1;
}

uint64_t array_row_bytes(const struct array_layout *a)
{
    uint64_t bytes = a->storage == ARRAY_OPAQUE ? fb_dtype_size(a->dtype) : a->stored_bytes;
    for (int d = 1; d < a->ndim; d++)
        bytes *= a->shape[d];
    return bytes;
}
