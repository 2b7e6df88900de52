/* Element types: which of them are plain numbers, and what becomes of the others.
 *
 *   numbers of 8-64 bits, either byte order, bool as h5py has it, enumerations     plain
 *   fixed arrays of such numbers                                                    plain, with more dimensions
 *   numbers of odd sizes (12 bits, 80-bit floats)                                   converted by libhdf5 to 64 bits
 *   compounds, fixed strings, opaque blocks, references                             their bytes, as one more dimension
 *   variable-length sequences of numbers                                            padded with zeros to the longest
 *   variable-length strings, compounds that hold anything of variable length        nothing
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hdf5/helper.h"

static enum array_code code_of(hid_t type)
{
    return H5Tget_size(type) > 1 && H5Tget_order(type) == H5T_ORDER_BE ? ARRAY_SWAPPED : ARRAY_PLAIN;
}

/* 0: not an integer of a usual size. */
static enum fb_dtype integer_of(hid_t type, bool is_signed)
{
    static const enum fb_dtype types[2][9] = {{[1] = FB_UINT8, [2] = FB_UINT16, [4] = FB_UINT32, [8] = FB_UINT64},
                                              {[1] = FB_INT8, [2] = FB_INT16, [4] = FB_INT32, [8] = FB_INT64}};
    size_t size = H5Tget_size(type);
    H5T_order_t order = H5Tget_order(type);
    if (size > 8 || H5Tget_precision(type) != 8 * size || H5Tget_offset(type) != 0)
        return 0;
    return size > 1 && order != H5T_ORDER_LE && order != H5T_ORDER_BE ? 0 : types[is_signed][size];
}

static enum fb_dtype float_of(hid_t type)
{
    static const struct {
        enum fb_dtype dtype;
        size_t size, exponent, mantissa, bias;
    } kinds[] = {{FB_FLOAT16, 2, 5, 10, 15}, {FB_BFLOAT16, 2, 8, 7, 127}, {FB_FLOAT32, 4, 8, 23, 127}, {FB_FLOAT64, 8, 11, 52, 1023}};
    size_t sign, exponent_at, exponent, mantissa_at, mantissa, size = H5Tget_size(type);
    H5T_order_t order = H5Tget_order(type);
    if ((order != H5T_ORDER_LE && order != H5T_ORDER_BE) || H5Tget_norm(type) != H5T_NORM_IMPLIED || H5Tget_precision(type) != 8 * size ||
        H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0)
        return 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (size == kinds[i].size && exponent == kinds[i].exponent && mantissa == kinds[i].mantissa && mantissa_at == 0 &&
            exponent_at == mantissa && sign == 8 * size - 1 && H5Tget_ebias(type) == kinds[i].bias)
            return kinds[i].dtype;
    return 0;
}

static bool has_member(hid_t type, unsigned i, const char *wanted, int8_t value)
{
    int8_t stored = -1;
    char *name = H5Tget_member_name(type, i);
    bool is_it = name && strcmp(name, wanted) == 0 && H5Tget_member_value(type, i, &stored) >= 0 && stored == value;
    H5free_memory(name);
    return is_it;
}

/* h5py writes numpy's bool as an 8-bit enumeration of FALSE and TRUE. */
static bool is_bool(hid_t type)
{
    return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 &&
           ((has_member(type, 0, "FALSE", 0) && has_member(type, 1, "TRUE", 1)) ||
            (has_member(type, 1, "FALSE", 0) && has_member(type, 0, "TRUE", 1)));
}

static enum fb_dtype enumeration_of(hid_t type)
{
    hid_t base = H5Tget_super(type);
    enum fb_dtype dtype = is_bool(type) ? FB_BOOL : integer_of(base, H5Tget_sign(base) == H5T_SGN_2);
    H5Tclose(base);
    return dtype;
}

static bool is_number(hid_t type, struct form *f)
{
    switch (H5Tget_class(type)) {
    case H5T_INTEGER: f->dtype = integer_of(type, H5Tget_sign(type) == H5T_SGN_2); break;
    case H5T_BITFIELD: f->dtype = integer_of(type, false); break;
    case H5T_FLOAT: f->dtype = float_of(type); break;
    case H5T_ENUM: f->dtype = enumeration_of(type); break;
    default: f->dtype = 0;
    }
    f->code = code_of(type);
    f->is_plain = f->dtype != 0;
    return f->is_plain;
}

