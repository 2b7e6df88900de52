#include "hdf5/helper_adopt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "hdf5/helper.h"

static bool take(void *out, size_t n)
{
    return file_read_all(STDIN_FILENO, out, n) == n;
}

static bool short_input(struct fb_error *e)
{
    error_set(e, FB_E_DATA, "build", "the description of the file is incomplete");
    return false;
}

/* ---- types ---- */

static hid_t number_type(enum fb_dtype t)
{
    switch (t) {
    case FB_UINT8: return H5Tcopy(H5T_STD_U8LE);
    case FB_INT8: return H5Tcopy(H5T_STD_I8LE);
    case FB_UINT16: return H5Tcopy(H5T_STD_U16LE);
    case FB_INT16: return H5Tcopy(H5T_STD_I16LE);
    case FB_UINT32: return H5Tcopy(H5T_STD_U32LE);
    case FB_INT32: return H5Tcopy(H5T_STD_I32LE);
    case FB_UINT64: return H5Tcopy(H5T_STD_U64LE);
    case FB_INT64: return H5Tcopy(H5T_STD_I64LE);
    case FB_FLOAT32: return H5Tcopy(H5T_IEEE_F32LE);
    case FB_FLOAT64: return H5Tcopy(H5T_IEEE_F64LE);
    default: return H5I_INVALID_HID;
    }
}

/* IEEE 754 binary16, as h5py writes numpy's float16. */
static hid_t half_type(void)
{
    hid_t t = H5Tcopy(H5T_IEEE_F32LE);
    if (t < 0 || H5Tset_fields(t, 15, 10, 5, 0, 10) < 0 || H5Tset_size(t, 2) < 0 || H5Tset_ebias(t, 15) < 0)
        return H5I_INVALID_HID;
    return t;
}

/* numpy's bool, as h5py has it. */
static hid_t bool_type(void)
{
    hid_t t = H5Tenum_create(H5T_STD_I8LE);
    int8_t no = 0, yes = 1;
    return t >= 0 && H5Tenum_insert(t, "FALSE", &no) >= 0 && H5Tenum_insert(t, "TRUE", &yes) >= 0 ? t : H5I_INVALID_HID;
}

static hid_t text_type(size_t bytes)
{
    hid_t t = H5Tcopy(H5T_C_S1);
    H5T_str_t end = bytes == H5T_VARIABLE ? H5T_STR_NULLTERM : H5T_STR_NULLPAD;
    if (t < 0 || H5Tset_size(t, bytes) < 0 || H5Tset_cset(t, H5T_CSET_UTF8) < 0 || H5Tset_strpad(t, end) < 0)
        return H5I_INVALID_HID;
    return t;
}

static hid_t type_of(const struct hdf5_adopt_dataset *d)
{
    if (d->dtype == 0)
        return text_type(d->element_bytes);
    return d->dtype == FB_FLOAT16 ? half_type() : d->dtype == FB_BOOL ? bool_type() : number_type((enum fb_dtype)d->dtype);
}

/* ---- datasets ---- */

/* The same file from the same data: no times in it. */
static hid_t properties_of(const struct hdf5_adopt_dataset *d)
{
    hid_t p = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk[HDF5_ADOPT_DIMS];
    if (p < 0 || H5Pset_obj_track_times(p, 0) < 0 || H5Pset_fill_time(p, H5D_FILL_TIME_NEVER) < 0)
        return H5I_INVALID_HID;
    if (!d->chunk_rows)
        return H5Pset_alloc_time(p, H5D_ALLOC_TIME_EARLY) < 0 ? H5I_INVALID_HID : p;
    for (uint32_t i = 0; i < d->ndim; i++)
        chunk[i] = i ? d->shape[i] : d->chunk_rows;
    if (H5Pset_chunk(p, (int)d->ndim, chunk) < 0)
        return H5I_INVALID_HID;
    if (d->deflate && (H5Pset_shuffle(p) < 0 || H5Pset_deflate(p, d->deflate) < 0))
        return H5I_INVALID_HID;
    return p;
}

static bool adopt_chunks(hid_t dataset, const struct hdf5_adopt_dataset *d, struct fb_error *e)
{
    static const char nowhere[8];
    hsize_t at[HDF5_ADOPT_DIMS] = {0};
    for (uint64_t i = 0; i < d->chunks; i++) {
        struct hdf5_adopt_chunk c;
        if (!take(&c, sizeof(c)))
            return short_input(e);
        at[0] = i * d->chunk_rows;
        if (i % 1024 == 0)
            helper_beat(i, d->chunks);
        adopt_plan(c.offset, c.length);
        if (H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at, c.length, nowhere) < 0 || !adopt_plan_was_used()) {
            hdf5_failed(e, "HDF5 cannot take a chunk of", d->name);
            return false;
        }
    }
    return true;
}

