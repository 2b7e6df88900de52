/* Samples that are whole files: what shape their fields have, and how long each sample is, which every file is looked into for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "feed/arrays.h"
#include "feed/feed.h"

#define UNKNOWN UINT64_MAX

enum { REPORT_NS = 100000000 };

/* (mels, frames) instead of samples. */
static int shape_spectrogram(struct arrays *a, struct fb_error *e)
{
    struct array_want *w = &a->want[0];
    if (!arrays_is_short_float(w->dtype))
        return error_set(e, FB_E_USAGE, "transform", "spectrograms are float32, float16 or bfloat16, not %s", fb_dtype_name(w->dtype));
    w->shape[w->ndim++] = (int64_t)a->steps.out.rows;
    w->shape[w->ndim++] = (int64_t)a->steps.out.columns;
    return 0;
}

/* What the files can be asked for, whatever their lengths. */
static int check_sound(const struct arrays *a, const struct array_layout *l, struct fb_error *e)
{
    struct array_conversion c;
    enum fb_dtype dtype = a->want[0].dtype;
    if (a->steps.is_mono && !arrays_is_short_float(dtype))
        return error_set(e, FB_E_USAGE, "transform",
                         "channels are mixed into float32, float16 or bfloat16, not %s: leave Mono() out, or dtype=", fb_dtype_name(dtype));
    return array_steps_has_whole(&a->steps) ? 0 : arrays_prepare_conversion(a, 0, l, &c, e);
}

static int shape_sound(struct arrays *a, const struct array_layout *l, struct fb_error *e)
{
    struct array_want *w = &a->want[0];
    uint64_t channels = l->ndim > 1 ? l->shape[1] : 1;
    bool has_channels = channels > 1 && !a->steps.is_mono;
    struct planes planes = {has_channels ? channels : 1, 0, a->samples, true, l->rate};
    w->is_variable = !a->is_cropped;
    w->row_bytes = fb_dtype_size(w->dtype) * (has_channels ? channels : 1);
    w->ndim = 0;
    if (has_channels)
        w->shape[w->ndim++] = (int64_t)channels; /* behind the frames, if these vary */
    FB_TRY(check_sound(a, l, e));
    if (w->is_variable)
        return 0;
    FB_TRY(array_steps_shape(&a->steps, &planes, e));
    if (array_steps_has_whole(&a->steps))
        return shape_spectrogram(a, e);
    w->shape[w->ndim++] = (int64_t)a->samples;
    return 0;
}

struct survey {
    struct feed *f;
    bool is_same[FB_MAX_FIELDS];     /* one shape in all files */
    bool is_instance[FB_MAX_FIELDS]; /* as many rows as the first field, in all files */
    char odd[FB_MAX_FIELDS][256];    /* a file where it is not so */
    uint64_t next_report_ns;
};

/* The rows of the first field. */
static uint64_t survey_file(struct survey *v, const char *key, const struct array_file *file)
{
    struct arrays *a = arrays_of(v->f);
    const struct array_layout *first = array_find(file, a->want[0].source);
    uint64_t rows = first && first->ndim ? first->shape[0] : 0;
    for (int i = 0; first && i < a->count; i++) {
        const struct array_want *w = &a->want[i];
        const struct array_layout *l = i ? array_find(file, w->source) : first;
        bool is_same = l && l->ndim == w->ndim, is_instance = l && l->ndim > 0 && l->shape[0] == rows;
        for (int d = 0; is_same && d < w->ndim; d++)
            is_same = (int64_t)l->shape[d] == w->shape[d];
        if (l && ((v->is_same[i] && !is_same) || (v->is_instance[i] && !is_instance)))
            snprintf(v->odd[i], sizeof(v->odd[i]), "%s", key);
        v->is_same[i] &= !l || is_same;
        v->is_instance[i] &= !l || is_instance;
    }
    return rows;
}

/* Of all files of a sample together. UNKNOWN: one of them cannot be looked into. */
static int survey_sample(struct survey *v, uint64_t sample, uint64_t *rows, struct fb_error *e)
{
    struct feed *f = v->f;
    uint64_t parts;
    FB_TRY(catalog_part_count(f->dataset.catalog, sample, &parts, e));
    *rows = 0;
    for (uint64_t i = 0; i < parts; i++) {
        struct catalog_sample s;
        struct array_file file;
        struct fb_error bad;
        error_clear(&bad);
        FB_TRY(catalog_part(f->dataset.catalog, sample, i, &s, e));
        if (probe_array_file(f, &s, &file, &bad) < 0) {
            *rows = UNKNOWN;
            return 0;
        }
        if (__builtin_add_overflow(*rows, survey_file(v, s.key, &file), rows))
            *rows = UNKNOWN;
        array_file_free(&file);
        if (*rows == UNKNOWN)
            return 0;
    }
    return 0;
}

static int report_progress(struct survey *v, const fb_options *o, uint64_t done, uint64_t total, struct fb_error *e)
{
    uint64_t now = clock_now_ns();
    if (now < v->next_report_ns)
        return 0;
    v->next_report_ns = now + REPORT_NS;
    if (o->progress)
        o->progress(o->ctx, &(struct fb_progress){"probing files", done, total});
    if (o->interrupted && o->interrupted(o->ctx))
        return error_set(e, FB_E_INTERRUPTED, "dataset", "interrupted while files were probed");
    return 0;
}

