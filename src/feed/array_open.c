/* Opening a feed of arrays or sound: which arrays, of what shape, how many rows; and whether a sample is a row or a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "codec/array_rows.h"
#include "codec/unfilter.h"
#include "feed/arrays.h"
#include "feed/feed.h"

enum { TRIES = 16, PULSE_NS = 100000000, PART_FROM_BYTES = 256 << 10 };

static int no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "feed", "no memory for the table of files");
}

/* ---- the first file says what there is ---- */

static int first_file(struct feed *f, struct array_file *out, struct catalog_sample *s, struct fb_error *e)
{
    int rc = FB_E_DATA;
    uint64_t count = catalog_count(f->dataset.catalog);
    for (uint64_t i = 0; i < count && i < TRIES; i++) {
        error_clear(e);
        FB_TRY(catalog_sample(f->dataset.catalog, i, s, e));
        rc = look_at_file(f, s, out, e);
        if (rc == 0 && out->count > 0)
            return 0;
        if (rc == 0) {
            array_file_free(out);
            rc = error_set(e, FB_E_DATA, "decode", "there is no array in it");
            error_at(e, s->key, -1);
        }
    }
    return rc;
}

static bool is_number(const struct array_layout *a)
{
    return a->storage != ARRAY_OPAQUE || fb_dtype_size(a->dtype);
}

/* "features, coords, labels" */
static void name_arrays(const struct array_file *file, char *out, size_t out_size)
{
    out[0] = 0;
    for (int i = 0; i < file->count; i++) {
        char shown[80];
        size_t used = strlen(out);
        if (used + 96 > out_size) {
            strcat(out, ", ...");
            return;
        }
        snprintf(out + used, out_size - used, "%s%s", i ? ", " : "", text_escape(file->array[i].name, shown, sizeof(shown)));
    }
}

static int refuse_field(const struct array_file *file, const char *key, const char *name, struct fb_error *e)
{
    char list[400], shown[100];
    name_arrays(file, list, sizeof(list));
    error_set(e, FB_E_NOT_FOUND, "dataset", "there is no array '%s' in it", text_escape(name, shown, sizeof(shown)));
    error_remedy(e, "it has: %s", list);
    error_at(e, key, -1);
    return FB_E_NOT_FOUND;
}

static int add_want(struct arrays *a, const struct array_layout *l, const char *name, struct fb_error *e)
{
    if (a->count == FB_MAX_FIELDS - 1)
        return error_set(e, FB_E_USAGE, "dataset", "more than %d arrays; choose some with fields=", FB_MAX_FIELDS - 1);
    struct array_want *w = &a->want[a->count++];
    snprintf(w->name, sizeof(w->name), "%.60s", name[0] ? name : a->is_sound ? "audio" : "data");
    snprintf(w->source, sizeof(w->source), "%s", name);
    w->stored = l->dtype;
    return 0;
}

bool arrays_has_field(const struct arrays *a, const char *name, size_t length)
{
    for (int i = 0; i < a->count; i++)
        if (strlen(a->want[i].source) == length && strncmp(a->want[i].source, name, length) == 0)
            return true;
    return false;
}

static bool is_label(const struct feed *f, const fb_options *o, const char *name)
{
    for (int i = 0; i < o->column_count; i++)
        if (strcmp(o->columns[i].name, name) == 0)
            return true;
    for (int i = 0; i < catalog_field_count(f->dataset.catalog); i++)
        if (strcmp(catalog_field(f->dataset.catalog, i)->name, name) == 0)
            return true;
    return false;
}

/* The arrays that fields= names, in its order. What the file does not have is a label. */
static int want_named(struct feed *f, const struct array_file *file, const char *key, const fb_options *o, struct fb_error *e)
{
    char text[ARRAY_NAME_BYTES] = "";
    for (const char *name = o->fields, *end; *name; name = *end ? end + 1 : end) {
        end = name + strcspn(name, "\n");
        snprintf(text, sizeof(text), "%.*s", (int)(end - name), name);
        const struct array_layout *l = array_find(file, text);
        if (l)
            FB_TRY(add_want(f->arrays, l, text, e));
        else if (!is_label(f, o, text))
            return refuse_field(file, key, text, e);
    }
    return f->arrays->count ? 0 : refuse_field(file, key, text, e);
}

