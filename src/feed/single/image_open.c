/* Samples that are images: their labels and further files, their transforms, the fields that they have in a batch. */
#include <stdlib.h>

#include "feed/load_ops.h"
#include "feed/single/image_load.h"

static int open_labels(struct feed *f, const fb_options *o, struct fb_error *e)
{
    fb_options rest = *o;
    char *names;
    int rc = files_choose(&f->files, f->dataset.catalog, o, &names, e);
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
    f->reads_parts = f->learnt && !f->raw_height;
    FB_TRY(step_chain_open(&f->chain, o->transforms, o->dtype, o->layout, o->exif != 0, e));
    FB_TRY(step_chain_bind(&f->chain, &f->labels, e));
    if (pipeline_dtype(step_chain_last(&f->chain)) == FB_UINT64)
        f->files = (struct files){0}; /* a digest is of the picture */
    FB_TRY(files_open_masks(&f->files, o, &f->labels, e));
    if (f->chain.map_count && !f->map)
        return refuse_map(e);
    if (step_chain_fixed_size(&f->chain, &f->out_height, &f->out_width))
        return 0;
    return first_size(f, &f->out_height, &f->out_width, e);
}

static int add_image_field(const struct feed *f, struct slot_shape *s, const char *name, struct fb_error *e)
{
    enum fb_dtype dtype = pipeline_dtype(step_chain_last(&f->chain));
    int64_t size = (int64_t)fb_dtype_size(dtype), h = f->out_height, w = f->out_width;
    if (dtype == FB_UINT64) /* the digest transform: one number per image */
        return slot_shape_add(s, "digest", dtype, 0, NULL, NULL, e);
    switch (pipeline_layout(step_chain_last(&f->chain))) {
    case FB_NCHW: return slot_shape_add(s, name, dtype, 3, (int64_t[]){3, h, w}, NULL, e);
    case FB_NHWC: return slot_shape_add(s, name, dtype, 3, (int64_t[]){h, w, 3}, NULL, e);
    default: return slot_shape_add(s, name, dtype, 3, (int64_t[]){3, h, w}, (int64_t[]){size, 3 * w * size, 3 * size}, e);
    }
}

/* The image comes first, further files where their names stand among the labels. */
static int add_fields(const struct feed *f, int label, struct slot_shape *s, struct fb_error *e)
{
    if (label == 0) {
        s->draw_numbers = pipeline_draw_numbers(f->chain.part, f->chain.map_count + 1);
        FB_TRY(add_image_field(f, s, "image", e));
    }
    for (int i = 0; i < f->files.count; i++) {
        const struct file_field *file = &f->files.field[i];
        if (file->labels_before != label)
            continue;
        FB_TRY(file->is_mask ? slot_shape_add(s, file->name, FB_UINT8, 2, (int64_t[]){f->out_height, f->out_width}, NULL, e)
                             : add_image_field(f, s, file->name, e));
    }
    return 0;
}

static void show_draws(const struct feed *f, const double *record, struct json_writer *w)
{
    pipeline_show_draws(f->chain.part, f->chain.map_count + 1, record, w);
}

static void image_close(struct feed *f)
{
    step_chain_close(&f->chain);
    files_close(&f->files);
}

const struct load_ops load_image = {
    .name = "image",
    .open_labels = open_labels,
    .open = image_open,
    .add_fields = add_fields,
    .plan = single_plan,
    .run = single_run,
    .show_draws = show_draws,
    .fill = image_fill,
    .close = image_close,
};
