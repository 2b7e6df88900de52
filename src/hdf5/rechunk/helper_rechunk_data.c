/* One dataset with other chunks.
 *
 * Data is read by libhdf5 in bands of rows, as many as memory allows and whole chunks of the source if it can, and written chunk by chunk.
 * Where the filters are shuffle and deflate, which they nearly always are, chunks are deflated on several threads and handed to libhdf5
 * ready-made; the outcome does not depend on how many. Other filters are libhdf5's own, on one thread.
 *
 * A chunk has the wanted rows, or more if rows are so small that it would have less than LEAST_CHUNK bytes. Scalars, and what is not in
 * chunks and would fit into one, stay as they are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/round_up.h"
#include "hdf5/rechunk/helper_rechunk.h"

enum { LEAST_CHUNK = 4 << 10, SMALL = 64 << 10, LEVEL = 4, PIECE = 4096 };
static const uint64_t most_chunk = UINT64_C(1) << 30, band_bytes = UINT64_C(256) << 20, most_cache = UINT64_C(1) << 30;

struct shape {
    int ndim;
    hsize_t size[H5S_MAX_RANK], most[H5S_MAX_RANK], chunk[H5S_MAX_RANK]; /* chunk[0] 0: not in chunks */
    hsize_t old_rows;                                                    /* of a chunk of the source; 0: it has none */
    hsize_t row_elements;
    size_t element;
};

static bool refused(struct rechunk *r, const char *path, const char *cause, const char *remedy)
{
    error_set(&r->e, FB_E_UNSUPPORTED, "pack", "\"%s\" %s", path, cause);
    error_remedy(&r->e, "%s", remedy);
    return false;
}

static bool refused_elsewhere(struct rechunk *r, const char *path, const char *what)
{
    char cause[120];
    snprintf(cause, sizeof(cause), "is %s", what);
    return refused(r, path, cause, "--allow-external reads it, and writes the data into the new file");
}

/* Its values are pointers to pieces of memory, of PIECE bytes for all we know: variable length, in whatever it hides. */
bool rechunk_is_scattered(hid_t type)
{
    if (H5Tdetect_class(type, H5T_VLEN) > 0)
        return true;
    switch (H5Tget_class(type)) {
    case H5T_STRING: return H5Tis_variable_str(type) > 0;
    case H5T_COMPOUND:
        for (int i = H5Tget_nmembers(type); i-- > 0;) {
            hid_t member = H5Tget_member_type(type, (unsigned)i);
            bool is = rechunk_is_scattered(member);
            H5Tclose(member);
            if (is)
                return true;
        }
        return false;
    case H5T_ARRAY: {
        hid_t super = H5Tget_super(type);
        bool is = rechunk_is_scattered(super);
        H5Tclose(super);
        return is;
    }
    default: return false;
    }
}

/* ---- what it will be ---- */

static hsize_t rows_of_chunk(const struct rechunk *r, const struct shape *s)
{
    uint64_t row = s->row_elements * s->element, rows = r->q.rows < most_chunk ? r->q.rows : most_chunk;
    if (rows * row < LEAST_CHUNK)
        rows = (LEAST_CHUNK + row - 1) / row;
    if (s->most[0] != H5S_UNLIMITED && rows > s->most[0])
        rows = s->most[0];
    return rows;
}

static bool find_shape(struct rechunk *r, hid_t space, hid_t type, hid_t list, struct shape *s, const char *path)
{
    hsize_t old[H5S_MAX_RANK];
    bool has_chunks = H5Pget_layout(list) == H5D_CHUNKED;
    s->ndim = H5Sget_simple_extent_type(space) == H5S_SIMPLE ? H5Sget_simple_extent_dims(space, s->size, s->most) : 0;
    s->element = H5Tget_size(type);
    s->row_elements = 1;
    if (s->ndim < 1 || !s->element || s->most[0] == 0)
        return true;
    if (has_chunks && H5Pget_chunk(list, H5S_MAX_RANK, old) != s->ndim)
        return refused(r, path, "has chunks of another rank", "");
    s->old_rows = has_chunks ? old[0] : 0;
    for (int i = 1; i < s->ndim; i++) {
        s->chunk[i] = s->size[i] ? s->size[i] : has_chunks ? old[i] : 1;
        if (s->chunk[i] > most_chunk || s->row_elements > most_chunk / s->chunk[i])
            return refused(r, path, "has rows of more than 1 GiB", "a chunk is at least one row, and at most 1 GiB");
        s->row_elements *= s->chunk[i];
    }
    if (s->row_elements > most_chunk / s->element)
        return refused(r, path, "has rows of more than 1 GiB", "a chunk is at least one row, and at most 1 GiB");
    uint64_t row = s->row_elements * s->element, all = s->size[0] * row;
    if (rows_of_chunk(r, s) * row > most_chunk)
        return refused(r, path, "would have chunks of more than 1 GiB", "take fewer rows");
    bool can_grow = memcmp(s->size, s->most, (size_t)s->ndim * sizeof(s->size[0])) != 0;
    s->chunk[0] = !has_chunks && !can_grow && all <= SMALL ? 0 : rows_of_chunk(r, s);
    return true;
}

