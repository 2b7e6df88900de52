/* JPEG files drawn symbol by symbol: what the format allows and no encoder of pictures writes.
 *
 * Tables come first and the data follows them, so short codes for long runs of zeros, codes of 16 bits, incomplete codes, values of 15
 * bits, bytes that are nearly all 0xFF and blocks without an end all occur. Most files are valid; some are damaged on purpose.
 */
#ifndef FB_TESTS_JPEG_DRAW_H
#define FB_TESTS_JPEG_DRAW_H

#include "base/rng.h"
#include "../jpeg_maker.h"

enum jpeg_damage {
    JPEG_SOUND,
    JPEG_OVERFULL,
    JPEG_FLIPPED,
    JPEG_CUT,
    JPEG_STRAY,
    JPEG_ENDLESS,
    JPEG_TRAILED,
    JPEG_DAMAGES,
    JPEG_STARVED = JPEG_DAMAGES /* hardly any data */
};

struct jpeg_drawn {
    struct bytes file; /* the caller frees data */
    uint32_t width, height;
    int components;
    uint8_t sampling[3]; /* 0xHV of each */
    uint32_t restart;
    enum jpeg_damage damage;
    bool is_common; /* of the kind that the fast decoder is for, as far as its header goes */
};

struct jpeg_drawn jpeg_draw(struct rng *r);

/* One line that tells such files apart. */
void jpeg_drawn_text(const struct jpeg_drawn *d, char *out, size_t n);

#endif