static int refuse_all(const struct array_file *file, const char *key, struct fb_error *e)
{
    const struct array_layout *l = &file->array[0];
    char shown[100];
    if (l->why_opaque[0])
        error_set(e, FB_E_UNSUPPORTED, "dataset", "no array in it can be read as numbers: '%s' has %s", text_escape(l->name, shown, sizeof(shown)),
                  l->why_opaque);
    else
        error_set(e, FB_E_DATA, "dataset", "there is no array of numbers with rows in it");
    error_at(e, key, -1);
    return e->code;
}

/* Without fields=: all arrays of numbers; of rows, those that have as many as the largest array. */
static int want_all(struct arrays *a, const struct array_file *file, const char *key, struct fb_error *e)
{
    uint64_t rows = 0, most = 0;
    for (int i = 0; i < file->count; i++) {
        const struct array_layout *l = &file->array[i];
        uint64_t bytes = l->ndim > 0 && is_number(l) ? array_rows(l) * array_row_bytes(l) : 0;
        rows = bytes > most ? l->shape[0] : rows;
        most = bytes > most ? bytes : most;
    }
    for (int i = 0; i < file->count; i++) {
        const struct array_layout *l = &file->array[i];
        bool has_rows = l->ndim > 0 && l->shape[0] == rows && l->storage != ARRAY_OPAQUE; /* texts and the like: by name only */
        if (is_number(l) && (a->unit == ARRAYS_FILES || has_rows))
            FB_TRY(add_want(a, l, l->name, e));
    }
    return a->count ? 0 : refuse_all(file, key, e);
}

static enum arrays_unit unit_of(const struct feed *f, const fb_options *o, const struct array_file *first)
{
    if (o->sample)
        return o->sample == FB_SAMPLE_ROW ? ARRAYS_ROWS : ARRAYS_FILES;
    if (f->arrays->is_sound)
        return ARRAYS_FILES;
    return catalog_count(f->dataset.catalog) == 1 || strcmp(first->format, "hdf5") == 0 ? ARRAYS_ROWS : ARRAYS_FILES;
}

/* ---- dtypes and shapes ---- */

static bool is_float(enum fb_dtype t)
{
    return t == FB_FLOAT16 || t == FB_BFLOAT16 || t == FB_FLOAT32 || t == FB_FLOAT64;
}

/* dtype= is for floating-point fields and sound; the first one is normalised, which makes it float. */
static void choose_dtypes(struct arrays *a, enum fb_dtype dtype)
{
    for (int i = 0; i < a->count; i++) {
        struct array_want *w = &a->want[i];
        bool is_normed = a->steps.has_norm && i == 0;
        w->dtype = a->is_sound || (is_normed && !is_float(w->stored)) ? FB_FLOAT32 : w->stored;
        if (dtype && (is_float(w->dtype) || a->is_sound))
            w->dtype = dtype;
    }
}

static int shape_rows(struct array_want *w, const struct array_layout *l, const char *key, struct fb_error *e)
{
    if (l->ndim < 1 || l->ndim > FB_MAX_DIMS - 1) {
        error_set(e, FB_E_DATA, "dataset", "'%s' has %d dimensions: it has no rows", w->source, l->ndim);
        error_at(e, key, -1);
        return FB_E_DATA;
    }
    w->ndim = l->ndim - 1;
    w->row_bytes = fb_dtype_size(w->dtype);
    for (int d = 0; d < w->ndim; d++) {
        w->shape[d] = (int64_t)l->shape[d + 1];
        w->row_bytes *= l->shape[d + 1];
    }
    return 0;
}

/* One pair for all, one for each channel or column (the last dimension), or one for each number of a row. */
static int check_norm(const struct arrays *a, const struct array_layout *l, struct fb_error *e)
{
    uint64_t n = a->steps.norm_count, last = l->ndim > 1 ? l->shape[l->ndim - 1] : 1, all = 1;
    for (int d = 1; d < l->ndim; d++)
        all *= l->shape[d];
    if (n == 1 || n == last || n == all)
        return 0;
    error_set(e, FB_E_USAGE, "transform", "normalize: mean= and std= have %llu numbers, but a row has %llu %s", (unsigned long long)n,
              (unsigned long long)last, a->is_sound ? "channels" : "columns");
    error_remedy(e, "give one number, or one for each");
    return FB_E_USAGE;
}

