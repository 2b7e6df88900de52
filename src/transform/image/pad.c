/* pad: a border of fixed width on each side. */
#include <string.h>

#include "transform/transform_list.h"
#include "transform/image/crop_window.h"

struct pad {
    struct option_numbers padding_text, fill_text;
    int64_t mask_fill;
    int mode;            /* enum border_mode */
    uint32_t padding[4]; /* left, top, right, bottom */
    uint8_t fill[3];
};

static struct window window_of(const struct pad *p, const struct step_plan *s)
{
    return (struct window){
        .y = {s->in_height, p->padding[1], p->padding[3], 0, 0},
        .x = {s->in_width, p->padding[0], p->padding[2], 0, 0},
        .mode = (enum border_mode)p->mode,
        .fill = {p->fill[0], p->fill[1], p->fill[2]},
    };
}

static int pad_check(void *params, struct fb_error *e)
{
    struct pad *p = params;
    if (p->padding_text.count == 0)
        return error_set(e, FB_E_USAGE, "transform", "pad: padding= is missing");
    FB_TRY(padding_option(&p->padding_text, p->padding, "pad", e));
    return fill_option(&p->fill_text, p->fill, "pad", e);
}

static void pad_for_mask(void *params)
{
    struct pad *p = params;
    memset(p->fill, (int)p->mask_fill, sizeof(p->fill));
}

static bool pad_fixed(const void *params, bool is_fixed, uint32_t *height, uint32_t *width)
{
    const struct pad *p = params;
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

static struct region pad_back(const void *params, const struct step_plan *s, struct region out)
{
    struct window w = window_of(params, s);
    return window_back(&w, out);
}

static bool pad_is_idle(const void *params, const struct step_plan *s, struct region out)
{
    struct window w = window_of(params, s);
    return window_is_inside(&w, out);
}

static size_t pad_memory(const void *params, const struct step_plan *s, struct region out, bool *is_in_place)
{
    (void)params, (void)s, (void)out;
    *is_in_place = false;
    return 0;
}

static void pad_apply(const void *params, const struct step_plan *s, struct region out, struct image *image, const struct step_memory *m)
{
    struct window w = window_of(params, s);
    window_apply(&w, &s->need, out, image, m);
}

static const struct option pad_options[] = {
    {"padding", OPTION_NUMBERS, offsetof(struct pad, padding_text), 0, IMAGE_MAX_SIDE, NULL, "N",
     "border in pixels: 1, 2 or 4 numbers (left,top,right,bottom)"},
    {"fill", OPTION_NUMBERS, offsetof(struct pad, fill_text), 0, 255, NULL, "V", "border colour, 0 to 255, one number or R,G,B; default 0"},
    {"mask_fill", OPTION_INT, offsetof(struct pad, mask_fill), 0, 255, NULL, "V", "what borders of masks hold, 0 to 255; default 0"},
    {"padding_mode", OPTION_CHOICE, offsetof(struct pad, mode), 0, 0, border_names, "MODE", "what borders show; default constant"},
    {0},
};

const struct transform_ops transform_pad = {
    .name = "pad",
    .takes = TAKES_IMAGES,
    .options = pad_options,
    .params_size = sizeof(struct pad),
    .check = pad_check,
    .for_mask = pad_for_mask,
    .fixed = pad_fixed,
    .plan = pad_plan,
    .back = pad_back,
    .is_idle = pad_is_idle,
    .memory = pad_memory,
    .apply = pad_apply,
};