/* ---- filters ---- */

/* 1: shuffle and deflate, or deflate, or nothing: done here. 0: others, which libhdf5 has. Negative: which it has not. */
static int look_at_filters(hid_t list, bool *shuffles, int *level)
{
    int n = H5Pget_nfilters(list);
    *shuffles = false;
    *level = 0;
    bool is_ours = n <= 2;
    for (int i = 0; i < n; i++) {
        unsigned flags, about, value[8] = {0};
        size_t values = 8;
        char name[64];
        H5Z_filter_t f = H5Pget_filter2(list, (unsigned)i, &flags, &values, value, sizeof(name), name, &about);
        if (f < 0 || H5Zfilter_avail(f) <= 0 || H5Zget_filter_info(f, &about) < 0 || !(about & H5Z_FILTER_CONFIG_DECODE_ENABLED))
            return -1;
        if (f == H5Z_FILTER_SHUFFLE && i == 0)
            *shuffles = true;
        else if (f == H5Z_FILTER_DEFLATE && i == n - 1 && values >= 1 && value[0] >= 1 && value[0] <= 9)
            *level = (int)value[0];
        else
            is_ours = false;
    }
    return is_ours && (*level || !*shuffles);
}

static bool set_filters(struct rechunk *r, hid_t type, hid_t list, const char *path)
{
    bool shuffles;
    int level;
    if (look_at_filters(list, &shuffles, &level) < 0)
        return refused(r, path, "is compressed by a filter that libhdf5 does not have",
                       "write it again with the program that made it, or with h5py and hdf5plugin: compression=\"gzip\"");
    if (r->q.filters == HDF5_FILTERS_KEPT)
        return true;
    if (H5Pget_nfilters(list) > 0 && H5Premove_filter(list, H5Z_FILTER_ALL) < 0)
        return rechunk_failed(r, "HDF5 cannot change the filters of", path);
    if (r->q.filters == HDF5_FILTERS_GZIP && !rechunk_is_scattered(type) && (H5Pset_shuffle(list) < 0 || H5Pset_deflate(list, LEVEL) < 0))
        return rechunk_failed(r, "HDF5 cannot change the filters of", path);
    return true;
}

/* The list of the source, changed: fill value, creation order of attributes and the like stay. */
static bool set_layout(struct rechunk *r, hid_t type, hid_t list, const struct shape *s, const char *path)
{
    if (H5Pset_obj_track_times(list, 0) < 0)
        return rechunk_failed(r, "HDF5 cannot make", path);
    if (s->chunk[0] && (H5Pset_chunk(list, s->ndim, s->chunk) < 0 || H5Pset_alloc_time(list, H5D_ALLOC_TIME_INCR) < 0))
        return rechunk_failed(r, "HDF5 cannot make chunks for", path);
    return s->chunk[0] ? set_filters(r, type, list, path) : true;
}

/* ---- data ---- */

struct copy {
    struct rechunk *r;
    const char *path;
    const struct shape *s;
    hid_t from, to, type, space;
    bool is_direct, shuffles, is_unfilled; /* unfilled: what is read where no chunk is, is anything */
    int level;
    uint8_t *bytes;
    uint8_t *fill; /* one element, what is read where no chunk is */
    uint64_t band; /* rows read at once: whole chunks */
};

