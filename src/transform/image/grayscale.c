/* grayscale and random_grayscale: Pillow's luma in all three channels. */
#include "transform/draws.h"
#include "transform/image/kernels/image_kernels.h"
#include "transform/image/pointwise.h"
#include "transform/transform_list.h"

struct grayscale {
    int64_t channels;
    double p;
};

enum { IS_GRAY }; /* step_plan.value */

static void set_defaults(void *params)
{
    *(struct grayscale *)params = (struct grayscale){.channels = 3, .p = 0.1};
}

static int always_plan(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e)
{
    (void)params, (void)rng, (void)e;
    s->value[IS_GRAY] = 1;
    s->out_height = s->in_height;
    s->out_width = s->in_width;
    return 0;
}

static int random_plan(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e)
{
    always_plan(params, rng, s, e);
    s->value[IS_GRAY] = draw_chance(rng, ((const struct grayscale *)params)->p);
    return 0;
}

static void gray_show(const struct drawn *d, int count, struct json_writer *w)
{
    bool is_gray = false;
    for (int i = 0; i < count; i++)
        is_gray |= d[i].value[IS_GRAY] != 0;
    json_put(w, J_BOOL("gray", is_gray));
}

static bool gray_is_idle(const void *params, const struct step_plan *s, struct region out)
{
    (void)params, (void)out;
    return !s->value[IS_GRAY];
}

static void gray_apply(const void *params, const struct step_plan *s, struct region out, struct image *image, const struct step_memory *m)
{
    (void)params, (void)s, (void)out, (void)m;
    struct runs r = runs_of(image);
    for (uint32_t i = 0; i < r.count; i++)
        kernels()->gray(image->data + i * image->stride, r.pixels);
}

static const struct option always_options[] = {
    {"channels", OPTION_INT, offsetof(struct grayscale, channels), 3, 3, NULL, "3", "channels of the result, all equal; only 3"},
    {0},
};

static const struct option random_options[] = {
    {"p", OPTION_DOUBLE, offsetof(struct grayscale, p), 0, 1, NULL, "P", "probability; default 0.1"},
    {0},
};

const struct transform_ops transform_grayscale = {
    .name = "grayscale",
    .takes = TAKES_IMAGES,
    .flags = TRANSFORM_IS_POINTWISE,
    .options = always_options,
    .params_size = sizeof(struct grayscale),
    .defaults = set_defaults,
    .plan = always_plan,
    .apply = gray_apply,
};

const struct transform_ops transform_random_grayscale = {
    .name = "random_grayscale",
    .takes = TAKES_IMAGES,
    .flags = TRANSFORM_IS_RANDOM | TRANSFORM_IS_POINTWISE,
    .options = random_options,
    .params_size = sizeof(struct grayscale),
    .defaults = set_defaults,
    .plan = random_plan,
    .show = gray_show,
    .is_idle = gray_is_idle,
    .apply = gray_apply,
};
