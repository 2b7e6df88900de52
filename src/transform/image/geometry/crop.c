/* center_crop and random_crop: a window of fixed size, with torchvision's rules for images that are smaller. */
#include "transform/draws.h"
#include "transform/transform_list.h"
#include "transform/image/geometry/crop_window.h"

struct crop {
    struct border border;
    struct option_numbers size_text;
    bool pad_if_needed;
    uint32_t height, width;
};

static bool crop_fixed(const void *params, bool is_fixed, uint32_t *height, uint32_t *width)
{
    const struct crop *p = params;
    (void)is_fixed;
    *height = p->height;
    *width = p->width;
    return true;
}

/* Half of what is too much, halves to even; or half of what is missing as border before. */
static void center_axis(uint32_t in, uint32_t want, double *at, double *outer)
{
    *at = in > want ? round_half_even((in - want) / 2.0) : 0;
    *outer = in < want ? (want - in) / 2 : 0;
}

static int center_plan(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e)
{
    const struct crop *p = params;
    (void)rng, (void)e;
    s->out_height = p->height;
    s->out_width = p->width;
    center_axis(s->in_height, p->height, &s->value[AT_TOP], &s->value[OUTER_TOP]);
    center_axis(s->in_width, p->width, &s->value[AT_LEFT], &s->value[OUTER_LEFT]);
    return 0;
}

/* pad_if_needed adds all that is missing on both sides; so the window can move. */
static uint32_t border_axis(const struct crop *p, uint32_t *size, uint32_t want)
{
    uint32_t outer = p->pad_if_needed && *size < want ? want - *size : 0;
    *size += 2 * outer;
    return outer;
}

static int random_plan(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e)
{
    const struct crop *p = params;
    uint32_t height = s->in_height + p->border.padding[1] + p->border.padding[3],
             width = s->in_width + p->border.padding[0] + p->border.padding[2];
    s->value[OUTER_LEFT] = border_axis(p, &width, p->width);
    s->value[OUTER_TOP] = border_axis(p, &height, p->height);
    if (height < p->height || width < p->width) {
        error_set(e, FB_E_DATA, "transform", "random_crop: the image is %u x %u pixels (width x height), the crop %u x %u", width, height,
                  p->width, p->height);
        error_remedy(e, "crop less, resize before, or say pad_if_needed=1");
        return FB_E_DATA;
    }
    s->value[AT_TOP] = draw_below(rng, height - p->height + 1);
    s->value[AT_LEFT] = draw_below(rng, width - p->width + 1);
    s->out_height = p->height;
    s->out_width = p->width;
    return 0;
}

static int center_check(void *params, struct fb_error *e)
{
    struct crop *p = params;
    return size_option(&p->size_text, &p->height, &p->width, "center_crop", e);
}

static int random_check(void *params, struct fb_error *e)
{
    struct crop *p = params;
    if (p->border.padding_text.count > 0)
        FB_TRY(padding_option(&p->border.padding_text, p->border.padding, "random_crop", e));
    FB_TRY(fill_option(&p->border.fill_text, p->border.fill, "random_crop", e));
    return size_option(&p->size_text, &p->height, &p->width, "random_crop", e);
}

/* It has no colour of its own: black, and class 0. */
static const struct option center_options[] = {
    {"size", OPTION_NUMBERS, offsetof(struct crop, size_text), 1, IMAGE_MAX_SIDE, NULL, "H,W",
     "height and width in pixels, or one number for both"},
    {0},
};

static const struct option random_options[] = {
    {"size", OPTION_NUMBERS, offsetof(struct crop, size_text), 1, IMAGE_MAX_SIDE, NULL, "H,W",
     "height and width in pixels, or one number for both"},
    {"padding", OPTION_NUMBERS, offsetof(struct crop, border.padding_text), 0, IMAGE_MAX_SIDE, NULL, "N",
     "border before cropping: 1, 2 or 4 numbers (left,top,right,bottom); default none"},
    {"pad_if_needed", OPTION_FLAG, offsetof(struct crop, pad_if_needed), 0, 0, NULL, NULL, "pad images smaller than the crop; default 0"},
    {"fill", OPTION_NUMBERS, offsetof(struct crop, border.fill_text), 0, 255, NULL, "V",
     "border colour, 0 to 255, one number or R,G,B; default 0"},
    {"mask_fill", OPTION_INT, offsetof(struct crop, border.mask_fill), 0, 255, NULL, "V",
     "value of the borders of masks, 0 to 255; default 0"},
    {"padding_mode", OPTION_CHOICE, offsetof(struct crop, border.mode), 0, 0, border_names, "MODE", "what borders show; default constant"},
    {0},
};

const struct transform_ops transform_center_crop = {
    .name = "center_crop",
    .takes = TAKES_IMAGES,
    .options = center_options,
    .params_size = sizeof(struct crop),
    .check = center_check,
    .for_mask = window_for_mask,
    .fixed = crop_fixed,
    .plan = center_plan,
    .back = window_back,
    .is_idle = window_is_idle,
    .memory = window_memory,
    .apply = window_apply,
};

const struct transform_ops transform_random_crop = {
    .name = "random_crop",
    .takes = TAKES_IMAGES,
    .flags = TRANSFORM_IS_RANDOM,
    .options = random_options,
    .params_size = sizeof(struct crop),
    .check = random_check,
    .for_mask = window_for_mask,
    .fixed = crop_fixed,
    .plan = random_plan,
    .back = window_back,
    .is_idle = window_is_idle,
    .memory = window_memory,
    .apply = window_apply,
};
