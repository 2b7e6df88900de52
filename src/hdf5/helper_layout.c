/* One dataset -> its layout. What cannot be read from the file by offsets is opaque, with the reason in words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hdf5/helper.h"

enum { MAX_RANK = H5S_MAX_RANK };

/* What libhdf5 says about a dataset, open while it is described. */
struct dataset {
    hid_t id, type, space, creation;
    struct form form;
    int ndim;
    hsize_t shape[MAX_RANK];
    uint64_t count; /* of elements */
};

static void opaque(struct array_layout *a, const char *why)
{
    a->storage = ARRAY_OPAQUE;
    a->code = ARRAY_PLAIN;
    a->stored_bytes = (uint32_t)fb_dtype_size(a->dtype);
    a->filter_count = 0;
    if (!a->why_opaque[0])
        snprintf(a->why_opaque, sizeof(a->why_opaque), "%s", why);
}

static int open_dataset(hid_t id, struct dataset *s)
{
    *s = (struct dataset){.id = id, .type = H5Dget_type(id), .space = H5Dget_space(id), .creation = H5Dget_create_plist(id)};
    s->form.memory = H5I_INVALID_HID;
    if (s->type < 0 || s->space < 0 || s->creation < 0)
        return -1;
    form_of(s->type, &s->form);
    H5S_class_t class = H5Sget_simple_extent_type(s->space);
    s->ndim = class == H5S_NULL ? 1 : H5Sget_simple_extent_dims(s->space, s->shape, NULL); /* a null space: an empty row */
    if (s->ndim < 0)
        return -1;
    s->count = 1;
    for (int d = 0; d < s->ndim; d++)
        if (__builtin_mul_overflow(s->count, s->shape[d], &s->count))
            return -1;
    return 0;
}

static void close_dataset(struct dataset *s)
{
    form_close(&s->form);
    H5Pclose(s->creation);
    H5Sclose(s->space);
    H5Tclose(s->type);
}

/* ---- filters and fill value ---- */

static bool is_ours(uint32_t id)
{
    return id == ARRAY_DEFLATE || id == ARRAY_SHUFFLE || id == ARRAY_FLETCHER32 || id == ARRAY_LZF || id == ARRAY_LZ4 || id == ARRAY_ZSTD;
}

static void name_filter(struct array_layout *a, H5Z_filter_t id, const char *name)
{
    char safe[48];
    size_t n = 0;
    for (; name[n] && n < sizeof(safe) - 1; n++)
        safe[n] = name[n] >= ' ' && name[n] < 127 ? name[n] : '?';
    safe[n] = 0;
    snprintf(a->why_opaque, sizeof(a->why_opaque), "the HDF5 filter %d%s%s, %s", (int)id, n ? " " : "", safe,
             H5Zfilter_avail(id) > 0 ? "undone by libhdf5" : "which the Python package hdf5plugin may have");
}

static int take_filters(struct array_layout *a, const struct dataset *s)
{
    int count = H5Pget_nfilters(s->creation);
    if (count < 0)
        return -1;
    if (count > ARRAY_MAX_FILTERS)
        opaque(a, "more filters than 8");
    for (int i = 0; i < count && i < ARRAY_MAX_FILTERS; i++) {
        unsigned flags, values[16] = {0};
        size_t n = 16;
        char name[64] = "";
        H5Z_filter_t id = H5Pget_filter2(s->creation, (unsigned)i, &flags, &n, values, sizeof(name), name, NULL);
        if (id < 0)
            return -1;
        name[sizeof(name) - 1] = 0;
        if (!is_ours((uint32_t)id)) {
            name_filter(a, id, name);
            opaque(a, "");
            return 0;
        }
        uint32_t element = n && values[0] ? values[0] : (uint32_t)H5Tget_size(s->type);
        a->filter[i] = (struct array_filter){(uint32_t)id, id == ARRAY_SHUFFLE ? element : 0};
    }
    a->filter_count = a->storage == ARRAY_OPAQUE ? 0 : count;
    return 0;
}

/* Elements that are arrays have a value for each of their numbers; only one and the same can be told. Where a file is never to be filled,
 * libhdf5 leaves the reader's memory as it is, which is zeros here as in h5py. */
