#include "feed/engine/batch_shape.h"

#include <string.h>

#include "feed/arrays.h"

static int add_image_field(const struct feed *f, struct slot_shape *s, const char *name, struct fb_error *e)
{
    enum fb_dtype dtype = pipeline_dtype(chain_last(&f->chain));
    int64_t size = (int64_t)fb_dtype_size(dtype), h = f->out_height, w = f->out_width;
    if (dtype == FB_UINT64) /* the digest transform: one number per image */
        return slot_shape_add(s, "digest", dtype, 0, NULL, NULL, e);
    switch (pipeline_layout(chain_last(&f->chain))) {
    case FB_NCHW: return slot_shape_add(s, name, dtype, 3, (int64_t[]){3, h, w}, NULL, e);
    case FB_NHWC: return slot_shape_add(s, name, dtype, 3, (int64_t[]){h, w, 3}, NULL, e);
    default: return slot_shape_add(s, name, dtype, 3, (int64_t[]){3, h, w}, (int64_t[]){size, 3 * w * size, 3 * size}, e);
    }
}

/* The further files that come before label `label`, or after the last. */
static int add_file_fields(const struct feed *f, struct slot_shape *s, int label, struct fb_error *e)
{
    for (int i = 0; i < f->files.count; i++) {
        const struct file_field *file = &f->files.field[i];
        if (file->labels_before != label)
            continue;
        FB_TRY(file->is_mask ? slot_shape_add(s, file->name, FB_UINT8, 2, (int64_t[]){f->out_height, f->out_width}, NULL, e)
                             : add_image_field(f, s, file->name, e));
    }
    return 0;
}

int shape_of_batch(const struct feed *f, uint64_t places, struct slot_shape *s, struct fb_error *e)
{
    memset(s, 0, sizeof(*s));
    s->places = (uint32_t)places;
    FB_TRY(f->arrays ? arrays_add_fields(f->arrays, s, e) : add_image_field(f, s, "image", e));
    for (int i = 0; i < f->labels.count; i++) {
        FB_TRY(add_file_fields(f, s, i, e));
        const struct fb_column *field = &f->labels.field[i].shown;
        FB_TRY(slot_shape_add(s, field->name, field->dtype, field->ndim, field->shape, NULL, e));
    }
    FB_TRY(add_file_fields(f, s, f->labels.count, e));
    return s->has_rows ? slot_shape_add_lengths(s, e) : 0;
}
