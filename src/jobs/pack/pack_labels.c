/* Labels as WebDataset has them: STEM.cls holds the number of the class (or of the only whole-number label called "label"), STEM.json all
 * fields by name when there are others; a class stands there by its name. */
#include <string.h>

#include "base/text/json_writer.h"
#include "jobs/output/pack_record.h"

static void put_number(struct json_writer *w, const char *key, enum fb_dtype type, const void *at)
{
#define PUT(T, PAIR)               \
    {                              \
        T v;                       \
        memcpy(&v, at, sizeof(v)); \
        json_put(w, PAIR);         \
        return;                    \
    }
    switch (type) {
    case FB_BOOL:
    case FB_UINT8: PUT(uint8_t, J(key, (int)v))
    case FB_INT8: PUT(int8_t, J(key, (int)v))
    case FB_UINT16: PUT(uint16_t, J(key, (int)v))
    case FB_INT16: PUT(int16_t, J(key, (int)v))
    case FB_UINT32: PUT(uint32_t, J(key, v))
    case FB_INT32: PUT(int32_t, J(key, v))
    case FB_UINT64: PUT(uint64_t, J(key, v))
    case FB_INT64: PUT(int64_t, J(key, v))
    case FB_FLOAT64: PUT(double, J_DIGITS(key, 17, v))
    case FB_FLOAT32: PUT(float, J_DIGITS(key, 9, (double)v))
    default: json_put(w, J_NULL(key));
    }
#undef PUT
}

static void put_value(struct json_writer *w, const struct catalog *c, const struct catalog_field *f, const void *value)
{
    if (f->is_class) {
        int64_t label;
        memcpy(&label, value, sizeof(label));
        json_put(w, J(f->name, catalog_class_name(c, (int)label)));
        return;
    }
    if (f->ndim == 0) {
        put_number(w, f->name, f->dtype, value);
        return;
    }
    json_begin_array(w, f->name);
    for (int64_t i = 0; i < f->shape[0]; i++)
        put_number(w, NULL, f->dtype, (const char *)value + (size_t)i * fb_dtype_size(f->dtype));
    json_end(w);
}

static bool goes_into_cls(const struct catalog *c, int field)
{
    const struct catalog_field *f = catalog_field(c, field);
    return f->is_class || (catalog_field_count(c) == 1 && f->dtype == FB_INT64 && f->ndim == 0 && strcmp(f->name, "label") == 0);
}

static void put_named(struct text *out, const char *stem, const char *extension, const struct text *content, int64_t mtime_ns)
{
    struct text name = {.limit = 1 << 20};
    text_printf(&name, "%s.%s", stem, extension);
    if (name.failed || content->failed)
        out->failed = true;
    else
        pack_put_member(out, name.data, content->data, content->length, mtime_ns);
    text_free(&name);
}

static int put_json(struct text *json, const struct catalog *c, uint64_t sample, struct fb_error *e)
{
    struct json_writer w = {.out = json};
    json_begin_object(&w, NULL);
    for (int i = 0; i < catalog_field_count(c); i++) {
        const void *value = catalog_value(c, sample, i, e);
        if (!value)
            return FB_E_DATA;
        put_value(&w, c, catalog_field(c, i), value);
    }
    json_end(&w);
    return 0;
}

int pack_put_labels(struct text *out, const struct catalog *c, uint64_t sample, const char *stem, int64_t mtime_ns, struct fb_error *e)
{
    int fields = catalog_field_count(c), rc = 0;
    bool has_cls = false;
    struct text content = {.limit = 64 << 20};
    for (int i = 0; i < fields && !has_cls && rc == 0; i++) {
        if (!goes_into_cls(c, i))
            continue;
        const void *value = catalog_value(c, sample, i, e);
        rc = value ? 0 : FB_E_DATA;
        if (value)
            put_number(&(struct json_writer){.out = &content}, NULL, FB_INT64, value);
        has_cls = true;
    }
    if (rc == 0 && has_cls)
        put_named(out, stem, "cls", &content, mtime_ns);
    if (rc == 0 && fields > (has_cls ? 1 : 0)) {
        content.length = 0;
        rc = put_json(&content, c, sample, e);
        if (rc == 0)
            put_named(out, stem, "json", &content, mtime_ns);
    }
    text_free(&content);
    return rc;
}
