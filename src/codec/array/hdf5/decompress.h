/* Decompressing one HDF5 chunk, that is undoing its filters: deflate, shuffle, fletcher32, lzf, lz4, zstd, and the bare deflate of a zip
 * member.
 *
 * The decompressed size is known beforehand; a stream that gives more or less is damaged. Intermediate results lie in
 * two buffers that grow to the largest chunk and are counted in the budget; the last filter undone writes straight into the caller's place.
 */
#ifndef FB_CODEC_ARRAY_HDF5_DECOMPRESS_H
#define FB_CODEC_ARRAY_HDF5_DECOMPRESS_H

#include "base/budget.h"
#include "model/array/array.h"

/* What one thread needs; zero-initialised with a budget (or NULL) it is valid. */
struct decompress {
    struct scratch work[2];
    void *inflate, *zstd; /* made when the first such chunk comes, about 12 and 100 KB, not counted in the budget */
};

void decompress_init(struct decompress *u, struct budget *budget);
void decompress_free(struct decompress *u);

/* Bytes of a whole chunk, padding of edge chunks included: what decompress_chunk gives. */
uint64_t decompressed_chunk_bytes(const struct array_layout *a);

/* Undoes the filters of a chunk of `a` (which array_check has passed): `n` stored bytes become decompressed_chunk_bytes(a) at `out`.
 * FB_E_DATA: damaged, the cause says by which filter's word; FB_E_BUDGET, FB_E_NOMEM. The caller adds file and offset. `out` and `stored`
 * do not overlap. */
int decompress_chunk(struct decompress *u, const struct array_layout *a, uint32_t skips, const uint8_t *stored, size_t n, uint8_t *out,
                     struct fb_error *e);

/* ---- the kernels, for tests and benches ---- */

/* The bytes of `n / size` elements put together again: all first bytes lie first, then all second ones ...; what is left over stays
 * behind. */
void unshuffle(uint8_t *out, const uint8_t *in, size_t n, size_t size);

uint32_t fletcher32_of(const uint8_t *bytes, size_t n);

#endif
