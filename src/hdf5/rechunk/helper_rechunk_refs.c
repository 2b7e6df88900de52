/* Object references: in a file they are addresses, so each becomes the address that its object has in the target. They hide in arrays,
 * compounds and variable-length lists (dimension scales have all three), so values are walked by their type. References to parts of a
 * dataset (regions) and to objects that no name leads to are refused. */
#include <stdlib.h>
#include <string.h>

#include "hdf5/rechunk/helper_rechunk.h"

enum { MAX_PATH = 4096 };

static bool refused(struct rechunk *r, const char *path, const char *cause)
{
    error_set(&r->e, FB_E_UNSUPPORTED, "pack", "\"%s\" %s", path, cause);
    error_remedy(&r->e, "h5repack knows more kinds of references; or leave the object out");
    return false;
}

static bool translate_one(struct rechunk *r, hobj_ref_t *ref, const char *path)
{
    char target[MAX_PATH];
    if (*ref == 0) /* to nothing */
        return true;
    hid_t object = H5Rdereference2(r->from, H5P_DEFAULT, H5R_OBJECT, ref);
    ssize_t n = object < 0 ? -1 : H5Iget_name(object, target, sizeof(target));
    H5O_info_t info;
    const char *found = n > 0 && n < MAX_PATH ? target : NULL;
    if (!found && object >= 0 && H5Oget_info(object, &info) >= 0)
        for (uint32_t i = 0; !found && i < r->objects; i++)
            found = r->object[i].address == info.addr ? r->object[i].path : NULL;
    H5Oclose(object);
    if (!found)
        return refused(r, path, "refers to an object that has no name");
    return H5Rcreate(ref, r->to, found, H5R_OBJECT, -1) >= 0 || rechunk_failed(r, "HDF5 cannot refer to", found);
}

static bool translate(struct rechunk *r, hid_t type, char *value, const char *path);

static bool translate_many(struct rechunk *r, hid_t owner, char *values, size_t count, const char *path)
{
    hid_t type = H5Tget_super(owner);
    size_t size = type < 0 ? 0 : H5Tget_size(type);
    bool is_done = size > 0;
    for (size_t i = 0; is_done && i < count; i++)
        is_done = translate(r, type, values + i * size, path);
    H5Tclose(type);
    return is_done;
}

static bool translate_members(struct rechunk *r, hid_t type, char *value, const char *path)
{
    int n = H5Tget_nmembers(type);
    for (int i = 0; i < n; i++) {
        hid_t member = H5Tget_member_type(type, (unsigned)i);
        bool is_done = member >= 0 && translate(r, member, value + H5Tget_member_offset(type, (unsigned)i), path);
        H5Tclose(member);
        if (!is_done)
            return false;
    }
    return true;
}

static size_t length_of(hid_t array)
{
    hsize_t size[H5S_MAX_RANK];
    size_t n = 1;
    int ndim = H5Tget_array_dims2(array, size);
    for (int i = 0; i < ndim; i++)
        n *= size[i];
    return ndim < 0 ? 0 : n;
}

static bool translate(struct rechunk *r, hid_t type, char *value, const char *path)
{
    if (H5Tdetect_class(type, H5T_REFERENCE) <= 0)
        return true;
    switch (H5Tget_class(type)) {
    case H5T_REFERENCE:
        if (H5Tequal(type, H5T_STD_REF_OBJ) <= 0)
            return refused(r, path, "holds references to regions");
        return translate_one(r, (hobj_ref_t *)(void *)value, path);
    case H5T_ARRAY: return translate_many(r, type, value, length_of(type), path);
    case H5T_VLEN: return translate_many(r, type, ((hvl_t *)(void *)value)->p, ((hvl_t *)(void *)value)->len, path);
    case H5T_COMPOUND: return translate_members(r, type, value, path);
    default: return refused(r, path, "holds references of a kind that is not known");
    }
}

/* All values of a dataset or attribute: read, translated, written. */
struct values {
    hid_t from, to, type, space;
    bool is_attribute;
};

static bool read_values(const struct values *v, void *bytes)
{
    return (v->is_attribute ? H5Aread(v->from, v->type, bytes) : H5Dread(v->from, v->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes)) >= 0;
}

static bool write_values(const struct values *v, const void *bytes)
{
    return (v->is_attribute ? H5Awrite(v->to, v->type, bytes) : H5Dwrite(v->to, v->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes)) >= 0;
}

static bool copy_values(struct rechunk *r, const struct values *v, const char *path)
{
    hssize_t n = H5Sget_simple_extent_npoints(v->space);
    size_t size = H5Tget_size(v->type);
    if (n <= 0 || !size)
        return true;
    char *bytes = (uint64_t)n < (UINT64_C(1) << 31) / size ? calloc((size_t)n, size) : NULL;
    if (!bytes)
        return refused(r, path, "holds more references than fit into memory");
    bool is_done = read_values(v, bytes) || rechunk_failed(r, "HDF5 cannot read the references of", path);
    for (hssize_t i = 0; is_done && i < n; i++)
        is_done = translate(r, v->type, bytes + (size_t)i * size, path);
    if (is_done)
        is_done = write_values(v, bytes) || rechunk_failed(r, "HDF5 cannot write the references of", path);
    H5Dvlen_reclaim(v->type, v->space, H5P_DEFAULT, bytes);
    free(bytes);
    return is_done;
}

/* If there are any. Closes type and space. */
static bool copy_references(struct rechunk *r, const struct values *v, const char *path)
{
    bool is_done = H5Tdetect_class(v->type, H5T_REFERENCE) <= 0 || copy_values(r, v, path);
    H5Sclose(v->space);
    H5Tclose(v->type);
    return is_done;
}

bool rechunk_refs_dataset(struct rechunk *r, hid_t from, hid_t to, const char *path)
{
    hid_t type = H5Dget_type(from), space = H5Dget_space(from);
    return copy_references(r, &(struct values){from, to, type, space, false}, path);
}

bool rechunk_refs_attribute(struct rechunk *r, hid_t from, hid_t to, const char *path)
{
    hid_t type = H5Aget_type(from), space = H5Aget_space(from);
    return copy_references(r, &(struct values){from, to, type, space, true}, path);
}
