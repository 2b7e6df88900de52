#include "dataset/data_names.h"

#include <strings.h>

#include "dataset/image_names.h"

static const char *const sound[] = {"wav",  "wave", "rf64", "bw64", "flac", "ogg", "oga", "opus", "aif",
                                    "aiff", "aifc", "mp3",  "au",   "snd",  "caf", "w64", NULL};
static const char *const array[] = {"h5", "hdf5", "he5", "hdf", "npy", "npz", "safetensors", NULL};
static const char *const maybe_array[] = {"mat", "nc", "nc4", "netcdf", "cdf", NULL}; /* MATLAB 7.3 and netCDF 4; older ones are not */

static bool is_in(const char *extension, const char *const *list)
{
    while (*list && strcasecmp(*list, extension) != 0)
        list++;
    return *list;
}

enum data_family data_name_family(const char *name)
{
    const char *extension = image_name_extension(name);
    return is_in(extension, sound) ? FAMILY_SOUND : is_in(extension, array) ? FAMILY_ARRAY : FAMILY_IMAGE;
}

bool data_name_may_be_array(const char *name)
{
    return is_in(image_name_extension(name), maybe_array);
}

const char *data_family_name(enum data_family family)
{
    return (const char *const[]){"image", "sound", "array"}[family];
}
