/* .npy files, versions 1 to 3: one array, its numbers in one piece behind the header.
 *
 * The header is a Python dictionary of three keys. Only that much of Python is understood: strings, True and False, tuples of integers. A
 * list where the dtype should be is a structured dtype; "O" is an array of objects, whose bytes are a pickle: those are refused, nothing is
 * ever unpickled.
 */
#include "codec/array/npy.h"

#include <string.h>

#include "base/text/text.h"

/* ---- the Python literal ---- */

struct literal {
    const char *at, *end;
};

static void skip_space(struct literal *l)
{
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\n' || *l->at == '\t' || *l->at == '\r'))
        l->at++;
}

/* Takes the character if it comes next. */
static bool take(struct literal *l, char c)
{
    skip_space(l);
    if (l->at >= l->end || *l->at != c)
        return false;
    l->at++;
    return true;
}

/* A string without escapes, in either kind of quotes. */
static bool take_string(struct literal *l, char *out, size_t size)
{
    char quote = take(l, '\'') ? '\'' : take(l, '"') ? '"' : 0;
    size_t n = 0;
    for (; quote && l->at < l->end && *l->at != quote && *l->at != '\\' && *l->at != '\n' && n + 1 < size; l->at++)
        out[n++] = *l->at;
    out[n] = 0;
    return quote && take(l, quote);
}

static bool take_word(struct literal *l, const char *word)
{
    skip_space(l);
    size_t n = strlen(word);
    if ((size_t)(l->end - l->at) < n || memcmp(l->at, word, n))
        return false;
    l->at += n;
    return true;
}

static bool take_integer(struct literal *l, uint64_t *value)
{
    skip_space(l);
    const char *start = l->at;
    *value = 0;
    for (; l->at < l->end && *l->at >= '0' && *l->at <= '9'; l->at++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, (uint64_t)(*l->at - '0'), value))
            return false;
    bool has_digits = l->at > start;
    if (has_digits && l->at < l->end && *l->at == 'L') /* Python 2's long */
        l->at++;
    return has_digits && *value <= INT64_MAX;
}

static bool take_shape(struct literal *l, struct array_layout *a)
{
    if (!take(l, '('))
        return false;
    for (a->ndim = 0; !take(l, ')'); a->ndim++) {
        if (a->ndim == ARRAY_MAX_DIMS || (a->ndim && !take(l, ',')))
            return false;
        if (take(l, ')')) /* after a last comma */
            return a->ndim > 0;
        if (!take_integer(l, &a->shape[a->ndim]))
            return false;
    }
    return true;
}

/* ---- what it says ---- */

struct header {
    char descr[64];
    bool is_structured, has_descr, has_order, has_shape;
};

static bool take_descr(struct literal *l, struct header *h)
{
    h->has_descr = true;
    h->is_structured = take(l, '[');
    if (!h->is_structured)
        return take_string(l, h->descr, sizeof(h->descr));
    for (int depth = 1; depth > 0 && l->at < l->end; l->at++) /* to its end, whatever it holds: only strings could hold a bracket */
        depth += *l->at == '[' ? 1 : *l->at == ']' ? -1 : 0;
    return true;
}

static bool take_value(struct literal *l, const char *key, struct header *h, struct array_layout *a)
{
    if (strcmp(key, "descr") == 0 && !h->has_descr)
        return take_descr(l, h);
    if (strcmp(key, "shape") == 0 && !h->has_shape) {
        h->has_shape = true;
        return take_shape(l, a);
    }
    if (strcmp(key, "fortran_order") != 0 || h->has_order)
        return false;
    h->has_order = true;
    a->is_fortran = take_word(l, "True");
    return a->is_fortran || take_word(l, "False");
}

static bool take_dictionary(struct literal *l, struct header *h, struct array_layout *a)
{
    if (!take(l, '{'))
        return false;
    while (!take(l, '}')) {
        char key[16];
        if (!take_string(l, key, sizeof(key)) || !take(l, ':') || !take_value(l, key, h, a))
            return false;
        if (!take(l, ',')) {
            if (!take(l, '}'))
                return false;
            break;
        }
    }
    skip_space(l);
    return h->has_descr && h->has_order && h->has_shape && l->at == l->end;
}

/* ---- the dtype ---- */

static const struct {
    const char *name;
    enum fb_dtype dtype;
} dtypes[] = {
    {"u1", FB_UINT8}, {"i1", FB_INT8},    {"u2", FB_UINT16},  {"i2", FB_INT16},   {"u4", FB_UINT32}, {"i4", FB_INT32}, {"u8", FB_UINT64},
    {"i8", FB_INT64}, {"f2", FB_FLOAT16}, {"f4", FB_FLOAT32}, {"f8", FB_FLOAT64}, {"b1", FB_BOOL},   {"?", FB_BOOL},
};

static int refuse(struct fb_error *e, const char *descr, const char *what)
{
    char shown[80];
    return error_set(e, FB_E_UNSUPPORTED, "decode", "%s (dtype %s)", what, text_escape(descr, shown, sizeof(shown)));
}

