/* What the files of this folder share: the codecs themselves, the size limits, orientation, counted memory of the decoding libraries. */
#ifndef FB_CODEC_CODEC_INTERNAL_H
#define FB_CODEC_CODEC_INTERNAL_H

#include "codec/image/codec.h"

extern const struct codec_ops codec_jpeg, codec_png, codec_webp;

/* Refuses empty images and ones beyond the limits of image.h; the cause names the numbers. */
int codec_check_size(uint64_t width, uint64_t height, struct fb_error *e);

/* What does this file look like, when it is none of ours? Fills `e` with FB_E_DATA and returns that. */
int codec_not_an_image(const uint8_t *bytes, size_t n, struct fb_error *e);

/* Memory that a decoding library will allocate by itself, counted in the budget as scratch while the call lasts. */
int codec_borrow(struct codec_state *s, uint64_t bytes, const char *for_what, struct fb_error *e);
void codec_give_back(struct codec_state *s, uint64_t bytes);

/* The orientation 1-8 in an EXIF block (a TIFF header and its first directory, "Exif\0\0" before it or not) or in an XMP packet.
 * 0: it says nothing, or nonsense. */
uint8_t exif_orientation(const uint8_t *bytes, size_t n);
uint8_t xmp_orientation(const uint8_t *bytes, size_t n);

static inline uint32_t big_endian_32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint32_t little_endian_32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static inline uint32_t big_endian_16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

#endif
