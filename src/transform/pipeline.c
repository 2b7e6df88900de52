#include "transform/pipeline.h"

#include <stdlib.h>

#include "transform/pipeline_internal.h"

/* A flip is left to the store when every later step works pixel by pixel. */
static void fold_flips(struct pipeline *p)
{
    for (int i = p->step_count - 1; i >= 0; i--) {
        unsigned flags = p->step[i].ops->flags;
        p->step[i].is_folded = flags & (TRANSFORM_IS_HFLIP | TRANSFORM_IS_VFLIP);
        if (!p->step[i].is_folded && !(flags & TRANSFORM_IS_POINTWISE))
            return;
    }
}

static void number_streams(struct pipeline *p)
{
    uint32_t next = 0;
    for (int i = 0; i < p->step_count; i++)
        if (p->step[i].ops->flags & TRANSFORM_IS_RANDOM)
            p->step[i].stream = next++;
}

static int collect_labels(struct pipeline *p, struct fb_error *e)
{
    for (int i = 0; i < p->step_count; i++) {
        const struct transform_ops *ops = p->step[i].ops;
        const struct step_labels *l = ops->labels ? ops->labels(p->step[i].params) : NULL;
        p->step[i].first_label = p->label_count;
        for (int k = 0; l && k < l->count; k++) {
            if (p->label_count == PIPELINE_MAX_LABELS)
                return error_set(e, FB_E_USAGE, "transform", "the transforms refer to more than %d labels", PIPELINE_MAX_LABELS);
            p->label[p->label_count++] = (struct pipeline_label){l->label[k].name, ops->name, l->label[k].use, i};
        }
    }
    return 0;
}

static void find_fixed_size(struct pipeline *p)
{
    for (int i = 0; i < p->step_count; i++)
        if (p->step[i].ops->fixed)
            p->is_fixed = p->step[i].ops->fixed(p->step[i].params, p->is_fixed, &p->height, &p->width);
    if (p->number) {
        p->is_fixed = true;
        p->height = p->width = 1;
    }
}

static int choose_dtype(struct pipeline *p, enum fb_dtype wish, struct fb_error *e)
{
    enum fb_dtype natural = p->number ? FB_UINT64 : p->is_normalized ? FB_FLOAT32 : FB_UINT8;
    p->dtype = wish ? wish : natural;
    if (p->number && p->dtype != FB_UINT64)
        return error_set(e, FB_E_USAGE, "transform", "digest gives uint64, not %s", fb_dtype_name(p->dtype));
    if (p->number || p->dtype == FB_FLOAT32 || p->dtype == FB_FLOAT16 || p->dtype == FB_BFLOAT16)
        return 0;
    if (p->dtype == FB_UINT8 && !p->is_normalized)
        return 0;
    const char *name = fb_dtype_name(p->dtype);
    error_set(e, FB_E_USAGE, "transform", "images cannot be given as %s%s", name ? name : "that type",
              p->is_normalized ? " after normalize" : "");
    error_remedy(e, "use dtype float32, float16 or bfloat16%s", p->is_normalized ? "" : ", or uint8");
    return FB_E_USAGE;
}

/* The steps that say how an image is stored (normalize, digest) do not apply to its mask. */
static void turn_into_mask(struct pipeline *p)
{
    p->is_normalized = false;
    p->number = NULL;
    for (int i = 0; i < p->step_count; i++)
        if (p->step[i].ops->for_mask)
            p->step[i].ops->for_mask(p->step[i].params);
}

/* The last step may only say how the result is written. */
static int take_steps(struct pipeline *p, const char *spec, struct fb_error *e)
{
    FB_TRY(step_list_parse(&p->list, spec ? spec : "", TAKES_IMAGES, e));
    const struct step *last = p->list.count ? &p->list.step[p->list.count - 1] : NULL;
    p->step = p->list.step;
    p->step_count = p->list.count - (last && last->ops->flags & TRANSFORM_IS_LAST);
    p->number = last ? last->ops->number : NULL;
    p->is_normalized = last && last->ops->levels;
    if (p->is_normalized)
        last->ops->levels(last->params, &p->levels);
    return 0;
}

static int set_up(struct pipeline *p, const char *spec, enum fb_dtype dtype, struct fb_error *e)
{
    FB_TRY(take_steps(p, spec, e));
    if (p->is_mask)
        turn_into_mask(p);
    FB_TRY(choose_dtype(p, dtype, e));
    if (!p->is_normalized)
        levels_build(&p->levels, (const float[3]){0, 0, 0}, (const float[3]){1, 1, 1}); /* v / 255 */
    if (!p->number)
        fold_flips(p);
    number_streams(p);
    find_fixed_size(p);
    return collect_labels(p, e);
}

static int open_kind(struct pipeline **out, struct pipeline kind, const char *spec, enum fb_dtype dtype, struct fb_error *e)
{
    *out = NULL;
    struct pipeline *p = malloc(sizeof(*p));
    if (!p)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for the transforms");
    *p = kind;
    int rc = set_up(p, spec, dtype, e);
    if (rc < 0)
        pipeline_close(p);
    else
        *out = p;
    return rc;
}

int pipeline_open(struct pipeline **out, const char *spec, enum fb_dtype dtype, enum fb_layout layout, bool exif, struct fb_error *e)
{
    return open_kind(out, (struct pipeline){.layout = layout, .exif = exif}, spec, dtype, e);
}

int pipeline_open_mask(struct pipeline **out, const char *spec, bool exif, bool is_last, struct fb_error *e)
{
    struct pipeline kind = {.layout = is_last ? FB_NCHW : FB_NHWC, .exif = exif, .is_mask = true, .gives_numbers = is_last};
    return open_kind(out, kind, spec, FB_UINT8, e);
}

void pipeline_close(struct pipeline *p)
{
    if (!p)
        return;
    step_list_free(&p->list);
    free(p);
}

bool pipeline_is_plain(const struct pipeline *p)
{
    return p->step_count == 0 && !p->is_normalized && !p->number;
}

uint32_t pipeline_stream_count(const struct pipeline *p)
{
    uint32_t count = 0;
    for (int i = 0; i < p->step_count; i++)
        count += (p->step[i].ops->flags & TRANSFORM_IS_RANDOM) != 0;
    return count;
}

void pipeline_set_first_stream(struct pipeline *p, uint32_t first)
{
    for (int i = 0; i < p->step_count; i++)
        if (p->step[i].ops->flags & TRANSFORM_IS_RANDOM)
            p->step[i].stream = first++;
}

int pipeline_label_count(const struct pipeline *p)
{
    return p->label_count;
}

struct pipeline_label pipeline_label(const struct pipeline *p, int i)
{
    return p->label[i];
}

enum fb_dtype pipeline_dtype(const struct pipeline *p)
{
    return p->dtype;
}

enum fb_layout pipeline_layout(const struct pipeline *p)
{
    return p->layout;
}

bool pipeline_fixed_size(const struct pipeline *p, uint32_t *height, uint32_t *width)
{
    *height = p->is_fixed ? p->height : 0;
    *width = p->is_fixed ? p->width : 0;
    return p->is_fixed;
}
