/* Samples that are images: opening them (image_open.c), loading them (image_load.c). */
#ifndef FB_FEED_SINGLE_IMAGES_H
#define FB_FEED_SINGLE_IMAGES_H

#include "feed/single/sample_files.h"
#include "feed/single/single.h"

/* feed.state. Constant after open, but for the figures. */
struct images {
    struct step_chain chain;
    uint32_t raw_height, raw_width; /* samples are bare pixels of this size; 0: files of a format */
    uint32_t out_height, out_width;
    bool reads_parts; /* of large files only the part that is wanted: partial_read.h */
    int (*map)(void *ctx, struct fb_map *m, struct fb_error *e);
    void *map_ctx;
    struct files files; /* further ones of each sample */
    struct feed_function function[CHAIN_MAX_MAPS];
    _Atomic uint64_t decoded[CODEC_WAYS]; /* regions, by the way they took */
};

static inline struct images *images_of(const struct feed *f)
{
    return f->state;
}

/* The header of a sample's bytes; *codec is NULL for bare pixels. */
int image_load_header(const struct images *i, const uint8_t *bytes, size_t n, struct image_header *h, const struct codec_ops **codec,
                      struct fb_error *e);
/* Which region of the image the sample takes; CODEC_CALL_AGAIN: the bytes so far do not tell. */
int image_load_region(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct region *r,
                      struct fb_error *e);
/* As in load_ops.h. */
int image_fill(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct fb_error *e);

/* When no transform fixes the size of the images, the first readable sample does (image_size_probe.c). */
int image_size_probe(struct feed *f, uint32_t *height, uint32_t *width, struct fb_error *e);

#endif
