/* Huffman tables for jpeg_entropy: one look-up gives run, length and value of a coefficient at once.
 *
 * An entry, from the low bits: 6 bits length of code and value together, 2 unused, 8 bits run, 16 bits value. The run of an end of block is
 * so long that no sum of others reaches it. Length 0: the code and its value do not fit in the look-up; then, if the entry is not 0, the
 * code's length is in the run's place and its symbol in the value's; if it is 0, the code itself is longer.
 *
 * Building one takes some microseconds, a hundredth of a small photograph's decode; files that share tables (most have the standard's) find
 * them in the thread's shelf.
 */
#ifndef FB_CODEC_JPEG_HUFFMAN_H
#define FB_CODEC_JPEG_HUFFMAN_H

#include "base/budget.h"
#include "codec/jpeg_plan.h"

enum { JPEG_LOOK_BITS = 11, JPEG_END_RUN = 127 };

struct jpeg_huffman {
    uint32_t entry[1 << JPEG_LOOK_BITS];
    int32_t most[17];   /* the largest code of each length, -1: none */
    int32_t symbol[17]; /* where the symbols of that length begin in `symbols`, less the first code */
    uint8_t symbols[256];
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
