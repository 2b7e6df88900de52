/* Steps on whole samples of arrays, such as stored spectrograms. They run in the sample's place; half floats are widened for them. */
#include "codec/array/convert/array_convert.h"
#include "feed/arrays.h"
#include "feed/worker.h"

static int refuse(const char *why, struct fb_error *e)
{
    return error_set(e, FB_E_USAGE, "transform", "a transform that works on whole samples takes %s", why);
}

int arrays_shape_steps(struct arrays *a, struct fb_error *e)
{
    const struct array_want *w = &a->want[0];
    bool has_planes = w->ndim >= 2;
    struct planes p = {.count = 1, .rows = has_planes ? (uint64_t)w->shape[w->ndim - 2] : 0};
    p.columns = w->ndim ? (uint64_t)w->shape[w->ndim - 1] : 1;
    for (int d = 0; d < w->ndim - 2; d++)
        p.count *= (uint64_t)w->shape[d];
    if (array_steps_has_whole(&a->steps) && w->is_variable)
        return refuse("samples of one shape", e);
    if (array_steps_has_whole(&a->steps) && !arrays_is_short_float(w->dtype))
        return refuse("float32, float16 or bfloat16: use dtype=", e);
    return array_steps_shape(&a->steps, &p, e);
}

/* The sample's own memory, or a copy of it in float32. */
static float *take_floats(struct worker *w, struct feed *f, void *place, size_t numbers, struct array_conversion *widen, struct fb_error *e)
{
    if (widen->from == FB_FLOAT32)
        return place;
    uint8_t *memory = worker_memory(f, &w->work, arrays_of(f)->steps.work_bytes + numbers * sizeof(float), e);
    if (!memory)
        return NULL;
    float *out = (float *)(void *)(memory + arrays_of(f)->steps.work_bytes);
    array_convert(widen, place, out, numbers);
    return out;
}

int arrays_run_steps(struct worker *w, struct feed *f, struct slot *s, uint32_t place, uint32_t attempt, struct fb_error *e)
{
    const struct array_steps *steps = &arrays_of(f)->steps;
    const struct planes *p = &steps->in;
    enum fb_dtype dtype = arrays_of(f)->want[0].dtype;
    void *at = slot_at(s, 0, place);
    size_t one = (size_t)(p->rows * p->columns), numbers = one * (size_t)p->count;
    struct array_conversion widen, narrow;
    if (!array_steps_has_whole(steps) || !numbers) /* without numbers there may be any number of planes */
        return 0;
    FB_TRY(array_conversion_init(&widen, ARRAY_PLAIN, dtype, FB_FLOAT32, NULL, e));
    FB_TRY(array_conversion_init(&narrow, ARRAY_PLAIN, FB_FLOAT32, dtype, NULL, e));
    float *floats = take_floats(w, f, at, numbers, &widen, e);
    if (!floats)
        return e->code;
    struct rng rng = rng_stream(RNG_TRANSFORM, f->seed, s->epoch, s->place[place].position, attempt);
    if (steps->instances)
        rng_u64(&rng); /* which instances */
    for (uint64_t k = 0; k < p->count; k++)
        FB_TRY(array_steps_run(steps, k, floats + k * one, floats + k * one, w->work.data, &rng, slot_draws(s, place), e));
    if (floats != at)
        array_convert(&narrow, floats, at, numbers);
    return 0;
}