static int take_fill(struct array_layout *a, const struct dataset *s)
{
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    H5D_fill_time_t when;
    size_t size = H5Tget_size(s->type), number = a->stored_bytes;
    if (H5Pfill_value_defined(s->creation, &defined) < 0 || H5Pget_fill_time(s->creation, &when) < 0 || size == 0)
        return -1;
    if (defined == H5D_FILL_VALUE_UNDEFINED || when == H5D_FILL_TIME_NEVER)
        return 0;
    uint8_t *value = calloc(1, size);
    if (!value || H5Pget_fill_value(s->creation, s->type, value) < 0) {
        free(value);
        return -1;
    }
    for (size_t at = number; at + number <= size; at += number)
        if (memcmp(value, value + at, number) != 0)
            opaque(a, "a fill value that differs inside an element");
    memcpy(a->fill, value, number);
    free(value);
    return 0;
}

/* ---- storage ---- */

/* Nothing was ever written: all fill value, told as one chunk that is missing. */
static int all_fill(struct array_layout *a, void **owned)
{
    struct array_chunk *c = malloc(sizeof(*c));
    if (!c)
        return -1;
    *c = (struct array_chunk){.offset = ARRAY_NO_CHUNK};
    a->storage = ARRAY_CHUNKED;
    memcpy(a->chunk_shape, a->shape, sizeof(a->shape));
    a->chunk = *owned = c;
    a->chunk_count = 1;
    a->filter_count = 0;
    return 0;
}

static int take_compact(struct array_layout *a, const struct dataset *s, void **owned)
{
    size_t room = H5Tget_size(s->type);
    if (!room || __builtin_mul_overflow(s->count, room, &room)) /* what H5Dread writes, whatever the layout says */
        return -1;
    void *bytes = *owned = calloc(1, room > a->bytes ? room : a->bytes);
    a->storage = ARRAY_INLINE;
    a->inline_data = bytes;
    return !bytes || H5Dread(s->id, s->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) < 0 ? -1 : 0;
}

static int take_contiguous(struct array_layout *a, const struct dataset *s, void **owned)
{
    if (H5Dget_storage_size(s->id) == 0) /* H5Dget_offset cannot tell: it adds the user block to "nowhere", too */
        return all_fill(a, owned);
    a->storage = ARRAY_CONTIGUOUS;
    a->offset = H5Dget_offset(s->id);
    return 0;
}

/* Files of the newest format may leave the chunks at the edges unfiltered; no mask says so. */
static bool is_left_unfiltered(const struct dataset *s, const hsize_t *at, const hsize_t *side, unsigned options)
{
    if (!(options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS))
        return false;
    for (int d = 0; d < s->ndim; d++)
        if (s->shape[d] - at[d] < side[d])
            return true;
    return false;
}

static bool next_chunk(const struct dataset *s, hsize_t *at, const hsize_t *side)
{
    for (int d = s->ndim - 1; d >= 0; at[d--] = 0)
        if (s->shape[d] - at[d] > side[d]) {
            at[d] += side[d];
            return true;
        }
    return false;
}

/* A mask may name filters that are not there ("none of them": all bits); libhdf5 does not look at those bits. */
static int find_chunks(struct array_layout *a, const struct dataset *s, const hsize_t *side, struct array_chunk *table)
{
    hsize_t at[MAX_RANK] = {0};
    unsigned options = 0;
    uint32_t all = (1u << a->filter_count) - 1;
    uint64_t i = 0;
    H5Pget_chunk_opts(s->creation, &options);
    do {
        if (i == a->chunk_count || file_find_chunk(s->id, at, &table[i]) < 0)
            return -1;
        table[i].skips &= all;
        if (table[i].offset != ARRAY_NO_CHUNK && is_left_unfiltered(s, at, side, options))
            table[i].skips = all;
        i++;
    } while (next_chunk(s, at, side));
    return i == a->chunk_count ? 0 : -1;
}

static uint64_t count_chunks(const struct dataset *s, const hsize_t *side)
{
    uint64_t count = 1;
    for (int d = 0; d < s->ndim; d++)
        if (!side[d] || __builtin_mul_overflow(count, s->shape[d] / side[d] + (s->shape[d] % side[d] != 0), &count))
            return UINT64_MAX;
    return count;
}

static int take_chunked(struct description *all, struct array_layout *a, const struct dataset *s, void **owned)
{
    hsize_t side[MAX_RANK];
    if (H5Pget_chunk(s->creation, MAX_RANK, side) != s->ndim)
        return -1;
    if (H5Dget_storage_size(s->id) == 0)
        return all_fill(a, owned);
    a->storage = ARRAY_CHUNKED;
    if (take_filters(a, s) < 0)
        return -1;
    a->chunk_count = count_chunks(s, side);
    if (a->chunk_count > array_most_chunks(all->file.object_size) - all->chunks)
        opaque(a, "more chunks than the file can hold, most of them missing");
    if (a->storage == ARRAY_OPAQUE)
        return 0;
    for (int d = 0; d < a->ndim; d++)
        a->chunk_shape[d] = d < s->ndim ? side[d] : a->shape[d];
    struct array_chunk *table = *owned = calloc(a->chunk_count, sizeof(*table));
    a->chunk = table;
    all->chunks += a->chunk_count;
    return !table || find_chunks(a, s, side, table) < 0 ? -1 : 0;
}

