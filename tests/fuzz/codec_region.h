/* One codec under fuzz: the input is a file followed by eight bytes that choose a region.
 *
 * Promises checked, beyond the sanitizers': a header that is accepted is within the limits; the first half of the file gives the same size,
 * asks for more or is refused; a region of a file that decodes whole decodes too, to the same pixels.
 *
 * A small file may claim a huge image, which is what breaks decoders: it is never passed over. Of an image of more than FUZZ_MAX_PIXELS a
 * region within its topmost FUZZ_MAX_PIXELS is decoded, and nothing is compared; FUZZ_MEMORY keeps libraries from allocating all of it.
 */
#ifndef FB_TESTS_FUZZ_CODEC_REGION_H
#define FB_TESTS_FUZZ_CODEC_REGION_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/image/codec.h"

enum { REGION_BYTES = 8, FUZZ_MAX_PIXELS = 1 << 20, FUZZ_MEMORY = 8 << 20 };

#define PROMISE(condition)                                       \
    do {                                                         \
        if (!(condition)) {                                      \
            fprintf(stderr, "broken promise: %s\n", #condition); \
            abort();                                             \
        }                                                        \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t two_bytes(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static inline bool is_large(const struct image_header *h)
{
    return (uint64_t)h->width * h->height > FUZZ_MAX_PIXELS;
}

static struct region chosen_region(const uint8_t *p, const struct image_header *h)
{
    uint32_t rows = is_large(h) ? 1 + (FUZZ_MAX_PIXELS - 1) / h->width : h->height;
    rows = rows < h->height ? rows : h->height;
    struct region r = {two_bytes(p) % rows, two_bytes(p + 2) % h->width, 0, 0};
    r.height = 1 + two_bytes(p + 4) % (rows - r.top);
    r.width = 1 + two_bytes(p + 6) % (h->width - r.left);
    return r;
}

static int fuzz_decode(const struct codec_ops *codec, const uint8_t *bytes, size_t n, const struct image_header *h, const struct region *r,
                       uint8_t **pixels)
{
    struct budget memory = {.limit = FUZZ_MEMORY};
    struct codec_state state;
    struct fb_error e = {0};
    codec_state_init(&state, &memory);
    *pixels = malloc((size_t)3 * r->width * r->height);
    PROMISE(*pixels);
    struct image out = {*pixels, (size_t)3 * r->width, r->width, r->height};
    int rc = codec_decode(&state, codec, bytes, n, h, r, &out, &e);
    PROMISE(rc == 0 || (rc < 0 && e.code == rc && e.cause[0]));
    codec_state_free(&state);
    PROMISE(memory.used == 0);
    return rc;
}

static void fuzz_header_of_half(const struct codec_ops *codec, const uint8_t *bytes, size_t n, const struct image_header *whole)
{
    struct image_header h;
    struct fb_error e = {0};
    uint8_t *part = malloc(n / 2 + 1);
    PROMISE(part);
    memcpy(part, bytes, n / 2);
    if (codec->probe(part, n / 2 < CODEC_PROBE_BYTES ? n / 2 : CODEC_PROBE_BYTES) && codec->header(part, n / 2, &h, &e) == 0)
        PROMISE(h.width == whole->width && h.height == whole->height);
    free(part);
}

static void fuzz_compare(const uint8_t *all, const struct image_header *h, const uint8_t *part, const struct region *r)
{
    for (uint32_t y = 0; y < r->height; y++)
        PROMISE(!memcmp(part + (size_t)3 * r->width * y, all + 3 * ((size_t)(r->top + y) * h->width + r->left), (size_t)3 * r->width));
}

static inline int fuzz_region(const struct codec_ops *codec, const uint8_t *data, size_t size)
{
    struct image_header h;
    struct fb_error e = {0};
    if (size < REGION_BYTES || !codec->probe(data, size - REGION_BYTES < CODEC_PROBE_BYTES ? size - REGION_BYTES : CODEC_PROBE_BYTES))
        return 0;
    size_t n = size - REGION_BYTES;
    int rc = codec->header(data, n, &h, &e);
    PROMISE(rc >= 0 || (e.code == rc && e.cause[0]));
    if (rc)
        return 0;
    PROMISE(h.width && h.height && (uint64_t)h.width * h.height <= IMAGE_MAX_PIXELS && h.orientation >= 1 && h.orientation <= 8);
    fuzz_header_of_half(codec, data, n, &h);
    struct region r = chosen_region(data + n, &h), whole = {0, 0, h.height, h.width};
    uint8_t *part, *all = NULL;
    int part_rc = fuzz_decode(codec, data, n, &h, &r, &part), all_rc = is_large(&h) ? 1 : fuzz_decode(codec, data, n, &h, &whole, &all);
    PROMISE(all_rc != 0 || part_rc == 0);
    if (all_rc == 0)
        fuzz_compare(all, &h, part, &r);
    free(part);
    free(all);
    return 0;
}

#endif
