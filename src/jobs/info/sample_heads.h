/* The first bytes of samples: of files one after the other, of objects in a store many at once. */
#ifndef FB_JOBS_INFO_SAMPLE_HEADS_H
#define FB_JOBS_INFO_SAMPLE_HEADS_H

#include "dataset/dataset.h"
#include "io/io.h"
#include "io/io_wait.h"

enum { HEADS_AT_ONCE = 32 };

struct heads {
    const struct dataset *dataset;
    struct io *io;        /* NULL: files */
    uint32_t at_once;     /* samples that heads_read takes */
    size_t most;          /* bytes of each */
    struct io_wait *wait; /* of objects */
    uint8_t *memory;      /* of a file */
    uint64_t got[HEADS_AT_ONCE];
    int status[HEADS_AT_ONCE];
    struct fb_error error[HEADS_AT_ONCE];
};

int heads_open(struct heads *h, const struct dataset *d, const struct log *log, struct fb_error *e);
void heads_read(struct heads *h, const struct catalog_sample *s, uint32_t count);
static inline const uint8_t *heads_bytes(const struct heads *h, uint32_t i)
{
    return h->wait ? io_wait_result(h->wait, i)->buffer : h->memory;
}
void heads_close(struct heads *h);

#endif