static bool is_array_of_numbers(hid_t type, struct form *f)
{
    hsize_t sides[H5S_MAX_RANK];
    int ndim = H5Tget_class(type) == H5T_ARRAY ? H5Tget_array_ndims(type) : -1;
    if (ndim < 0 || ndim > ARRAY_MAX_DIMS - f->ndim || H5Tget_array_dims2(type, sides) < 0)
        return false;
    for (int d = 0; d < ndim; d++)
        f->shape[f->ndim++] = sides[d];
    hid_t base = H5Tget_super(type);
    bool is_it = is_number(base, f) || is_array_of_numbers(base, f);
    H5Tclose(base);
    return is_it;
}

static bool has_variable_length(hid_t type);

static bool has_such_member(hid_t type)
{
    for (int i = 0; i < H5Tget_nmembers(type); i++) {
        hid_t member = H5Tget_member_type(type, (unsigned)i);
        bool has = member < 0 || has_variable_length(member);
        H5Tclose(member);
        if (has)
            return true;
    }
    return false;
}

static bool has_variable_length(hid_t type)
{
    H5T_class_t class = H5Tget_class(type);
    if (class == H5T_ARRAY) {
        hid_t base = H5Tget_super(type);
        bool has = base < 0 || has_variable_length(base);
        H5Tclose(base);
        return has;
    }
    if (class == H5T_COMPOUND)
        return has_such_member(type);
    return class == H5T_VLEN || class == H5T_NO_CLASS || (class == H5T_STRING && H5Tis_variable_str(type) != 0);
}

static void set_why(struct form *f, const char *text, size_t number)
{
    snprintf(f->why, sizeof(f->why), text, number);
}

static void convert(hid_t type, struct form *f)
{
    bool is_float = H5Tget_class(type) == H5T_FLOAT, is_signed = !is_float && H5Tget_sign(type) == H5T_SGN_2;
    f->dtype = is_float ? FB_FLOAT64 : is_signed ? FB_INT64 : FB_UINT64;
    f->memory = H5Tcopy(is_float ? H5T_IEEE_F64LE : is_signed ? H5T_STD_I64LE : H5T_STD_U64LE);
    set_why(f, is_float ? "floats of %zu bits, converted to float64" : "integers of %zu bits, converted to 64", H5Tget_precision(type));
}

static void pad(hid_t type, struct form *f)
{
    hid_t base = H5Tget_super(type), little = H5I_INVALID_HID;
    if (base >= 0 && is_number(base, f) && (little = H5Tcopy(base)) >= 0) {
        if (f->code == ARRAY_SWAPPED)
            H5Tset_order(little, H5T_ORDER_LE);
        f->memory = H5Tvlen_create(little);
        f->is_ragged = true;
        set_why(f, "variable-length numbers, padded with zeros to the longest", 0);
    } else {
        f->dtype = FB_UINT8;
        set_why(f, "variable-length, of something that is no number", 0);
    }
    H5Tclose(little);
    H5Tclose(base);
}

static void give_bytes(hid_t type, struct form *f)
{
    static const char *const words[H5T_NCLASSES] = {[H5T_STRING] = "strings of %zu bytes, as bytes",
                                                    [H5T_COMPOUND] = "compounds of %zu bytes, as bytes",
                                                    [H5T_REFERENCE] = "references of %zu bytes, as bytes",
                                                    [H5T_OPAQUE] = "blocks of %zu bytes, as bytes"};
    H5T_class_t class = H5Tget_class(type);
    const char *text = class >= 0 && class < H5T_NCLASSES && words[class] ? words[class] : "elements of %zu bytes, as bytes";
    f->memory = H5Tcopy(type);
    f->ndim = 1;
    f->shape[0] = H5Tget_size(type);
    set_why(f, text, H5Tget_size(type));
}

void form_of(hid_t type, struct form *f)
{
    *f = (struct form){.memory = H5I_INVALID_HID};
    if (is_number(type, f) || is_array_of_numbers(type, f))
        return;
    *f = (struct form){.memory = H5I_INVALID_HID, .dtype = FB_UINT8};
    H5T_class_t class = H5Tget_class(type);
    if ((class == H5T_INTEGER || class == H5T_FLOAT) && H5Tget_size(type) > 0)
        convert(type, f);
    else if (class == H5T_VLEN)
        pad(type, f);
    else if (class == H5T_STRING && H5Tis_variable_str(type) > 0)
        set_why(f, "variable-length strings: they have no numeric form", 0);
    else if (has_variable_length(type))
        set_why(f, "compounds with variable-length parts: they have no numeric form", 0);
    else
        give_bytes(type, f);
    f->is_plain = false;
    f->code = ARRAY_PLAIN;
}

void form_close(struct form *f)
{
    if (f->memory >= 0)
        H5Tclose(f->memory);
    f->memory = H5I_INVALID_HID;
}
