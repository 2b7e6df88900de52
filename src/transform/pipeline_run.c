/* Running a plan: each step takes the image at hand to the next; the last image is stored in the sample's place. */
#include "transform/image/geometry/orient.h"
#include "transform/pipeline_internal.h"
#include "transform/image/kernels/resample/resample.h"
#include "transform/image/store.h"

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

static struct step_memory memory_of(struct run *r, int i)
{
    const struct step *step = &r->p->step[i];
    struct region out = step_out(r->p, r->plan, i);
    bool is_in_place = true;
    if (step->ops->memory)
        step->ops->memory(step->params, &r->plan->step[i], out, &is_in_place);
    struct step_memory m = {NULL, (size_t)out.width * 3, r->work};
    if (!is_in_place)
        m.pixels = is_made_in_place(r, i) ? r->out->data : r->buffer[r->turn++ % 2];
    return m;
}

static void run_step(struct run *r, int i)
{
    const struct step *step = &r->p->step[i];
    if (step_is_idle(r->p, r->plan, i))
        return;
    struct step_memory m = memory_of(r, i);
    step->ops->apply(step->params, &r->plan->step[i], step_out(r->p, r->plan, i), &r->image, &m);
}

static int check_sizes(const struct pipeline *p, const struct plan *plan, const struct image *decoded, const struct place *out,
                       struct fb_error *e)
{
    uint32_t height = p->number ? 1 : plan->out_height, width = p->number ? 1 : plan->out_width;
    if (decoded->height != plan->region.height || decoded->width != plan->region.width)
        return error_set(e, FB_E_STATE, "transform", "the decoded region is %u x %u pixels, but %u x %u were planned", decoded->width,
                         decoded->height, plan->region.width, plan->region.height);
    if (out->height != height || out->width != width || out->dtype != p->dtype)
        return error_set(e, FB_E_STATE, "transform", "the place is for %u x %u pixels, but %u x %u were planned", out->width, out->height,
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
    if (r->p->number)
        return r->p->number(&r->image, r->out->data, e);
    if (r->p->gives_numbers)
        return store_mask(&r->image, r->out, r->hflip, r->vflip, e);
    if (r->image.data != r->out->data)
        store_image(&r->image, r->out, r->hflip, r->vflip, &r->p->levels);
    return 0;
}

static int begin(struct run *r, const struct pipeline *p, const struct plan *plan, const struct image *decoded, const struct place *out,
                 struct scratch *scratch, struct fb_error *e)
{
    FB_TRY(check_sizes(p, plan, decoded, out, e));
    *r = (struct run){.p = p, .plan = plan, .out = out, .memory = run_memory_of(p, plan), .image = *decoded};
    plan_folded_flips(p, plan, &r->hflip, &r->vflip);
    return divide_scratch(r, scratch, e);
}

int pipeline_run(const struct pipeline *p, const struct plan *plan, const struct image *decoded, const struct place *out,
                 struct scratch *scratch, struct fb_error *e)
{
    struct run r;
    FB_TRY(begin(&r, p, plan, decoded, out, scratch, e));
    run_orientation(&r);
    for (int i = 0; i < p->step_count; i++)
        run_step(&r, i);
    return finish(&r, e);
}

/* ---- while the region is decoded: its first step is a resampling, whose pass along rows takes them as they come ---- */

enum { BAND_ROWS = CODEC_RING_ROWS / 2 }; /* what the pass along rows does best at a time */

struct intake {
    struct resample job;
    struct resample_bands bands;
    const struct image *ring;
    uint32_t done;
};

static void take_rows(void *ctx, uint32_t first, uint32_t count)
{
    struct intake *t = ctx;
    uint32_t ready = first + count, end = ready == t->ring->height ? ready : ready / BAND_ROWS * BAND_ROWS;
    if (first == 0)
        t->done = 0;
    for (uint32_t n; t->done < end; t->done += n) {
        n = end - t->done < BAND_ROWS ? end - t->done : BAND_ROWS;
        resample_take(&t->bands, t->done, n, t->ring->data + t->done % CODEC_RING_ROWS * t->ring->stride, t->ring->stride);
    }
}

bool pipeline_takes_rows(const struct pipeline *p, const struct plan *plan)
{
    struct resample job;
    if (p->step_count == 0 || !p->step[0].ops->resample || plan_orientation(p, plan) != 1 || step_is_idle(p, plan, 0))
        return false;
    p->step[0].ops->resample(p->step[0].params, &plan->step[0], step_out(p, plan, 0), &job);
    return resample_takes_bands(&job);
}

int pipeline_run_rows(const struct pipeline *p, const struct plan *plan, const struct image *ring, pipeline_decode_fn *decode, void *ctx,
                      const struct place *out, struct scratch *scratch, struct fb_error *e)
{
    struct run r;
    struct intake t = {.ring = ring};
    struct region made = step_out(p, plan, 0);
    FB_TRY(begin(&r, p, plan, ring, out, scratch, e));
    p->step[0].ops->resample(p->step[0].params, &plan->step[0], made, &t.job);
    resample_begin(&t.bands, &t.job, 3, r.work);
    int rc = decode(ctx, ring, &(struct row_taker){take_rows, &t}, e);
    if (rc != 0)
        return rc;
    struct step_memory m = memory_of(&r, 0);
    resample_end(&t.bands, m.pixels, m.pixels_stride);
    r.image = (struct image){m.pixels, m.pixels_stride, made.width, made.height};
    for (int i = 1; i < p->step_count; i++)
        run_step(&r, i);
    return finish(&r, e);
}

bool pipeline_is_identity(const struct pipeline *p, const struct plan *plan)
{
    bool hflip, vflip;
    plan_folded_flips(p, plan, &hflip, &vflip);
    if (!is_uint8_pixels(p) || p->number || hflip || vflip || plan_orientation(p, plan) != 1)
        return false;
    for (int i = 0; i < p->step_count; i++)
        if (!step_is_idle(p, plan, i))
            return false;
    return true;
}
