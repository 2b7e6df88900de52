/* Images on their way through the engine: 8-bit RGB, rows `stride` bytes apart. */
#ifndef FB_MODEL_IMAGE_H
#define FB_MODEL_IMAGE_H

#include <stdbool.h>
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
    bool can_scale;      /* the codec can decode at 1/2, 1/4 and 1/8 of the size for less work */
    uint8_t scale;       /* set by a plan that wants that: 2, 4 or 8; width and height are then the reduced ones. 0: full size */
};

/* Pixels of a side that is decoded at 1/scale. */
static inline uint32_t image_reduced(uint32_t side, uint32_t scale)
{
    return (side + scale - 1) / scale;
}

/* The pixels of a file of width x height that a region of it at 1/scale is made of, one reduced pixel more each side: it may blend in. */
static inline struct region image_region_in_file(struct region r, uint32_t scale, uint32_t width, uint32_t height)
{
    uint32_t top = (r.top ? r.top - 1 : 0) * scale, bottom = (r.top + r.height + 1) * scale;
    uint32_t left = (r.left ? r.left - 1 : 0) * scale, right = (r.left + r.width + 1) * scale;
    return (struct region){top, left, (bottom < height ? bottom : height) - top, (right < width ? right : width) - left};
}

/* Limits on what a header may claim; beyond them a file is refused before anything is allocated. */
enum { IMAGE_MAX_SIDE = 65500 };
#define IMAGE_MAX_PIXELS ((uint64_t)178956970) /* Pillow's decompression-bomb error limit: 2 x 89,478,485 */

#endif
