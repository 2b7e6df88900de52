/* Images on their way through the engine: 8-bit RGB, rows `stride` bytes apart. */
#ifndef FB_MODEL_IMAGE_H
#define FB_MODEL_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* A rectangle of source pixels. */
struct region {
    uint32_t top, left, height, width;
};

struct image {
    uint8_t *data;
    size_t stride; /* bytes from row to row, >= 3 * width */
    uint32_t width, height;
};

/* What a file says of itself before its pixels are decoded. */
struct image_header {
    uint32_t width, height;
    uint8_t orientation; /* EXIF: 1 (upright) to 8; 1 when the file says nothing or nonsense */
};

/* Limits on what a header may claim; beyond them a file is refused before anything is allocated. */
enum { IMAGE_MAX_SIDE = 65500 };
#define IMAGE_MAX_PIXELS ((uint64_t)178956970) /* Pillow's decompression-bomb error limit: 2 x 89,478,485 */

#endif
