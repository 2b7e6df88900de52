/* What the header of a JPEG file says about its one scan, for the decoder in jpeg_fast.c.
 *
 * Only the common kind is taken: sequential Huffman with 8 bits, one scan with all components, grey or YCbCr with the samplings below.
 * Whatever else there is, and whatever looks unusual, belongs to libjpeg-turbo.
 */
#ifndef FB_CODEC_IMAGE_JPEG_JPEG_PLAN_H
#define FB_CODEC_IMAGE_JPEG_JPEG_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/image.h"

enum { JPEG_MAX_BLOCKS = 6 };             /* in an MCU of these samplings */
enum { JPEG_MAX_FILE = 1 << 28 };         /* bytes: positions in bits fit in 32 bits with sign */
enum { JPEG_MOST_CODE_BYTES = 16 + 256 }; /* of a Huffman table in the file */

/* A Huffman table as the file has it: 16 counts, then the symbols. */
struct jpeg_code {
    const uint8_t *bytes;
    uint32_t n; /* 16 + number of symbols; 0: not there */
};

struct jpeg_plan {
    uint32_t width, height;
    int components;                /* 1 or 3 */
    int across, down;              /* luma blocks in an MCU: 1x1, 2x1, 2x2, 1x2 */
    int blocks;                    /* all blocks in an MCU */
    uint32_t columns, rows;        /* in MCUs */
    uint32_t restart;              /* MCUs between restart markers, 0: none */
    uint32_t scan;                 /* where the coded data begins */
    struct jpeg_code dc[3], ac[3]; /* of each component */
    int16_t quant[3][64];          /* of each component, in natural order, cut to 16 bits as libjpeg does */

    /* at the scale it is decoded at */
    uint32_t scale; /* so many pixels of the file on a side make one: 1, 2, 4 or 8 */
    uint32_t out_width, out_height;
    uint32_t chroma_width, chroma_height;
    int halvings[3]; /* of each component: a block makes 8 >> halvings samples a side */
    int wide, high;  /* pixels to a chroma sample, across and down: 1 or 2 */
    bool is_blended; /* chroma between samples is blended, not repeated */
};

/* Samples on a side of a component's blocks. */
static inline uint32_t jpeg_plan_side(const struct jpeg_plan *p, int component)
{
    return 8u >> p->halvings[component];
}

/* Natural position of the k-th coefficient; what lies behind the 64th goes to position 0. */
extern const uint8_t jpeg_natural[256];

/* False: not of this kind, or not all there. */
bool jpeg_plan_read(struct jpeg_plan *p, const uint8_t *bytes, size_t n);

/* Sizes in MCUs and blocks from width, height, components, across and down; at full scale. */
void jpeg_plan_measure(struct jpeg_plan *p);
/* From now on at 1, 1/2, 1/4 or 1/8. */
void jpeg_plan_reduce(struct jpeg_plan *p, uint32_t scale);

/* The MCUs that a region, in pixels at the plan's scale, needs: those whose pixels it shows and those whose chroma blends into it. */
struct jpeg_span {
    uint32_t first_row, end_row, first_column, end_column;
};
struct jpeg_span jpeg_plan_span(const struct jpeg_plan *p, const struct region *r);

#endif
