/* Entropy decoding: coded bits -> coefficients, several MCU rows at once in one thread.
 *
 * Decoding is a chain: the next code is known only when the length of this one is. A processor waits for the table look-up in that chain
 * most of the time, so two rows whose starts are known are decoded side by side, each filling the other's waits. The lanes run free of each
 * other: when one ends a block it starts its next while the other is within one. A third lane gained nothing: with two the processor has
 * enough to do, and what is left are the jumps at the ends of blocks, which it cannot foresee.
 */
#ifndef FB_CODEC_IMAGE_JPEG_KERNELS_JPEG_ENTROPY_H
#define FB_CODEC_IMAGE_JPEG_KERNELS_JPEG_ENTROPY_H

#include "codec/image/jpeg/jpeg_huffman.h"

enum {
    JPEG_LANES = 2,
    JPEG_BATCH = 48,                /* blocks of one lane that are decoded in one call, at most */
    JPEG_MOST_BLOCK_BYTES = 64 * 4, /* 31 bits for each coefficient, see jpeg_stream.h */
    JPEG_MOST_BATCH_BYTES = JPEG_BATCH * JPEG_MOST_BLOCK_BYTES
};

/* What the blocks of an MCU are, in coded order. */
struct jpeg_schedule {
    int blocks;
    struct {
        const struct jpeg_huffman *dc, *ac;
        int component;
        bool is_mean; /* only DC is wanted */
    } block[JPEG_MAX_BLOCKS];
    bool has_means; /* in any block */
};

/* One row's bits. Reading goes on at `next` whatever is there: the memory behind must be at least JPEG_MOST_BATCH_BYTES + 8 long, and the
 * caller finds out afterwards, before the next call, whether more was used than there is (jpeg_stream_ensure). */
struct jpeg_lane {
    const uint8_t *next; /* not yet in `bits` */
    uint64_t bits;       /* the next `left` bits on top, possibly more behind them */
    uint32_t left;
    int32_t dc[3];   /* the predictor of each component */
    int16_t *blocks; /* zeroed, 64 coefficients each, in natural order; or one block that is written over and over */
    uint8_t *counts; /* of each block: how many coefficients, in coded order, up to the last one that is not 0 (or more); 1: DC alone */
    bool is_dropped; /* nothing is wanted: `blocks` is a single one, `counts` is not used */
};

/* Decodes `mcus` MCUs (their blocks at most JPEG_BATCH) of each of `n` lanes. False: a code that is none, or too many coefficients in a
 * block; libjpeg might go on, and must decide. */
typedef bool jpeg_entropy_fn(struct jpeg_lane *lanes, int n, const struct jpeg_schedule *s, uint32_t mcus);

/* Copies coded bytes from *in without the zeros after 0xFF, until `room` bytes are there, `end` is reached or a marker is (then *in is at
 * its 0xFF). For each zero left out, the number of bytes written before it, plus `before`, is added to `dropped` (at most one for each byte
 * written). Returns how many bytes were written. */
typedef uint32_t jpeg_unstuff_fn(uint8_t *out, uint32_t room, const uint8_t **in, const uint8_t *end, uint16_t *dropped, uint32_t *drops,
                                 uint32_t before);

jpeg_entropy_fn jpeg_entropy_c, jpeg_entropy_bmi2;
jpeg_unstuff_fn jpeg_unstuff_c, jpeg_unstuff_avx2;

#endif