/* Of `rows` rows from `first` on. */
static bool move_band(struct copy *c, hsize_t first, hsize_t rows)
{
    hsize_t start[H5S_MAX_RANK] = {first}, count[H5S_MAX_RANK];
    memcpy(count, c->s->size, sizeof(count));
    count[0] = rows;
    hid_t memory = H5Screate_simple(c->s->ndim, count, NULL);
    bool is_done = memory >= 0 && H5Sselect_hyperslab(c->space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0;
    if (!is_done || H5Dread(c->from, c->type, memory, c->space, H5P_DEFAULT, c->bytes) < 0)
        return rechunk_failed(c->r, "HDF5 cannot read", c->path);
    is_done = c->is_direct || H5Dwrite(c->to, c->type, memory, c->space, H5P_DEFAULT, c->bytes) >= 0;
    if (!is_done)
        rechunk_failed(c->r, "HDF5 cannot write", c->path);
    if (rechunk_is_scattered(c->type))
        H5Dvlen_reclaim(c->type, memory, H5P_DEFAULT, c->bytes);
    H5Sclose(memory);
    return is_done;
}

static bool write_chunk(struct copy *c, hsize_t row, const void *bytes, size_t length)
{
    hsize_t at[H5S_MAX_RANK] = {row};
    helper_beat(c->r->bytes, c->r->bytes_total);
    if (!length) /* nothing but the fill value, which is read where no chunk is */
        return true;
    return H5Dwrite_chunk(c->to, H5P_DEFAULT, 0, at, length, bytes) >= 0 || rechunk_failed(c->r, "HDF5 cannot write", c->path);
}

static bool is_all_fill(const struct copy *c, const uint8_t *chunk, size_t n)
{
    size_t element = c->s->element;
    return !c->is_unfilled && memcmp(chunk, c->fill, element) == 0 && memcmp(chunk, chunk + element, n - element) == 0;
}

/* Hands the band's chunks over as they go into the file. */
static bool write_direct(struct copy *c, hsize_t first, hsize_t rows)
{
    hsize_t step = c->s->chunk[0];
    uint64_t chunks = (rows + step - 1) / step;
    size_t chunk_bytes = step * c->s->row_elements * c->s->element;
    uint8_t **out = calloc(chunks, sizeof(*out));
    size_t *length = calloc(chunks, sizeof(*length));
    bool is_done = out && length;
    for (uint64_t i = 0; is_done && i < chunks; i++)
        length[i] = is_all_fill(c, c->bytes + i * chunk_bytes, chunk_bytes) ? 0 : chunk_bytes;
    if (is_done && c->level)
        is_done = rechunk_deflate(c->bytes, chunk_bytes, chunks, c->s->element, c->shuffles, c->level, c->r->q.threads, out, length);
    if (!is_done)
        error_set(&c->r->e, FB_E_NOMEM, "pack", "no memory to compress \"%s\"", c->path);
    for (uint64_t i = 0; is_done && i < chunks; i++)
        is_done = write_chunk(c, first + i * step, c->level ? out[i] : c->bytes + i * chunk_bytes, length[i]);
    for (uint64_t i = 0; out && i < chunks; i++)
        free(out[i]);
    free(length);
    free(out);
    return is_done;
}

/* What lies behind the last row in the last chunk is the fill value, should the dataset ever grow. */
static void fill_rest(struct copy *c, hsize_t rows)
{
    hsize_t step = c->s->chunk[0];
    uint64_t from = rows * c->s->row_elements, to = round_up(rows, step) * c->s->row_elements;
    uint8_t *at = c->bytes + from * c->s->element;
    for (uint64_t i = from; i < to; i++, at += c->s->element)
        memcpy(at, c->fill, c->s->element);
}

/* Zeros unless it was chosen. */
static bool find_fill(struct copy *c, hid_t list)
{
    H5D_fill_value_t kind;
    H5D_fill_time_t when;
    c->is_unfilled = H5Pget_fill_time(list, &when) < 0 || when == H5D_FILL_TIME_NEVER;
    c->fill = calloc(1, c->s->element);
    if (!c->fill || H5Pfill_value_defined(list, &kind) < 0)
        return rechunk_failed(c->r, "HDF5 cannot read the fill value of", c->path);
    return kind != H5D_FILL_VALUE_USER_DEFINED || H5Pget_fill_value(list, c->type, c->fill) >= 0 ||
           rechunk_failed(c->r, "HDF5 cannot read the fill value of", c->path);
}

static bool copy_bands(struct copy *c)
{
    for (hsize_t row = 0; row < c->s->size[0]; row += c->band) {
        hsize_t rows = c->s->size[0] - row < c->band ? c->s->size[0] - row : c->band;
        if (!move_band(c, row, rows))
            return false;
        if (c->is_direct)
            fill_rest(c, rows);
        if (c->is_direct && !write_direct(c, row, rows))
            return false;
        rechunk_tell(c->r, rows * c->s->row_elements * c->s->element);
    }
    return true;
}

/* Whole chunks of the target; of the source, too, when that fits. */
static uint64_t rows_of_band(const struct shape *s, bool is_in_pieces)
{
    uint64_t row = s->row_elements * (is_in_pieces ? PIECE : s->element);
    uint64_t unit = s->chunk[0] ? s->chunk[0] : 1, fits = band_bytes / row, rows = unit;
    if (s->old_rows && s->old_rows <= fits)
        rows = round_up(s->old_rows, unit);
    if (rows < fits)
        rows = fits / rows * rows;
    return rows > round_up(s->size[0], unit) ? round_up(s->size[0], unit) : rows;
}

static bool copy_rows(struct copy *c, hid_t list)
{
    uint64_t rows = c->band = rows_of_band(c->s, rechunk_is_scattered(c->type));
    if (H5Sget_simple_extent_npoints(c->space) <= 0)
        return true;
    c->bytes = calloc(rows * c->s->row_elements, c->s->element);
    if (!c->bytes)
        return error_set(&c->r->e, FB_E_NOMEM, "pack", "no memory for the rows of \"%s\"", c->path) == 0;
    bool is_done = (!c->is_direct || find_fill(c, list)) && copy_bands(c);
    free(c->fill);
    free(c->bytes);
    return is_done;
}

/* Scalars, and what has no dimension to speak of. */
static bool copy_whole(struct copy *c)
{
    hssize_t n = H5Sget_simple_extent_npoints(c->space);
    if (n <= 0)
        return true;
    c->bytes = (uint64_t)n < most_chunk / c->s->element ? calloc((size_t)n, c->s->element) : NULL;
    if (!c->bytes)
        return refused(c->r, c->path, "does not fit into memory", "");
    bool is_done = H5Dread(c->from, c->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, c->bytes) >= 0 &&
                   H5Dwrite(c->to, c->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, c->bytes) >= 0;
    if (!is_done)
        rechunk_failed(c->r, "HDF5 cannot copy", c->path);
    if (rechunk_is_scattered(c->type))
        H5Dvlen_reclaim(c->type, c->space, H5P_DEFAULT, c->bytes);
    free(c->bytes);
    return is_done;
}

/* ---- the dataset ---- */

/* The cache holds a band of the source's chunks, so that none is inflated twice. */
static hid_t reopen(const struct rechunk *r, const char *path, const struct shape *s)
{
    hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
    uint64_t cache = s->old_rows * s->row_elements * s->element + (1 << 20);
    H5Pset_chunk_cache(access, 100003, cache < most_cache ? cache : most_cache, 1.0);
    hid_t d = H5Dopen2(r->from, path, access);
    H5Pclose(access);
    return d;
}

static bool copy_data(struct rechunk *r, struct copy *c, hid_t list)
{
    const struct shape *s = c->s;
    c->is_direct = s->chunk[0] && !rechunk_is_scattered(c->type) && look_at_filters(list, &c->shuffles, &c->level) == 1;
    r->datasets++;
    r->rechunked += s->chunk[0] > 0;
    if (H5Tdetect_class(c->type, H5T_REFERENCE) > 0)
        return true; /* in the second walk */
    return s->chunk[0] || s->ndim > 0 ? copy_rows(c, list) : copy_whole(c);
}

static bool make(struct rechunk *r, hid_t type, hid_t space, hid_t list, const struct shape *s, const char *path)
{
    hid_t to = H5Dcreate2(r->to, path, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    hid_t from = to < 0 ? -1 : reopen(r, path, s);
    struct copy c = {.r = r, .path = path, .s = s, .from = from, .to = to, .type = type, .space = space};
    bool is_done = from >= 0 ? copy_data(r, &c, list) : rechunk_failed(r, to < 0 ? "HDF5 cannot make" : "HDF5 cannot open", path);
    H5Dclose(from);
    H5Dclose(to);
    return is_done;
}

bool rechunk_dataset(struct rechunk *r, hid_t from, const char *path)
{
    struct shape s = {0};
    hid_t named = H5Dget_type(from), type = H5Tcopy(named), space = H5Dget_space(from), list = H5Dget_create_plist(from);
    const char *elsewhere = list < 0 ? NULL : data_elsewhere(list);
    bool is_done = false;
    if (type < 0 || space < 0 || list < 0)
        rechunk_failed(r, "HDF5 cannot open", path);
    else
        is_done = !elsewhere || r->q.allows_external || refused_elsewhere(r, path, elsewhere);
    if (is_done && elsewhere) { /* it becomes one of its own */
        H5Pclose(list);
        list = H5Pcreate(H5P_DATASET_CREATE);
    }
    is_done = is_done && find_shape(r, space, type, list, &s, path) && set_layout(r, type, list, &s, path) &&
              make(r, type, space, list, &s, path);
    H5Pclose(list);
    H5Sclose(space);
    H5Tclose(type);
    H5Tclose(named);
    return is_done;
}