static int refuse_kind(struct fb_error *e, const char *descr, char kind)
{
    switch (kind) {
    case 'O':
        refuse(e, descr, "it is an object array: its bytes are a pickle, and pickles are never opened here");
        error_remedy(e, "save plain numbers, e.g. np.save(path, array.astype(np.float32)), or one array per file");
        return FB_E_UNSUPPORTED;
    case 'S':
    case 'U':
    case 'T': return refuse(e, descr, "it holds strings, not numbers");
    case 'M':
    case 'm': return refuse(e, descr, "it holds dates; save them as int64");
    case 'c': return refuse(e, descr, "it holds complex numbers; save their real and imaginary parts");
    case 'V':
        refuse(e, descr, "its numbers are of a type that numpy does not name (bfloat16 is saved like this)");
        error_remedy(e, "save them as float32, or as safetensors");
        return FB_E_UNSUPPORTED;
    case 'f': return refuse(e, descr, "its floats are neither of 2, 4 nor 8 bytes; save them as float64");
    default: return refuse(e, descr, "its dtype is not known");
    }
}

static int read_dtype(const struct header *h, struct array_layout *a, struct fb_error *e)
{
    if (h->is_structured)
        return error_set(e, FB_E_UNSUPPORTED, "decode",
                         "it has a structured dtype (named columns); save each column as an array of its own");
    bool is_big = h->descr[0] == '>';
    const char *name = h->descr + (h->descr[0] && strchr("<>|=", h->descr[0]) ? 1 : 0);
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(name, dtypes[i].name) == 0)
            a->dtype = dtypes[i].dtype;
    if (!a->dtype)
        return refuse_kind(e, h->descr, name[0]);
    a->stored_bytes = (uint32_t)fb_dtype_size(a->dtype);
    a->code = is_big && a->stored_bytes > 1 ? ARRAY_SWAPPED : ARRAY_PLAIN;
    return 0;
}

/* ---- the file ---- */

bool npy_is_magic(const uint8_t *bytes, size_t n)
{
    return n >= NPY_MAGIC_BYTES && !memcmp(bytes, "\x93NUMPY", NPY_MAGIC_BYTES);
}

int npy_header_length(const uint8_t *bytes, size_t n, size_t *length, struct fb_error *e)
{
    if (!npy_is_magic(bytes, n))
        return array_damaged(e, 0, "it does not begin with the signature of a .npy file");
    if (n < 10 || (bytes[6] > 1 && n < NPY_PREFIX_BYTES))
        return array_damaged(e, (int64_t)n, "the .npy header is cut off");
    if (bytes[6] < 1 || bytes[6] > 3)
        return error_set(e, FB_E_UNSUPPORTED, "decode", "the .npy format has version %d.%d; 1 to 3 are known", bytes[6], bytes[7]);
    uint64_t total = bytes[6] == 1 ? 10 + (uint64_t)array_u16(bytes + 8) : 12 + (uint64_t)array_u32(bytes + 8);
    if (total > NPY_MAX_HEADER)
        return array_damaged(e, 8, "the .npy header claims %llu bytes, more than any header has", (unsigned long long)total);
    *length = (size_t)total;
    return 0;
}

int npy_header_read(const uint8_t *bytes, size_t length, struct array_layout *a, struct fb_error *e)
{
    size_t prefix = bytes[6] == 1 ? 10 : 12;
    struct literal l = {(const char *)bytes + prefix, (const char *)bytes + length};
    struct header h = {0};
    if (!take_dictionary(&l, &h, a))
        return array_damaged(e, (int64_t)(l.at - (const char *)bytes),
                             "the .npy header is not the dictionary of descr, fortran_order and shape (at most 8 dimensions)");
    a->is_fortran = a->is_fortran && a->ndim > 1;
    FB_TRY(read_dtype(&h, a, e));
    if (!array_shape_bytes(a, &a->bytes))
        return array_damaged(e, (int64_t)prefix, "the .npy header claims a shape that no file can have");
    return 0;
}

static bool probe(const uint8_t *bytes, size_t n)
{
    return npy_is_magic(bytes, n);
}

/* The rest of the header, where it is longer than usual. */
static int read_long(const struct array_source *s, size_t length, struct array_layout *a, struct fb_error *e)
{
    uint8_t header[NPY_MAX_HEADER];
    FB_TRY(s->read(s->ctx, 0, length, header, e));
    return npy_header_read(header, length, a, e);
}

static int describe(const struct array_source *s, struct array_file *out, struct fb_error *e)
{
    struct array_window w = {.source = s};
    struct array_layout a = {.storage = ARRAY_CONTIGUOUS};
    size_t length, start = s->size < NPY_PREFIX_BYTES ? (size_t)s->size : NPY_PREFIX_BYTES;
    const uint8_t *bytes;
    FB_TRY(array_peek(&w, 0, start, &bytes, e));
    FB_TRY(npy_header_length(bytes, start, &length, e));
    if (length > s->size)
        return array_damaged(e, (int64_t)s->size, "the .npy header is cut off");
    FB_TRY(length <= w.n ? npy_header_read(w.bytes, length, &a, e) : read_long(s, length, &a, e));
    a.offset = length;
    if (a.bytes > s->size - length)
        return array_damaged(e, (int64_t)s->size, "the file is cut off: its numbers take %llu bytes, %llu are there",
                             (unsigned long long)a.bytes, (unsigned long long)(s->size - length));
    FB_TRY(array_check(&a, s->size, e));
    FB_TRY(array_file_make(out, "npy", s->size, 1, 0, NULL, e));
    out->array[0] = a;
    return 0;
}

const struct array_ops array_npy = {.name = "npy", .probe = probe, .describe = describe};
