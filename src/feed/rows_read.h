/* Rows of a field, read on the calling thread, however long that takes: for what is kept in memory, and for single rows when something went
 * wrong with a group. */
#ifndef FB_FEED_ROWS_READ_H
#define FB_FEED_ROWS_READ_H

#include "codec/array/hdf5/decompress.h"
#include "feed/arrays.h"

struct rows_reader {
    struct unfilter unfilter;
    struct scratch stored, chunk, rows;
    const struct array_chunk *last; /* the one that `chunk` holds, or NULL */
};

void rows_reader_init(struct rows_reader *r, struct budget *budget);
void rows_reader_free(struct rows_reader *r);

/* Rows [first, first + rows) of the object's field, as they go into the batch. */
int rows_read(struct rows_reader *r, const struct arrays *a, const struct array_object *o, int field, uint64_t first, uint64_t rows,
              void *out, struct fb_error *e);

/* All of `bytes` at `offset`, or an error that names the object. */
int rows_pread(const struct array_object *o, uint64_t offset, uint64_t bytes, void *out, struct fb_error *e);

#endif
