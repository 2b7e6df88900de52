/* color_jitter: brightness, contrast, saturation and hue by random factors in random order, as torchvision does on Pillow images. */
#include "transform/draws.h"
#include "transform/image/kernels/image_kernels.h"
#include "transform/image/pointwise.h"
#include "transform/transform_list.h"

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, FACTORS };
static const char *const factor_names[FACTORS] = {"brightness", "contrast", "saturation", "hue"};

struct jitter {
    struct option_numbers text[FACTORS];
    double low[FACTORS], high[FACTORS];
    bool is_used[FACTORS];
};

/* step_plan.value: the factors, then the order in which they apply */
enum { FACTOR = 0, ORDER = FACTORS, NOT_USED = 255 };

/* One number is the width around the neutral value, two are the range itself. */
static int set_range(struct jitter *p, int i, struct fb_error *e)
{
    const struct option_numbers *n = &p->text[i];
    double neutral = i == HUE ? 0 : 1;
    if (n->count == 0)
        return 0;
    double low = n->count == 1 ? neutral - n->value[0] : n->value[0], high = n->count == 1 ? neutral + n->value[0] : n->value[1];
    if (n->count == 1 && i != HUE && low < 0)
        low = 0;
    bool is_good = n->count <= 2 && low <= high && !(n->count == 1 && n->value[0] < 0);
    is_good = is_good && (i == HUE ? low >= -0.5 && high <= 0.5 : low >= 0);
    if (!is_good)
        return error_advise(e, error_set(e, FB_E_USAGE, "transform", "color_jitter: %s= is out of range", factor_names[i]),
                            i == HUE ? "one number from 0 to 0.5, or low,high within -0.5 and 0.5"
                                     : "one number >= 0, or low,high with 0 <= low <= high");
    p->low[i] = low;
    p->high[i] = high;
    p->is_used[i] = low != neutral || high != neutral;
    return 0;
}

static int jitter_check(void *params, struct fb_error *e)
{
    for (int i = 0; i < FACTORS; i++)
        FB_TRY(set_range(params, i, e));
    return 0;
}

/* Eight numbers, always: three for the order (the fourth is what is left; Fisher-Yates from the front), one unused, four for the factors.
 */
static int jitter_plan(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e)
{
    const struct jitter *p = params;
    uint8_t order[FACTORS] = {BRIGHTNESS, CONTRAST, SATURATION, HUE};
    (void)e;
    for (uint32_t i = 0; i < FACTORS; i++) {
        uint32_t j = i + draw_below(rng, FACTORS - i);
        uint8_t held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
    for (int i = 0; i < FACTORS; i++)
        s->value[FACTOR + i] = (float)draw_uniform(rng, p->low[i], p->high[i]);
    int used = 0;
    for (int i = 0; i < FACTORS; i++)
        if (p->is_used[order[i]])
            s->value[ORDER + used++] = order[i];
    while (used < FACTORS)
        s->value[ORDER + used++] = NOT_USED;
    s->out_height = s->in_height;
    s->out_width = s->in_width;
    return 0;
}

/* [["hue", 0.05], ["brightness", 1.2]], as they are applied. */
static void jitter_show(const struct drawn *d, int count, struct json_writer *w)
{
    json_begin_array(w, "jitter");
    for (int k = 0; k < count; k++)
        for (int i = 0; i < FACTORS && d[k].value[ORDER + i] != NOT_USED; i++) {
            int which = (int)d[k].value[ORDER + i];
            json_put(w, J_ARRAY(NULL, J(NULL, factor_names[which]), J_DIGITS(NULL, 9, d[k].value[FACTOR + which])));
        }
    json_end(w);
}

/* Contrast turns around the mean of the whole image. */
static struct region jitter_back(const void *params, const struct step_plan *s, struct region out)
{
    if (((const struct jitter *)params)->is_used[CONTRAST])
        return (struct region){0, 0, s->in_height, s->in_width};
    return out;
}

static struct region jitter_seen(const void *params, const struct step_plan *s, struct region out)
{
    (void)params, (void)s;
    return out;
}

static bool jitter_is_idle(const void *params, const struct step_plan *s, struct region out)
{
    (void)params, (void)out;
    return s->value[ORDER] == NOT_USED;
}

static uint8_t mean_gray(const struct image *image)
{
    uint64_t sum = 0;
    struct runs r = runs_of(image);
    for (uint32_t i = 0; i < r.count; i++)
        sum += kernels()->gray_sum(image->data + i * image->stride, r.pixels);
    return (uint8_t)((double)sum / ((double)image->width * image->height) + 0.5);
}

static void apply_one(int which, float factor, struct image *image)
{
    uint8_t mean = which == CONTRAST ? mean_gray(image) : 0;
    uint8_t shift = which == HUE ? (uint8_t)(int)((double)factor * 255) : 0;
    struct runs r = runs_of(image);
    for (uint32_t i = 0; i < r.count; i++) {
        uint8_t *run = image->data + i * image->stride;
        if (which == SATURATION)
            kernels()->blend_gray(run, r.pixels, factor);
        else if (which == HUE)
            kernels()->shift_hue(run, r.pixels, shift);
        else
            kernels()->blend_constant(run, r.pixels * 3, mean, factor);
    }
}

static void jitter_apply(const void *params, const struct step_plan *s, struct region out, struct image *image, const struct step_memory *m)
{
    (void)params, (void)m;
    for (int i = 0; i < FACTORS && s->value[ORDER + i] != NOT_USED; i++) {
        int which = (int)s->value[ORDER + i];
        apply_one(which, (float)s->value[FACTOR + which], image);
    }
    narrow(image, &s->need, out);
}

static const struct option jitter_options[] = {
    {"brightness", OPTION_NUMBERS, offsetof(struct jitter, text[BRIGHTNESS]), -1e6, 1e6, NULL, "B|LOW,HIGH",
     "B means 1-B,1+B; default not changed"},
    {"contrast", OPTION_NUMBERS, offsetof(struct jitter, text[CONTRAST]), -1e6, 1e6, NULL, "C|LOW,HIGH",
     "C means 1-C,1+C; default not changed"},
    {"saturation", OPTION_NUMBERS, offsetof(struct jitter, text[SATURATION]), -1e6, 1e6, NULL, "S|LOW,HIGH",
     "S means 1-S,1+S; default not changed"},
    {"hue", OPTION_NUMBERS, offsetof(struct jitter, text[HUE]), -0.5, 0.5, NULL, "H|LOW,HIGH",
     "in turns; H means -H,H; default not changed"},
    {0},
};

const struct transform_ops transform_color_jitter = {
    .name = "color_jitter",
    .takes = TAKES_IMAGES,
    .flags = TRANSFORM_IS_RANDOM | TRANSFORM_IS_POINTWISE,
    .options = jitter_options,
    .params_size = sizeof(struct jitter),
    .check = jitter_check,
    .plan = jitter_plan,
    .show = jitter_show,
    .back = jitter_back,
    .seen = jitter_seen,
    .is_idle = jitter_is_idle,
    .apply = jitter_apply,
};
