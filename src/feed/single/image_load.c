/* A file of an image sample: its bytes, decoded as far as the transforms want, through the chain of pipelines and the caller's functions,
 * into its field of the sample's place. Labels are copied first: transforms and functions read and change them; with a further file of the
 * sample (sample_files.h) everything is drawn once more, on a copy of the labels that is dropped.
 */
#include <string.h>

#include "base/clock.h"
#include "base/round_up.h"
#include "base/text/text.h"
#include "feed/single/images.h"

struct image_load {
    struct worker *w;
    struct feed *f;
    struct load *l;
    struct images *images;
    int file;                       /* of the sample: single_load.file */
    const struct step_chain *chain; /* the masks' have their own */
    int field;                      /* of the batch, that it goes into */
    void *label[FB_MAX_FIELDS];
    struct image image; /* between parts: packed, in w->mapped[at] */
    int at;
    bool is_float, is_made; /* a function made a result; of floats */
    uint64_t transform_ns;
};

/* ---- labels ---- */

static struct image_load image_load_of(struct worker *w, struct feed *f, struct load *l)
{
    struct images *i = images_of(f);
    int file = single_of(l)->file;
    return (struct image_load){
        .w = w,
        .f = f,
        .l = l,
        .images = i,
        .file = file,
        .chain = file && i->files.field[file - 1].is_mask ? &i->files.masks : &i->chain,
        .field = file ? files_field(&i->files, file - 1) : 0,
    };
}

/* To their place, or to memory that is forgotten. */
static int copy_labels(struct image_load *p, struct fb_error *e)
{
    const struct labels *l = &p->f->labels;
    size_t bytes = p->file ? labels_lay_out(l, NULL, p->label) : 0;
    uint8_t *memory = bytes ? worker_memory(p->f, &p->w->labels, bytes, e) : NULL;
    if (bytes && !memory)
        return e->code;
    if (memory)
        labels_lay_out(l, memory, p->label);
    else
        load_place_labels(p->f, p->l->slot, p->l->place, p->label);
    return labels_copy(l, p->l->selected, p->l->sample, p->label, e);
}

/* ---- planning ---- */

static int check_size(const struct images *i, uint32_t height, uint32_t width, struct fb_error *e)
{
    if (height == i->out_height && width == i->out_width)
        return 0;
    error_set(e, FB_E_DATA, "transform", "it comes out %u x %u (height x width), but the batch's images are %u x %u", height, width,
              i->out_height, i->out_width);
    error_remedy(e, "add a transform that gives all images one size: RandomResizedCrop(224), or Resize(256) and CenterCrop(224)");
    return FB_E_DATA;
}

static int plan_part(struct image_load *p, int part, const struct image_header *h, struct plan *plan, struct fb_error *e)
{
    const struct load *l = p->l;
    struct rng rng = rng_stream(RNG_TRANSFORM, p->f->seed, l->slot->epoch, l->position, l->attempt);
    FB_TRY(step_chain_plan(p->chain, part, h, rng, p->label, plan, e));
    if (p->file == 0)
        pipeline_keep_draws(p->chain->part, part, plan, slot_draws(l->slot, l->place));
    return part == p->chain->map_count && pipeline_dtype(p->chain->part[part]) != FB_UINT64
               ? check_size(p->images, plan->out_height, plan->out_width, e)
               : 0;
}

/* Where a part's result goes: the sample's place, or memory for the function that comes next. */
static int place_of_part(struct image_load *p, int part, const struct plan *plan, int buffer, struct place *out, struct fb_error *e)
{
    if (part == p->chain->map_count) {
        const struct pipeline *last = step_chain_last(p->chain);
        *out = (struct place){slot_at(p->l->slot, p->field, p->l->place), pipeline_dtype(last), pipeline_layout(last),
                              p->images->out_height, p->images->out_width};
        return 0;
    }
    *out = (struct place){NULL, FB_UINT8, FB_NHWC, plan->out_height, plan->out_width};
    out->data = worker_memory(p->f, &p->w->mapped[buffer], (size_t)out->height * out->width * 3, e);
    if (!out->data)
        return e->code;
    p->at = buffer;
    p->image = (struct image){out->data, (size_t)out->width * 3, out->width, out->height};
    return 0;
}

