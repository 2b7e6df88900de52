/* Opening a feed of arrays or sound: which arrays are wanted, of which dtype, and whether a sample is a row or a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/text.h"
#include "feed/arrays.h"
#include "feed/load_ops.h"

enum { TRIES = 16 };

int arrays_no_memory(struct fb_error *e)
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
        FB_TRY(catalog_part(f->dataset.catalog, i, 0, s, e));
        rc = probe_array_file(f, s, out, e);
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

int arrays_refuse_field(const struct array_file *file, const char *key, const char *name, struct fb_error *e)
{
    char list[400], shown[100];
    bool may_be_there = file->count == ARRAY_MAX_IN_FILE; /* a description has no more */
    name_arrays(file, list, sizeof(list));
    error_set(e, FB_E_NOT_FOUND, "dataset", "there is no array '%s' %s", text_escape(name, shown, sizeof(shown)),
              may_be_there ? "among its first 256 arrays, and later ones are not searched" : "in it");
    if (may_be_there)
        error_remedy(e, "keep it nearer to the root of the file, or in a file of its own");
    else
        error_remedy(e, "it has: %s", file->count == 1 && !list[0] ? "one array without a name" : list);
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
            FB_TRY(add_want(arrays_of(f), l, text, e));
        else if (!is_label(f, o, text))
            return arrays_refuse_field(file, key, text, e);
    }
    return arrays_of(f)->count ? 0 : arrays_refuse_field(file, key, text, e);
}

static int refuse_all(const struct array_file *file, const char *key, struct fb_error *e)
{
    const struct array_layout *l = &file->array[0];
    char shown[100];
    text_escape(l->name, shown, sizeof(shown));
    if (l->why_opaque[0]) {
        error_set(e, FB_E_UNSUPPORTED, "dataset", "there is no array of plain numbers in it: '%s' has %s", shown, l->why_opaque);
        error_remedy(e, "what libhdf5 has to read is read if fields= names it: fields=['%s']", shown);
    } else
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
        bool is_larger = bytes > most || (!most && is_number(l) && l->ndim > 0 && l->shape[0] > rows); /* there may be none with numbers */
        rows = is_larger ? l->shape[0] : rows;
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
    if (arrays_of(f)->is_sound || catalog_has_parts(f->dataset.catalog))
        return ARRAYS_FILES;
    return catalog_count(f->dataset.catalog) == 1 || strcmp(first->format, "hdf5") == 0 ? ARRAYS_ROWS : ARRAYS_FILES;
}

/* ---- dtypes and shapes ---- */

/* dtype= is for floating-point fields and sound; the first one is normalised, which makes it float. */
static void choose_dtypes(struct arrays *a, enum fb_dtype dtype)
{
    for (int i = 0; i < a->count; i++) {
        struct array_want *w = &a->want[i];
        bool is_normed = a->steps.is_normalized && i == 0;
        w->dtype = a->is_sound || (is_normed && !arrays_is_short_float(w->stored) && w->stored != FB_FLOAT64) ? FB_FLOAT32 : w->stored;
        if (dtype && (arrays_is_short_float(w->dtype) || w->dtype == FB_FLOAT64 || a->is_sound))
            w->dtype = dtype;
    }
}

/* One pair for all, one for each channel or column (the last dimension), or one for each number of a row. */
static int check_norm(const struct arrays *a, const struct array_layout *l, struct fb_error *e)
{
    uint64_t n = a->steps.norm.count, last = l->ndim > 1 ? l->shape[l->ndim - 1] : 1, all = 1;
    for (int d = 1; d < l->ndim; d++)
        all *= l->shape[d];
    if (n == 1 || n == last || n == all)
        return 0;
    error_set(e, FB_E_USAGE, "transform", "normalize: mean= and std= have %llu numbers, but a row has %llu %s", (unsigned long long)n,
              (unsigned long long)last, a->is_sound ? "channels" : "columns");
    error_remedy(e, "give one number, or one for each");
    return FB_E_USAGE;
}

int arrays_prepare_conversion(const struct arrays *a, int field, const struct array_layout *l, struct array_conversion *out,
                              struct fb_error *e)
{
    const struct array_want *w = &a->want[field];
    const struct array_norm norm = {a->steps.norm.mean, a->steps.norm.inv_std, a->steps.norm.count, 1};
    bool is_normed = a->steps.norm.count && field == 0;
    if (is_normed)
        FB_TRY(check_norm(a, l, e));
    return array_conversion_init(out, l->code, l->dtype, w->dtype, is_normed ? &norm : NULL, e);
}

/* ---- open and close ---- */

