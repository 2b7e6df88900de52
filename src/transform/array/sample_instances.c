/* sample_instances: a number of instances drawn from each bag; only what holds them is read. */
#include "transform/transform_list.h"

struct sample_instances {
    int64_t count;
};

static int instances_check(void *params, struct fb_error *e)
{
    return ((struct sample_instances *)params)->count ? 0 : error_set(e, FB_E_USAGE, "transform", "sample_instances: count= is missing");
}

static uint64_t instances_length(const void *params)
{
    return (uint64_t)((const struct sample_instances *)params)->count;
}

static const struct option instances_options[] = {
    {"count", OPTION_INT, offsetof(struct sample_instances, count), 1, 1e9, NULL, "K", "instances drawn from each bag"},
    {0},
};

const struct transform_ops transform_sample_instances = {
    .name = "sample_instances",
    .takes = TAKES_ARRAYS,
    .options = instances_options,
    .params_size = sizeof(struct sample_instances),
    .check = instances_check,
    .role = STEP_PICKS,
    .length = instances_length,
};
