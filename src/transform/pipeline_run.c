/* Running a plan: each step takes the image at hand to the next; the last image is stored in the sample's place. */
#include "transform/digest.h"
#include "transform/orient.h"
#include "transform/pipeline_own.h"
#include "transform/store.h"

struct run {
    const struct pipeline *p;
    const struct plan *plan;
    const struct place *out;
    struct run_memory memory;
    uint8_t *buffer[2];
    void *work;
    int turn;
    bool hflip, vflip;
    struct image image;
};

static bool is_uint8_pixels(const struct pipeline *p)
{
    return p->dtype == FB_UINT8 && p->layout != FB_NCHW;
}

/* The last image made may be made in the place itself, when it is the result but for steps that work in place. */
static bool is_made_in_place(const struct run *r, int i)
{
    struct region made = step_out(r->p, r->plan, i);
    return i == r->memory.last_made && is_uint8_pixels(r->p) && !r->hflip && !r->vflip && made.height == r->plan->out_height &&
           made.width == r->plan->out_width;
}

static void run_orientation(struct run *r)
{
    int orientation = plan_orientation(r->p, r->plan);
    if (orientation == 1)
        return;
    bool is_transposed = orient_is_transposed(orientation);
    uint32_t width = is_transposed ? r->image.height : r->image.width, height = is_transposed ? r->image.width : r->image.height;
    struct image upright = {r->buffer[r->turn++ % 2], (size_t)width * 3, width, height};
    orient_apply(orientation, &r->image, &upright);
    r->image = upright;
}

static void run_step(struct run *r, int i)
{
    const struct step *step = &r->p->step[i];
    const struct step_plan *s = &r->plan->step[i];
    struct region out = step_out(r->p, r->plan, i);
    bool is_in_place = true;
    if (step_is_idle(r->p, r->plan, i))
        return;
    if (step->ops->memory)
        step->ops->memory(step->params, s, out, &is_in_place);
    struct step_memory m = {NULL, (size_t)out.width * 3, r->work};
    if (!is_in_place)
        m.pixels = is_made_in_place(r, i) ? r->out->data : r->buffer[r->turn++ % 2];
    step->ops->apply(step->params, s, out, &r->image, &m);
}

static int check_sizes(const struct pipeline *p, const struct plan *plan, const struct image *decoded, const struct place *out,
                       struct fb_error *e)
{
    uint32_t height = p->is_digest ? 1 : plan->out_height, width = p->is_digest ? 1 : plan->out_width;
    if (decoded->height != plan->region.height || decoded->width != plan->region.width)
        return error_set(e, FB_E_STATE, "transform", "the decoded region is %u x %u pixels, planned were %u x %u", decoded->width,
                         decoded->height, plan->region.width, plan->region.height);
    if (out->height != height || out->width != width || out->dtype != p->dtype)
        return error_set(e, FB_E_STATE, "transform", "the place is for %u x %u pixels, planned were %u x %u", out->width, out->height,
                         width, height);
    return 0;
}

static int divide_scratch(struct run *r, struct scratch *scratch, struct fb_error *e)
{
    if (r->plan->scratch_bytes == 0)
        return 0;
    uint8_t *memory = scratch_need(scratch, r->plan->scratch_bytes, e);
    if (!memory)
        return e && e->code ? e->code : FB_E_NOMEM;
    r->buffer[0] = memory;
    r->buffer[1] = memory + r->memory.image_bytes[0];
    r->work = memory + r->memory.image_bytes[0] + r->memory.image_bytes[1];
    return 0;
}

static int finish(const struct run *r, struct fb_error *e)
{
    if (r->p->is_digest)
        return digest_image(&r->image, r->out->data, e);
    if (r->image.data != r->out->data)
        store_image(&r->image, r->out, r->hflip, r->vflip, &r->p->levels);
    return 0;
}

int pipeline_run(const struct pipeline *p, const struct plan *plan, const struct image *decoded, const struct place *out,
                 struct scratch *scratch, struct fb_error *e)
{
    FB_TRY(check_sizes(p, plan, decoded, out, e));
    struct run r = {.p = p, .plan = plan, .out = out, .memory = run_memory_of(p, plan), .image = *decoded};
    plan_folded_flips(p, plan, &r.hflip, &r.vflip);
    FB_TRY(divide_scratch(&r, scratch, e));
    run_orientation(&r);
    for (int i = 0; i < p->step_count; i++)
        run_step(&r, i);
    return finish(&r, e);
}

bool pipeline_is_identity(const struct pipeline *p, const struct plan *plan)
{
    bool hflip, vflip;
    plan_folded_flips(p, plan, &hflip, &vflip);
    if (!is_uint8_pixels(p) || p->is_digest || hflip || vflip || plan_orientation(p, plan) != 1)
        return false;
    for (int i = 0; i < p->step_count; i++)
        if (!step_is_idle(p, plan, i))
            return false;
    return true;
}
