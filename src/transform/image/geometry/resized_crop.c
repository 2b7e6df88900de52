/* random_resized_crop: a crop of random area and aspect, resized as an image of its own (its edges are the image's edges). */
#include <math.h>

#include "transform/draws.h"
#include "transform/image/geometry/resize_step.h"
#include "transform/transform_list.h"

struct resized_crop {
    struct resize_step step;
    struct option_numbers size_text, scale, ratio;
    uint32_t height, width;
    double log_ratio[2];
};

enum { TRIES = 10 };

static void set_defaults(void *params)
{
    struct resized_crop *p = params;
    p->scale = (struct option_numbers){2, {0.08, 1.0}};
    p->ratio = (struct option_numbers){2, {3.0 / 4.0, 4.0 / 3.0}};
}

static bool is_range(const struct option_numbers *n)
{
    return n->count == 2 && n->value[0] > 0 && n->value[0] <= n->value[1];
}

static int resized_crop_check(void *params, struct fb_error *e)
{
    struct resized_crop *p = params;
    FB_TRY(size_option(&p->size_text, &p->height, &p->width, "random_resized_crop", e));
    if (!is_range(&p->scale))
        return error_set(e, FB_E_USAGE, "transform", "random_resized_crop: scale= wants two numbers, 0 < low <= high");
    if (!is_range(&p->ratio))
        return error_set(e, FB_E_USAGE, "transform", "random_resized_crop: ratio= wants two numbers, 0 < low <= high");
    p->log_ratio[0] = fixed_log(p->ratio.value[0]);
    p->log_ratio[1] = fixed_log(p->ratio.value[1]);
    return 0;
}

static bool resized_crop_fixed(const void *params, bool is_fixed, uint32_t *height, uint32_t *width)
{
    const struct resized_crop *p = params;
    (void)is_fixed;
    *height = p->height;
    *width = p->width;
    return true;
}

static bool try_crop(const struct resized_crop *p, struct rng *rng, struct step_plan *s)
{
    double area = (double)s->in_height * s->in_width * draw_uniform(rng, p->scale.value[0], p->scale.value[1]);
    double aspect = fixed_exp(draw_uniform(rng, p->log_ratio[0], p->log_ratio[1]));
    double width = round_half_even(sqrt(area * aspect)), height = round_half_even(sqrt(area / aspect));
    if (!(width > 0 && width <= s->in_width && height > 0 && height <= s->in_height))
        return false;
    s->value[SOURCE_HEIGHT] = height;
    s->value[SOURCE_WIDTH] = width;
    s->value[SOURCE_TOP] = draw_below(rng, s->in_height - (uint32_t)height + 1);
    s->value[SOURCE_LEFT] = draw_below(rng, s->in_width - (uint32_t)width + 1);
    return true;
}

/* The largest centred crop whose aspect is allowed; at least one pixel (a 1 x 65500 strip would round to none). */
static void fall_back(const struct resized_crop *p, struct step_plan *s)
{
    double height = s->in_height, width = s->in_width, aspect = width / height;
    if (aspect < p->ratio.value[0])
        height = round_half_even(width / p->ratio.value[0]);
    else if (aspect > p->ratio.value[1])
        width = round_half_even(height * p->ratio.value[1]);
    s->value[SOURCE_HEIGHT] = height < 1 ? 1 : height > s->in_height ? s->in_height : height;
    s->value[SOURCE_WIDTH] = width < 1 ? 1 : width > s->in_width ? s->in_width : width;
    s->value[SOURCE_TOP] = floor((s->in_height - s->value[SOURCE_HEIGHT]) / 2);
    s->value[SOURCE_LEFT] = floor((s->in_width - s->value[SOURCE_WIDTH]) / 2);
}

static int resized_crop_plan(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e)
{
    const struct resized_crop *p = params;
    (void)e;
    s->out_height = p->height;
    s->out_width = p->width;
    for (int i = 0; i < TRIES; i++)
        if (try_crop(p, rng, s))
            return 0;
    fall_back(p, s);
    return 0;
}

/* The crop was drawn on the full image; on the reduced one it is cut to whole pixels inside. */
static uint32_t resized_crop_draft(const void *params, struct step_plan *s)
{
    uint32_t scale = resize_step_reduce(params, s);
    for (int i = SOURCE_TOP; i <= SOURCE_WIDTH; i++)
        s->value[i] = floor(s->value[i] / scale);
    return scale;
}

static const struct option resized_crop_options[] = {
    {"size", OPTION_NUMBERS, offsetof(struct resized_crop, size_text), 1, IMAGE_MAX_SIDE, NULL, "H,W",
     "height and width of the result in pixels, or one number for both"},
    {"scale", OPTION_NUMBERS, offsetof(struct resized_crop, scale), 1e-6, 1e6, NULL, "LOW,HIGH",
     "share of the image's area, drawn evenly; default 0.08,1"},
    {"ratio", OPTION_NUMBERS, offsetof(struct resized_crop, ratio), 1e-6, 1e6, NULL, "LOW,HIGH",
     "width / height, its logarithm drawn evenly; default 3/4,4/3"},
    {"interpolation", OPTION_CHOICE, offsetof(struct resized_crop, step.kind), 0, 0, interpolation_names, "NAME",
     "filter: bilinear or bicubic, antialiased, or nearest; default bilinear"},
    {"draft", OPTION_FLAG, offsetof(struct resized_crop, step.draft), 0, 0, NULL, NULL,
     "1: let a JPEG be decoded at 1/2, 1/4 or 1/8 first, as Pillow's draft() does; other pixels, less work"},
    {0},
};

const struct transform_ops transform_random_resized_crop = {
    .name = "random_resized_crop",
    .takes = TAKES_IMAGES,
    .flags = TRANSFORM_IS_RANDOM,
    .options = resized_crop_options,
    .params_size = sizeof(struct resized_crop),
    .defaults = set_defaults,
    .check = resized_crop_check,
    .for_mask = resize_step_for_mask,
    .fixed = resized_crop_fixed,
    .plan = resized_crop_plan,
    .draft = resized_crop_draft,
    .back = resize_step_back,
    .seen = resize_step_seen,
    .is_idle = resize_step_is_idle,
    .memory = resize_step_memory,
    .resample = resize_step_resample,
    .apply = resize_step_apply,
};
