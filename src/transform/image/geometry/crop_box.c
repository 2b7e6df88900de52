/* crop_box: the part of the image that four of the sample's labels say, as Pillow's crop((x0, y0, x1, y1)) after rounding.
 *
 * `margin` widens the box on every side by that share of its own size. What lies outside the image is cut off; a box that leaves nothing
 * makes the image a bad sample.
 */
#include <math.h>

#include "transform/draws.h"
#include "transform/transform_list.h"

struct crop_box {
    const char *labels_text;
    double margin;
    struct step_labels labels;
};

enum { AT_TOP, AT_LEFT }; /* step_plan.value */

static int box_check(void *params, struct fb_error *e)
{
    struct crop_box *p = params;
    if (!p->labels_text)
        return error_set(e, FB_E_USAGE, "transform", "crop_box: labels= is missing");
    int rc = label_names_option(&p->labels, p->labels_text, LABEL_READ, "crop_box: labels=", e);
    p->labels_text = NULL;
    if (rc == 0 && p->labels.count != 4)
        rc = error_set(e, FB_E_USAGE, "transform", "crop_box: labels= wants four names: left, top, right, bottom");
    return rc;
}

static const struct step_labels *box_labels(const void *params)
{
    return &((const struct crop_box *)params)->labels;
}

static bool box_fixed(const void *params, bool is_fixed, uint32_t *height, uint32_t *width)
{
    (void)params, (void)is_fixed, (void)height, (void)width;
    return false;
}

/* False: nothing of it is inside. */
static bool place_axis(double low, double high, double margin, uint32_t size, double *at, uint32_t *length)
{
    double extra = (high - low) * margin;
    low = low - extra;
    high = high + extra;
    if (!(low < high) || !(high > 0) || !(low < size))
        return false;
    low = low < 0 ? 0 : round_half_even(low);
    high = high > size ? size : round_half_even(high);
    *at = low;
    *length = high > low ? (uint32_t)(high - low) : 0;
    return *length > 0;
}

static int box_plan(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e)
{
    const struct crop_box *p = params;
    const double *box = s->labels;
    (void)rng;
    if (!box)
        return error_set(e, FB_E_USAGE, "transform", "crop_box: this sample has no labels");
    bool is_good = place_axis(box[0], box[2], p->margin, s->in_width, &s->value[AT_LEFT], &s->out_width) &&
                   place_axis(box[1], box[3], p->margin, s->in_height, &s->value[AT_TOP], &s->out_height);
    if (is_good)
        return 0;
    error_set(e, FB_E_DATA, "transform", "crop_box: the box from (%g, %g) to (%g, %g) has no pixels inside the image of %u x %u", box[0],
              box[1], box[2], box[3], s->in_width, s->in_height);
    error_remedy(e, "the labels are left, top, right, bottom in pixels of the image as it is at that step");
    return FB_E_DATA;
}

static struct region box_back(const void *params, const struct step_plan *s, struct region out)
{
    (void)params;
    out.top += (uint32_t)s->value[AT_TOP];
    out.left += (uint32_t)s->value[AT_LEFT];
    return out;
}

static bool box_is_idle(const void *params, const struct step_plan *s, struct region out)
{
    (void)params, (void)s, (void)out;
    return true; /* only ever asks for a part */
}

static void box_apply(const void *params, const struct step_plan *s, struct region out, struct image *image, const struct step_memory *m)
{
    (void)params, (void)s, (void)out, (void)image, (void)m;
}

static const struct option box_options[] = {
    {"labels", OPTION_STRING, offsetof(struct crop_box, labels_text), 0, 0, NULL, "NAMES", "four labels: left,top,right,bottom in pixels"},
    {"margin", OPTION_DOUBLE, offsetof(struct crop_box, margin), -0.49, 100, NULL, "SHARE", "wider on every side by this share; default 0"},
    {0},
};

const struct transform_ops transform_crop_box = {
    .name = "crop_box",
    .takes = TAKES_IMAGES,
    .options = box_options,
    .params_size = sizeof(struct crop_box),
    .check = box_check,
    .labels = box_labels,
    .fixed = box_fixed,
    .plan = box_plan,
    .back = box_back,
    .is_idle = box_is_idle,
    .apply = box_apply,
};
