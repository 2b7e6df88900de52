/* Rows that only libhdf5 can read: read by it, as numbers of the dataset's form. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "hdf5/helper.h"
#include "model/hdf5/hdf5_protocol.h"

enum { MAX_RAGGED = 1 << 20 }; /* elements looked at to find the longest */

struct reading {
    const char *name;
    hid_t id, type, space, creation, block; /* block: the rows in memory */
    struct form form;
    uint64_t elements; /* wanted */
};

static int unsupported(struct fb_error *e, const struct reading *r, const char *why)
{
    return error_set(e, FB_E_UNSUPPORTED, "decode", "the array \"%s\" cannot be read: %s", r->name, why);
}

static int check_filters(const struct reading *r, struct fb_error *e)
{
    for (int i = 0; i < H5Pget_nfilters(r->creation); i++) {
        unsigned flags;
        size_t n = 0;
        char name[64] = "";
        H5Z_filter_t id = H5Pget_filter2(r->creation, (unsigned)i, &flags, &n, NULL, sizeof(name), name, NULL);
        if (id < 0 || H5Zfilter_avail(id) > 0)
            continue;
        error_set(e, FB_E_UNSUPPORTED, "decode", "the array \"%s\" is stored with the HDF5 filter %d (%.60s), which is not read here",
                  r->name, (int)id, name[0] ? name : "no name");
        error_remedy(e, "rewrite it once with h5py and the Python package hdf5plugin, with gzip or without a filter");
        return FB_E_UNSUPPORTED;
    }
    return 0;
}

static int check(const struct reading *r, bool allows_external, struct fb_error *e)
{
    const char *elsewhere = data_elsewhere(r->creation);
    if (elsewhere && !allows_external) {
        unsupported(e, r, elsewhere);
        error_remedy(e, "allow_external=True follows it; do so only for files you trust: it can read any file that you can");
        return FB_E_UNSUPPORTED;
    }
    if (!r->form.is_plain && r->form.memory < 0)
        return unsupported(e, r, r->form.why);
    if (H5Sget_simple_extent_ndims(r->space) + (r->form.is_ragged ? 1 : r->form.ndim) > ARRAY_MAX_DIMS)
        return unsupported(e, r, "it has more dimensions than 8");
    return check_filters(r, e);
}

/* Selects the rows in the file and makes the space they have in memory. */
static int choose(struct reading *r, uint64_t first, uint64_t rows)
{
    hsize_t shape[H5S_MAX_RANK] = {1}, start[H5S_MAX_RANK] = {0};
    int ndim = H5Sget_simple_extent_ndims(r->space);
    if (ndim < 0 || H5Sget_simple_extent_dims(r->space, shape, NULL) < 0 || first > shape[0] || rows > shape[0] - first)
        return -1;
    r->elements = rows;
    for (int d = 1; d < ndim; d++)
        if (__builtin_mul_overflow(r->elements, shape[d], &r->elements))
            return -1;
    if (ndim == 0)
        return (r->block = H5Scopy(r->space)) < 0 ? -1 : 0;
    start[0] = first;
    shape[0] = rows;
    r->block = H5Screate_simple(ndim, shape, NULL);
    return r->block < 0 || H5Sselect_hyperslab(r->space, H5S_SELECT_SET, start, NULL, shape, NULL) < 0 ? -1 : 0;
}

static void swap(uint8_t *bytes, uint64_t n, size_t size)
{
    for (uint64_t at = 0; at + size <= n; at += size)
        for (size_t i = 0; i < size / 2; i++) {
            uint8_t b = bytes[at + i];
            bytes[at + i] = bytes[at + size - 1 - i];
            bytes[at + size - 1 - i] = b;
        }
}

