/* normalize: (v / 255 - mean) / std per channel. Nothing happens to pixels here: the store looks the results up. */
#include <math.h>

#include "transform/image/levels.h"
#include "transform/transform_list.h"

struct normalize {
    struct option_numbers mean, std;
};

static int normalize_check(void *params, struct fb_error *e)
{
    struct normalize *p = params;
    if (p->mean.count != 3 || p->std.count != 3)
        return error_set(e, FB_E_USAGE, "transform", "normalize: mean= and std= want three numbers each (red, green, blue)");
    for (int c = 0; c < 3; c++)
        if (!isfinite(1.0f / (float)p->std.value[c]))
            return error_set(e, FB_E_USAGE, "transform", "normalize: std= must be at least 3e-39 away from 0");
    return 0;
}

static void normalize_levels(const void *params, struct levels *l)
{
    const struct normalize *p = params;
    float mean[3], std[3];
    for (int c = 0; c < 3; c++) {
        mean[c] = (float)p->mean.value[c];
        std[c] = (float)p->std.value[c];
    }
    levels_build(l, mean, std);
}

static const struct option normalize_options[] = {
    {"mean", OPTION_NUMBERS, offsetof(struct normalize, mean), 0, 0, NULL, "R,G,B", "three numbers on the scale 0 to 1"},
    {"std", OPTION_NUMBERS, offsetof(struct normalize, std), 0, 0, NULL, "R,G,B", "three numbers on the scale 0 to 1, not 0"},
    {0},
};

const struct transform_ops transform_normalize = {
    .name = "normalize",
    .takes = TAKES_IMAGES,
    .flags = TRANSFORM_IS_LAST,
    .options = normalize_options,
    .params_size = sizeof(struct normalize),
    .check = normalize_check,
    .levels = normalize_levels,
};
