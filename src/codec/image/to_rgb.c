#include "codec/image/to_rgb.h"

#include <string.h>

/* a * b / 255, rounded, for a and b in 0..255. */
static inline uint32_t share(uint32_t a, uint32_t b)
{
    uint32_t x = a * b + 128;
    return ((x >> 8) + x) >> 8;
}

void rgb_from_inverted_cmyk(uint8_t *out, const uint8_t *in, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++, in += 4, out += 3) {
        uint32_t paper = in[3];
        for (int k = 0; k < 3; k++)
            out[k] = (uint8_t)(paper - share(255u - in[k], paper));
    }
}

enum { GREY = 0, COLOUR = 2, INDEXED = 3, GREY_ALPHA = 4, COLOUR_ALPHA = 6 };

static uint32_t channels_of(uint8_t color_type)
{
    static const uint8_t channels[8] = {[GREY] = 1, [COLOUR] = 3, [INDEXED] = 1, [GREY_ALPHA] = 2, [COLOUR_ALPHA] = 4};
    return channels[color_type & 7];
}

size_t png_row_bytes(const struct png_kind *k, uint32_t width)
{
    return ((size_t)width * channels_of(k->color_type) * k->bit_depth + 7) / 8;
}

/* The high byte of each of the three samples, `step` bytes from pixel to pixel, `next` from sample to sample. */
static void pick(uint8_t *out, const uint8_t *in, uint32_t width, size_t step, size_t next)
{
    for (uint32_t i = 0; i < width; i++, in += step, out += 3) {
        out[0] = in[0];
        out[1] = in[next];
        out[2] = in[2 * next];
    }
}

/* Pillow opens 16-bit grey as I;16, whose conversion clips where others scale. */
static void clip_grey16(uint8_t *out, const uint8_t *in, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++, in += 2, out += 3)
        memset(out, in[0] ? 255 : in[1], 3);
}

static void look_up(uint8_t *out, const uint8_t *row, uint32_t left, uint32_t width, const struct png_kind *k)
{
    uint32_t per_byte = 8u / k->bit_depth, mask = (1u << k->bit_depth) - 1, scale = 255 / mask;
    for (uint32_t i = left; i < left + width; i++, out += 3) {
        uint32_t value = row[i / per_byte] >> (8 - k->bit_depth * (i % per_byte + 1)) & mask;
        if (k->color_type == INDEXED)
            memcpy(out, k->palette[value], 3);
        else
            memset(out, (int)(value * scale), 3);
    }
}

void rgb_from_png(uint8_t *out, const uint8_t *row, uint32_t left, uint32_t width, const struct png_kind *k)
{
    size_t step = (size_t)channels_of(k->color_type) * k->bit_depth / 8;
    if (k->color_type == INDEXED || k->bit_depth < 8)
        look_up(out, row, left, width, k);
    else if (k->color_type == COLOUR && k->bit_depth == 8)
        memcpy(out, row + left * step, (size_t)3 * width);
    else if (k->color_type == GREY && k->bit_depth == 16)
        clip_grey16(out, row + left * step, width);
    else
        pick(out, row + left * step, width, step, k->color_type & COLOUR ? k->bit_depth / 8 : 0);
}
