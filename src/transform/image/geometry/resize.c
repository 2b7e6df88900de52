/* resize: to a size, or so that the shorter side has a length. */
#include "transform/image/geometry/resize_step.h"
#include "transform/transform_list.h"

/* Pillow keeps box edges as floats: beyond this, sizes would not be exact. */
enum { MAX_SIDE_OUT = 1 << 24 };

struct resize {
    struct resize_step step;
    struct option_numbers size_text;
    int64_t max_size; /* 0: none */
    int fit;          /* enum resize_fit, of a size with two numbers */
    uint32_t height, width;
};

enum resize_fit { FIT_STRETCH, FIT_COVER, FIT_INSIDE };
static const char *const fit_names[] = {"stretch", "cover", "inside", NULL};

static bool is_shorter_side(const struct resize *p)
{
    return p->size_text.count == 1;
}

static int resize_check(void *params, struct fb_error *e)
{
    struct resize *p = params;
    FB_TRY(size_option(&p->size_text, &p->height, &p->width, "resize", e));
    if (p->fit != FIT_STRETCH && is_shorter_side(p))
        return error_set(e, FB_E_USAGE, "transform", "resize: fit= needs size= with two numbers (height, width)");
    if (p->max_size == 0)
        return 0;
    if (!is_shorter_side(p))
        return error_set(e, FB_E_USAGE, "transform", "resize: max_size= needs size= with one number (the shorter side)");
    if (p->max_size <= p->height)
        return error_set(e, FB_E_USAGE, "transform", "resize: max_size=%lld must be larger than size=%u", (long long)p->max_size,
                         p->height);
    return 0;
}

static bool resize_fixed(const void *params, bool is_fixed, uint32_t *height, uint32_t *width)
{
    const struct resize *p = params;
    (void)is_fixed;
    *height = p->height;
    *width = p->width;
    return !is_shorter_side(p) && p->fit == FIT_STRETCH;
}

/* torchvision's rounding: the longer side is cut to a whole number. */
static void by_shorter_side(const struct resize *p, struct step_plan *s)
{
    uint32_t shorter = s->in_width <= s->in_height ? s->in_width : s->in_height;
    uint32_t longer = s->in_width <= s->in_height ? s->in_height : s->in_width;
    uint64_t new_short = p->height, new_long = (uint64_t)p->height * longer / shorter;
    if (p->max_size && new_long > (uint64_t)p->max_size) {
        new_short = (uint64_t)p->max_size * new_short / new_long;
        new_long = (uint64_t)p->max_size;
    }
    uint64_t limit = UINT32_MAX;
    new_long = new_long < limit ? new_long : limit;
    s->out_width = (uint32_t)(s->in_width <= s->in_height ? new_short : new_long);
    s->out_height = (uint32_t)(s->in_width <= s->in_height ? new_long : new_short);
}

/* The shape stays: one side as asked for, the other not smaller (cover) or not larger (inside), to the nearest pixel. */
static void keep_shape(const struct resize *p, struct step_plan *s)
{
    uint64_t by_height = (uint64_t)p->height * s->in_width, by_width = (uint64_t)p->width * s->in_height;
    bool takes_height = p->fit == FIT_COVER ? by_height >= by_width : by_height <= by_width;
    uint64_t height = takes_height ? p->height : (by_width + s->in_width / 2) / s->in_width;
    uint64_t width = takes_height ? (by_height + s->in_height / 2) / s->in_height : p->width;
    s->out_height = (uint32_t)(height < 1 ? 1 : height > UINT32_MAX ? UINT32_MAX : height);
    s->out_width = (uint32_t)(width < 1 ? 1 : width > UINT32_MAX ? UINT32_MAX : width);
}

static void take_all(struct step_plan *s)
{
    s->value[SOURCE_HEIGHT] = s->in_height;
    s->value[SOURCE_WIDTH] = s->in_width;
}

static int resize_plan(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e)
{
    const struct resize *p = params;
    (void)rng;
    take_all(s);
    s->out_height = p->height;
    s->out_width = p->width;
    if (is_shorter_side(p))
        by_shorter_side(p, s);
    else if (p->fit != FIT_STRETCH)
        keep_shape(p, s);
    if (s->out_height > 0 && s->out_width > 0 && s->out_height <= MAX_SIDE_OUT && s->out_width <= MAX_SIDE_OUT)
        return 0;
    return error_set(e, FB_E_DATA, "transform", "resize: an image of %u x %u pixels (width x height) would become %u x %u", s->in_width,
                     s->in_height, s->out_width, s->out_height);
}

/* As Pillow's draft() before the resize; the size that comes out was decided by the full image. */
static uint32_t resize_draft(const void *params, struct step_plan *s)
{
    uint32_t scale = resize_step_reduce(params, s);
    take_all(s);
    return scale;
}

static const struct option resize_options[] = {
    {"size", OPTION_NUMBERS, offsetof(struct resize, size_text), 1, IMAGE_MAX_SIDE, NULL, "S|H,W",
     "the shorter side in pixels, or height and width"},
    {"max_size", OPTION_INT, offsetof(struct resize, max_size), 1, IMAGE_MAX_SIDE, NULL, "N", "limit for the longer side; default none"},
    {"fit", OPTION_CHOICE, offsetof(struct resize, fit), 0, 0, fit_names, "NAME",
     "of height and width: stretch (default), cover (no side smaller) or inside (no side larger), the shape kept"},
    {"interpolation", OPTION_CHOICE, offsetof(struct resize, step.kind), 0, 0, interpolation_names, "NAME",
     "filter: bilinear or bicubic, antialiased, or nearest; default bilinear"},
    {"draft", OPTION_FLAG, offsetof(struct resize, step.draft), 0, 0, NULL, NULL,
     "1: let a JPEG be decoded at 1/2, 1/4 or 1/8 first, as Pillow's draft() does; other pixels, less work"},
    {0},
};

const struct transform_ops transform_resize = {
    .name = "resize",
    .takes = TAKES_IMAGES,
    .options = resize_options,
    .params_size = sizeof(struct resize),
    .check = resize_check,
    .for_mask = resize_step_for_mask,
    .fixed = resize_fixed,
    .plan = resize_plan,
    .draft = resize_draft,
    .back = resize_step_back,
    .seen = resize_step_seen,
    .is_idle = resize_step_is_idle,
    .memory = resize_step_memory,
    .resample = resize_step_resample,
    .apply = resize_step_apply,
};
