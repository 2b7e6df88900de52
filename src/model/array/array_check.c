/* Is a layout one that can be read? Everything that later code computes without looking is proved here: no product overflows, every byte
 * lies inside the file, the grid of chunks is the shape's, a chunk without filters has exactly its size.
 *
 * A compressed chunk must be able to hold what it claims: deflate, lz4 and lzf have a largest ratio, and a claim beyond it is refused
 * before anybody asks for memory. zstd has none worth naming; there the memory budget is the limit.
 */
#include <string.h>

#include "base/text/text.h"
#include "model/array/array.h"

enum {
    MAX_CHUNKS = 1 << 26, /* a table of 1 GiB */
    MIN_CHUNKS = 1 << 20
};

/* A chunk that exists has a byte at least; this many more may be missing. */
uint64_t array_most_chunks(uint64_t object_size)
{
    return object_size < MAX_CHUNKS - MIN_CHUNKS ? object_size + MIN_CHUNKS : MAX_CHUNKS;
}

static int refuse(struct fb_error *e, const struct array_layout *a, const char *what)
{
    char name[96];
    return error_set(e, FB_E_DATA, "decode", "the array \"%s\" %s", text_escape(a->name, name, sizeof(name)), what);
}

/* ---- numbers ---- */

static const struct {
    uint32_t bytes;
    bool fits_int16;
} sounds[] = {
    [ARRAY_PCM_U8] = {1, true},   [ARRAY_PCM_S16] = {2, true},  [ARRAY_PCM_S24] = {3, false}, [ARRAY_PCM_S32] = {4, false},
    [ARRAY_PCM_F32] = {4, false}, [ARRAY_PCM_F64] = {8, false}, [ARRAY_ALAW] = {1, true},     [ARRAY_MULAW] = {1, true},
};

static bool is_number_right(const struct array_layout *a)
{
    size_t size = fb_dtype_size(a->dtype);
    if (!size || (unsigned)a->code > ARRAY_MULAW)
        return false;
    if (a->storage == ARRAY_OPAQUE)
        return true;
    if (a->code == ARRAY_PLAIN || a->code == ARRAY_SWAPPED)
        return a->stored_bytes == size;
    return a->stored_bytes == sounds[a->code].bytes && (a->dtype == FB_FLOAT32 || (a->dtype == FB_INT16 && sounds[a->code].fits_int16));
}

/* A number of one byte may become one of eight: what is counted in bytes must not overflow then either. Arrays that were never written can
 * claim any size. */
#define MOST_ARRAY_BYTES (INT64_MAX / 16)

/* The bytes of a block of that shape; an empty dimension counts as one, so that rows of an empty array have a size too. False: more than
 * any file can have. */
static bool bytes_of(const uint64_t *shape, int ndim, uint64_t number, uint64_t *bytes)
{
    *bytes = number;
    for (int d = 0; d < ndim; d++)
        if (__builtin_mul_overflow(*bytes, shape[d] ? shape[d] : 1, bytes) || *bytes > MOST_ARRAY_BYTES)
            return false;
    return true;
}

static bool is_empty(const struct array_layout *a)
{
    for (int d = 0; d < a->ndim; d++)
        if (!a->shape[d])
            return true;
    return false;
}

/* ---- filters ---- */

static const struct {
    uint32_t id, ratio; /* ratio 0: no limit */
    const char *name;   /* NULL: ours */
} filters[] = {
    {ARRAY_DEFLATE, 1032, NULL},
    {ARRAY_RAW_DEFLATE, 1032, NULL},
    {ARRAY_SHUFFLE, 1, NULL},
    {ARRAY_FLETCHER32, 1, NULL},
    {ARRAY_LZF, 132, NULL},
    {ARRAY_LZ4, 256, NULL},
    {ARRAY_ZSTD, 0, NULL},
    {4, 1, "szip"},
    {5, 1, "nbit"},
    {6, 1, "scale-offset"},
    {305, 1, "LZO"},
    {307, 1, "bzip2"},
    {32001, 1, "Blosc"},
    {32006, 1, "SZ"},
    {32008, 1, "Bitshuffle"},
    {32013, 1, "ZFP"},
    {32018, 1, "FCIDECOMP"},
    {32024, 1, "SZ3"},
    {32026, 1, "Blosc2"},
    {32028, 1, "SPERR"},
    {ARRAY_CRC32, 1, NULL},
};
enum { FILTERS = sizeof(filters) / sizeof(filters[0]) };

static int filter_place(uint32_t id)
{
    for (int i = 0; i < FILTERS; i++)
        if (filters[i].id == id)
            return i;
    return -1;
}

static int check_filter(const struct array_layout *a, const struct array_filter *f, struct fb_error *e)
{
    int place = filter_place(f->id);
    if (place >= 0 && !filters[place].name)
        return f->id == ARRAY_SHUFFLE && !f->param ? refuse(e, a, "is shuffled by elements of 0 bytes") : 0;
    char name[96];
    error_set(e, FB_E_UNSUPPORTED, "decode", "the array \"%s\" is stored with the HDF5 filter %u (%s), which is not read here",
              text_escape(a->name, name, sizeof(name)), f->id, place < 0 ? "not a registered one that is known" : filters[place].name);
    error_remedy(e, "h5py with the Python package hdf5plugin reads it: h5repack it to gzip, lzf or none");
    return FB_E_UNSUPPORTED;
}

