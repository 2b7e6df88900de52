/* What a file holds, by its name: pictures, sound or arrays. A data set is of one family: what its samples are read as. */
#ifndef FB_DATASET_DATA_NAMES_H
#define FB_DATASET_DATA_NAMES_H

#include "dataset/dataset.h"

/* FAMILY_IMAGE for everything that is not known to be sound or an array. */
enum data_family data_name_family(const char *name);
/* A name that HDF5 files share with others (.mat, .nc): only the content tells. */
bool data_name_may_be_array(const char *name);
const char *data_family_name(enum data_family family); /* "image", "sound", "array" */

#endif