static int run_part(struct image_load *p, int part, const struct plan *plan, const struct image *in, const struct place *out,
                    struct fb_error *e)
{
    if (plan->scratch_bytes && !worker_memory(p->f, &p->w->work, plan->scratch_bytes, e))
        return e->code;
    return pipeline_run(p->chain->part[part], plan, in, out, &p->w->work, e);
}

/* ---- the first part: from bytes ---- */

/* Decodes with what is known of the file, and keeps what this decode found out. FILL_NEEDS_MORE: the codec cannot, with this part of the
 * file or by rows. */
static int decode(struct image_load *p, const struct codec_ops *codec, const uint8_t *bytes, size_t n, const struct plan *plan,
                  const struct image *out, const struct row_taker *taker, struct fb_error *e)
{
    struct feed *f = p->f;
    const struct load *l = p->l;
    struct codec_state *s = &p->w->codec;
    struct learnt_identity id = {n, l->request.object_mtime_ns ? l->request.object_mtime_ns : l->where.mtime_ns};
    uint64_t key = f->learnt ? learnt_key(l->where.key) : 0;
    s->known_bytes = f->learnt ? learnt_get(f->learnt, key, &id, &p->w->known) : 0;
    s->known = s->known_bytes ? p->w->known.data : NULL;
    s->wants_record = f->learnt != NULL;
    s->has_part_only = single_of(l)->part == PART_RANGE;
    s->wants_numbers = p->chain->is_mask;
    s->taker = taker;
    int rc = codec_decode(s, codec, bytes, n, &plan->header, &plan->region, out, e);
    if (rc != 0)
        return rc == CODEC_CALL_AGAIN ? FILL_NEEDS_MORE : rc;
    meter_add(&p->images->decoded[s->way], 1);
    if (f->learnt && s->record_bytes)
        learnt_put(f->learnt, key, &id, s->record.data, s->record_bytes);
    return 0;
}

int image_load_header(const struct images *i, const uint8_t *bytes, size_t n, struct image_header *h, const struct codec_ops **codec,
                      struct fb_error *e)
{
    if (!i->raw_height)
        return codec_header(bytes, n, h, codec, e);
    *codec = NULL;
    *h = (struct image_header){.width = i->raw_width, .height = i->raw_height, .orientation = 1};
    if (n == (size_t)i->raw_width * i->raw_height * 3) /* which cannot overflow: catalog_decoded_size */
        return 0;
    return error_set(e, FB_E_DATA, "decode", "it has %zu bytes, which is not the size of a picture of this pack", n);
}

/* Bare pixels are decoded already. */
static void copy_region(const struct images *i, const uint8_t *pixels, const struct region *r, const struct image *out)
{
    size_t stride = 3 * (size_t)i->raw_width;
    for (uint32_t y = 0; y < r->height; y++)
        memcpy(out->data + y * out->stride, pixels + (r->top + y) * stride + 3 * (size_t)r->left, 3 * (size_t)r->width);
}

/* A further file is as large as the sample's own, and stored the same way round. */
static int agree(struct image_load *p, struct image_header *h, struct fb_error *e)
{
    struct image_header *first = &single_of(p->l)->first;
    if (p->file == 0) {
        *first = *h;
        return 0;
    }
    if (h->width == first->width && h->height == first->height) {
        h->orientation = first->orientation;
        return 0;
    }
    char shown[300];
    error_set(e, FB_E_DATA, "decode", "its size is %u x %u pixels (width x height), but that of %s, which it belongs to, is %u x %u",
              h->width, h->height, text_escape(p->l->slot->place[p->l->place].key, shown, sizeof(shown)), first->width, first->height);
    error_remedy(e, "the files of a sample must have one size: pixels are matched by their place");
    return FB_E_DATA;
}

