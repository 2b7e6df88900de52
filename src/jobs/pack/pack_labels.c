/* Labels as WebDataset has them: STEM.cls holds the number of the class (or of the only whole-number label called "label"), STEM.json all
 * fields by name when there are others; a class stands there by its name. */
#include <math.h>
#include <string.h>

#include "jobs/output/pack_record.h"

static void put_number(struct text *out, enum fb_dtype type, const void *at)
{
    double d = 0;
    float f;
#define WHOLE(T, FORMAT, AS)             \
    {                                    \
        T v;                             \
        memcpy(&v, at, sizeof(v));       \
        text_printf(out, FORMAT, (AS)v); \
        return;                          \
    }
    switch (type) {
    case FB_BOOL:
    case FB_UINT8: WHOLE(uint8_t, "%u", unsigned)
    case FB_INT8: WHOLE(int8_t, "%d", int)
    case FB_UINT16: WHOLE(uint16_t, "%u", unsigned)
    case FB_INT16: WHOLE(int16_t, "%d", int)
    case FB_UINT32: WHOLE(uint32_t, "%u", unsigned)
    case FB_INT32: WHOLE(int32_t, "%d", int)
    case FB_UINT64: WHOLE(uint64_t, "%llu", unsigned long long)
    case FB_INT64: WHOLE(int64_t, "%lld", long long)
    case FB_FLOAT64: memcpy(&d, at, sizeof(d)); break;
    case FB_FLOAT32:
        memcpy(&f, at, sizeof(f));
        d = (double)f;
        break;
    default: text_printf(out, "null"); return;
    }
#undef WHOLE
    if (isfinite(d))
        text_printf(out, type == FB_FLOAT32 ? "%.9g" : "%.17g", d);
    else
        text_printf(out, "null"); /* JSON has no word for it */
}

static void put_value(struct text *out, const struct catalog *c, const struct catalog_field *f, const void *value)
{
    if (f->is_class) {
        int64_t label;
        memcpy(&label, value, sizeof(label));
        text_json_string(out, catalog_class_name(c, (int)label));
        return;
    }
    size_t step = fb_dtype_size(f->dtype);
    text_printf(out, f->ndim ? "[" : "");
    for (int64_t i = 0; i < (f->ndim ? f->shape[0] : 1); i++) {
        text_printf(out, i ? "," : "");
        put_number(out, f->dtype, (const char *)value + (size_t)i * step);
    }
    text_printf(out, f->ndim ? "]" : "");
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
    text_printf(json, "{");
    for (int i = 0; i < catalog_field_count(c); i++) {
        const void *value = catalog_value(c, sample, i, e);
        if (!value)
            return FB_E_DATA;
        text_printf(json, i ? "," : "");
        text_json_string(json, catalog_field(c, i)->name);
        text_printf(json, ":");
        put_value(json, c, catalog_field(c, i), value);
    }
    text_printf(json, "}");
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
            put_number(&content, FB_INT64, value);
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
