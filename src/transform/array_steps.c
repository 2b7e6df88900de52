#include "transform/array_steps.h"

#include "base/round_up.h"
#include "transform/transform_ops.h"

/* ---- the list, in order, as what reading, converting and running do ---- */

static int refuse_order(const char *first, const char *second, struct fb_error *e)
{
    return error_set(e, FB_E_USAGE, "transform", "%s must come before %s", first, second);
}

static int refuse_twice(const struct transform_ops *ops, struct fb_error *e)
{
    return error_set(e, FB_E_USAGE, "transform", "%s appears twice", ops->name);
}

static int add_crop(struct array_steps *s, const struct step *step, struct fb_error *e)
{
    if (s->norm.count && s->is_cropped && !s->has_plain_silence)
        return error_set(e, FB_E_USAGE, "transform", "normalize must come before or after all %s steps, not between them", step->ops->name);
    s->has_plain_silence = s->norm.count != 0;
    s->is_cropped = true;
    s->samples = step->ops->length(step->params);
    return 0;
}

static int add_norm(struct array_steps *s, const struct step *step, struct fb_error *e)
{
    if (s->norm.count)
        return refuse_twice(step->ops, e);
    step->ops->norm(step->params, &s->norm);
    s->is_normalized = true;
    if (!s->is_mono || s->norm.count == 1)
        return 0;
    return error_set(e, FB_E_USAGE, "transform", "there is one channel after mono: normalize needs one number for mean= and std=, not %llu",
                     (unsigned long long)s->norm.count);
}

static int add_instances(struct array_steps *s, const struct step *step, struct fb_error *e)
{
    if (s->instances)
        return refuse_twice(step->ops, e);
    s->instances = step->ops->length(step->params);
    return 0;
}

static int add_mono(struct array_steps *s, const struct step *step, struct fb_error *e)
{
    if (s->norm.count > 1)
        return refuse_order(step->ops->name, "a normalize with a number for each channel", e);
    s->is_mono = true;
    return 0;
}

static int add_step(struct array_steps *s, int i, struct fb_error *e)
{
    const struct step *step = &s->list.step[i];
    const struct transform_ops *ops = step->ops;
    if (i >= s->first_whole && ops->run) {
        s->is_normalized |= ops->norm != NULL;
        return 0;
    }
    if (i >= s->first_whole)
        return refuse_order(ops->name, s->list.step[s->first_whole].ops->name, e);
    switch (ops->role) {
    case STEP_CROPS: return add_crop(s, step, e);
    case STEP_PICKS: return add_instances(s, step, e);
    case STEP_MIXES: return add_mono(s, step, e);
    default: return add_norm(s, step, e);
    }
}

/* Sound is normalised after it has become something else. */
static int check_norm_order(const struct array_steps *s, struct fb_error *e)
{
    for (int i = s->first_whole; i < s->list.count; i++)
        if (s->norm.count && s->list.step[i].ops->role == STEP_RESHAPES)
            return error_set(e, FB_E_USAGE, "transform", "normalize must come after %s, whose result it normalises",
                             s->list.step[i].ops->name);
    return 0;
}

int array_steps_open(struct array_steps *s, const char *spec, unsigned takes, struct fb_error *e)
{
    *s = (struct array_steps){0};
    FB_TRY(step_list_parse(&s->list, spec ? spec : "", takes, e));
    while (s->first_whole < s->list.count && (s->list.step[s->first_whole].ops->role != STEP_RUNS) &&
           s->list.step[s->first_whole].ops->role != STEP_RESHAPES)
        s->first_whole++;
    for (int i = 0; i < s->list.count; i++)
        FB_TRY(add_step(s, i, e));
    return check_norm_order(s, e);
}

void array_steps_close(struct array_steps *s)
{
    step_list_free(&s->list);
}

/* Where the draws of step `i` are kept. Samples can have more planes than anybody has memory for masks of. */
static int place_draws(struct array_steps *s, int i, struct fb_error *e)
{
    const struct step *step = &s->list.step[i];
    uint64_t each = step->ops->draws ? step->ops->draws(step->params) : 0, times = i >= s->first_whole ? s->in.count : 1;
    s->draws_at[i] = (int)s->draw_numbers;
    if (each && times > (DRAW_NUMBERS_MAX - s->draw_numbers) / each) {
        error_set(e, FB_E_USAGE, "transform", "%s draws for %llu planes: more than the %d numbers that are kept of each sample",
                  step->ops->name, (unsigned long long)times, DRAW_NUMBERS_MAX);
        error_remedy(e, "use fewer masks, or samples of fewer planes");
        return FB_E_USAGE;
    }
    s->draw_numbers += (uint32_t)(each * times);
    return 0;
}

int array_steps_shape(struct array_steps *s, const struct planes *in, struct fb_error *e)
{
    s->in = s->out = *in;
    s->draw_numbers = 0;
    s->work_bytes = 0;
    for (int i = 0; i < s->list.count; i++) {
        struct step *step = &s->list.step[i];
        if (i >= s->first_whole) {
            FB_TRY(step->ops->shape(step->params, &s->out, e));
            size_t work = step->ops->work_bytes ? round_up(step->ops->work_bytes(step->params), 64) : 0;
            s->work_bytes = work > s->work_bytes ? work : s->work_bytes;
        }
        FB_TRY(place_draws(s, i, e));
    }
    return 0;
}

/* ---- one sample ---- */

struct clip array_steps_clip(const struct array_steps *s, uint64_t there, struct rng *r, double *record)
{
    struct clip c = {.frames = there};
    for (int i = 0; i < s->first_whole; i++)
        if (s->list.step[i].ops->role == STEP_CROPS)
            s->list.step[i].ops->crop(s->list.step[i].params, r, &c, record + s->draws_at[i]);
    return c;
}

int array_steps_run(const struct array_steps *s, uint64_t plane, float *in, float *out, void *work, struct rng *r, double *record,
                    struct fb_error *e)
{
    struct step_run run = {.plane = plane, .planes = s->in, .from = in, .work = work, .rng = r};
    for (int i = s->first_whole; i < s->list.count; i++) {
        const struct step *step = &s->list.step[i];
        run.to = step->ops->role == STEP_RESHAPES ? out : run.from;
        run.drawn = record + s->draws_at[i] + (step->ops->draws ? plane * step->ops->draws(step->params) : 0);
        FB_TRY(step->ops->run(step->params, &run, e));
        run.from = run.to;
        if (step->ops->role == STEP_RESHAPES)
            run.planes = s->out; /* nothing else changes the shape */
    }
    return 0;
}

void array_steps_show(const struct array_steps *s, const double *record, struct json_writer *w)
{
    const struct step *step[STEP_LIST_MAX];
    const double *value[STEP_LIST_MAX];
    int n = 0;
    for (int i = 0; i < s->list.count; i++)
        if (s->list.step[i].ops->show) {
            step[n] = &s->list.step[i];
            value[n++] = record + s->draws_at[i];
        }
    step_list_show(step, value, n, s->in.count, w);
}
