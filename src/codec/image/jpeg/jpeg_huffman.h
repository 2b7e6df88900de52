/* Huffman tables for jpeg_entropy: one look-up gives a coefficient's run and all that is needed to cut its value out of the bits.
 *
 * An entry, from the low bits: 6 bits length of code and value together, 2 unused, 8 bits run, 16 bits (with sign) 1 - 2^size of the value.
 * The run of an end of block is so long that no sum of others reaches it. 0: the code is longer than the look-up, or with its value
 * longer than JPEG_QUICK_BITS; one in several hundred.
 *
 * Values in the table itself, where they fit, were tried: a twentieth of the coefficients did not fit, and jumping for these cost more than
 * cutting out all of them.
 *
 * Where values are not wanted, one look-up passes as many symbols as have their codes in it: 6 bits length with all values (25 at most),
 * 2 unused, 8 bits coefficients, 63 at most, and JPEG_END_RUN + 1 more after an end of block. JPEG_NO_SKIP: not even one.
 *
 * Building one takes a few microseconds; files that share tables (most have the standard's) find them on the thread's shelf. */
#ifndef FB_CODEC_IMAGE_JPEG_JPEG_HUFFMAN_H
#define FB_CODEC_IMAGE_JPEG_JPEG_HUFFMAN_H

#include "base/budget.h"
#include "codec/image/jpeg/jpeg_plan.h"

enum { JPEG_LOOK_BITS = 10, JPEG_QUICK_BITS = 18, JPEG_END_RUN = 127, JPEG_NO_SKIP = 64 << 8 };

struct jpeg_huffman {
    uint32_t quick[1 << JPEG_LOOK_BITS];
    uint16_t skip[1 << JPEG_LOOK_BITS]; /* AC */
    int32_t most[17];                   /* the largest code of each length, -1: none */
    int32_t first[17];                  /* where the codes of that length begin in `all`, less the first code */
    uint32_t all[256];                  /* entries in order of codes */
    bool is_dc;

    /* on the shelf */
    uint8_t source[JPEG_MOST_CODE_BYTES];
    uint32_t source_bytes;
    uint64_t last_use;
};

/* Zero-initialised it is empty; memory is counted in the budget of its scratch. */
struct jpeg_shelf {
    struct scratch memory;
    uint64_t clock;
    uint32_t count;
};

/* The table of a code, from the shelf or made now; NULL: the code is not one libjpeg accepts, or no memory. It stays valid until six others
 * have been asked for. */
const struct jpeg_huffman *jpeg_shelf_table(struct jpeg_shelf *s, const struct jpeg_code *code, bool is_dc);
void jpeg_shelf_free(struct jpeg_shelf *s);

/* False: not a code that libjpeg accepts. */
bool jpeg_huffman_make(struct jpeg_huffman *h, const struct jpeg_code *code, bool is_dc);

#endif
