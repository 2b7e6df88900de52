/* random_horizontal_flip and random_vertical_flip. As last steps they cost nothing: the store mirrors. Labels that mean a side or a turn
 * change with the picture: those named in `negate` change their sign, those paired in `swap` their values. */
#include <string.h>

#include "transform/draws.h"
#include "transform/image/kernels/image_kernels.h"
#include "transform/transform_list.h"

struct flip {
    double p;
    const char *negate, *swap; /* text, until checked */
    struct step_labels labels;
};

enum { IS_FLIPPED }; /* step_plan.value */

static void set_defaults(void *params)
{
    ((struct flip *)params)->p = 0.5;
}

static int flip_check(void *params, struct fb_error *e)
{
    struct flip *p = params;
    int rc = p->negate ? label_names_option(&p->labels, p->negate, LABEL_NEGATE, "flip: negate=", e) : 0;
    if (rc == 0 && p->swap)
        rc = label_names_option(&p->labels, p->swap, LABEL_SWAP, "flip: swap=", e);
    p->negate = p->swap = NULL;
    return rc;
}

static const struct step_labels *flip_labels(const void *params)
{
    return &((const struct flip *)params)->labels;
}

static int flip_plan(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e)
{
    (void)e;
    s->value[IS_FLIPPED] = draw_chance(rng, ((const struct flip *)params)->p);
    s->out_height = s->in_height;
    s->out_width = s->in_width;
    return 0;
}

/* Two flips are none. */
static bool is_flipped_in_all(const struct drawn *d, int count)
{
    bool is_flipped = false;
    for (int i = 0; i < count; i++)
        is_flipped ^= d[i].value[IS_FLIPPED] != 0;
    return is_flipped;
}

static void horizontal_show(const struct drawn *d, int count, struct json_writer *w)
{
    json_put(w, J_BOOL("hflip", is_flipped_in_all(d, count)));
}

static void vertical_show(const struct drawn *d, int count, struct json_writer *w)
{
    json_put(w, J_BOOL("vflip", is_flipped_in_all(d, count)));
}

static struct region horizontal_back(const void *params, const struct step_plan *s, struct region out)
{
    (void)params;
    if (s->value[IS_FLIPPED])
        out.left = s->in_width - out.left - out.width;
    return out;
}

static struct region vertical_back(const void *params, const struct step_plan *s, struct region out)
{
    (void)params;
    if (s->value[IS_FLIPPED])
        out.top = s->in_height - out.top - out.height;
    return out;
}

static bool flip_is_idle(const void *params, const struct step_plan *s, struct region out)
{
    (void)params, (void)out;
    return !s->value[IS_FLIPPED];
}

/* One row to turn or swap through. */
static size_t flip_memory(const void *params, const struct step_plan *s, struct region out, bool *is_in_place)
{
    (void)params, (void)s;
    *is_in_place = true;
    return (size_t)out.width * 3;
}

static void horizontal_apply(const void *params, const struct step_plan *s, struct region out, struct image *image,
                             const struct step_memory *m)
{
    (void)params, (void)s, (void)out;
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = image->data + y * image->stride;
        memcpy(m->work, row, (size_t)image->width * 3);
        kernels()->mirror(row, m->work, image->width);
    }
}

static void vertical_apply(const void *params, const struct step_plan *s, struct region out, struct image *image,
                           const struct step_memory *m)
{
    (void)params, (void)s, (void)out;
    size_t bytes = (size_t)image->width * 3;
    for (uint32_t y = 0; y < image->height / 2; y++) {
        uint8_t *a = image->data + y * image->stride, *b = image->data + (image->height - 1 - y) * image->stride;
        memcpy(m->work, a, bytes);
        memcpy(a, b, bytes);
        memcpy(b, m->work, bytes);
    }
}

static const struct option flip_options[] = {
    {"p", OPTION_DOUBLE, offsetof(struct flip, p), 0, 1, NULL, "P", "probability; default 0.5"},
    {"negate", OPTION_STRING, offsetof(struct flip, negate), 0, 0, NULL, "NAMES", "labels whose sign changes with the flip: yaw,pose[2]"},
    {"swap", OPTION_STRING, offsetof(struct flip, swap), 0, 0, NULL, "PAIRS", "labels that are swapped by the flip: left:right,x0:x1"},
    {0},
};

const struct transform_ops transform_random_horizontal_flip = {
    .name = "random_horizontal_flip",
    .takes = TAKES_IMAGES,
    .flags = TRANSFORM_IS_RANDOM | TRANSFORM_IS_HFLIP,
    .options = flip_options,
    .params_size = sizeof(struct flip),
    .defaults = set_defaults,
    .check = flip_check,
    .labels = flip_labels,
    .plan = flip_plan,
    .show = horizontal_show,
    .back = horizontal_back,
    .is_idle = flip_is_idle,
    .memory = flip_memory,
    .apply = horizontal_apply,
};

const struct transform_ops transform_random_vertical_flip = {
    .name = "random_vertical_flip",
    .takes = TAKES_IMAGES,
    .flags = TRANSFORM_IS_RANDOM | TRANSFORM_IS_VFLIP,
    .options = flip_options,
    .params_size = sizeof(struct flip),
    .defaults = set_defaults,
    .check = flip_check,
    .labels = flip_labels,
    .plan = flip_plan,
    .show = vertical_show,
    .back = vertical_back,
    .is_idle = flip_is_idle,
    .memory = flip_memory,
    .apply = vertical_apply,
};