int image_load_region(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct region *r,
                      struct fb_error *e)
{
    struct image_load p = image_load_of(w, f, l);
    struct image_header h;
    struct plan plan;
    FB_TRY(copy_labels(&p, e));
    int rc = codec_header_part(bytes, n, &h, NULL, e);
    if (rc != 0)
        return rc;
    FB_TRY(agree(&p, &h, e));
    FB_TRY(plan_part(&p, 0, &h, &plan, e));
    *r = plan.header.scale ? image_region_in_file(plan.region, plan.header.scale, h.width, h.height) : plan.region;
    return 0;
}

/* A region of more bytes than this does not stay in a core's own cache until it is resized: it is resized while it is decoded. Measured: a
 * twentieth less time for 6 MB; nothing to gain for a few hundred KB. */
enum { ROWS_FROM_BYTES = 1 << 20 };

struct row_decode {
    struct image_load *p;
    const struct codec_ops *codec;
    const uint8_t *bytes;
    size_t n;
    const struct plan *plan;
    const struct row_taker *taker;
    uint64_t taken_ns, decode_ns; /* spent by the taker; by everything else in decoding */
};

static void take_timed(void *ctx, uint32_t first, uint32_t count)
{
    struct row_decode *d = ctx;
    uint64_t since = clock_now_ns();
    d->taker->take(d->taker->ctx, first, count);
    d->taken_ns += clock_now_ns() - since;
}

static int decode_rows(void *ctx, const struct image *ring, const struct row_taker *taker, struct fb_error *e)
{
    struct row_decode *d = ctx;
    struct image_load *p = d->p;
    uint64_t since = clock_now_ns();
    d->taker = taker;
    int rc = decode(p, d->codec, d->bytes, d->n, d->plan, ring, &(struct row_taker){take_timed, d}, e);
    d->decode_ns = clock_now_ns() - since - d->taken_ns;
    if (rc == 0)
        meter_work(&p->f->meter, p->w->index, STAGE_DECODE, d->decode_ns, 1, ring->stride * ring->height);
    return rc;
}

static int run_by_rows(struct image_load *p, const struct codec_ops *codec, const uint8_t *bytes, size_t n, const struct plan *plan,
                       const struct place *out, struct fb_error *e)
{
    struct feed *f = p->f;
    struct image ring = {.stride = 3 * (size_t)plan->region.width, .width = plan->region.width, .height = plan->region.height};
    struct row_decode d = {.p = p, .codec = codec, .bytes = bytes, .n = n, .plan = plan};
    if (plan->scratch_bytes && !worker_memory(f, &p->w->work, plan->scratch_bytes, e))
        return e->code;
    ring.data = worker_memory(f, &p->w->pixels, ring.stride * CODEC_RING_ROWS, e);
    if (!ring.data)
        return e->code;
    uint64_t since = clock_now_ns();
    int rc = pipeline_run_rows(p->chain->part[0], plan, &ring, decode_rows, &d, out, &p->w->work, e);
    p->transform_ns = clock_now_ns() - since - d.decode_ns;
    return rc;
}

static int run_first_part(struct image_load *p, const uint8_t *bytes, size_t n, struct fb_error *e)
{
    struct feed *f = p->f;
    struct image_header h;
    const struct codec_ops *codec;
    struct plan plan;
    struct place out;
    uint64_t t0 = clock_now_ns();
    FB_TRY(image_load_header(p->images, bytes, n, &h, &codec, e));
    FB_TRY(agree(p, &h, e));
    FB_TRY(plan_part(p, 0, &h, &plan, e));
    FB_TRY(place_of_part(p, 0, &plan, 0, &out, e));
    struct image region = {.stride = 3 * (size_t)plan.region.width, .width = plan.region.width, .height = plan.region.height};
    if (codec && codec->gives_rows && region.stride * region.height >= ROWS_FROM_BYTES && pipeline_takes_rows(p->chain->part[0], &plan)) {
        int by_rows = run_by_rows(p, codec, bytes, n, &plan, &out, e);
        if (by_rows != FILL_NEEDS_MORE)
            return by_rows;
    }
    bool is_direct = pipeline_is_identity(p->chain->part[0], &plan);
    region.data = is_direct ? out.data : worker_memory(f, &p->w->pixels, region.stride * region.height, e);
    if (!region.data)
        return e->code;
    int rc = 0;
    if (codec)
        rc = decode(p, codec, bytes, n, &plan, &region, NULL, e);
    else
        copy_region(p->images, bytes, &plan.region, &region);
    if (rc != 0)
        return rc;
    uint64_t t1 = clock_now_ns();
    meter_work(&f->meter, p->w->index, STAGE_DECODE, t1 - t0, 1, region.stride * region.height);
    if (!is_direct)
        FB_TRY(run_part(p, 0, &plan, &region, &out, e));
    p->transform_ns = clock_now_ns() - t1;
    return 0;
}