static int take_storage(struct description *all, struct array_layout *a, const struct dataset *s, void **owned)
{
    if (s->count == 0) { /* no bytes anywhere: contiguous at 0 */
        a->storage = ARRAY_CONTIGUOUS;
        return 0;
    }
    if (take_fill(a, s) < 0)
        return -1;
    if (a->storage == ARRAY_OPAQUE)
        return 0;
    switch (H5Pget_layout(s->creation)) {
    case H5D_COMPACT: return take_compact(a, s, owned);
    case H5D_CONTIGUOUS: return take_contiguous(a, s, owned);
    case H5D_CHUNKED: return take_chunked(all, a, s, owned);
    default: return -1;
    }
}

/* ---- shape and type ---- */

static int take_shape(struct array_layout *a, const struct dataset *s, int64_t longest)
{
    struct form f = s->form;
    if (f.is_ragged) {
        f.ndim = 1;
        f.shape[0] = longest > 0 ? (uint64_t)longest : 0;
    }
    if (s->ndim + f.ndim > ARRAY_MAX_DIMS)
        return -1;
    a->ndim = s->ndim + f.ndim;
    for (int d = 0; d < s->ndim; d++)
        a->shape[d] = s->shape[d];
    for (int d = 0; d < f.ndim; d++)
        a->shape[s->ndim + d] = f.shape[d];
    return 0;
}

const char *data_elsewhere(hid_t creation)
{
    if (H5Pget_layout(creation) == H5D_VIRTUAL)
        return "a virtual dataset made of other ones";
    return H5Pget_external_count(creation) > 0 ? "data in another file" : NULL;
}

static int take_all(struct description *all, struct array_layout *a, const struct dataset *s, bool is_elsewhere, void **owned)
{
    const char *elsewhere = is_elsewhere ? "a link to another file" : data_elsewhere(s->creation);
    bool may_read = !elsewhere || all->allows_external;
    int64_t longest = s->form.is_ragged && may_read ? longest_element(s->id, &s->form) : 0;
    a->dtype = s->form.dtype;
    a->code = s->form.code;
    a->stored_bytes = (uint32_t)fb_dtype_size(a->dtype);
    if (take_shape(a, s, longest) < 0) {
        opaque(a, "more dimensions than 8");
        return 0;
    }
    a->bytes = s->count;
    bool is_too_large = __builtin_mul_overflow(a->bytes, a->stored_bytes, &a->bytes);
    for (int d = s->ndim; d < a->ndim; d++)
        is_too_large |= __builtin_mul_overflow(a->bytes, a->shape[d], &a->bytes);
    if (is_too_large || a->bytes > INT64_MAX)
        return -1;
    if (longest < 0)
        opaque(a, "variable-length numbers, too many to find the longest");
    if (elsewhere) {
        snprintf(a->why_opaque, sizeof(a->why_opaque), "%s%s", elsewhere, may_read ? "" : ": refused without allow_external");
        opaque(a, "");
    }
    if (!s->form.is_plain)
        opaque(a, s->form.why);
    return a->storage == ARRAY_OPAQUE ? 0 : take_storage(all, a, s, owned);
}

int describe_dataset(struct description *all, hid_t id, const char *name, bool is_elsewhere, struct fb_error *e)
{
    struct dataset s;
    struct array_layout *a = &all->array[all->file.count];
    memset(a, 0, sizeof(*a));
    snprintf(a->name, sizeof(a->name), "%s", name);
    int rc = open_dataset(id, &s);
    if (rc == 0)
        rc = take_all(all, a, &s, is_elsewhere, &all->owned[all->file.count]);
    if (rc < 0)
        rc = hdf5_failed(e, "HDF5 cannot read the structure of", name); /* before any other call clears what it has to say */
    close_dataset(&s);
    all->file.count++;
    return rc;
}

void describe_external(struct description *all, const char *name)
{
    struct array_layout *a = &all->array[all->file.count++];
    memset(a, 0, sizeof(*a));
    snprintf(a->name, sizeof(a->name), "%s", name);
    a->dtype = FB_UINT8;
    opaque(a, "a link to another file: refused without allow_external");
}
