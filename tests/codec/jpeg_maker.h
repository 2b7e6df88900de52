/* JPEG files of every kind for tests, and a plain full decode to compare with. */
#ifndef FB_TESTS_JPEG_MAKER_H
#define FB_TESTS_JPEG_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jpeg_recipe {
    const char *name;
    int components;      /* 1, 3 or 4 */
    uint8_t sampling[4]; /* 0xHV of each component */
    bool is_progressive, is_arithmetic, is_separate; /* is_separate: one scan per component */
    int restart_rows;
    bool stops_early;    /* progressive without its last scans: coefficients are missing, the end marker is there */
};

struct bytes {
    uint8_t *data;
    size_t n;
};

/* The caller frees data. Content: gradients, edges and noise, so that a pixel wrong by one neighbour shows. */
struct bytes jpeg_make(const struct jpeg_recipe *recipe, uint32_t width, uint32_t height);

/* RGB of the whole image, rows packed, by the simplest use of libjpeg: no skipping, no cropping. Not for four components. */
uint8_t *jpeg_decode_plainly(struct bytes file, uint32_t width, uint32_t height);

#endif