int arrays_prepare_conversion(const struct arrays *a, int field, const struct array_layout *l, struct array_conversion *out, struct fb_error *e)
{
    const struct array_want *w = &a->want[field];
    const struct array_norm norm = {a->steps.mean, a->steps.inv_std, a->steps.norm_count, 1};
    bool is_normed = a->steps.has_norm && field == 0;
    if (is_normed)
        FB_TRY(check_norm(a, l, e));
    return array_conversion_init(out, l->code, l->dtype, w->dtype, is_normed ? &norm : NULL, e);
}

/* ---- rows: every file is opened ---- */

/* "float32 of 3 x 224" */
static const char *name_shape(enum fb_dtype dtype, int ndim, const uint64_t *shape, char *out, size_t out_size)
{
    int at = snprintf(out, out_size, "%s%s", fb_dtype_name(dtype), ndim > 0 ? " of " : "");
    for (int d = 0; d < ndim && at > 0 && (size_t)at < out_size; d++)
        at += snprintf(out + at, out_size - (size_t)at, "%s%llu", d ? " x " : "", (unsigned long long)shape[d]);
    return out;
}

static int check_same(const struct arrays *a, int field, const struct array_layout *l, const char *key, struct fb_error *e)
{
    const struct array_want *w = &a->want[field];
    bool is_same = l->dtype == w->stored && l->ndim == w->ndim + 1;
    for (int d = 0; is_same && d < w->ndim; d++)
        is_same = (int64_t)l->shape[d + 1] == w->shape[d];
    if (is_same)
        return 0;
    char here[80], there[80];
    error_set(e, FB_E_DATA, "dataset", "a row of '%s' is %s here, but %s in the first file", w->source,
              name_shape(l->dtype, l->ndim - 1, l->shape + 1, here, sizeof(here)),
              name_shape(w->stored, w->ndim, (const uint64_t *)w->shape, there, sizeof(there)));
    error_remedy(e, "open files of one kind together");
    error_at(e, key, -1);
    return FB_E_DATA;
}

static bool has_gaps(const struct array_layout *l)
{
    for (uint64_t i = 0; l->storage == ARRAY_CHUNKED && i < l->chunk_count; i++)
        if (l->chunk[i].offset == ARRAY_NO_CHUNK)
            return true;
    return false;
}

static int add_object_fields(struct arrays *a, struct array_object *o, struct fb_error *e)
{
    for (int i = 0; i < a->count; i++) {
        const struct array_layout *l = array_find(&o->file, a->want[i].source);
        if (!l)
            return refuse_field(&o->file, o->key, a->want[i].source, e);
        FB_TRY(check_same(a, i, l, o->key, e));
        if (i == 0) {
            o->rows = l->shape[0];
        } else if (l->shape[0] != o->rows) {
            error_set(e, FB_E_DATA, "dataset", "'%s' has %llu rows, '%s' %llu", a->want[0].source, (unsigned long long)o->rows,
                      a->want[i].source, (unsigned long long)l->shape[0]);
            error_remedy(e, "choose arrays of one length with fields=");
            error_at(e, o->key, -1);
            return FB_E_DATA;
        }
        o->layout[i] = l;
        FB_TRY(arrays_prepare_conversion(a, i, l, &o->conversion[i], e));
        o->is_straight[i] = array_is_straight(l);
        o->stored_bytes[i] = array_row_bytes(l);
        o->is_copied[i] = array_conversion_is_copy(&o->conversion[i]);
        o->has_gaps[i] = has_gaps(l);
        if (!array_is_straight(l) && l->storage == ARRAY_CHUNKED) {
            a->chunk_rows = a->is_chunked ? a->chunk_rows : l->chunk_shape[0];
            a->is_chunked = true;
        }
    }
    return 0;
}

static int open_object(struct feed *f, struct array_object *o, uint64_t sample, struct fb_error *e)
{
    struct catalog_sample s;
    FB_TRY(catalog_sample(f->dataset.catalog, sample, &s, e));
    o->key = s.key;
    o->path = s.object;
    o->size = s.length;
    o->mtime_ns = s.mtime_ns;
    FB_TRY(look_at_file(f, &s, &o->file, e));
    o->fd = openat(f->dataset.root_fd, s.object, O_RDONLY | O_CLOEXEC);
    if (o->fd < 0) {
        int rc = error_set_errno(e, "read", errno, "open the file");
        error_remedy(e, errno == EMFILE ? "raise the limit of open files (ulimit -n)" : "check that it is readable");
        error_at(e, s.key, -1);
        return rc;
    }
    return add_object_fields(f->arrays, o, e);
}

