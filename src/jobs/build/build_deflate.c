/* HDF5's shuffle and deflate filters, the writing way. A number's bytes are put apart, so that the like ones lie together, then libdeflate.
 */
#include <libdeflate.h>

#include "jobs/build/build_internal.h"

static inline void take_apart(uint8_t *restrict out, const uint8_t *restrict in, size_t count, size_t size)
{
    for (size_t k = 0; k < size; k++)
        for (size_t i = 0; i < count; i++)
            out[k * count + i] = in[i * size + k];
}

static void shuffle(uint8_t *out, const uint8_t *in, size_t n, size_t size)
{
    if (size == 2)
        take_apart(out, in, n / 2, 2);
    else if (size == 4)
        take_apart(out, in, n / 4, 4);
    else
        take_apart(out, in, n / size, size);
}

int build_deflate_run(struct build_deflate *d, int level, const uint8_t *bytes, size_t n, size_t element, const uint8_t **out,
                      uint64_t *length, struct fb_error *e)
{
    if (!d->compressor && !(d->compressor = libdeflate_alloc_compressor(level)))
        return error_set(e, FB_E_NOMEM, "build", "no memory to compress");
    size_t bound = libdeflate_zlib_compress_bound(d->compressor, n);
    uint8_t *shuffled = scratch_need(&d->shuffled, n, e), *packed = shuffled ? scratch_need(&d->packed, bound, e) : NULL;
    if (!packed)
        return FB_E_NOMEM;
    shuffle(shuffled, bytes, n, element);
    *out = packed;
    *length = libdeflate_zlib_compress(d->compressor, shuffled, n, packed, bound);
    return *length ? 0 : error_set(e, FB_E_NOMEM, "build", "compressed data does not fit its room");
}

void build_deflate_free(struct build_deflate *d)
{
    if (d->compressor)
        libdeflate_free_compressor(d->compressor);
    scratch_free(&d->shuffled);
    scratch_free(&d->packed);
}
