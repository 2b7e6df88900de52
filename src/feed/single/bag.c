/* Loads of whole files: a bag of instances, an array, a clip of sound.
 *
 * A file that the worker reads by itself is read only as far as it is wanted. What was brought whole is taken from the read buffer.
 */
#include "feed/single/bag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "feed/single/single.h"
#include "feed/source_cache.h"

enum { PART_FROM_BYTES = 256 << 10, KEPT_WHOLE_MOST = 32 << 20 };

int bag_refuse(const struct bag *b, struct fb_error *e, const char *cause, const char *remedy)
{
    error_set(e, FB_E_DATA, "decode", "%s", cause);
    error_remedy(e, "%s", remedy);
    error_at(e, b->now->where.key, -1);
    return FB_E_DATA;
}

/* ---- files read by the worker ---- */

static int open_file(struct feed *f, const struct catalog_sample *s, struct gather_file *out, struct fb_error *e)
{
    out->fd = openat(f->dataset.root_fd, s->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int rc;
    if (out->fd >= 0)
        rc = probe_stat(s, out->fd, &out->seen, e);
    else if (errno == ENOENT)
        rc = error_set(e, FB_E_NOT_FOUND, "read", "it has vanished since the data set was catalogued");
    else
        rc = error_set_errno(e, "read", errno, "open the file");
    if (rc < 0)
        error_at(e, s->key, -1);
    else if (out->seen.length != s->length || out->seen.mtime_ns != s->mtime_ns)
        atomic_fetch_add_explicit(&f->changed, 1, memory_order_relaxed);
    return rc;
}

/* The order knows the first part only. */
static int open_part(struct bag *b, uint32_t i, struct fb_error *e)
{
    struct catalog_sample s = b->l->where;
    struct gather_file *file = &b->walk.gather.file[i];
    if (catalog_has_parts(b->f->dataset.catalog))
        FB_TRY(catalog_part(b->f->dataset.catalog, b->l->sample, i, &s, e));
    b->walk.gather.files = i + 1;
    FB_TRY(open_file(b->f, &s, file, e));
    if (b->f->cache)
        source_cache_describe(b->f, &file->seen, i ? CACHE_NO_INDEX : b->l->selected, &file->object);
    b->part[i] = (struct bag_part){.where = file->seen, .fd = file->fd, .file = &file->arrays};
    return probe_open_array(b->f, &file->seen, file->fd, &file->arrays, e);
}

/* What the load came back with. A file that was written to meanwhile was read partly before and partly after. */
static int take_back_part(struct bag *b, uint32_t i, struct fb_error *e)
{
    const struct gather_file *file = &b->l->waited->file[i];
    b->part[i] = (struct bag_part){.where = file->seen, .fd = file->fd, .file = &file->arrays};
    return probe_check_unchanged(b->f, &file->seen, file->fd, e);
}

static int probe_parts(struct bag *b, struct fb_error *e)
{
    for (uint32_t i = 0; i < b->parts; i++)
        FB_TRY(b->l->waited ? take_back_part(b, i, e) : open_part(b, i, e));
    return 0;
}

/* Those of sound are done where its channels are placed. */
static int run_steps(struct bag *b, struct fb_error *e)
{
    return arrays_of(b->f)->is_sound ? 0 : arrays_run_steps(b->w, b->f, b->l->slot, b->l->place, b->l->attempt, e);
}

static int run_probed(struct bag *b, struct fb_error *e)
{
    FB_TRY(bag_prepare(b, e));
    struct gather *g = &b->walk.gather;
    if (!b->l->waited)
        FB_TRY(bag_list(b, e));
    int rc = b->l->waited ? gather_resume(b->f, g, b->l, e) : gather_read(b->f, g, b->l, e);
    if (rc != 0)
        return rc;
    uint64_t since = clock_now_ns();
    FB_TRY(bag_take(b, e));
    FB_TRY(run_steps(b, e));
    FB_TRY(load_copy_labels(b->f, b->l->slot, b->l->place, b->l->selected, b->l->sample, e));
    meter_work(&b->f->meter, b->w->index, STAGE_DECODE, clock_now_ns() - since, 1, b->picked.count * arrays_of(b->f)->want[0].row_bytes);
    return 0;
}

/* With room for that many parts. */
static int run_parts(struct bag *b, struct bag_part *parts, struct gather_file *files, struct fb_error *e)
{
    b->part = b->now = parts;
    b->walk.gather.file = files;
    int rc = probe_parts(b, e);
    if (rc == 0)
        rc = run_probed(b, e);
    gather_close_files(&b->walk.gather);
    return rc;
}

static int run_many(struct bag *b, struct fb_error *e)
{
    struct bag_part *parts = calloc(b->parts, sizeof(*parts));
    struct gather_file *files = calloc(b->parts, sizeof(*files));
    int rc =
        parts && files ? run_parts(b, parts, files, e) : error_set(e, FB_E_NOMEM, "feed", "no memory for a sample of %u files", b->parts);
    free(parts);
    free(files);
    return rc;
}

static int bag_fill_itself(struct worker *w, struct feed *f, struct load *l, struct fb_error *e)
{
    struct bag b = {.w = w, .f = f, .l = l, .walk = {.f = f, .w = w}};
    struct bag_part one = {.fd = -1};
    struct gather_file file = {.fd = -1};
    uint64_t parts;
    gather_start(&b.walk.gather, w);
    int rc = catalog_part_count(f->dataset.catalog, l->sample, &parts, e);
    b.parts = (uint32_t)parts; /* a catalog's objects are numbered by 32 bits */
    if (rc == 0)
        rc = parts == 1 ? run_parts(&b, &one, &file, e) : run_many(&b, e);
    if (rc != LOAD_IS_GONE)
        gather_drop(f, l);
    return rc;
}

/* ---- files that were brought ---- */

/* What was listed, out of the bytes of the file: array_check has seen that it lies in there. */
static int copy_pieces(struct bag *b, struct fb_error *e)
{
    struct gather *g = &b->walk.gather;
    if (g->stage_bytes && !(g->stage = worker_memory(b->f, &b->w->mapped[1], g->stage_bytes + IO_TAIL, e)))
        return e->code;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct io_piece *p = &g->piece[i];
        memcpy(p->is_staged ? g->stage + (size_t)p->to : p->to, b->bytes + p->offset, p->length);
    }
    return 0;
}

