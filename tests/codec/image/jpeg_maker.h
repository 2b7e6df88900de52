/* JPEG files of every kind for tests, and a plain full decode to compare with. */
#ifndef FB_TESTS_JPEG_MAKER_H
#define FB_TESTS_JPEG_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jpeg_recipe {
    const char *name;
    int components;                                  /* 1, 3 or 4 */
    uint8_t sampling[4];                             /* 0xHV of each component */
    bool is_progressive, is_arithmetic, is_separate; /* is_separate: one scan per component */
    int restart_rows;
    bool stops_early;    /* progressive without its last scans: coefficients are missing, the end marker is there */
    int quality;         /* 0: 80 */
    bool is_optimised;   /* Huffman tables of its own */
    int restart_mcus;    /* instead of restart_rows */
    bool has_wide_quant; /* quantisation tables of 16 bits, where the quality asks for large steps */
    bool has_no_jfif;    /* neither JFIF nor Adobe marker */
    bool is_rgb;         /* not YCbCr; says so by an Adobe marker, or by its components' names if has_no_jfif */
    bool has_adobe;      /* Adobe marker instead of JFIF, colour as it is */
    int content;         /* 0: gradients, edges and noise; 1: smooth; 2: one colour; 3: noise */
};

struct jpeg_common_struct;

struct bytes {
    uint8_t *data;
    size_t n;
};

/* The caller frees data. Content: gradients, edges and noise, so that a pixel wrong by one neighbour shows. */
struct bytes jpeg_make(const struct jpeg_recipe *recipe, uint32_t width, uint32_t height);

/* A handler of libjpeg's messages. */
void jpeg_say_nothing(struct jpeg_common_struct *j);

/* RGB of the whole image, rows packed, by the simplest use of libjpeg: no skipping, no cropping. Not for four components. `scale`: 1, or 2,
 * 4, 8 for the image of so many times fewer pixels a side. */
uint8_t *jpeg_decode_plainly(struct bytes file, uint32_t scale);

#endif
