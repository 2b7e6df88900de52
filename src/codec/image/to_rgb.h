/* Rows as the libraries give them -> 8-bit RGB, with the arithmetic of Pillow's convert("RGB"). */
#ifndef FB_CODEC_IMAGE_TO_RGB_H
#define FB_CODEC_IMAGE_TO_RGB_H

#include <stddef.h>
#include <stdint.h>

/* Pillow takes every JPEG with four components for one with inverted inks, as Adobe writes them. */
void rgb_from_inverted_cmyk(uint8_t *out, const uint8_t *in, uint32_t width);

/* What the samples of a PNG are. */
struct png_kind {
    uint8_t color_type, bit_depth; /* as in IHDR, a valid pair */
    uint8_t palette[256][3];
};

size_t png_row_bytes(const struct png_kind *k, uint32_t width);

/* Pixels left .. left + width - 1 of a row of the file. */
void rgb_from_png(uint8_t *out, const uint8_t *row, uint32_t left, uint32_t width, const struct png_kind *k);

#endif
