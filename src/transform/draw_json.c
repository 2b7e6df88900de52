#include <stdarg.h>
#include <stdio.h>

#include "base/text/text.h"
#include "transform/pipeline.h"

/* snprintf that goes on where it stopped; counts what it would have written. */
struct writer {
    char *out;
    size_t size, length;
};

static void put(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct writer *w, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    bool is_full = w->length >= w->size;
    int n = text_vformat(is_full ? NULL : w->out + w->length, is_full ? 0 : w->size - w->length, format, ap);
    va_end(ap);
    w->length += n > 0 ? (size_t)n : 0;
}

static const char *truth(bool b)
{
    return b ? "true" : "false";
}

static void put_jitter(struct writer *w, const struct draw *d)
{
    static const char *const names[4] = {"brightness", "contrast", "saturation", "hue"};
    const float factors[4] = {d->brightness, d->contrast, d->saturation, d->hue};
    put(w, ",\"jitter\":[");
    for (int i = 0; i < 4 && d->jitter_order[i] < 4; i++)
        put(w, "%s[\"%s\",%.9g]", i ? "," : "", names[d->jitter_order[i]], (double)factors[d->jitter_order[i]]);
    put(w, "]");
}

int pipeline_draw_json(const struct draw *d, char *out, size_t out_size)
{
    struct writer w = {out, out_size, 0};
    put(&w, "{\"top\":%u,\"left\":%u,\"height\":%u,\"width\":%u", d->crop.top, d->crop.left, d->crop.height, d->crop.width);
    if (d->has & DRAW_HAS_HFLIP)
        put(&w, ",\"hflip\":%s", truth(d->hflip));
    if (d->has & DRAW_HAS_VFLIP)
        put(&w, ",\"vflip\":%s", truth(d->vflip));
    if (d->has & DRAW_HAS_JITTER)
        put_jitter(&w, d);
    if (d->has & DRAW_HAS_GRAY)
        put(&w, ",\"gray\":%s", truth(d->gray));
    put(&w, "}");
    return (int)w.length;
}
