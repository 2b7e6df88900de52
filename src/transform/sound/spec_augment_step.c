/* spec_augment: bands of frequencies and stretches of time of a spectrogram are blanked. Takes what log_mel gives, and arrays whose last
 * two dimensions are mels and frames. */
#include "transform/sound/spec_augment.h"
#include "transform/transform_list.h"

struct spec_augment_step {
    int64_t freq_mask_param, time_mask_param, n_freq_masks, n_time_masks;
    double p, fill;
    bool mean;
    struct spec_augment masks;
};

#define AT(FIELD) offsetof(struct spec_augment_step, FIELD)
static const struct option mask_options[] = {
    {"freq_mask_param", OPTION_INT, AT(freq_mask_param), 0, 1e6, NULL, "N", "the widest band, in mels"},
    {"time_mask_param", OPTION_INT, AT(time_mask_param), 0, 1e9, NULL, "N", "the longest stretch, in frames"},
    {"n_freq_masks", OPTION_INT, AT(n_freq_masks), 0, SPEC_MAX_MASKS, NULL, "N", "bands to blank; default 1"},
    {"n_time_masks", OPTION_INT, AT(n_time_masks), 0, SPEC_MAX_MASKS, NULL, "N", "stretches to blank; default 1"},
    {"p", OPTION_DOUBLE, AT(p), 0, 1, NULL, "P", "longest stretch, as a share of the frames; default 1"},
    {"fill", OPTION_DOUBLE, AT(fill), -1e30, 1e30, NULL, "X", "value to fill with; default 0"},
    {"mean", OPTION_FLAG, AT(mean), 0, 0, NULL, NULL, "fill with the mean of the spectrogram"},
    {0},
};
#undef AT

static void masks_set_defaults(void *params)
{
    *(struct spec_augment_step *)params = (struct spec_augment_step){.n_freq_masks = 1, .n_time_masks = 1, .p = 1};
}

static int masks_check(void *params, struct fb_error *e)
{
    struct spec_augment_step *p = params;
    p->masks = (struct spec_augment){.freq_masks = (int)p->n_freq_masks,
                                     .time_masks = (int)p->n_time_masks,
                                     .freq_mask_param = (uint32_t)p->freq_mask_param,
                                     .time_mask_param = (uint32_t)p->time_mask_param,
                                     .time_share = p->p,
                                     .fills_mean = p->mean,
                                     .fill = (float)p->fill};
    return spec_augment_check(&p->masks, e);
}

static int masks_shape(void *params, struct planes *s, struct fb_error *e)
{
    (void)params;
    if (s->rows && s->rows <= UINT32_MAX)
        return 0;
    return s->is_sound
               ? error_set(e, FB_E_USAGE, "transform", "spec_augment must come after log_mel")
               : error_set(e, FB_E_USAGE, "transform", "spec_augment takes spectrograms: samples of two dimensions, mels and frames");
}

enum { FIRST, COUNT, NUMBERS }; /* what is kept of a mask; those of frequencies come first */

static uint32_t masks_draws(const void *params)
{
    const struct spec_augment *s = &((const struct spec_augment_step *)params)->masks;
    return (uint32_t)(s->freq_masks + s->time_masks) * NUMBERS;
}

static int masks_run(const void *params, const struct step_run *r, struct fb_error *e)
{
    const struct spec_augment *s = &((const struct spec_augment_step *)params)->masks;
    struct spec_mask mask[SPEC_MAX_MASKS];
    uint32_t mels = (uint32_t)r->planes.rows;
    (void)e;
    int n = spec_augment_draw(s, mels, r->planes.columns, r->rng, mask);
    spec_augment_apply(s, mask, n, r->to, mels, r->planes.columns, (size_t)r->planes.columns);
    for (int i = 0; i < n; i++) {
        r->drawn[i * NUMBERS + FIRST] = (double)mask[i].first;
        r->drawn[i * NUMBERS + COUNT] = (double)mask[i].count;
    }
    return 0;
}

static void show_plane(const struct spec_augment *s, const double *value, uint64_t plane, struct json_writer *w)
{
    for (int i = 0; i < s->freq_masks + s->time_masks; i++, value += NUMBERS)
        json_put(w, J_OBJECT(NULL, J("axis", i < s->freq_masks ? "freq" : "time"), J("first", (uint64_t)value[FIRST]),
                             J("count", (uint64_t)value[COUNT]), J("plane", plane)));
}

/* [{"axis": "freq", "first": 3, "count": 5, "plane": 0}, ...] */
static void masks_show(const struct drawn *d, int count, struct json_writer *w)
{
    json_begin_array(w, "masks");
    for (int k = 0; k < count; k++)
        for (uint64_t plane = 0; plane < d[k].planes; plane++)
            show_plane(&((const struct spec_augment_step *)d[k].params)->masks, d[k].value + plane * masks_draws(d[k].params), plane, w);
    json_end(w);
}

const struct transform_ops transform_spec_augment = {
    .name = "spec_augment",
    .takes = TAKES_SOUND | TAKES_ARRAYS,
    .flags = TRANSFORM_IS_RANDOM,
    .options = mask_options,
    .params_size = sizeof(struct spec_augment_step),
    .defaults = masks_set_defaults,
    .check = masks_check,
    .show = masks_show,
    .role = STEP_RUNS,
    .draws = masks_draws,
    .shape = masks_shape,
    .run = masks_run,
};
