#include "feed/single/step_chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/options.h"
#include "base/text/text.h"

/* ---- cutting the text ---- */

struct map_options {
    const char *name;
    struct option_numbers size;
};

static const struct option map_options[] = {
    {"name", OPTION_STRING, offsetof(struct map_options, name), 0, 0, NULL, "TEXT", "what messages and statistics call it"},
    {"size", OPTION_NUMBERS, offsetof(struct map_options, size), 1, IMAGE_MAX_SIDE, NULL, "H,W", "height and width of every result"},
    {0},
};

/* Is this step "map ..."? Then `rest` is what follows the word. */
static bool is_map(const char *step, size_t n, const char **rest)
{
    const char *end = step + n;
    while (step < end && strchr(" \t\r\n", *step))
        step++;
    if (end - step < 3 || strncmp(step, "map", 3) != 0 || (end - step > 3 && !strchr(" \t\r\n", step[3])))
        return false;
    *rest = step + 3;
    return true;
}

static int read_map(struct step_chain *c, const char *text, size_t n, struct fb_error *e)
{
    if (c->map_count == CHAIN_MAX_MAPS)
        return error_set(e, FB_E_USAGE, "transform", "more than %d map steps", CHAIN_MAX_MAPS);
    struct step_chain_map *m = &c->map[c->map_count];
    struct map_options o = {0};
    char *copy = strndup(text, n);
    if (!copy)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for the transforms");
    int rc = options_parse_spec(map_options, &o, copy, "transform", "map", e);
    text_escape(rc == 0 && o.name ? o.name : "map", m->name, sizeof(m->name));
    if (rc == 0 && o.size.count) {
        m->height = (uint32_t)o.size.value[0];
        m->width = (uint32_t)o.size.value[o.size.count > 1];
    }
    free(copy);
    return rc;
}

static int open_part(struct step_chain *c, const char *text, size_t n, enum fb_dtype dtype, enum fb_layout layout, bool exif, bool is_last,
                     struct fb_error *e)
{
    char *copy = strndup(text, n);
    if (!copy)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for the transforms");
    struct pipeline **part = &c->part[c->map_count];
    int rc = c->is_mask ? pipeline_open_mask(part, copy, exif, is_last, e) : pipeline_open(part, copy, dtype, layout, exif, e);
    free(copy);
    return rc;
}

/* A part with a map behind it: plain pixels, so nothing in it may say how the result is written. */
static int open_inner_part(struct step_chain *c, const char *text, size_t n, bool exif, struct fb_error *e)
{
    FB_TRY(open_part(c, text, n, 0, FB_NHWC, exif, false, e));
    if (pipeline_dtype(c->part[c->map_count]) == FB_UINT8)
        return 0;
    return error_advise(e, error_set(e, FB_E_USAGE, "transform", "normalize or digest must be the last transform, but map follows"),
                        "functions get the image as uint8, before Normalize: move Normalize to the end");
}

static void number_streams(struct step_chain *c)
{
    uint32_t next = 0;
    for (int i = 0; i <= c->map_count; i++) {
        pipeline_set_first_stream(c->part[i], next);
        next += pipeline_stream_count(c->part[i]);
    }
}

static int open_parts(struct step_chain *c, const char *spec, enum fb_dtype dtype, enum fb_layout layout, bool exif, struct fb_error *e)
{
    const char *part = spec ? spec : "", *step = part, *rest;
    for (;;) {
        size_t n = strcspn(step, ";");
        if (is_map(step, n, &rest)) {
            FB_TRY(open_inner_part(c, part, (size_t)(step - part), exif && c->map_count == 0, e));
            FB_TRY(read_map(c, rest, (size_t)(step + n - rest), e));
            c->map_count++;
            part = step[n] ? step + n + 1 : step + n;
        }
        if (!step[n])
            break;
        step += n + 1;
    }
    FB_TRY(open_part(c, part, strlen(part), dtype, layout, exif && c->map_count == 0, true, e));
    number_streams(c);
    return 0;
}

int step_chain_open(struct step_chain *c, const char *spec, enum fb_dtype dtype, enum fb_layout layout, bool exif, struct fb_error *e)
{
    memset(c, 0, sizeof(*c));
    return open_parts(c, spec, dtype, layout, exif, e);
}

int step_chain_open_mask(struct step_chain *c, const char *spec, bool exif, struct fb_error *e)
{
    memset(c, 0, sizeof(*c));
    c->is_mask = true;
    return open_parts(c, spec, FB_UINT8, FB_NCHW, exif, e);
}

void step_chain_close(struct step_chain *c)
{
    for (int i = 0; i <= CHAIN_MAX_MAPS; i++) {
        pipeline_close(c->part[i]);
        free(c->at[i]);
        c->part[i] = NULL;
        c->at[i] = NULL;
    }
}

/* ---- labels ---- */