static int read_ragged(const struct reading *r, uint64_t bytes, uint8_t *out)
{
    size_t number = fb_dtype_size(r->form.dtype);
    hvl_t *element = r->elements <= MAX_RAGGED ? calloc(r->elements, sizeof(*element)) : NULL;
    if (!element)
        return -1;
    if (H5Dread(r->id, r->form.memory, r->block, r->space, H5P_DEFAULT, element) < 0) {
        free(element);
        return -1;
    }
    uint64_t room = bytes / r->elements;
    memset(out, 0, bytes);
    for (uint64_t i = 0; i < r->elements; i++) {
        uint64_t length = (uint64_t)element[i].len < room / number ? element[i].len * number : room;
        if (element[i].p)
            memcpy(out + i * room, element[i].p, length);
    }
    H5Dvlen_reclaim(r->form.memory, r->block, H5P_DEFAULT, element);
    free(element);
    return 0;
}

static int read_block(const struct reading *r, uint64_t bytes, uint8_t *out)
{
    if (r->elements == 0)
        return 0;
    if (r->form.is_ragged)
        return bytes % r->elements ? -1 : read_ragged(r, bytes, out);
    hid_t memory = r->form.is_plain ? r->type : r->form.memory;
    if (bytes / r->elements != H5Tget_size(memory) || bytes % r->elements)
        return -1;
    if (H5Dread(r->id, memory, r->block, r->space, H5P_DEFAULT, out) < 0)
        return -1;
    if (r->form.is_plain && r->form.code == ARRAY_SWAPPED)
        swap(out, bytes, fb_dtype_size(r->form.dtype));
    return 0;
}

static int open_reading(hid_t file, const char *name, bool allows_external, struct reading *r, struct fb_error *e)
{
    hid_t access = walk_access(allows_external);
    *r = (struct reading){.name = name, .form.memory = H5I_INVALID_HID};
    r->type = r->space = r->creation = r->block = H5I_INVALID_HID;
    r->id = H5Oopen(file, name, access);
    int rc = r->id < 0 ? hdf5_failed(e, "HDF5 cannot open", name) : 0;
    H5Pclose(access);
    FB_TRY(rc);
    if (H5Iget_type(r->id) != H5I_DATASET)
        return error_set(e, FB_E_NOT_FOUND, "decode", "there is no array \"%s\" in it", name);
    r->type = H5Dget_type(r->id);
    r->space = H5Dget_space(r->id);
    r->creation = H5Dget_create_plist(r->id);
    if (r->type < 0 || r->space < 0 || r->creation < 0)
        return hdf5_failed(e, "HDF5 cannot read the structure of", name);
    form_of(r->type, &r->form);
    return check(r, allows_external, e);
}

static void close_id(hid_t id)
{
    if (id >= 0)
        H5Idec_ref(id);
}

static void close_reading(struct reading *r)
{
    form_close(&r->form);
    close_id(r->block);
    close_id(r->creation);
    close_id(r->space);
    close_id(r->type);
    close_id(r->id);
}

int read_rows(hid_t file, const char *name, bool allows_external, uint64_t first, uint64_t rows, uint64_t bytes, void **out,
              struct fb_error *e)
{
    struct reading r;
    int rc = open_reading(file, name, allows_external, &r, e);
    *out = NULL;
    if (rc == 0 && (bytes > HDF5_MAX_ROWS || !(*out = calloc(1, bytes + 1))))
        rc = error_set(e, FB_E_NOMEM, "decode", "no memory for %llu bytes of rows", (unsigned long long)bytes);
    if (rc == 0 && (choose(&r, first, rows) < 0 || read_block(&r, bytes, *out) < 0))
        rc = hdf5_failed(e, "HDF5 cannot read rows of", name);
    close_reading(&r);
    return rc;
}

int64_t longest_element(hid_t dataset, const struct form *f)
{
    hid_t space = H5Dget_space(dataset);
    hssize_t count = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    hvl_t *element = count >= 0 && count <= MAX_RAGGED ? calloc((size_t)count + 1, sizeof(*element)) : NULL;
    int64_t longest = -1;
    if (element && (count == 0 || H5Dread(dataset, f->memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, element) >= 0)) {
        longest = 0;
        for (hssize_t i = 0; i < count; i++)
            longest = (int64_t)element[i].len > longest ? (int64_t)element[i].len : longest;
        if (count > 0)
            H5Dvlen_reclaim(f->memory, space, H5P_DEFAULT, element);
    }
    free(element);
    close_id(space);
    return longest;
}
