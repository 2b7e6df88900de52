#include "feed/engine/batch_shape.h"

#include <string.h>

#include "feed/load_ops.h"

int shape_of_batch(struct feed *f, uint64_t places, struct slot_shape *s, struct fb_error *e)
{
    memset(s, 0, sizeof(*s));
    s->places = (uint32_t)places;
    for (int i = 0; i < f->labels.count; i++) {
        FB_TRY(f->kind->add_fields(f, i, s, e));
        f->labels.field[i].batch_field = s->field_count;
        const struct fb_column *field = &f->labels.field[i].shown;
        FB_TRY(slot_shape_add(s, field->name, field->dtype, field->ndim, field->shape, NULL, e));
    }
    FB_TRY(f->kind->add_fields(f, f->labels.count, s, e));
    return s->has_rows ? slot_shape_add_lengths(s, e) : 0;
}
