/* The element types: size and name, one table. */
#include <string.h>

#include <fullbore/fullbore.h>

static const struct {
    const char *name;
    size_t size;
} types[] = {
    [FB_UINT8] = {"uint8", 1},     [FB_INT8] = {"int8", 1},         [FB_UINT16] = {"uint16", 2},   [FB_INT16] = {"int16", 2},
    [FB_UINT32] = {"uint32", 4},   [FB_INT32] = {"int32", 4},       [FB_UINT64] = {"uint64", 8},   [FB_INT64] = {"int64", 8},
    [FB_FLOAT16] = {"float16", 2}, [FB_BFLOAT16] = {"bfloat16", 2}, [FB_FLOAT32] = {"float32", 4}, [FB_FLOAT64] = {"float64", 8},
    [FB_BOOL] = {"bool", 1},
};
enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

size_t fb_dtype_size(enum fb_dtype t)
{
    return (unsigned)t < TYPE_COUNT ? types[t].size : 0;
}

const char *fb_dtype_name(enum fb_dtype t)
{
    return (unsigned)t < TYPE_COUNT ? types[t].name : NULL;
}

enum fb_dtype fb_dtype_from_name(const char *name)
{
    for (unsigned t = 1; t < TYPE_COUNT; t++)
        if (strcmp(types[t].name, name) == 0)
            return (enum fb_dtype)t;
    return (enum fb_dtype)0;
}