static int place_arrays(struct bag *b, struct fb_error *e)
{
    FB_TRY(bag_prepare(b, e));
    FB_TRY(bag_list(b, e));
    FB_TRY(copy_pieces(b, e));
    FB_TRY(bag_take(b, e));
    return run_steps(b, e);
}

static int place_bytes(struct bag *b, struct fb_error *e)
{
    if (!arrays_of(b->f)->is_sound)
        return place_arrays(b, e);
    return b->now->file->count ? bag_place_clip(b, e) : bag_refuse(b, e, "there is no sound in it", "leave the file out");
}

static int bag_fill(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct fb_error *e)
{
    struct array_file file;
    struct bag_part one = {.where = l->where, .fd = -1, .file = &file};
    struct bag b = {.w = w, .f = f, .l = l, .walk = {.f = f, .w = w}, .part = &one, .now = &one, .parts = 1, .bytes = bytes};
    uint64_t since = clock_now_ns();
    gather_start(&b.walk.gather, w);
    FB_TRY(load_copy_labels(f, l->slot, l->place, l->selected, l->sample, e));
    FB_TRY(probe_bytes(bytes, n, NULL, false, &file, e));
    int rc = probe_check_kind(f, l->where.key, &file, e);
    if (rc == 0)
        rc = place_bytes(&b, e);
    array_file_free(&file);
    meter_work(&f->meter, w->index, STAGE_DECODE, clock_now_ns() - since, rc == 0, rc == 0 ? arrays_of(f)->want[0].row_bytes : 0);
    return rc;
}

/* Is it a large recording of which only a part is read? */
static bool reads_part(const struct arrays *a, const struct catalog_sample *s)
{
    size_t n = strlen(s->key);
    return a->is_sound && a->is_cropped && s->length >= PART_FROM_BYTES && n > 4 && strcasecmp(s->key + n - 4, ".wav") == 0;
}

static bool reads_itself(const struct feed *f, const struct catalog_sample *s)
{
    return !f->dataset.io && (!arrays_of(f)->is_sound || reads_part(arrays_of(f), s)); /* a store brings objects */
}

/* Bags are kept as a whole unless they are large, or only some of their instances are drawn; parts of recordings in blocks. */
static uint64_t cache_block(const struct feed *f, const struct catalog_sample *s)
{
    const struct arrays *a = arrays_of(f);
    bool is_in_blocks = a->is_sound ? reads_part(a, s) : a->steps.instances || s->length > KEPT_WHOLE_MOST;
    return is_in_blocks ? ARRAYS_CACHE_BLOCK : 0;
}

static uint64_t length_of(const struct feed *f, uint64_t sample)
{
    return arrays_of(f)->length ? arrays_of(f)->length[sample] : 0;
}

static void finish(struct feed *f, struct slot *s)
{
    (void)f;
    if (s->shape->has_rows)
        slot_finish_rows(s);
}

static int check_preload(struct feed *f, const fb_options *o, struct fb_error *e)
{
    (void)f;
    return o->preload ? error_set(e, FB_E_USAGE, "feed", "preload=True is for rows of arrays, but a sample is a whole file here") : 0;
}

const struct load_ops load_file = {
    .name = "file",
    .make = arrays_open,
    .open_labels = arrays_open_labels,
    .open = check_preload,
    .add_fields = arrays_add_fields,
    .plan = single_plan,
    .run = single_run,
    .finish = finish,
    .show_draws = arrays_show_draws,
    .length = length_of,
    .request = single_request,
    .fill = bag_fill,
    .reads_itself = reads_itself,
    .fill_itself = bag_fill_itself,
    .drop_waited = gather_drop,
    .cache_block = cache_block,
    .close = arrays_close,
};
