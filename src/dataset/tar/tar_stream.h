/* Compressed bytes in, plain bytes out, piece by piece: gzip (also several members in a row, as pigz writes them) and zstd. */
#ifndef FB_DATASET_TAR_TAR_STREAM_H
#define FB_DATASET_TAR_TAR_STREAM_H

#include "base/error.h"
#include "dataset/tar/tar_compressed.h"

struct tar_stream;

struct tar_piece {
    const uint8_t *in;
    size_t in_bytes; /* how many are left, afterwards */
    uint8_t *out;
    size_t out_bytes, made;
};

int tar_stream_open(struct tar_stream **out, enum tar_squeeze how, struct fb_error *e);
/* Takes what it can and makes what fits. FB_E_DATA: the stream is damaged. */
int tar_stream_step(struct tar_stream *s, struct tar_piece *p, struct fb_error *e);
/* May the stream end here? */
bool tar_stream_is_whole(const struct tar_stream *s);
void tar_stream_close(struct tar_stream *s);

#endif
