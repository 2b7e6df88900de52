/* Rows of an array: which bytes of the file they are, and where those go.
 *
 * Two ways, both without memory of their own:
 *   straight   array_is_straight: rows are runs of bytes in the file (contiguous, or chunks of whole rows without filters); array_runs_next
 * tells
 *              them one by one, neighbours merged, and each may be read into its place as it is.
 *   by chunks  everything else: array_chunks_of_rows tells which chunks are needed, the caller reads and decompresses each,
 * array_copy_from_chunk
 *              takes the wanted rows out. Chunks may split any dimension; edge chunks are padded; a missing chunk gives the fill value.
 * Places hold numbers as stored (array_convert makes others of them), in C order, row `first` at the beginning.
 *
 * Layouts have passed array_check; rows are inside the array. Any thread.
 */
#ifndef FB_CODEC_ARRAY_ARRAY_ROWS_H
#define FB_CODEC_ARRAY_ARRAY_ROWS_H

#include "model/array/array.h"

/* `length` bytes at `offset` of the file belong at byte `at` of the place. offset ARRAY_NO_CHUNK: fill them with array_fill. */
struct array_run {
    uint64_t offset, length, at;
};

struct array_runs {
    const struct array_layout *array;
    uint64_t row, end; /* the next row and the one after the last */
    uint64_t first;
};

bool array_is_straight(const struct array_layout *a);

/* Runs in the order of their places, without gaps between places. False: no more. Only for arrays that are straight. */
void array_runs_start(struct array_runs *r, const struct array_layout *a, uint64_t first, uint64_t rows);
bool array_runs_next(struct array_runs *r, struct array_run *out);

/* The chunks that hold rows [first, first + rows): `*count` of them from `*chunk` on, indices into a->chunk. */
void array_chunks_of_rows(const struct array_layout *a, uint64_t first, uint64_t rows, uint64_t *chunk, uint64_t *count);

/* Copies what chunk number `chunk` has of rows [first, first + rows) into the place `out`. `data`: the chunk as decompress_chunk gives it;
 * NULL: it is missing, the fill value is written. */
void array_copy_from_chunk(const struct array_layout *a, uint64_t chunk, const uint8_t *data, uint64_t first, uint64_t rows, void *out);

/* Rows of a whole array at `data` (ARRAY_INLINE, or a contiguous one read as it is), Fortran order put right. */
void array_copy_from_whole(const struct array_layout *a, const uint8_t *data, uint64_t first, uint64_t rows, void *out);

/* The fill value over `bytes` bytes of a place. */
void array_fill(const struct array_layout *a, void *out, uint64_t bytes);

#endif
