#include "transform/transform_list.h"

#include <math.h>

#include "base/text/edit_distance.h"

const struct transform_ops *const transform_list[] = {
    &transform_random_resized_crop,
    &transform_resize,
    &transform_center_crop,
    &transform_random_crop,
    &transform_crop_box,
    &transform_pad,
    &transform_random_horizontal_flip,
    &transform_random_vertical_flip,
    &transform_color_jitter,
    &transform_grayscale,
    &transform_random_grayscale,
    &transform_normalize,
    &transform_digest,
    &transform_crop_or_pad,
    &transform_mono,
    &transform_log_mel,
    &transform_spec_augment,
    &transform_sample_instances,
    &transform_normalize_numbers,
    NULL,
};

const char *const interpolation_names[] = {"bilinear", "bicubic", "nearest", NULL};

static char plain(char c)
{
    return c == '-' ? '_' : c;
}

static bool is_same(const char *a, const char *b)
{
    while (*a && plain(*a) == plain(*b))
        a++, b++;
    return *a == *b;
}

const struct transform_ops *transform_find(const char *name, unsigned takes)
{
    for (const struct transform_ops *const *t = transform_list; *t; t++)
        if ((*t)->takes & takes && is_same((*t)->name, name))
            return *t;
    return NULL;
}

enum { NAME_MAX_LENGTH = 48 };

/* "RandomResizedCrop" is what people type who come from torchvision: compared without case and underscores. */
static void simplify(const char *name, char out[NAME_MAX_LENGTH + 1])
{
    int n = 0;
    for (; *name && n < NAME_MAX_LENGTH; name++)
        if (*name != '_' && *name != '-')
            out[n++] = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
    out[n] = 0;
}

/* A letter left out costs 1, a needless one 2 and a wrong one 3: people shorten. */
static const struct edit_costs costs = {.insert = 1, .remove = 2, .replace = 3};

const char *transform_nearest(const char *name, unsigned takes)
{
    const char *best = transform_list[0]->name;
    int best_edits = NAME_MAX_LENGTH * 4;
    char asked[NAME_MAX_LENGTH + 1], known[NAME_MAX_LENGTH + 1];
    simplify(name, asked);
    for (const struct transform_ops *const *t = transform_list; *t; t++) {
        simplify((*t)->name, known);
        int n = edit_distance_weighted(asked, known, costs);
        if ((*t)->takes & takes && n < best_edits) {
            best_edits = n;
            best = (*t)->name;
        }
    }
    return best;
}

int size_option(const struct option_numbers *n, uint32_t *height, uint32_t *width, const char *what, struct fb_error *e)
{
    if (n->count == 0)
        return error_set(e, FB_E_USAGE, "transform", "%s: size= is missing", what);
    double h = n->value[0], w = n->value[n->count > 1 ? 1 : 0];
    if (n->count > 2 || h != floor(h) || w != floor(w) || h < 1 || w < 1)
        return error_set(e, FB_E_USAGE, "transform", "%s: size= wants one or two whole numbers (height,width)", what);
    *height = (uint32_t)h;
    *width = (uint32_t)w;
    return 0;
}
