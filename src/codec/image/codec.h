/* Finding the codec of a file by its first bytes, and decoding with it. */
#ifndef FB_CODEC_IMAGE_CODEC_H
#define FB_CODEC_IMAGE_CODEC_H

#include "model/codec_ops.h"

extern const struct codec_ops *const codec_list[]; /* NULL-terminated */

/* The codec whose probe says yes, or NULL. */
const struct codec_ops *codec_find(const uint8_t *bytes, size_t n);

/* Reads the header of any known format from the whole file: FB_E_DATA "not an image ..." when no codec knows it (says what it looks like:
 * empty, text, HTML, ...) or when the file ends inside its header. `codec` may be NULL. */
int codec_header(const uint8_t *bytes, size_t n, struct image_header *h, const struct codec_ops **codec, struct fb_error *e);

/* The same from a first part of the file: CODEC_CALL_AGAIN when more of it is needed. */
int codec_header_part(const uint8_t *bytes, size_t n, struct image_header *h, const struct codec_ops **codec, struct fb_error *e);

/* Decodes a region with the calling thread's state. FB_E_USAGE: the region is not inside the image, or `out` has another size.
 * CODEC_CALL_AGAIN: see has_part_only and taker of struct codec_state. */
int codec_decode(struct codec_state *s, const struct codec_ops *codec, const uint8_t *bytes, size_t n, const struct image_header *h,
                 const struct region *r, const struct image *out, struct fb_error *e);

/* What a learnt record says about the bytes that a region takes, see codec_ops.range. */
bool codec_range(const uint8_t *record, size_t n, const struct region *r, uint64_t *head, uint64_t *first, uint64_t *last);

/* The state of one thread; budget may be NULL. */
void codec_state_init(struct codec_state *s, struct budget *budget);
void codec_state_free(struct codec_state *s);

#endif