static int open_objects(struct feed *f, struct fb_error *e)
{
    struct arrays *a = f->arrays;
    a->objects = catalog_count(f->dataset.catalog);
    a->object = calloc(a->objects, sizeof(*a->object));
    if (!a->object)
        return no_memory(e);
    for (uint64_t i = 0; i < a->objects; i++)
        a->object[i].fd = -1;
    for (uint64_t i = 0; i < a->objects; i++) {
        struct array_object *o = &a->object[i];
        FB_TRY(open_object(f, o, i, e));
        o->first = a->rows;
        if (__builtin_add_overflow(a->rows, o->rows, &a->rows))
            return error_set(e, FB_E_DATA, "dataset", "more rows than can be counted");
    }
    return a->rows ? 0 : error_set(e, FB_E_DATA, "dataset", "the arrays have no rows");
}

static int open_rows(struct feed *f, const struct array_file *first, const char *key, struct fb_error *e)
{
    struct arrays *a = f->arrays;
    if (a->steps.instances || a->is_sound)
        return error_set(e, FB_E_USAGE, "transform", "%s", a->is_sound ? "recordings have no rows; use sample=\"file\"" :
                         "sample_instances is for bags: use it with sample=\"file\"");
    for (int i = 0; i < a->count; i++) {
        const struct array_layout *l = array_find(first, a->want[i].source);
        FB_TRY(shape_rows(&a->want[i], l, key, e));
    }
    FB_TRY(open_objects(f, e));
    uint64_t limit = atomic_load(&f->budget->limit), chunk = 0;
    for (int i = 0; i < a->count; i++)
        if (a->object[0].layout[i]->storage == ARRAY_CHUNKED)
            chunk += unfilter_chunk_bytes(a->object[0].layout[i]);
    return a->is_chunked ? chunk_cache_open(&a->cache, f->budget, limit / 3, chunk, e) : 0;
}

/* ---- files: the lengths of all ---- */

/* (mels, frames) instead of samples. */
static int shape_spectrogram(struct arrays *a, uint32_t rate, struct fb_error *e)
{
    struct array_want *w = &a->want[0];
    uint64_t frames;
    if (w->dtype != FB_FLOAT32 && w->dtype != FB_FLOAT16 && w->dtype != FB_BFLOAT16)
        return error_set(e, FB_E_USAGE, "transform", "spectrograms are float32, float16 or bfloat16, not %s", fb_dtype_name(w->dtype));
    FB_TRY(spectrogram_open(&a->steps.spectrogram, rate, a->steps.crop_samples, &frames, e));
    w->shape[w->ndim++] = a->steps.spectrogram.options.n_mels;
    w->shape[w->ndim++] = (int64_t)frames;
    return 0;
}

static int shape_sound(struct arrays *a, const struct array_layout *l, struct fb_error *e)
{
    struct array_want *w = &a->want[0];
    uint64_t channels = l->ndim > 1 ? l->shape[1] : 1;
    bool has_channels = channels > 1 && !a->steps.is_mono;
    uint64_t frames = a->steps.crop_samples;
    w->is_variable = frames == 0;
    w->row_bytes = fb_dtype_size(w->dtype) * (has_channels ? channels : 1);
    w->ndim = 0;
    if (w->is_variable) {
        if (has_channels)
            w->shape[w->ndim++] = (int64_t)channels; /* frames first: the dimension that varies */
        return 0;
    }
    if (has_channels)
        w->shape[w->ndim++] = (int64_t)channels;
    if (a->steps.spectrogram.is_wanted)
        return shape_spectrogram(a, l->rate, e);
    w->shape[w->ndim++] = (int64_t)frames;
    struct array_conversion c;
    return arrays_prepare_conversion(a, 0, l, &c, e);
}

struct survey {
    struct feed *f;
    bool is_same[FB_MAX_FIELDS];   /* one shape in all files */
    bool is_instance[FB_MAX_FIELDS]; /* as many rows as the first field, in all files */
    char odd[FB_MAX_FIELDS][256];  /* a file where it is not so */
    uint64_t next_pulse_ns;
};

