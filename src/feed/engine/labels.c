#include "feed/labels.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/rng.h"
#include "base/round_up.h"

/* ---- which fields ---- */

static struct label_field from_catalog(const struct catalog *c, int i)
{
    const struct catalog_field *f = catalog_field(c, i);
    struct label_field l = {.bytes = catalog_field_bytes(f), .catalog_field = i, .is_class = f->is_class};
    memcpy(l.name, f->name, sizeof(l.name));
    l.shown = (struct fb_column){.dtype = f->dtype, .ndim = f->ndim};
    memcpy(l.shown.shape, f->shape, sizeof(f->shape));
    return l;
}

static int from_column(const struct fb_column *c, struct label_field *l, struct fb_error *e)
{
    size_t size = fb_dtype_size(c->dtype);
    if (!c->name || !c->name[0] || strlen(c->name) >= sizeof(l->name) || strcmp(c->name, "image") == 0)
        return error_set(e, FB_E_USAGE, "dataset", "a label has no name, is called 'image', or has a name of more than %zu bytes",
                         sizeof(l->name) - 1);
    if (!c->data || size == 0 || c->ndim < 0 || c->ndim > 1 || (c->ndim == 1 && (c->shape[0] < 1 || c->shape[0] > (1 << 24))))
        return error_set(e, FB_E_USAGE, "dataset", "the label '%s' is not one number or one vector per sample", c->name);
    *l = (struct label_field){.bytes = size * (c->ndim == 1 ? (size_t)c->shape[0] : 1), .catalog_field = -1, .rows = c->data};
    strcpy(l->name, c->name);
    l->shown = *c;
    return 0;
}

static int add_field(struct labels *l, const struct label_field *f, struct fb_error *e)
{
    if (l->count == FB_MAX_FIELDS - 1)
        return error_set(e, FB_E_USAGE, "dataset", "there can be at most %d labels", FB_MAX_FIELDS - 1);
    l->field[l->count++] = *f;
    return 0;
}

/* The given columns (their names win), then the catalog's own fields. */
static int all_fields(struct labels *l, const fb_options *o, struct fb_error *e)
{
    for (int i = 0; o->column_rows && i < o->column_count; i++) {
        struct label_field f;
        FB_TRY(from_column(&o->columns[i], &f, e));
        if (labels_find(l, f.name) >= 0)
            return error_set(e, FB_E_USAGE, "dataset", "two labels are called '%s'", f.name);
        FB_TRY(add_field(l, &f, e));
    }
    for (int i = 0; i < catalog_field_count(l->catalog); i++) {
        struct label_field f = from_catalog(l->catalog, i);
        if (labels_find(l, f.name) < 0)
            FB_TRY(add_field(l, &f, e));
    }
    return 0;
}

static int unknown_field(const struct labels *l, const char *name, struct fb_error *e)
{
    error_set(e, FB_E_USAGE, "dataset", "there is no label called '%s'", name);
    if (l->count)
        error_remedy(e, "there is '%s'%s%s%s%s", l->field[0].name, l->count > 1 ? ", '" : "", l->count > 1 ? l->field[1].name : "",
                     l->count > 1 ? "'" : "", l->count > 2 ? ", ..." : "");
    else
        error_remedy(e, "this source has no labels; give some with labels=");
    return FB_E_USAGE;
}

static int choose_fields(struct labels *l, const char *names, struct fb_error *e)
{
    struct labels all = *l;
    l->count = 0;
    while (*names) {
        size_t n = strcspn(names, "\n");
        char name[64] = "";
        if (n < sizeof(name))
            memcpy(name, names, n);
        int i = labels_find(&all, name);
        if (i < 0)
            return unknown_field(&all, name, e);
        FB_TRY(add_field(l, &all.field[i], e));
        names += n + (names[n] == '\n');
    }
    return 0;
}

/* ---- the caller's columns are copied ---- */

