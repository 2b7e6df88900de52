/* safetensors: the length of a JSON header, the header, then plain tensors side by side.
 *
 * As the format's own reader demands, the tensors fill the rest of the file without gaps or overlaps. The header is limited to 4 MiB:
 * parsed it takes some twenty-five times that.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "codec/array/array_window.h"

enum { PREFIX = 8, MAX_HEADER = 4 << 20 };

static const struct {
    const char *name;
    enum fb_dtype dtype;
} dtypes[] = {
    {"BOOL", FB_BOOL},   {"U8", FB_UINT8},    {"I8", FB_INT8},       {"U16", FB_UINT16}, {"I16", FB_INT16},
    {"U32", FB_UINT32},  {"I32", FB_INT32},   {"U64", FB_UINT64},    {"I64", FB_INT64},  {"F16", FB_FLOAT16},
    {"F32", FB_FLOAT32}, {"F64", FB_FLOAT64}, {"BF16", FB_BFLOAT16},
};

/* A length that leaves the second half of the prefix empty, and a brace: no other format begins so. */
static bool probe(const uint8_t *bytes, size_t n)
{
    return n > PREFIX && array_u64(bytes) >= 2 && array_u64(bytes) <= INT32_MAX && bytes[PREFIX] == '{';
}

static int damaged(struct fb_error *e, const char *tensor, const char *what)
{
    char name[96];
    return array_damaged(e, PREFIX, "the tensor \"%s\" %s", text_escape(tensor, name, sizeof(name)), what);
}

static bool is_count(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static int read_shape(const json_t *shape, struct array_layout *a, struct fb_error *e)
{
    if (!json_is_array(shape) || json_array_size(shape) > ARRAY_MAX_DIMS)
        return damaged(e, a->name, "has no shape, or one of more than 8 dimensions");
    a->ndim = (int)json_array_size(shape);
    for (int d = 0; d < a->ndim; d++) {
        const json_t *v = json_array_get(shape, (size_t)d);
        if (!is_count(v))
            return damaged(e, a->name, "has a shape with something that is not a whole number from 0 up");
        a->shape[d] = (uint64_t)json_integer_value(v);
    }
    return 0;
}

/* An unknown dtype leaves a->dtype 0. */
static int read_dtype(const json_t *dtype, struct array_layout *a, struct fb_error *e)
{
    const char *name = json_string_value(dtype);
    if (!name)
        return damaged(e, a->name, "has no dtype");
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(name, dtypes[i].name) == 0)
            a->dtype = dtypes[i].dtype;
    a->stored_bytes = (uint32_t)fb_dtype_size(a->dtype);
    return 0;
}

static int read_offsets(const json_t *offsets, struct array_layout *a, struct fb_error *e)
{
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !is_count(from) || !is_count(to) || json_integer_value(to) < json_integer_value(from))
        return damaged(e, a->name, "has no valid data_offsets");
    a->offset = (uint64_t)json_integer_value(from);
    a->bytes = (uint64_t)json_integer_value(to) - a->offset;
    return 0;
}

static int read_tensor(const char *name, const json_t *v, struct array_layout *a, struct fb_error *e)
{
    if (strlen(name) >= sizeof(a->name))
        return damaged(e, name, "has a name that is too long");
    memcpy(a->name, name, strlen(name) + 1);
    a->storage = ARRAY_CONTIGUOUS;
    if (!json_is_object(v) || json_object_size(v) != 3)
        return damaged(e, name, "is not described by dtype, shape and data_offsets");
    FB_TRY(read_shape(json_object_get(v, "shape"), a, e));
    FB_TRY(read_dtype(json_object_get(v, "dtype"), a, e));
    FB_TRY(read_offsets(json_object_get(v, "data_offsets"), a, e));
    uint64_t wanted;
    if (a->dtype && (!array_shape_bytes(a, &wanted) || wanted != a->bytes))
        return damaged(e, name, "does not have the size its shape asks for");
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct array_layout *const *x = a, *const *y = b;
    if ((*x)->offset != (*y)->offset)
        return (*x)->offset < (*y)->offset ? -1 : 1;
    return (*x)->bytes<(*y)->bytes ? -1 : (*x)->bytes>(*y)->bytes;
}

