/* The coded bytes of a file as a lane reads them: without stuffed zeros, a window at a time, with the way back to positions in the file.
 *
 * A position is a byte of the file and a bit in it, together with the predictors: all that decoding needs to begin there.
 */
#ifndef FB_CODEC_IMAGE_JPEG_JPEG_STREAM_H
#define FB_CODEC_IMAGE_JPEG_JPEG_STREAM_H

#include "codec/image/jpeg/kernels/jpeg_kernels.h"

/* How far a lane can read, whatever the bits are. The entropy decoder itself checks nothing, so this must hold:
 *
 *   a symbol is a code of at most 16 bits and a value of at most 15: 31 bits;
 *   a block is at most 64 symbols, since each moves on by at least one coefficient and the 64th ends it: 1984 bits, 248 bytes;
 *   a batch is at most JPEG_BATCH blocks: 11,904 bytes;
 *   a batch begins with at most `filled` <= JPEG_WINDOW bytes consumed: jpeg_stream_ensure, called before each, says no otherwise;
 *   a refill looks at 8 bytes from `next`, which is at most 8 bytes ahead of what is consumed.
 *
 * So nothing from JPEG_WINDOW + JPEG_WINDOW_SLACK on is looked at. Bits between `filled` and there are whatever was in that memory before;
 * what was made of them is thrown away, because the check before the next batch, or the mark at the row's end, fails. */
enum {
    JPEG_WINDOW = 32768,
    JPEG_WINDOW_SLACK = JPEG_MOST_BATCH_BYTES + 64,
    JPEG_DROP_BYTES = 2 * JPEG_WINDOW,                                    /* every byte of the window can be a 0xFF with a zero behind it */
    JPEG_STREAM_BYTES = JPEG_DROP_BYTES + JPEG_WINDOW + JPEG_WINDOW_SLACK /* memory of one stream: the drops and the window */
};
_Static_assert((int)JPEG_BATCH * 64 * 31 / 8 + 16 <= (int)JPEG_WINDOW_SLACK, "a batch can read beyond the window's memory");
_Static_assert((int)JPEG_MOST_BATCH_BYTES < (int)JPEG_WINDOW, "a batch must fit into the window");

/* Bytes from a mark's that must be looked at to decode up to it: the one it lies in, and a zero stuffed behind. */
enum { JPEG_MARK_REACH = 2 };

/* Where decoding can begin: a checkpoint. */
struct jpeg_mark {
    uint32_t byte;
    uint8_t bit;
    int16_t dc[3];
};

static inline bool jpeg_mark_is_equal(const struct jpeg_mark *a, const struct jpeg_mark *b)
{
    return a->byte == b->byte && a->bit == b->bit && a->dc[0] == b->dc[0] && a->dc[1] == b->dc[1] && a->dc[2] == b->dc[2];
}

struct jpeg_stream {
    const struct jpeg_kernels *kernels;
    const uint8_t *file;     /* its first byte */
    const uint8_t *in, *end; /* not yet in the window; what may be looked at */
    uint8_t *window;
    uint16_t *dropped; /* where in the window zeros were left out */
    uint32_t filled, drops;
    uint32_t passed; /* drops that lie behind the reading position */
    uint32_t start;  /* the window's first byte in the file */
};

/* Lets `s` use JPEG_STREAM_BYTES of memory, 64-byte aligned. */
void jpeg_stream_init(struct jpeg_stream *s, const struct jpeg_kernels *k, void *memory);

/* Begins at a mark; looks at no byte of the file from `end` on. The mark may lie. */
void jpeg_stream_begin(struct jpeg_stream *s, struct jpeg_lane *l, const uint8_t *file, uint32_t end, const struct jpeg_mark *m);

/* Sees to it that a whole batch can be read, or all that there is. Call before each. False: the lane has already read more than there is,
 * and another batch could take it beyond the window's memory. */
bool jpeg_stream_ensure(struct jpeg_stream *s, struct jpeg_lane *l);

/* Where the lane is. False: it has read more than there is, or its predictors are beyond 16 bits. */
bool jpeg_stream_mark(struct jpeg_stream *s, const struct jpeg_lane *l, struct jpeg_mark *m);

/* Passes restart marker `number` (0-7), which must be the very next thing, and resets the predictors. */
bool jpeg_stream_restart(struct jpeg_stream *s, struct jpeg_lane *l, uint32_t number);

#endif
