/* What a worker works with: memory that grows to the largest need and is used again, and what decoders keep between calls. All kinds of
 * loads share it. One thread at a time; made and ended by the crew (crew.h), or by a thread that does a worker's work for a while. */
#ifndef FB_FEED_WORKER_H
#define FB_FEED_WORKER_H

#include "codec/array/hdf5/decompress.h"
#include "codec/image/codec.h"
#include "feed/crew.h"

enum { WORKER_SCRATCHES = 8 };

struct worker {
    uint32_t index;
    struct codec_state codec;
    struct decompress decompress;
    union {
        struct {
            struct scratch bytes;     /* a file the worker reads by itself */
            struct scratch pixels;    /* the decoded region */
            struct scratch work;      /* the transforms' */
            struct scratch known;     /* what was learnt of the sample before; of arrays: what lies where in `bytes` */
            struct scratch pieces;    /* a list of reads */
            struct scratch labels;    /* of a sample, while a further file of it is planned */
            struct scratch mapped[2]; /* what goes into a function of the caller's, and what comes out */
        };
        struct scratch scratch[WORKER_SCRATCHES];
    };
};

#endif