/* Each tensor begins where the one before it ends, the last one ends with the file. */
static int check_tiling(struct array_file *f, uint64_t data_bytes, struct fb_error *e)
{
    const struct array_layout *in_order[ARRAY_MAX_IN_FILE];
    uint64_t at = 0;
    for (int i = 0; i < f->count; i++)
        in_order[i] = &f->array[i];
    qsort(in_order, (size_t)f->count, sizeof(in_order[0]), by_offset);
    for (int i = 0; i < f->count; i++) {
        if (in_order[i]->offset != at)
            return damaged(e, in_order[i]->name, in_order[i]->offset < at ? "overlaps another one" : "leaves a gap before it");
        if (__builtin_add_overflow(at, in_order[i]->bytes, &at) || at > data_bytes)
            return damaged(e, in_order[i]->name, "reaches beyond the end of the file");
    }
    if (at != data_bytes)
        return array_damaged(e, (int64_t)(f->object_size - (data_bytes - at)), "%llu bytes after the last tensor belong to no tensor",
                             (unsigned long long)(data_bytes - at));
    return 0;
}

static int finish(struct array_file *f, uint64_t data_at, struct fb_error *e)
{
    int readable = 0;
    for (int i = 0; i < f->count; i++) {
        f->array[i].offset += data_at;
        if (f->array[i].dtype)
            readable++;
        else
            array_make_unreadable(&f->array[i], "its dtype is not one that is read here (float8 and smaller, complex)");
        FB_TRY(array_check(&f->array[i], f->object_size, e));
    }
    return readable ? 0 : error_set(e, FB_E_UNSUPPORTED, "decode", "no tensor of the file is of a dtype that is read here");
}

static int read_tensors(json_t *root, uint64_t data_at, uint64_t size, struct array_file *out, struct fb_error *e)
{
    const char *name;
    json_t *value;
    int count = 0;
    size_t has_metadata = json_object_get(root, "__metadata__") ? 1 : 0, tensors = json_object_size(root) - has_metadata;
    if (tensors > ARRAY_MAX_IN_FILE)
        return error_set(e, FB_E_UNSUPPORTED, "decode", "the file has %zu tensors; at most %d can be read", tensors, ARRAY_MAX_IN_FILE);
    if (!tensors)
        return error_set(e, FB_E_UNSUPPORTED, "decode", "the safetensors file holds no tensors");
    FB_TRY(array_file_make(out, "safetensors", size, (int)tensors, 0, NULL, e));
    json_object_foreach(root, name, value) if (strcmp(name, "__metadata__") != 0) FB_TRY(read_tensor(name, value, &out->array[count++], e));
    FB_TRY(check_tiling(out, size - data_at, e));
    return finish(out, data_at, e);
}

static int parse(const char *text, size_t n, uint64_t size, struct array_file *out, struct fb_error *e)
{
    json_error_t problem;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &problem);
    if (!root) {
        char shown[128];
        return array_damaged(e, PREFIX + problem.position, "the safetensors header is not JSON: %s",
                             text_escape(problem.text, shown, sizeof(shown)));
    }
    int rc = json_is_object(root) ? read_tensors(root, PREFIX + n, size, out, e)
                                  : array_damaged(e, PREFIX, "the safetensors header is not an object");
    json_decref(root);
    return rc;
}

static int describe(const struct array_source *s, struct array_file *out, struct fb_error *e)
{
    uint8_t prefix[PREFIX];
    memset(out, 0, sizeof(*out));
    if (s->size < PREFIX)
        return array_damaged(e, (int64_t)s->size, "the safetensors file is cut off");
    FB_TRY(s->read(s->ctx, 0, PREFIX, prefix, e));
    uint64_t n = array_u64(prefix);
    if (n > s->size - PREFIX)
        return array_damaged(e, (int64_t)s->size, "the safetensors header claims %llu bytes, the file has %llu", (unsigned long long)n,
                             (unsigned long long)s->size);
    if (n > MAX_HEADER)
        return error_set(e, FB_E_UNSUPPORTED, "decode", "the safetensors header has %llu bytes; at most 4 MiB are read",
                         (unsigned long long)n);
    char *text = malloc((size_t)n + 1);
    if (!text)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for a safetensors header");
    int rc = n ? s->read(s->ctx, PREFIX, n, text, e) : 0;
    if (rc == 0)
        rc = parse(text, (size_t)n, s->size, out, e);
    free(text);
    if (rc < 0)
        array_file_free(out);
    return rc;
}

const struct array_ops array_safetensors = {
    .name = "safetensors", .probe = probe, .describe = describe, .read_rows = array_unreadable_rows};