static void survey_file(struct survey *v, uint64_t sample, const char *key, const struct array_file *file)
{
    struct arrays *a = v->f->arrays;
    const struct array_layout *first = array_find(file, a->want[0].source);
    uint64_t rows = first && first->ndim ? first->shape[0] : 0;
    a->length[sample] = rows;
    a->longest = rows > a->longest ? rows : a->longest;
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
}

static int pulse(struct survey *v, const fb_options *o, uint64_t done, uint64_t total, struct fb_error *e)
{
    uint64_t now = clock_now_ns();
    if (now < v->next_pulse_ns)
        return 0;
    v->next_pulse_ns = now + PULSE_NS;
    if (o->progress)
        o->progress(o->ctx, &(struct fb_progress){"looking into files", done, total});
    if (o->interrupted && o->interrupted(o->ctx))
        return error_set(e, FB_E_INTERRUPTED, "dataset", "interrupted while files were looked into");
    return 0;
}

/* A file that cannot be looked into is a bad sample: it will say so when its turn comes. Its stand-in gets the room of the longest. */
static int survey_all(struct survey *v, const fb_options *o, struct fb_error *e)
{
    struct feed *f = v->f;
    struct arrays *a = f->arrays;
    uint64_t count = catalog_count(f->dataset.catalog);
    a->length = calloc(count, sizeof(*a->length));
    if (!a->length)
        return no_memory(e);
    for (uint64_t i = 0; i < count; i++) {
        struct catalog_sample s;
        struct array_file file;
        struct fb_error bad;
        error_clear(&bad);
        FB_TRY(pulse(v, o, i, count, e));
        if (f->dataset.io && i % LOOK_AHEAD == 0)
            FB_TRY(look_ahead_in_store(f, i, e));
        FB_TRY(catalog_sample(f->dataset.catalog, i, &s, e));
        if (look_at_file(f, &s, &file, &bad) < 0) {
            a->length[i] = UINT64_MAX;
            continue;
        }
        survey_file(v, i, s.key, &file);
        array_file_free(&file);
    }
    for (uint64_t i = 0; i < count; i++)
        if (a->length[i] == UINT64_MAX)
            a->length[i] = a->longest;
    return 0;
}

static int refuse_lengths(const struct survey *v, int field, bool has_collate, struct fb_error *e)
{
    const struct array_want *w = &v->f->arrays->want[field];
    if (has_collate) {
        error_set(e, FB_E_DATA, "dataset", "'%s' has neither as many rows as '%s' nor the same shape as in the first file", w->source,
                  v->f->arrays->want[0].source);
        error_remedy(e, "leave it out of fields=");
    } else {
        error_set(e, FB_E_DATA, "dataset", "'%s' does not have the same shape in all files", w->source[0] ? w->source : w->name);
        error_remedy(e, v->f->arrays->is_sound ? "use CropOrPad(samples), or collate=fb.Pad()"
                                               : "use collate=fb.Pad() or fb.Ragged(), or SampleInstances(k)");
    }
    error_at(e, v->odd[field], -1);
    return FB_E_DATA;
}

