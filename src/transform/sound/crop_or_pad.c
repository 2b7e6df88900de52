/* crop_or_pad: recordings of one length. Longer ones are cut, shorter ones followed by silence. */
#include "transform/transform_list.h"

struct crop_or_pad {
    int64_t samples;
    bool random;
};

enum { START, FRAMES, NUMBERS }; /* what is kept of a draw: the frames of the recording that are used */

static int crop_check(void *params, struct fb_error *e)
{
    return ((struct crop_or_pad *)params)->samples ? 0 : error_set(e, FB_E_USAGE, "transform", "crop_or_pad: samples= is missing");
}

static uint64_t crop_length(const void *params)
{
    return (uint64_t)((const struct crop_or_pad *)params)->samples;
}

static uint32_t crop_draws(const void *params)
{
    (void)params;
    return NUMBERS;
}

static void crop_crop(const void *params, struct rng *rng, struct clip *c, double *drawn)
{
    const struct crop_or_pad *p = params;
    *c = clip_crop_or_pad(*c, (uint64_t)p->samples, p->random ? rng_u64(rng) : 0);
    drawn[START] = (double)c->first;
    drawn[FRAMES] = (double)c->frames;
}

/* The last crop's are those of the result. */
static void crop_show(const struct drawn *d, int count, struct json_writer *w)
{
    const double *last = d[count - 1].value;
    json_put(w, J("start", (uint64_t)last[START]), J("samples", (uint64_t)last[FRAMES]));
}

static const struct option crop_options[] = {
    {"samples", OPTION_INT, offsetof(struct crop_or_pad, samples), 1, 1e12, NULL, "N", "frames of every clip"},
    {"random", OPTION_FLAG, offsetof(struct crop_or_pad, random), 0, 0, NULL, NULL,
     "longer recordings are cut at a random place (default: at the beginning)"},
    {0},
};

const struct transform_ops transform_crop_or_pad = {
    .name = "crop_or_pad",
    .takes = TAKES_SOUND,
    .options = crop_options,
    .params_size = sizeof(struct crop_or_pad),
    .check = crop_check,
    .show = crop_show,
    .role = STEP_CROPS,
    .draws = crop_draws,
    .length = crop_length,
    .crop = crop_crop,
};
