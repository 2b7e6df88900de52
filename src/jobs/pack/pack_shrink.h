/* Smaller pictures for a pack: the only thing that packing can do to a sample besides copying it, and only when asked by name.
 *
 * A picture whose shorter side is above the wanted one is decoded, resized (antialiased, bilinear, equal to Pillow's) and written as a
 * baseline JPEG with 4:2:0 chroma; its Exif data and colour profile go along. All others keep their bytes.
 */
#ifndef FB_JOBS_PACK_PACK_SHRINK_H
#define FB_JOBS_PACK_PACK_SHRINK_H

#include "base/text/text.h"
#include "base/error.h"

struct pack_shrink {
    int shorter; /* pixels; 0: never */
    int quality; /* 1 to 100 */
};

/* 1: `out` holds the smaller picture. 0: it is small enough as it is. FB_E_DATA: it cannot be decoded. Any thread. */
int pack_shrink(const struct pack_shrink *how, const uint8_t *bytes, size_t n, struct text *out, struct fb_error *e);

#endif