/* The most bytes that `length` stored ones can become. */
static uint64_t most_from(const struct array_layout *a, const struct array_chunk *c)
{
    uint64_t most = (uint64_t)c->length + 64; /* ends of streams round up */
    for (int i = 0; i < a->filter_count; i++) {
        if (c->skips >> i & 1)
            continue;
        uint32_t ratio = filters[filter_place(a->filter[i].id)].ratio;
        if (!ratio || __builtin_mul_overflow(most, ratio, &most))
            return UINT64_MAX;
    }
    return most;
}

/* ---- storage ---- */

static bool is_inside(uint64_t offset, uint64_t length, uint64_t size)
{
    return offset <= size && length <= size - offset;
}

static int check_chunk(const struct array_layout *a, uint64_t at, uint64_t chunk_bytes, uint64_t object_size, struct fb_error *e)
{
    const struct array_chunk *c = &a->chunk[at];
    const char *problem = NULL;
    if (c->offset == ARRAY_NO_CHUNK)
        return 0;
    uint32_t all = (1u << a->filter_count) - 1;
    if (!is_inside(c->offset, c->length, object_size))
        problem = "lies beyond the end of the file";
    else if (c->skips & ~all)
        problem = "skips filters that are not there";
    else if (c->skips == all && c->length != chunk_bytes)
        problem = "is not of the size its shape asks for";
    else if (chunk_bytes > most_from(a, c))
        problem = "is too small to hold what its shape asks for";
    if (!problem)
        return 0;
    char name[96];
    error_set(e, FB_E_DATA, "decode", "chunk %llu of the array \"%s\" (%u bytes) %s", (unsigned long long)at,
              text_escape(a->name, name, sizeof(name)), c->length, problem);
    error_at(e, NULL, c->offset <= INT64_MAX ? (int64_t)c->offset : -1);
    return FB_E_DATA;
}

static int check_grid(const struct array_layout *a, uint64_t object_size, struct fb_error *e)
{
    uint64_t count = 1, most = array_most_chunks(object_size);
    for (int d = 0; d < a->ndim; d++) {
        if (!a->chunk_shape[d])
            return refuse(e, a, "has chunks of size 0");
        uint64_t across = a->shape[d] / a->chunk_shape[d] + (a->shape[d] % a->chunk_shape[d] != 0);
        if (__builtin_mul_overflow(count, across, &count) || count > most)
            return refuse(e, a, "has more chunks than such a file can hold");
    }
    if (count != a->chunk_count || (count && !a->chunk))
        return refuse(e, a, "has another number of chunks than its shape asks for");
    return 0;
}

static int check_chunked(const struct array_layout *a, uint64_t object_size, struct fb_error *e)
{
    uint64_t chunk_bytes;
    if (!bytes_of(a->chunk_shape, a->ndim, a->stored_bytes, &chunk_bytes))
        return refuse(e, a, "has chunks of an impossible size");
    FB_TRY(check_grid(a, object_size, e));
    if (a->is_fortran && a->chunk_count > 1)
        return refuse(e, a, "is in Fortran order and in chunks");
    if (a->filter_count < 0 || a->filter_count > ARRAY_MAX_FILTERS)
        return refuse(e, a, "has too many filters");
    for (int i = 0; i < a->filter_count; i++)
        FB_TRY(check_filter(a, &a->filter[i], e));
    for (uint64_t i = 0; i < a->chunk_count; i++)
        FB_TRY(check_chunk(a, i, chunk_bytes, object_size, e));
    return 0;
}

static int check_whole(const struct array_layout *a, uint64_t bytes, uint64_t object_size, struct fb_error *e)
{
    if (a->bytes != (is_empty(a) ? 0 : bytes))
        return refuse(e, a, "does not have the size its shape asks for");
    if (a->storage == ARRAY_INLINE)
        return a->bytes && !a->inline_data ? refuse(e, a, "has no data") : 0;
    if (is_inside(a->offset, a->bytes, object_size))
        return 0;
    refuse(e, a, "reaches beyond the end of the file");
    error_at(e, NULL, (int64_t)object_size);
    return FB_E_DATA;
}

int array_check(const struct array_layout *a, uint64_t object_size, struct fb_error *e)
{
    uint64_t bytes;
    if (!memchr(a->name, 0, sizeof(a->name)))
        return error_set(e, FB_E_DATA, "decode", "an array has a name without an end");
    if (!is_number_right(a))
        return refuse(e, a, "has numbers of a type that does not exist");
    if (a->ndim < 0 || a->ndim > ARRAY_MAX_DIMS)
        return refuse(e, a, "has more dimensions than 8");
    if (!bytes_of(a->shape, a->ndim, a->storage == ARRAY_OPAQUE ? fb_dtype_size(a->dtype) : a->stored_bytes, &bytes))
        return refuse(e, a, "has an impossible size");
    switch (a->storage) {
    case ARRAY_CONTIGUOUS:
    case ARRAY_INLINE: return check_whole(a, bytes, object_size, e);
    case ARRAY_CHUNKED: return check_chunked(a, object_size, e);
    case ARRAY_OPAQUE: return memchr(a->why_opaque, 0, sizeof(a->why_opaque)) ? 0 : refuse(e, a, "does not say why it is opaque");
    }
    return refuse(e, a, "is stored in an unknown way");
}
