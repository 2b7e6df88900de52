/* Planning: forwards through the steps for draws and sizes, backwards for the part of each image that is needed at all.
 *
 * So a crop before the first resize becomes the region to decode, and a crop after it limits what is resized and, with the filter's margin,
 * what is decoded.
 */
#include "base/round_up.h"
#include "transform/draws.h"
#include "transform/image/geometry/orient.h"
#include "transform/pipeline_internal.h"
#include "transform/transform_ops.h"

uint32_t draft_scale(uint32_t height, uint32_t width, uint32_t wanted_height, uint32_t wanted_width)
{
    uint32_t by_height = height / wanted_height, by_width = width / wanted_width;
    uint32_t most = by_height < by_width ? by_height : by_width;
    return most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/* Lets the first step ask for a reduced source. Turned images are decoded in full: their sides would have to be turned, too. */
static void plan_draft(const struct step *step, struct plan *plan, struct step_plan *s, int orientation)
{
    if (!step->ops->draft || !plan->header.can_scale || orientation != 1)
        return;
    uint32_t scale = step->ops->draft(step->params, s);
    if (scale == 1)
        return;
    plan->header.scale = (uint8_t)scale;
    plan->header.height = s->in_height;
    plan->header.width = s->in_width;
}

static int plan_forwards(const struct pipeline *p, const struct rng *rng, const double *labels, struct plan *plan, uint32_t height,
                         uint32_t width, struct fb_error *e)
{
    for (int i = 0; i < p->step_count; i++) {
        const struct step *step = &p->step[i];
        struct step_plan *s = &plan->step[i];
        *s = (struct step_plan){.in_height = height, .in_width = width, .labels = labels ? labels + step->first_label : NULL};
        struct rng own = draw_stream(rng, step->stream);
        FB_TRY(step->ops->plan(step->params, &own, s, e));
        s->labels = NULL;
        if (i == 0)
            plan_draft(step, plan, s, plan_orientation(p, plan));
        height = s->out_height;
        width = s->out_width;
    }
    plan->out_height = height;
    plan->out_width = width;
    return 0;
}

static int check_area(struct region r, const char *what, struct fb_error *e)
{
    if ((uint64_t)r.height * r.width <= IMAGE_MAX_PIXELS)
        return 0;
    return error_set(e, FB_E_DATA, "transform", "%s: an image of %u x %u pixels (width x height) is beyond the limit of %llu pixels", what,
                     r.width, r.height, (unsigned long long)IMAGE_MAX_PIXELS);
}

static int plan_backwards(const struct pipeline *p, struct plan *plan, struct region *first, struct fb_error *e)
{
    struct region r = region_of_size(plan->out_height, plan->out_width);
    for (int i = p->step_count - 1; i >= 0; i--) {
        const struct step *step = &p->step[i];
        FB_TRY(check_area(r, step->ops->name, e));
        if (step->ops->back)
            r = step->ops->back(step->params, &plan->step[i], r);
        plan->step[i].need = r;
    }
    *first = r;
    return 0;
}

static struct region seen_part(const struct pipeline *p, const struct plan *plan)
{
    struct region r = region_of_size(plan->out_height, plan->out_width);
    for (int i = p->step_count - 1; i >= 0; i--) {
        const struct transform_ops *ops = p->step[i].ops;
        if (ops->seen)
            r = ops->seen(p->step[i].params, &plan->step[i], r);
        else if (ops->back)
            r = ops->back(p->step[i].params, &plan->step[i], r);
    }
    return r;
}

static struct region in_source_pixels(struct region r, uint32_t scale)
{
    uint32_t k = scale ? scale : 1;
    return (struct region){r.top * k, r.left * k, r.height * k, r.width * k};
}

static size_t image_bytes(struct region r)
{
    return memory_rounded((size_t)r.height * r.width * 3);
}

static void grow(size_t *size, size_t bytes)
{
    *size = bytes > *size ? bytes : *size;
}

struct run_memory run_memory_of(const struct pipeline *p, const struct plan *plan)
{
    struct run_memory m = {.last_made = -1};
    int turn = 0;
    if (plan_orientation(p, plan) != 1)
        m.image_bytes[turn++ % 2] = image_bytes(plan->region);
    for (int i = 0; i < p->step_count; i++) {
        const struct transform_ops *ops = p->step[i].ops;
        bool is_in_place = true;
        if (step_is_idle(p, plan, i))
            continue;
        if (ops->memory)
            grow(&m.work_bytes, memory_rounded(ops->memory(p->step[i].params, &plan->step[i], step_out(p, plan, i), &is_in_place)));
        if (is_in_place)
            continue;
        grow(&m.image_bytes[turn++ % 2], image_bytes(step_out(p, plan, i)));
        m.last_made = i;
    }
    return m;
}

void plan_folded_flips(const struct pipeline *p, const struct plan *plan, bool *hflip, bool *vflip)
{
    *hflip = *vflip = false;
    for (int i = 0; i < p->step_count; i++) {
        const struct step *step = &p->step[i];
        bool is_drawn = step->is_folded && !step->ops->is_idle(step->params, &plan->step[i], plan->step[i].need);
        *(step->ops->flags & TRANSFORM_IS_HFLIP ? hflip : vflip) ^= is_drawn;
    }
}

bool pipeline_is_drawn(const struct pipeline *p, const struct plan *plan, int step)
{
    const struct transform_ops *ops = p->step[step].ops;
    return !ops->is_idle || !ops->is_idle(p->step[step].params, &plan->step[step], plan->step[step].need);
}

int pipeline_plan(const struct pipeline *p, const struct image_header *h, struct rng rng, struct plan *plan, struct fb_error *e)
{
    return pipeline_plan_labelled(p, h, rng, NULL, plan, e);
}

int pipeline_plan_labelled(const struct pipeline *p, const struct image_header *h, struct rng rng, const double *labels, struct plan *plan,
                           struct fb_error *e)
{
    plan->header = *h;
    plan->header.scale = 0;
    if (h->width == 0 || h->height == 0)
        return error_set(e, FB_E_DATA, "transform", "the image has no pixels (%u x %u)", h->width, h->height);
    int orientation = plan_orientation(p, plan);
    bool is_transposed = orient_is_transposed(orientation);
    struct region first;
    FB_TRY(plan_forwards(p, &rng, labels, plan, is_transposed ? h->width : h->height, is_transposed ? h->height : h->width, e));
    FB_TRY(plan_backwards(p, plan, &first, e));
    plan->region = orient_back(orientation, plan->header.height, plan->header.width, first);
    plan->seen = in_source_pixels(seen_part(p, plan), plan->header.scale);
    struct run_memory m = run_memory_of(p, plan);
    plan->scratch_bytes = m.image_bytes[0] + m.image_bytes[1] + m.work_bytes;
    return 0;
}
