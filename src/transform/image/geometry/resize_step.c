#include "transform/image/geometry/resize_step.h"

static struct region source_of(const struct step_plan *s)
{
    return (struct region){(uint32_t)s->value[SOURCE_TOP], (uint32_t)s->value[SOURCE_LEFT], (uint32_t)s->value[SOURCE_HEIGHT],
                           (uint32_t)s->value[SOURCE_WIDTH]};
}

void resize_step_for_mask(void *params)
{
    *(struct resize_step *)params = (struct resize_step){.kind = RESAMPLE_NEAREST};
}

uint32_t resize_step_reduce(const struct resize_step *r, struct step_plan *s)
{
    struct region source = source_of(s);
    uint32_t scale = r->draft ? draft_scale(source.height, source.width, s->out_height, s->out_width) : 1;
    s->in_height = image_reduced(s->in_height, scale);
    s->in_width = image_reduced(s->in_width, scale);
    return scale;
}

struct region resize_step_back(const void *params, const struct step_plan *s, struct region out)
{
    enum resample_kind kind = (enum resample_kind)((const struct resize_step *)params)->kind;
    struct region source = source_of(s), need;
    resample_span(kind, source.height, s->out_height, out.top, out.height, &need.top, &need.height);
    resample_span(kind, source.width, s->out_width, out.left, out.width, &need.left, &need.width);
    need.top += source.top;
    need.left += source.left;
    return need;
}

/* Inputs under outputs [from, from + count), rounded outwards. */
static void seen_axis(uint32_t in, uint32_t out, uint32_t from, uint32_t count, uint32_t *start, uint32_t *length)
{
    uint64_t first = (uint64_t)from * in / out, end = (((uint64_t)from + count) * in + out - 1) / out;
    *start = (uint32_t)first;
    *length = (uint32_t)(end - first);
}

struct region resize_step_seen(const void *params, const struct step_plan *s, struct region out)
{
    struct region source = source_of(s), seen;
    (void)params;
    seen_axis(source.height, s->out_height, out.top, out.height, &seen.top, &seen.height);
    seen_axis(source.width, s->out_width, out.left, out.width, &seen.left, &seen.width);
    seen.top += source.top;
    seen.left += source.left;
    return seen;
}

bool resize_step_is_idle(const void *params, const struct step_plan *s, struct region out)
{
    struct region source = source_of(s);
    (void)params, (void)out;
    return source.height == s->out_height && source.width == s->out_width;
}

void resize_step_resample(const void *params, const struct step_plan *s, struct region out, struct resample *job)
{
    struct region source = source_of(s);
    *job = (struct resample){
        .kind = (enum resample_kind)((const struct resize_step *)params)->kind,
        .x = {source.width, s->out_width, s->need.left - source.left, s->need.width, out.left, out.width},
        .y = {source.height, s->out_height, s->need.top - source.top, s->need.height, out.top, out.height},
    };
}

size_t resize_step_memory(const void *params, const struct step_plan *s, struct region out, bool *is_in_place)
{
    struct resample job;
    resize_step_resample(params, s, out, &job);
    *is_in_place = false;
    return resample_work_bytes(&job, 3);
}

void resize_step_apply(const void *params, const struct step_plan *s, struct region out, struct image *image, const struct step_memory *m)
{
    struct resample job;
    resize_step_resample(params, s, out, &job);
    resample_run(&job, 3, image->data, image->stride, m->pixels, m->pixels_stride, m->work);
    *image = (struct image){m->pixels, m->pixels_stride, out.width, out.height};
}
