#include "codec/array/array_window.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

int array_damaged(struct fb_error *e, int64_t offset, const char *format, ...)
{
    char cause[384];
    va_list ap;
    va_start(ap, format);
    text_vwords(cause, sizeof(cause), format, ap);
    va_end(ap);
    error_set(e, FB_E_DATA, "decode", "%s", cause);
    error_at(e, NULL, offset);
    return FB_E_DATA;
}

int array_file_make(struct array_file *f, const char *format, uint64_t object_size, int count, size_t extra, void **more,
                    struct fb_error *e)
{
    assert(count >= 0 && count <= ARRAY_MAX_IN_FILE);
    size_t bytes = (size_t)count * sizeof(struct array_layout);
    *f = (struct array_file){.format = format, .object_size = object_size, .count = count};
    f->memory = calloc(1, bytes + extra + 1);
    if (!f->memory)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for the description of %d arrays", count);
    f->array = f->memory;
    if (more)
        *more = (uint8_t *)f->memory + bytes;
    return 0;
}

void array_make_unreadable(struct array_layout *a, const char *why)
{
    a->storage = ARRAY_OPAQUE;
    a->dtype = FB_UINT8;
    a->code = ARRAY_PLAIN;
    a->stored_bytes = 1;
    snprintf(a->why_opaque, sizeof(a->why_opaque), "%s", why);
}

int array_unreadable_rows(const struct array_source *s, const struct array_layout *a, uint64_t first, uint64_t rows, void *out,
                          struct fb_error *e)
{
    (void)s, (void)first, (void)rows, (void)out;
    char name[96];
    return error_set(e, FB_E_UNSUPPORTED, "decode", "the array \"%s\" cannot be read: %s", text_escape(a->name, name, sizeof(name)),
                     a->why_opaque);
}

int array_peek(struct array_window *w, uint64_t offset, size_t length, const uint8_t **bytes, struct fb_error *e)
{
    uint64_t size = w->source->size;
    assert(length <= sizeof(w->bytes));
    if (offset > size || length > size - offset)
        return array_damaged(e, (int64_t)size, "the file is cut off: %zu bytes are wanted at %llu, it has %llu", length,
                             (unsigned long long)offset, (unsigned long long)size);
    if (offset < w->at || offset - w->at > w->n || length > w->n - (offset - w->at)) {
        size_t most = size - offset < sizeof(w->bytes) ? (size_t)(size - offset) : sizeof(w->bytes);
        w->n = 0;
        FB_TRY(w->source->read(w->source->ctx, offset, most, w->bytes, e));
        w->at = offset;
        w->n = most;
    }
    *bytes = w->bytes + (offset - w->at);
    return 0;
}

bool array_shape_bytes(const struct array_layout *a, uint64_t *bytes)
{
    bool fits = true;
    *bytes = a->stored_bytes;
    for (int d = 0; d < a->ndim; d++)
        if (__builtin_mul_overflow(*bytes, a->shape[d], bytes) || *bytes > INT64_MAX)
            fits = false;
    for (int d = 0; d < a->ndim; d++)
        if (!a->shape[d])
            *bytes = 0, fits = true;
    return fits;
}
