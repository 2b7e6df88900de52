/* Is it an image? First by name, then, where the name does not say, by the first bytes. */
#ifndef FB_DATASET_IMAGE_NAMES_H
#define FB_DATASET_IMAGE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum image_name {
    IMAGE_NAME_YES,     /* an extension of a format that is decoded: taken without a look */
    IMAGE_NAME_NO,      /* an extension that is known to be something else: left out without a look */
    IMAGE_NAME_OTHER,   /* an image format that is not decoded (.gif): looked into, since extensions lie */
    IMAGE_NAME_UNKNOWN, /* looked into */
};

enum { IMAGE_SNIFF_BYTES = 16 };

/* What follows the last dot of a file name, or "". */
const char *image_name_extension(const char *name);
enum image_name image_name_kind(const char *name);
/* JPEG, PNG or WebP by their first bytes. */
bool image_sniff(const uint8_t *bytes, size_t n);

#endif