static int copy_columns(struct labels *l, uint64_t rows, struct subset *s, struct fb_error *e)
{
    size_t total = 0;
    for (int i = 0; i < l->count; i++)
        if (l->field[i].rows && __builtin_add_overflow(total, round_up(l->field[i].bytes * rows, 64), &total))
            return error_set(e, FB_E_USAGE, "dataset", "the labels are too large");
    uint8_t *to = l->memory = malloc(total + 1);
    if (!to)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for labels of %zu bytes", total);
    for (int i = 0; i < l->count; i++) {
        struct label_field *f = &l->field[i];
        if (!f->rows)
            continue;
        memcpy(to, f->rows, f->bytes * rows);
        f->rows = to;
        s->fingerprint = rng_mix(s->fingerprint, checksum_of(to, f->bytes * rows));
        to += round_up(f->bytes * rows, 64);
    }
    return 0;
}

int labels_open(struct labels *l, const struct catalog *c, struct subset *s, const fb_options *o, struct fb_error *e)
{
    *l = (struct labels){.catalog = c, .subset = s};
    bool has_columns = o->columns && o->column_count > 0 && !o->paths;
    if (has_columns && o->column_rows != s->count)
        return error_set(e, FB_E_USAGE, "dataset", "the labels have %llu rows for %llu selected samples",
                         (unsigned long long)o->column_rows, (unsigned long long)s->count);
    FB_TRY(all_fields(l, o, e));
    if (has_columns && !o->fields)
        l->count = o->column_count; /* the source's own are left out unless asked for */
    if (o->fields)
        FB_TRY(choose_fields(l, o->fields, e));
    if (has_columns)
        FB_TRY(copy_columns(l, o->column_rows, s, e));
    for (int i = 0; i < l->count; i++) {
        l->field[i].shown.name = l->field[i].name;
        l->field[i].shown.data = NULL;
    }
    return 0;
}

void labels_close(struct labels *l)
{
    free(l->memory);
    l->memory = NULL;
}

/* ---- values ---- */

int labels_find(const struct labels *l, const char *name)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(l->field[i].name, name) == 0)
            return i;
    return -1;
}

static int renumber(const struct labels *l, void *value, struct fb_error *e)
{
    int64_t label;
    memcpy(&label, value, sizeof(label));
    if (label < 0 || label >= catalog_class_count(l->catalog))
        return error_set(e, FB_E_DATA, "dataset", "its label %lld is not a class", (long long)label);
    label = l->subset->class_new[label];
    memcpy(value, &label, sizeof(label));
    return 0;
}

int labels_get(const struct labels *l, int field, uint64_t selected, uint64_t sample, void *to, struct fb_error *e)
{
    const struct label_field *f = &l->field[field];
    const void *value = f->rows ? f->rows + selected * f->bytes : catalog_value(l->catalog, sample, f->catalog_field, e);
    if (!value)
        return e && e->code ? e->code : FB_E_DATA;
    memcpy(to, value, f->bytes);
    return f->is_class && l->subset->class_new ? renumber(l, to, e) : 0;
}

size_t labels_lay_out(const struct labels *l, uint8_t *memory, void **to)
{
    size_t at = 0;
    for (int i = 0; i < l->count; i++) {
        to[i] = memory ? memory + at : NULL;
        at += round_up(l->field[i].bytes, 8);
    }
    return at;
}

int labels_copy(const struct labels *l, uint64_t selected, uint64_t sample, void *const *to, struct fb_error *e)
{
    for (int i = 0; i < l->count; i++)
        FB_TRY(labels_get(l, i, selected, sample, to[i], e));
    return 0;
}

int labels_class_field(const struct labels *l)
{
    int found = -1;
    for (int i = 0; i < l->count; i++) {
        const struct label_field *f = &l->field[i];
        if (f->is_class)
            return i;
        if (f->shown.ndim == 0 && f->shown.dtype >= FB_UINT8 && f->shown.dtype <= FB_INT64)
            found = found == -1 ? i : -2;
    }
    return found < 0 ? -1 : found;
}

