/* Samples of a few MCU rows on their way to pixels.
 *
 * Only the columns that the region needs are here. Where chroma has half the rows, a pixel row blends two chroma rows, which may lie in two
 * MCU rows: then the last pixel row of a band waits for the next band, and one row of each component is carried over. Columns blend the
 * same way; at the image's borders the outermost chroma sample stands for the one beyond, which gives what libjpeg's special cases give.
 */
#ifndef FB_CODEC_IMAGE_JPEG_JPEG_BAND_H
#define FB_CODEC_IMAGE_JPEG_JPEG_BAND_H

#include "codec/image/jpeg/kernels/jpeg_kernels.h"
#include "model/codec_ops.h"

struct jpeg_band {
    const struct jpeg_plan *plan;
    const struct jpeg_kernels *kernels;
    const struct region *region;
    const struct image *out;
    const struct row_taker *taker; /* or NULL */
    struct jpeg_span span;
    uint8_t *plane[3]; /* the first sample of the band's first row; before it lie one row carried over and a margin */
    size_t stride[3];
    uint8_t *full[2]; /* chroma of one pixel row */
    uint32_t row;     /* MCU row that the band begins with */
    uint32_t emitted; /* pixel rows of the region that are done */
};

/* How much memory a band of `rows` MCU rows takes. */
size_t jpeg_band_bytes(const struct jpeg_plan *p, const struct jpeg_span *s, uint32_t rows);
/* `memory` is 64-byte aligned. */
void jpeg_band_init(struct jpeg_band *b, const struct jpeg_plan *p, const struct jpeg_kernels *k, const struct region *r,
                    const struct image *out, uint32_t rows, void *memory);

/* Transforms `mcus` MCUs from `column` on of the band's `row`-th MCU row. */
void jpeg_band_transform(struct jpeg_band *b, uint32_t row, uint32_t column, uint32_t mcus, const int16_t *coefficients,
                         const uint8_t *counts);

/* `rows` MCU rows are complete: writes the pixel rows that can be, and goes on below. */
void jpeg_band_emit(struct jpeg_band *b, uint32_t rows);

#endif
