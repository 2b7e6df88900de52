/* pad: a border of fixed width on each side. */
#include "transform/transform_list.h"
#include "transform/image/geometry/crop_window.h"

static int pad_check(void *params, struct fb_error *e)
{
    struct border *p = params;
    if (p->padding_text.count == 0)
        return error_set(e, FB_E_USAGE, "transform", "pad: padding= is missing");
    FB_TRY(padding_option(&p->padding_text, p->padding, "pad", e));
    return fill_option(&p->fill_text, p->fill, "pad", e);
}

static bool pad_fixed(const void *params, bool is_fixed, uint32_t *height, uint32_t *width)
{
    const struct border *p = params;
    *height += p->padding[1] + p->padding[3];
    *width += p->padding[0] + p->padding[2];
    return is_fixed;
}

static int pad_plan(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e)
{
    (void)rng, (void)e;
    s->out_height = s->in_height;
    s->out_width = s->in_width;
    pad_fixed(params, true, &s->out_height, &s->out_width);
    return 0;
}

static const struct option pad_options[] = {
    {"padding", OPTION_NUMBERS, offsetof(struct border, padding_text), 0, IMAGE_MAX_SIDE, NULL, "N",
     "border in pixels: 1, 2 or 4 numbers (left,top,right,bottom)"},
    {"fill", OPTION_NUMBERS, offsetof(struct border, fill_text), 0, 255, NULL, "V",
     "border colour, 0 to 255, one number or R,G,B; default 0"},
    {"mask_fill", OPTION_INT, offsetof(struct border, mask_fill), 0, 255, NULL, "V", "value of the borders of masks, 0 to 255; default 0"},
    {"padding_mode", OPTION_CHOICE, offsetof(struct border, mode), 0, 0, border_names, "MODE", "what borders show; default constant"},
    {0},
};

const struct transform_ops transform_pad = {
    .name = "pad",
    .takes = TAKES_IMAGES,
    .options = pad_options,
    .params_size = sizeof(struct border),
    .check = pad_check,
    .for_mask = window_for_mask,
    .fixed = pad_fixed,
    .plan = pad_plan,
    .back = window_back,
    .is_idle = window_is_idle,
    .memory = window_memory,
    .apply = window_apply,
};
