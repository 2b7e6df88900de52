#include "transform/image/resize_step.h"

struct region resize_step_back(const struct resize_step *r, struct region out)
{
    struct region need;
    resample_span(r->kind, r->source.height, r->out_height, out.top, out.height, &need.top, &need.height);
    resample_span(r->kind, r->source.width, r->out_width, out.left, out.width, &need.left, &need.width);
    need.top += r->source.top;
    need.left += r->source.left;
    return need;
}

/* Inputs under outputs [from, from + count), rounded outwards. */
static void seen_axis(uint32_t in, uint32_t out, uint32_t from, uint32_t count, uint32_t *start, uint32_t *length)
{
    uint64_t first = (uint64_t)from * in / out, end = (((uint64_t)from + count) * in + out - 1) / out;
    *start = (uint32_t)first;
    *length = (uint32_t)(end - first);
}

struct region resize_step_seen(const struct resize_step *r, struct region out)
{
    struct region seen;
    seen_axis(r->source.height, r->out_height, out.top, out.height, &seen.top, &seen.height);
    seen_axis(r->source.width, r->out_width, out.left, out.width, &seen.left, &seen.width);
    seen.top += r->source.top;
    seen.left += r->source.left;
    return seen;
}

bool resize_step_is_idle(const struct resize_step *r)
{
    return r->source.height == r->out_height && r->source.width == r->out_width;
}

struct resample resize_step_resample(const struct resize_step *r, const struct region *need, struct region out)
{
    return (struct resample){
        .kind = r->kind,
        .x = {r->source.width, r->out_width, need->left - r->source.left, need->width, out.left, out.width},
        .y = {r->source.height, r->out_height, need->top - r->source.top, need->height, out.top, out.height},
    };
}

size_t resize_step_memory(const struct resize_step *r, const struct region *need, struct region out)
{
    struct resample job = resize_step_resample(r, need, out);
    return resample_work_bytes(&job, 3);
}

void resize_step_apply(const struct resize_step *r, const struct region *need, struct region out, struct image *image,
                       const struct step_memory *m)
{
    struct resample job = resize_step_resample(r, need, out);
    resample_run(&job, 3, image->data, image->stride, m->pixels, m->pixels_stride, m->work);
    *image = (struct image){m->pixels, m->pixels_stride, out.width, out.height};
}