/* ---- the caller's functions ---- */

static void *make_result(struct fb_map *m, enum fb_dtype dtype, int height, int width, struct fb_error *e)
{
    struct image_load *p = m->engine;
    const char *name = p->images->chain.map[m->step].name;
    bool has_sides = height >= 1 && width >= 1 && height <= IMAGE_MAX_SIDE && width <= IMAGE_MAX_SIDE;
    if (!has_sides || (uint64_t)height * (uint64_t)width > IMAGE_MAX_PIXELS) {
        error_set(e, FB_E_DATA, "map", "the result of %s is %d x %d pixels, which no image can have", name, height, width);
        return NULL;
    }
    if (dtype != FB_UINT8 && !(dtype == FB_FLOAT32 && m->takes_floats)) {
        error_set(e, FB_E_DATA, "map", "the result of %s is %s, not uint8", name, fb_dtype_name(dtype));
        error_remedy(e, dtype == FB_FLOAT32 ? "only the last step may give float32, with dtype=\"float32\"" : "convert it to uint8");
        return NULL;
    }
    struct scratch *s = &p->w->mapped[p->at ^ 1];
    size_t stride = (size_t)width * 3 * fb_dtype_size(dtype);
    p->image = (struct image){worker_memory(p->f, s, stride * (size_t)height, e), stride, (uint32_t)width, (uint32_t)height};
    p->is_made = true;
    p->is_float = dtype == FB_FLOAT32;
    return p->image.data;
}

static void show_labels(const struct image_load *p, struct fb_array *out)
{
    for (int i = 0; i < p->f->labels.count; i++) {
        const struct label_field *f = &p->f->labels.field[i];
        out[i] = (struct fb_array){.name = f->name, .dtype = f->shown.dtype, .ndim = f->shown.ndim, .data = p->label[i], .bytes = f->bytes};
        memcpy(out[i].shape, f->shown.shape, sizeof(out[i].shape));
        out[i].strides[0] = (int64_t)fb_dtype_size(f->shown.dtype);
    }
}

/* The callee takes ownership of the memory, which leaves the budget; the worker allocates other. */
static void let_go(struct scratch *s)
{
    if (s->budget)
        budget_give(s->budget, MEMORY_SCRATCH, s->capacity);
    s->data = NULL;
    s->capacity = 0;
}

/* Kept memory may be freed or changed by another thread of the caller's at any moment: it cannot be the result. */
static int refuse_kept(const struct image_load *p, int step, struct fb_error *e)
{
    error_set(e, FB_E_USAGE, "map", "%s keeps its pixels, but made no result", p->images->chain.map[step].name);
    error_remedy(e, "call make and copy the pixels there before they are kept");
    return FB_E_USAGE;
}

static void count_call(struct feed_function *x, const struct fb_map *m)
{
    meter_add(&x->calls, 1);
    meter_add(&x->busy_ns, m->busy_ns);
    meter_add(&x->wait_ns, m->wait_ns);
}