static int check_use(const struct pipeline_label *l, const struct label_at *at, const struct label_at *other, struct fb_error *e)
{
    if (l->use == LABEL_READ && !label_is_number(at))
        return error_set(e, FB_E_USAGE, "transform", "%s: the label '%s' is not a single number", l->transform, l->name);
    if (l->use == LABEL_NEGATE && !label_has_sign(at))
        return error_set(e, FB_E_USAGE, "transform", "%s: the label '%s' is %s, which has no sign to change", l->transform, l->name,
                         fb_dtype_name(at->dtype));
    if (other && (other->dtype != at->dtype || other->count != at->count))
        return error_set(e, FB_E_USAGE, "transform", "%s: the labels to swap with '%s' have another type or size", l->transform, l->name);
    return 0;
}

static int bind_part(const struct pipeline *p, struct label_at *at, const struct labels *l, struct fb_error *e)
{
    const struct label_at *first = NULL; /* of a swap */
    for (int i = 0; i < pipeline_label_count(p); i++) {
        struct pipeline_label label = pipeline_label(p, i);
        FB_TRY(labels_refer(l, label.name, &at[i], e));
        FB_TRY(check_use(&label, &at[i], first, e));
        first = label.use == LABEL_SWAP && !first ? &at[i] : NULL;
    }
    return 0;
}

int step_chain_bind(struct step_chain *c, const struct labels *l, struct fb_error *e)
{
    for (int i = 0; i <= c->map_count; i++) {
        int count = pipeline_label_count(c->part[i]);
        if (count == 0)
            continue;
        c->at[i] = calloc((size_t)count, sizeof(*c->at[i]));
        if (!c->at[i])
            return error_set(e, FB_E_NOMEM, "transform", "no memory for the transforms");
        FB_TRY(bind_part(c->part[i], c->at[i], l, e));
    }
    return 0;
}

static void change_labels(const struct step_chain *c, int part, const struct plan *plan, void *const *values)
{
    const struct pipeline *p = c->part[part];
    for (int i = 0; i < pipeline_label_count(p); i++) {
        struct pipeline_label label = pipeline_label(p, i);
        const struct label_at *at = &c->at[part][i];
        bool is_drawn = label.use != LABEL_READ && pipeline_is_drawn(p, plan, label.step);
        if (is_drawn && label.use == LABEL_NEGATE)
            label_negate(at, values);
        else if (is_drawn)
            label_swap(at, at + 1, values);
        i += label.use == LABEL_SWAP;
    }
}

int step_chain_plan(const struct step_chain *c, int part, const struct image_header *h, struct rng rng, void *const *values,
                    struct plan *plan, struct fb_error *e)
{
    const struct pipeline *p = c->part[part];
    double numbers[PIPELINE_MAX_LABELS];
    for (int i = 0; i < pipeline_label_count(p); i++)
        numbers[i] = pipeline_label(p, i).use == LABEL_READ ? label_read(&c->at[part][i], values) : 0;
    FB_TRY(pipeline_plan_labelled(p, h, rng, numbers, plan, e));
    change_labels(c, part, plan, values);
    return 0;
}

/* ---- sizes ---- */

static bool reads_labels(const struct pipeline *p)
{
    for (int i = 0; i < pipeline_label_count(p); i++)
        if (pipeline_label(p, i).use == LABEL_READ)
            return true;
    return false;
}

/* The size of a part's output for inputs of one size. No step draws the size of its output. */
static bool size_through(const struct pipeline *p, uint32_t *height, uint32_t *width)
{
    struct plan plan;
    struct image_header h = {*width, *height, 1};
    if (*height == 0 || reads_labels(p) || pipeline_plan(p, &h, rng_stream(RNG_TRANSFORM, 0, 0, 0, 0), &plan, NULL) < 0)
        return false;
    *height = plan.out_height;
    *width = plan.out_width;
    return true;
}

bool step_chain_fixed_size(const struct step_chain *c, uint32_t *height, uint32_t *width)
{
    *height = *width = 0;
    for (int i = 0; i <= c->map_count; i++) {
        uint32_t h, w;
        if (pipeline_fixed_size(c->part[i], &h, &w)) {
            *height = h;
            *width = w;
        } else if (!size_through(c->part[i], height, width)) {
            *height = *width = 0;
        }
        if (i < c->map_count && c->map[i].height) {
            *height = c->map[i].height;
            *width = c->map[i].width;
        }
    }
    return *height > 0;
}

int step_chain_size_of(const struct step_chain *c, const struct image_header *h, void *const *values, uint32_t *height, uint32_t *width,
                       struct fb_error *e)
{
    struct image_header at = *h;
    for (int i = 0; i <= c->map_count; i++) {
        struct plan plan;
        FB_TRY(step_chain_plan(c, i, &at, rng_stream(RNG_TRANSFORM, 0, 0, 0, 0), values, &plan, e));
        bool is_promised = i < c->map_count && c->map[i].height;
        at = (struct image_header){is_promised ? c->map[i].width : plan.out_width, is_promised ? c->map[i].height : plan.out_height, 1};
    }
    *height = at.height;
    *width = at.width;
    return 0;
}