static uint64_t bytes_of(const struct hdf5_adopt_dataset *d)
{
    uint64_t n = d->element_bytes;
    for (uint32_t i = 0; i < d->ndim; i++)
        n *= d->shape[i];
    return n;
}

static bool is_sane(const struct hdf5_adopt_dataset *d)
{
    return memchr(d->name, 0, sizeof(d->name)) && d->name[0] && d->ndim >= 1 && d->ndim <= HDF5_ADOPT_DIMS && d->element_bytes >= 1 &&
           d->deflate <= 9;
}

static hid_t adopt_dataset(hid_t file, struct fb_error *e)
{
    struct hdf5_adopt_dataset d;
    hsize_t shape[HDF5_ADOPT_DIMS], most[HDF5_ADOPT_DIMS];
    if (!take(&d, sizeof(d)) || !is_sane(&d)) {
        short_input(e);
        return H5I_INVALID_HID;
    }
    for (uint32_t i = 0; i < d.ndim; i++)
        shape[i] = most[i] = d.shape[i];
    if (d.chunk_rows)
        most[0] = H5S_UNLIMITED; /* so that a chunk may be larger than all rows, and rows may be added */
    hid_t type = type_of(&d), space = H5Screate_simple((int)d.ndim, shape, most), how = properties_of(&d);
    if (!d.chunk_rows)
        adopt_plan(d.offset, bytes_of(&d));
    hid_t dataset = H5Dcreate2(file, d.name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    bool is_good = dataset >= 0 && (d.chunk_rows ? adopt_chunks(dataset, &d, e) : adopt_plan_was_used());
    if (!is_good && !e->code)
        hdf5_failed(e, "HDF5 cannot make the dataset", d.name);
    H5Pclose(how);
    H5Sclose(space);
    H5Tclose(type);
    return is_good ? dataset : H5I_INVALID_HID;
}

/* ---- attributes ---- */

/* Text is of variable length: h5py gives a str then. */
static bool put_attribute(hid_t owner, const struct hdf5_adopt_attribute *a, const void *value)
{
    bool is_text = a->kind == HDF5_ADOPT_STRING;
    hsize_t count = a->value_bytes / 8;
    hid_t type = is_text ? text_type(H5T_VARIABLE) : H5Tcopy(a->kind == HDF5_ADOPT_INT64 ? H5T_STD_I64LE : H5T_IEEE_F64LE);
    hid_t space = is_text || count == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, NULL);
    hid_t attribute = H5Acreate2(owner, a->name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool is_good = attribute >= 0 && H5Awrite(attribute, type, is_text ? (const void *)&value : value) >= 0;
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    return is_good;
}

static bool adopt_attribute(hid_t file, const hid_t *dataset, uint32_t datasets, struct fb_error *e)
{
    static uint64_t value[HDF5_ADOPT_TEXT / 8 + 1];
    struct hdf5_adopt_attribute a;
    if (!take(&a, sizeof(a)) || a.value_bytes > HDF5_ADOPT_TEXT || !memchr(a.name, 0, sizeof(a.name)) ||
        (a.dataset != UINT32_MAX && a.dataset >= datasets))
        return short_input(e);
    memset(value, 0, sizeof(value));
    if (!take(value, a.value_bytes))
        return short_input(e);
    if (put_attribute(a.dataset == UINT32_MAX ? file : dataset[a.dataset], &a, value))
        return true;
    hdf5_failed(e, "HDF5 cannot make the attribute", a.name);
    return false;
}

/* ---- the file ---- */

static bool adopt_all(hid_t file, const struct hdf5_adopt *h, struct fb_error *e)
{
    hid_t dataset[HDF5_ADOPT_DATASETS];
    for (uint32_t i = 0; i < h->datasets; i++)
        if ((dataset[i] = adopt_dataset(file, e)) < 0)
            return false;
    for (uint32_t i = 0; i < h->attributes; i++)
        if (!adopt_attribute(file, dataset, h->datasets, e))
            return false;
    for (uint32_t i = 0; i < h->datasets; i++)
        H5Dclose(dataset[i]);
    return true;
}

int adopt_run(void)
{
    struct hdf5_adopt h;
    struct fb_error e = {0};
    if (!take(&h, sizeof(h)) || h.magic != HDF5_ADOPT_MAGIC || h.datasets > HDF5_ADOPT_DATASETS || h.attributes > HDF5_ADOPT_ATTRIBUTES)
        short_input(&e);
    else {
        adopt_set_end(h.end);
        hid_t file = adopt_create();
        if (file < 0)
            hdf5_failed(&e, "HDF5 cannot make the file", NULL);
        else if (adopt_all(file, &h, &e) && H5Fclose(file) < 0)
            hdf5_failed(&e, "HDF5 cannot close the file", NULL);
    }
    if (e.code)
        printf("%s\n", e.cause);
    fflush(stdout);
    return e.code ? 1 : 0;
}