/* Its mask goes on with the size that the picture had. */
static int check_still_matches(const struct image_load *p, const struct fb_map *m, struct fb_error *e)
{
    if (!p->images->files.has_masks || ((int)p->image.height == m->height && (int)p->image.width == m->width))
        return 0;
    error_set(e, FB_E_DATA, "map", "the result of %s is %u x %u (height x width), but its input was %d x %d: the mask would not match",
              p->images->chain.map[m->step].name, p->image.height, p->image.width, m->height, m->width);
    error_remedy(e, "resize and crop by transforms, which change the mask, too");
    return FB_E_DATA;
}

static int call_map(struct image_load *p, int step, struct fb_error *e)
{
    struct feed *f = p->f;
    struct load *l = p->l;
    const struct pipeline *last = step_chain_last(&p->images->chain);
    struct fb_array labels[FB_MAX_FIELDS];
    show_labels(p, labels);
    struct rng rng = rng_stream(RNG_MAP, rng_mix(f->seed, (uint64_t)step), l->slot->epoch, l->position, l->attempt);
    struct fb_map m = {
        .step = step,
        .key = l->where.key,
        .sample = l->sample,
        .epoch = l->slot->epoch,
        .position = l->position,
        .random = {rng_u64(&rng), rng_u64(&rng)},
        .pixels = p->image.data,
        .height = (int)p->image.height,
        .width = (int)p->image.width,
        .labels = labels,
        .label_count = f->labels.count,
        .takes_floats = step + 1 == p->images->chain.map_count && pipeline_is_plain(last) && pipeline_dtype(last) != FB_UINT8,
        .make = make_result,
        .engine = p,
    };
    p->is_made = p->is_float = false;
    load_step(l, LOAD_CALLING + (uint32_t)step);
    int rc = p->images->map(p->images->map_ctx, &m, e);
    load_step(l, LOAD_DECODING);
    count_call(&p->images->function[step], &m);
    if (m.keeps_pixels)
        let_go(&p->w->mapped[p->at]);
    if (p->is_made)
        p->at ^= 1;
    if (rc < 0 && !e->code)
        error_set(e, FB_E_DATA, "map", "%s failed without saying why", p->images->chain.map[step].name);
    if (rc >= 0 && m.keeps_pixels && !p->is_made)
        return refuse_kept(p, step, e);
    return rc < 0 ? e->code : check_still_matches(p, &m, e);
}

/* ---- the parts after a function ---- */

static int run_later_part(struct image_load *p, int part, struct fb_error *e)
{
    struct image_header h = {p->image.width, p->image.height, 1};
    struct image all = p->image;
    struct plan plan;
    struct place out;
    uint64_t since = clock_now_ns();
    FB_TRY(plan_part(p, part, &h, &plan, e));
    FB_TRY(place_of_part(p, part, &plan, p->at ^ 1, &out, e));
    const struct region *r = &plan.region;
    struct image seen = {all.data + r->top * all.stride + 3 * (size_t)r->left, all.stride, r->width, r->height};
    FB_TRY(run_part(p, part, &plan, &seen, &out, e));
    p->transform_ns += clock_now_ns() - since;
    return 0;
}

static int store_floats(struct image_load *p, struct fb_error *e)
{
    struct place out;
    FB_TRY(check_size(p->images, p->image.height, p->image.width, e));
    FB_TRY(place_of_part(p, p->images->chain.map_count, NULL, 0, &out, e));
    pipeline_store_floats((const float *)(const void *)p->image.data, &out);
    return 0;
}

int image_fill(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct fb_error *e)
{
    struct image_load p = image_load_of(w, f, l);
    FB_TRY(copy_labels(&p, e));
    int rc = run_first_part(&p, bytes, n, e);
    if (rc != 0)
        return rc;
    for (int i = 0; i < p.chain->map_count; i++) {
        if (!p.chain->is_mask)
            FB_TRY(call_map(&p, i, e));
        FB_TRY(p.is_float ? store_floats(&p, e) : run_later_part(&p, i + 1, e));
    }
    meter_work(&f->meter, w->index, STAGE_TRANSFORM, p.transform_ns, 1, l->slot->shape->field[0].sample_bytes);
    return 0;
}
