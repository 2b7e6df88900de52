/* The shape of an image codec: bytes of a file -> RGB pixels of a region. One static const table per format, listed in
 * codec/image/codec_list.c.
 *
 * Hooks are called by any worker, several at once, each with its own struct codec_state; none may block, print or keep pointers into
 * `bytes` after returning. `bytes` is hostile.
 */
#ifndef FB_MODEL_CODEC_OPS_H
#define FB_MODEL_CODEC_OPS_H

#include <stdbool.h>

#include "base/budget.h"
#include "model/image.h"

enum { CODEC_PROBE_BYTES = 16, CODEC_MAX = 16 };

/* How a region was decoded, for the statistics. */
enum codec_way { CODEC_PLAIN, CODEC_BY_RECORD, CODEC_FALLBACK, CODEC_WAYS };

/* Besides 0 and errors: not so, but with more of the file, or without a taker of rows. */
enum { CODEC_CALL_AGAIN = 1 };

/* Somebody who takes the rows of a region as they are decoded, so that they need not all lie in memory. `out` then has memory for
 * CODEC_RING_ROWS rows: row y is at y % CODEC_RING_ROWS of it. The codec calls `take` after half of these at most, top to bottom, and from
 * the top again if it has to start over; the taker may leave the other half for later. */
enum { CODEC_RING_ROWS = 64 };
struct row_taker {
    void (*take)(void *ctx, uint32_t first, uint32_t count);
    void *ctx;
};

/* What one thread keeps between calls: memory within the budget, and one private pointer per codec (by its place in the list). */
struct codec_state {
    struct scratch scratch; /* for the codec's rows and tables; content lost between calls */
    void *own[CODEC_MAX];

    /* A learnt record of the file, left by an earlier decode of the same bytes, or NULL: set by the caller before each decode. Its
     * checksum and the file's identity were verified, but it is hostile all the same. */
    const uint8_t *known;
    size_t known_bytes;
    bool wants_record;  /* set by the caller: a record made by this decode will be kept */
    bool has_part_only; /* set by the caller: of `bytes` only the header and the range that the record names for this region are
                                    * valid, the rest may be anything; if that is not enough, decode returns CODEC_CALL_AGAIN: read all */

    bool wants_numbers; /* set by the caller: the image is a mask. A palette's index takes the place of its colour, in all channels;
                                    * more than 8 bits per pixel are FB_E_DATA */
    const struct row_taker *taker; /* set by the caller, or NULL: decode then returns CODEC_CALL_AGAIN if it cannot: call without */

    /* set by decode: a record that knows more than `known` did, in `record` (of that length; 0: nothing new); and the way taken */
    struct scratch record;
    size_t record_bytes;
    enum codec_way way;
};

struct codec_ops {
    const char *name; /* "jpeg" */
    bool gives_rows;  /* to a taker */

    /* MUST. Does the file look like ours? `bytes` holds its first min(n, CODEC_PROBE_BYTES) bytes; never fails. */
    bool (*probe)(const uint8_t *bytes, size_t n);

    /* MUST. Size and orientation from the header only: no pixels, no large allocation. Refuses sizes beyond the limits of image.h
     * (FB_E_DATA, the size in the cause). `bytes` is the whole file, or a first part: then CODEC_CALL_AGAIN means "more is needed". */
    int (*header)(const uint8_t *bytes, size_t n, struct image_header *h, struct fb_error *e);

    /* MUST. Decodes `r` (inside the header's size, not empty, before any orientation) to RGB into `out` (r's size), equal to the same
     * pixels of a full decode by the pinned Pillow's convert("RGB"). On failure the content of `out` is undefined. A file that is cut off
     * or damaged is FB_E_DATA with the byte offset where that is known. `own` is the codec's private pointer of the calling thread. */
    int (*decode)(struct codec_state *s, void **own, const uint8_t *bytes, size_t n, const struct image_header *h, const struct region *r,
                  const struct image *out, struct fb_error *e);

    /* MAY. Which bytes of its file decoding `r` takes, as the record tells: [0, *head) and [*first, *last). `r` NULL: only *head is asked
     * for. False: not this codec's record, or it does not know enough. */
    bool (*range)(const uint8_t *record, size_t n, const struct region *r, uint64_t *head, uint64_t *first, uint64_t *last);

    /* MAY. Frees what decode left in `own`. */
    void (*close)(void **own);
};

#endif