/* ---- labels that transforms refer to ---- */

static int refer_to_element(const struct label_field *f, const char *name, const char *bracket, struct label_at *at, struct fb_error *e)
{
    char *end;
    long i = strtol(bracket + 1, &end, 10);
    long count = f->shown.ndim == 1 ? (long)f->shown.shape[0] : 0;
    if (end == bracket + 1 || strcmp(end, "]") != 0 || i < 0 || i >= count)
        return error_set(e, FB_E_USAGE, "transform", "'%s' is not a number of the label '%s', which has %ld", name, f->name, count);
    at->offset = (size_t)i * fb_dtype_size(f->shown.dtype);
    at->count = 1;
    return 0;
}

int labels_refer(const struct labels *l, const char *name, struct label_at *out, struct fb_error *e)
{
    char field[64] = "";
    const char *bracket = labels_find(l, name) >= 0 ? NULL : strchr(name, '[');
    size_t n = bracket ? (size_t)(bracket - name) : strlen(name);
    if (n < sizeof(field))
        memcpy(field, name, n);
    int i = labels_find(l, field);
    if (i < 0)
        return unknown_field(l, field, e);
    const struct label_field *f = &l->field[i];
    *out = (struct label_at){.field = i, .count = f->shown.ndim == 1 ? (int)f->shown.shape[0] : 1, .dtype = f->shown.dtype};
    return bracket ? refer_to_element(f, name, bracket, out, e) : 0;
}

bool label_is_number(const struct label_at *at)
{
    return at->count == 1 && at->dtype != FB_FLOAT16 && at->dtype != FB_BFLOAT16;
}

bool label_has_sign(const struct label_at *at)
{
    switch (at->dtype) {
    case FB_UINT8:
    case FB_UINT16:
    case FB_UINT32:
    case FB_UINT64:
    case FB_BOOL: return false;
    default: return true;
    }
}

#define AS(TYPE) (double)*(const TYPE *)p
double label_read(const struct label_at *at, void *const *values)
{
    _Alignas(8) uint8_t p[8];
    memcpy(p, (const uint8_t *)values[at->field] + at->offset, fb_dtype_size(at->dtype));
    switch (at->dtype) {
    case FB_UINT8:
    case FB_BOOL: return AS(uint8_t);
    case FB_INT8: return AS(int8_t);
    case FB_UINT16: return AS(uint16_t);
    case FB_INT16: return AS(int16_t);
    case FB_UINT32: return AS(uint32_t);
    case FB_INT32: return AS(int32_t);
    case FB_UINT64: return AS(uint64_t);
    case FB_INT64: return AS(int64_t);
    case FB_FLOAT32: return AS(float);
    default: return AS(double);
    }
}

/* Floats by their sign bit (so 0 becomes -0 as in numpy), integers by two's complement (so the lowest stays itself). */
static void negate_one(uint8_t *p, enum fb_dtype dtype)
{
    size_t size = fb_dtype_size(dtype);
    if (dtype >= FB_FLOAT16 && dtype <= FB_FLOAT64) {
        p[size - 1] ^= 0x80; /* little-endian, as everything here */
        return;
    }
    uint64_t v = 0;
    memcpy(&v, p, size);
    v = -v;
    memcpy(p, &v, size);
}

void label_negate(const struct label_at *at, void *const *values)
{
    uint8_t *p = (uint8_t *)values[at->field] + at->offset;
    for (int i = 0; i < at->count; i++)
        negate_one(p + (size_t)i * fb_dtype_size(at->dtype), at->dtype);
}

void label_swap(const struct label_at *a, const struct label_at *b, void *const *values)
{
    uint8_t *p = (uint8_t *)values[a->field] + a->offset, *q = (uint8_t *)values[b->field] + b->offset;
    for (size_t i = 0; i < (size_t)a->count * fb_dtype_size(a->dtype); i++) {
        uint8_t t = p[i];
        p[i] = q[i];
        q[i] = t;
    }
}
