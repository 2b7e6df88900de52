/* Samples that are images: their labels and further files, their transforms, the fields that they have in a batch. */
#include <stdlib.h>

#include "feed/single/images.h"
#include "feed/single/partial_read.h"
#include "meter/metrics.h"

static int images_make(struct feed *f, const fb_options *o, struct fb_error *e)
{
    struct images *i = f->state = calloc(1, sizeof(*i));
    if (!i)
        return error_set(e, FB_E_NOMEM, "feed", "no memory for the transforms");
    i->map = o->map;
    i->map_ctx = o->map_ctx;
    int rc = catalog_decoded_size(f->dataset.catalog, &i->raw_height, &i->raw_width, e);
    if (rc < 0)
        error_at(e, o->source, -1);
    if (rc < 0 || f->dataset.family != FAMILY_IMAGE || !catalog_has_parts(f->dataset.catalog))
        return rc < 0 ? rc : 0;
    return error_advise(e, error_set(e, FB_E_USAGE, "feed", "group_by= joins bags of arrays; pictures are not joined"), "leave it out");
}

static int open_labels(struct feed *f, const fb_options *o, struct fb_error *e)
{
    fb_options rest = *o;
    char *names;
    int rc = files_choose(&images_of(f)->files, f->dataset.catalog, o, &names, e);
    rest.fields = names;
    if (rc == 0)
        rc = labels_open(&f->labels, f->dataset.catalog, &f->subset, &rest, e);
    free(names);
    return rc;
}

static int refuse_map(struct fb_error *e)
{
    return error_advise(e, error_set(e, FB_E_USAGE, "feed", "transforms have a map step, but there is no function for it"),
                        "set fb_options.map");
}

static int image_open(struct feed *f, const fb_options *o, struct fb_error *e)
{
    struct images *i = images_of(f);
    i->reads_parts = f->learnt && !i->raw_height;
    FB_TRY(step_chain_open(&i->chain, o->transforms, o->dtype, o->layout, o->exif != 0, e));
    FB_TRY(step_chain_bind(&i->chain, &f->labels, e));
    if (pipeline_dtype(step_chain_last(&i->chain)) == FB_UINT64)
        i->files = (struct files){0}; /* a digest is of the picture */
    FB_TRY(files_open_masks(&i->files, o, &f->labels, e));
    if (i->chain.map_count && !i->map)
        return refuse_map(e);
    for (int k = 0; k < i->chain.map_count; k++)
        i->function[k].name = i->chain.map[k].name;
    f->function = i->function;
    f->function_count = i->chain.map_count;
    if (step_chain_fixed_size(&i->chain, &i->out_height, &i->out_width))
        return 0;
    return image_size_probe(f, &i->out_height, &i->out_width, e);
}

static int add_image_field(const struct images *i, struct slot_shape *s, const char *name, struct fb_error *e)
{
    enum fb_dtype dtype = pipeline_dtype(step_chain_last(&i->chain));
    int64_t size = (int64_t)fb_dtype_size(dtype), h = i->out_height, w = i->out_width;
    if (dtype == FB_UINT64) /* the digest transform: one number per image */
        return slot_shape_add(s, "digest", dtype, 0, NULL, NULL, e);
    switch (pipeline_layout(step_chain_last(&i->chain))) {
    case FB_NCHW: return slot_shape_add(s, name, dtype, 3, (int64_t[]){3, h, w}, NULL, e);
    case FB_NHWC: return slot_shape_add(s, name, dtype, 3, (int64_t[]){h, w, 3}, NULL, e);
    default: return slot_shape_add(s, name, dtype, 3, (int64_t[]){3, h, w}, (int64_t[]){size, 3 * w * size, 3 * size}, e);
    }
}

/* The image comes first, further files where their names stand among the labels. */
static int add_fields(const struct feed *f, int label, struct slot_shape *s, struct fb_error *e)
{
    const struct images *i = images_of(f);
    if (label == 0) {
        s->draw_numbers = pipeline_draw_numbers(i->chain.part, i->chain.map_count + 1);
        FB_TRY(add_image_field(i, s, "image", e));
    }
    for (const struct file_field *file = i->files.field; file < i->files.field + i->files.count; file++) {
        if (file->labels_before != label)
            continue;
        FB_TRY(file->is_mask ? slot_shape_add(s, file->name, FB_UINT8, 2, (int64_t[]){i->out_height, i->out_width}, NULL, e)
                             : add_image_field(i, s, file->name, e));
    }
    return 0;
}

static void show_draws(const struct feed *f, const double *record, struct json_writer *w)
{
    const struct step_chain *c = &images_of(f)->chain;
    pipeline_show_draws(c->part, c->map_count + 1, record, w);
}

static int next_file(struct feed *f, struct load *l, struct fb_error *e)
{
    const struct files *files = &images_of(f)->files;
    struct single_load *s = single_of(l);
    if (s->file == files->count)
        return 0;
    const struct file_field *next = &files->field[s->file];
    FB_TRY(catalog_file(f->dataset.catalog, l->sample, next->catalog_file, &l->where, e));
    s->file_name = next->name;
    s->file++;
    return FILL_NEXT_FILE;
}

static void image_metrics(struct feed *f, struct metrics *m)
{
    const _Atomic uint64_t *decoded = images_of(f)->decoded;
    metrics_set(m, "regions.by_checkpoints", meter_get(&decoded[CODEC_BY_RECORD]));
    metrics_set(m, "regions.plainly", meter_get(&decoded[CODEC_PLAIN]));
    metrics_set(m, "regions.by_fallback", meter_get(&decoded[CODEC_FALLBACK]));
}

static void images_close(struct feed *f)
{
    struct images *i = images_of(f);
    if (!i)
        return;
    step_chain_close(&i->chain);
    files_close(&i->files);
    free(i);
    f->state = NULL;
}

const struct load_ops load_image = {
    .name = "image",
    .make = images_make,
    .open_labels = open_labels,
    .open = image_open,
    .add_fields = add_fields,
    .plan = single_plan,
    .run = single_run,
    .show_draws = show_draws,
    .prepare = partial_read_prepare,
    .request = single_request,
    .fill = image_fill,
    .next_file = next_file,
    .metrics = image_metrics,
    .close = images_close,
};