/* Rows are read from files that stay open. */
static int refuse_rows(const struct feed *f, const char *key, struct fb_error *e)
{
    error_set(e, FB_E_UNSUPPORTED, "dataset", "the rows of an array in a bucket are not read one by one");
    error_remedy(e, "copy it to a disk first (fullbore stage %s/%.200s FOLDER), or take each file as a sample with sample=\"file\"",
                 f->dataset.root, key);
    error_at(e, key, -1);
    return FB_E_UNSUPPORTED;
}

static int open_with(struct feed *f, const fb_options *o, const struct array_file *first, const struct catalog_sample *s,
                     struct fb_error *e)
{
    struct arrays *a = arrays_of(f);
    a->unit = unit_of(f, o, first);
    if (f->dataset.io && a->unit == ARRAYS_ROWS)
        return refuse_rows(f, s->key, e);
    if (catalog_has_parts(f->dataset.catalog) && a->unit == ARRAYS_ROWS)
        return error_set(e, FB_E_USAGE, "dataset", "group_by= joins whole files: leave sample=\"row\" out");
    if (a->is_sound || !o->fields)
        FB_TRY(a->is_sound ? add_want(a, &first->array[0], first->array[0].name, e) : want_all(a, first, s->key, e));
    else
        FB_TRY(want_named(f, first, s->key, o, e));
    choose_dtypes(a, o->dtype);
    return a->unit == ARRAYS_ROWS ? rows_open(f, first, s->key, e) : bags_open(f, o, first, e);
}

int arrays_open(struct feed *f, const fb_options *o, struct fb_error *e)
{
    struct arrays *a = f->state = calloc(1, sizeof(*a));
    if (!a)
        return arrays_no_memory(e);
    a->is_sound = f->dataset.family == FAMILY_SOUND;
    a->allows_external = o->allow_external != 0;
    FB_TRY(array_steps_open(&a->steps, o->transforms, a->is_sound ? TAKES_SOUND : TAKES_ARRAYS, e));
    a->is_cropped = a->steps.is_cropped;
    a->samples = a->steps.samples;
    struct array_file first;
    struct catalog_sample s;
    FB_TRY(first_file(f, &first, &s, e));
    int rc = open_with(f, o, &first, &s, e);
    array_file_free(&first);
    if (rc == 0 && a->unit == ARRAYS_ROWS)
        f->kind = &load_rows;
    return rc;
}

void arrays_close(struct feed *f)
{
    struct arrays *a = arrays_of(f);
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
    array_steps_close(&a->steps);
    free(a->object);
    free(a->length);
    free(a);
    f->state = NULL;
}

int arrays_add_fields(const struct feed *f, int label, struct slot_shape *s, struct fb_error *e)
{
    const struct arrays *a = arrays_of(f);
    s->draw_numbers = a->steps.draw_numbers;
    for (int i = 0; label == 0 && i < a->count; i++) {
        const struct array_want *w = &a->want[i];
        FB_TRY(w->is_variable ? slot_shape_add_variable(s, w->name, a->packing, w->dtype, w->ndim, w->shape, e)
                              : slot_shape_add(s, w->name, w->dtype, w->ndim, w->shape, NULL, e));
    }
    return 0;
}

void arrays_show_draws(const struct feed *f, const double *record, struct json_writer *w)
{
    array_steps_show(&arrays_of(f)->steps, record, w);
}

/* The names in fields= that are arrays of the files are not labels. */
static bool has_field(const struct arrays *a, const char *name, size_t length)
{
    for (int i = 0; i < a->count; i++)
        if (strlen(a->want[i].source) == length && strncmp(a->want[i].source, name, length) == 0)
            return true;
    return false;
}

/* Without the names that are arrays; NULL: none is left. */
static char *label_names(const struct arrays *a, const char *fields)
{
    char *names = calloc(1, strlen(fields) + 2);
    for (const char *name = fields; names && *name;) {
        size_t n = strcspn(name, "\n");
        if (!has_field(a, name, n))
            strncat(strcat(names, names[0] ? "\n" : ""), name, n);
        name += n + (name[n] == '\n');
    }
    if (names && names[0])
        return names;
    free(names);
    return NULL;
}

/* A row has no labels in the catalog, which knows files. */
int arrays_open_labels(struct feed *f, const fb_options *o, struct fb_error *e)
{
    char *names = o->fields ? label_names(arrays_of(f), o->fields) : NULL;
    fb_options rest = *o;
    rest.fields = names;
    int rc = labels_open(&f->labels, f->dataset.catalog, &f->subset, &rest, e);
    if (rc == 0 && arrays_of(f)->unit == ARRAYS_ROWS && !o->column_rows)
        f->labels.count = 0;
    free(names);
    return rc;
}