/* A file that cannot be looked into is a bad sample: it will say so when its turn comes. Its stand-in gets the room of the longest. */
static int survey_all(struct survey *v, const fb_options *o, struct fb_error *e)
{
    struct feed *f = v->f;
    struct arrays *a = arrays_of(f);
    uint64_t count = catalog_count(f->dataset.catalog);
    a->length = calloc(count, sizeof(*a->length));
    if (!a->length)
        return arrays_no_memory(e);
    for (uint64_t i = 0; i < count; i++) {
        FB_TRY(report_progress(v, o, i, count, e));
        if (f->dataset.io && i % PROBE_AHEAD == 0)
            FB_TRY(probe_ahead_in_store(f, i, e));
        FB_TRY(survey_sample(v, i, &a->length[i], e));
        if (a->length[i] != UNKNOWN && a->length[i] > a->longest)
            a->longest = a->length[i];
    }
    for (uint64_t i = 0; i < count; i++)
        if (a->length[i] == UNKNOWN)
            a->length[i] = a->longest;
    return 0;
}

static int refuse_lengths(const struct survey *v, int field, bool has_collate, struct fb_error *e)
{
    const struct array_want *w = &arrays_of(v->f)->want[field];
    if (has_collate) {
        error_set(e, FB_E_DATA, "dataset", "'%s' has neither as many rows as '%s' nor the same shape as in the first file", w->source,
                  arrays_of(v->f)->want[0].source);
        error_remedy(e, "leave it out of fields=");
    } else {
        error_set(e, FB_E_DATA, "dataset", "'%s' does not have the same shape in all files", w->source[0] ? w->source : w->name);
        const struct arrays *a = arrays_of(v->f);
        error_remedy(e, !a->is_sound                       ? "use collate=fb.Pad() or fb.Ragged(), or SampleInstances(k)"
                        : array_steps_has_whole(&a->steps) ? "use CropOrPad(samples)"
                                                           : "use CropOrPad(samples), or collate=fb.Pad()");
    }
    error_at(e, v->odd[field], -1);
    return FB_E_DATA;
}

/* What a sample's field looks like: the first dimension varies, is drawn, or is the same in all files. */
static int settle(struct survey *v, int field, bool has_collate, struct fb_error *e)
{
    struct arrays *a = arrays_of(v->f);
    struct array_want *w = &a->want[field];
    bool is_drawn = a->steps.instances && v->is_instance[field] && w->ndim > 0;
    w->is_variable = !is_drawn && has_collate && v->is_instance[field] && w->ndim > 0;
    w->is_instance = is_drawn || w->is_variable;
    w->row_bytes = fb_dtype_size(w->dtype);
    for (int d = 1; d < w->ndim; d++)
        w->row_bytes *= (size_t)w->shape[d];
    if (is_drawn)
        w->shape[0] = (int64_t)a->steps.instances;
    if (w->is_variable) {
        memmove(w->shape, w->shape + 1, (size_t)--w->ndim * sizeof(w->shape[0]));
        return 0;
    }
    return is_drawn || v->is_same[field] ? 0 : refuse_lengths(v, field, has_collate, e);
}

/* Bags are joined: what they are joined into has as many rows as all of them have. */
static int check_groups(const struct feed *f, const fb_options *o, struct fb_error *e)
{
    const struct arrays *a = arrays_of(f);
    if (!catalog_has_parts(f->dataset.catalog))
        return 0;
    if (a->is_sound)
        return error_set(e, FB_E_UNSUPPORTED, "dataset", "group_by= joins bags of arrays; recordings are not joined");
    if (o->collate || a->steps.instances)
        return 0;
    error_set(e, FB_E_USAGE, "dataset", "group_by= joins bags, so that samples have different numbers of rows");
    error_remedy(e, "use collate=fb.Pad() or fb.Ragged(), or SampleInstances(k)");
    return FB_E_USAGE;
}

int bags_open(struct feed *f, const fb_options *o, const struct array_file *first, struct fb_error *e)
{
    struct arrays *a = arrays_of(f);
    FB_TRY(check_groups(f, o, e));
    a->packing = o->collate == FB_COLLATE_RAGGED ? SLOT_RAGGED : SLOT_PADDED;
    if (a->is_sound)
        FB_TRY(shape_sound(a, array_find(first, a->want[0].source), e));
    if (a->is_sound && !a->want[0].is_variable)
        return 0;
    if (a->is_sound && o->collate && array_steps_has_whole(&a->steps)) {
        error_set(e, FB_E_USAGE, "transform", "spectrograms are made of recordings of one length");
        error_remedy(e, "put CropOrPad(samples) before LogMel, and leave collate= out");
        return FB_E_USAGE;
    }
    struct survey v = {.f = f};
    for (int i = 0; i < a->count; i++) {
        struct array_want *w = &a->want[i];
        const struct array_layout *l = array_find(first, w->source);
        if (l->ndim > FB_MAX_DIMS - 1)
            return error_set(e, FB_E_DATA, "dataset", "'%s' has more than %d dimensions", w->source, FB_MAX_DIMS - 1);
        w->ndim = l->ndim;
        for (int d = 0; d < l->ndim; d++)
            w->shape[d] = (int64_t)l->shape[d];
        v.is_same[i] = v.is_instance[i] = true;
    }
    FB_TRY(survey_all(&v, o, e));
    if (!a->is_sound) {
        for (int i = 0; i < a->count; i++)
            FB_TRY(settle(&v, i, o->collate != 0, e));
        return arrays_shape_steps(a, e);
    }
    if (!v.is_same[0] && !o->collate)
        return refuse_lengths(&v, 0, false, e);
    bool is_fixed = !o->collate;
    int64_t frames = a->want[0].shape[0];
    FB_TRY(shape_sound(a, array_find(first, a->want[0].source), e));
    if (is_fixed) { /* all have one length */
        a->is_cropped = true;
        a->samples = (uint64_t)frames;
        return shape_sound(a, array_find(first, a->want[0].source), e);
    }
    return 0;
}