/* What a sample's field looks like: the first dimension varies, is drawn, or is the same in all files. */
static int settle(struct survey *v, int field, bool has_collate, struct fb_error *e)
{
    struct arrays *a = v->f->arrays;
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

static int open_files(struct feed *f, const fb_options *o, const struct array_file *first, const char *key, struct fb_error *e)
{
    struct arrays *a = f->arrays;
    a->packing = o->collate == FB_COLLATE_RAGGED ? SLOT_RAGGED : SLOT_PADDED;
    if (a->is_sound)
        FB_TRY(shape_sound(a, array_find(first, a->want[0].source), e));
    if (a->is_sound && !a->want[0].is_variable)
        return 0;
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
    (void)key;
    if (!a->is_sound) {
        for (int i = 0; i < a->count; i++)
            FB_TRY(settle(&v, i, o->collate != 0, e));
        return 0;
    }
    if ((!v.is_same[0] && !o->collate) || (o->collate && a->steps.spectrogram.is_wanted))
        return refuse_lengths(&v, 0, false, e);
    bool is_fixed = !o->collate;
    int64_t frames = a->want[0].shape[0];
    FB_TRY(shape_sound(a, array_find(first, a->want[0].source), e));
    if (is_fixed) { /* all have one length */
        a->steps.crop_samples = (uint64_t)frames;
        return shape_sound(a, array_find(first, a->want[0].source), e);
    }
    return 0;
}

/* ---- open and close ---- */

/* Rows are read from files that stay open. */
static int refuse_rows(const struct feed *f, const char *key, struct fb_error *e)
{
    error_set(e, FB_E_UNSUPPORTED, "dataset", "the rows of an array in a bucket are not read one by one");
    error_remedy(e, "copy it to a disk first (fullbore stage %s/%.200s FOLDER), or take each file as a sample with sample=\"file\"", f->dataset.root,
                 key);
    error_at(e, key, -1);
    return FB_E_UNSUPPORTED;
}

static int open_with(struct feed *f, const fb_options *o, const struct array_file *first, const struct catalog_sample *s, struct fb_error *e)
{
    struct arrays *a = f->arrays;
    a->unit = unit_of(f, o, first);
    if (f->dataset.io && a->unit == ARRAYS_ROWS)
        return refuse_rows(f, s->key, e);
    if (a->is_sound || !o->fields)
        FB_TRY(a->is_sound ? add_want(a, &first->array[0], first->array[0].name, e) : want_all(a, first, s->key, e));
    else
        FB_TRY(want_named(f, first, s->key, o, e));
    choose_dtypes(a, o->dtype);
    return a->unit == ARRAYS_ROWS ? open_rows(f, first, s->key, e) : open_files(f, o, first, s->key, e);
}

int arrays_open(struct feed *f, const fb_options *o, struct fb_error *e)
{
    struct arrays *a = f->arrays = calloc(1, sizeof(*a));
    if (!a)
        return no_memory(e);
    a->is_sound = f->dataset.family == FAMILY_SOUND;
    a->allows_external = o->allow_external != 0;
    a->root = f->dataset.root;
    FB_TRY(array_steps_parse(&a->steps, o->transforms, a->is_sound, e));
    struct array_file first;
    struct catalog_sample s;
    FB_TRY(first_file(f, &first, &s, e));
    int rc = open_with(f, o, &first, &s, e);
    array_file_free(&first);
    return rc;
}

void arrays_close(struct feed *f)
{
    struct arrays *a = f->arrays;
    if (!a)
        return;
    for (uint64_t i = 0; a->object && i < a->objects; i++) {
        struct array_object *o = &a->object[i];
        if (o->fd >= 0)
            close(o->fd);
        for (int k = 0; k < a->count; k++)
            if (a->is_resident[k]) {
                memory_unmap(o->resident[k], o->rows * a->want[k].row_bytes);
                budget_give(f->budget, MEMORY_CACHE, o->rows * a->want[k].row_bytes);
            }
        array_file_free(&o->file);
    }
    chunk_cache_close(&a->cache);
    array_steps_free(&a->steps);
    free(a->object);
    free(a->length);
    free(a);
    f->arrays = NULL;
}

void arrays_give_back(struct feed *f, bool is_live)
{
    if (f->arrays && f->arrays->is_chunked && f->arrays->unit == ARRAYS_ROWS)
        chunk_cache_trim(&f->arrays->cache, is_live);
}

int arrays_add_fields(const struct arrays *a, struct slot_shape *s, struct fb_error *e)
{
    for (int i = 0; i < a->count; i++) {
        const struct array_want *w = &a->want[i];
        FB_TRY(w->is_variable ? slot_shape_add_variable(s, w->name, a->packing, w->dtype, w->ndim, w->shape, e)
                              : slot_shape_add(s, w->name, w->dtype, w->ndim, w->shape, NULL, e));
    }
    return 0;
}

bool arrays_reads_part(const struct arrays *a, const struct catalog_sample *s)
{
    size_t n = strlen(s->key);
    return a->is_sound && a->steps.crop_samples && s->length >= PART_FROM_BYTES && n > 4 && strcasecmp(s->key + n - 4, ".wav") == 0;
}

bool arrays_reads_itself(const struct feed *f, const struct load *l)
{
    return !f->dataset.io && (!f->arrays->is_sound || arrays_reads_part(f->arrays, &l->where)); /* a store brings objects */
}

uint64_t arrays_length_of(const struct arrays *a, uint64_t sample)
{
    return a->length ? a->length[sample] : 0;
}

int arrays_row_key(const struct arrays *a, uint64_t row, char *out, size_t out_size)
{
    const struct array_object *o = arrays_object_of(a, row);
    return snprintf(out, out_size, "%s#%llu", o->key, (unsigned long long)(row - o->first));
}
