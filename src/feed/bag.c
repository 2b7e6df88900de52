/* Loads of whole files: a bag of instances, an array, a clip of sound.
 *
 * A file that the worker reads by itself is read only as far as it is wanted: adjacent chunks in one go, straight into the place where nothing
 * has to be undone. Sound that was brought whole is converted from the read buffer. Filtered chunks wait on the stage, one after another in the
 * order of their numbers, and are unfiltered into the place when they are all there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "codec/array_format.h"
#include "codec/array_rows.h"
#include "codec/clip.h"
#include "feed/arrays.h"
#include "feed/crew.h"
#include "feed/gather.h"
#include "feed/source_cache.h"

/* Which rows of a file: `count` of them, from `first` on or as listed. */
struct picked {
    uint64_t first, count;
    const uint64_t *list; /* ascending; NULL: all from first on */
};

struct bag {
    struct worker *w;
    struct feed *f;
    struct load *l;
    struct array_file file;
    struct picked picked;
    struct clip clip;     /* sound */
    struct gather gather;
    const uint8_t *bytes; /* of the whole file, if it was brought; NULL: it is read by the worker */
    size_t byte_count;
    uint8_t *stage;
    size_t at;            /* on the stage, while it is filled and while it is emptied */
};

static int refuse(const struct bag *b, struct fb_error *e, const char *cause, const char *remedy)
{
    error_set(e, FB_E_DATA, "decode", "%s", cause);
    error_remedy(e, "%s", remedy);
    error_at(e, b->l->where.key, -1);
    return FB_E_DATA;
}

static uint64_t picked_row(const struct picked *p, uint64_t i)
{
    return p->list ? p->list[i] : p->first + i;
}

/* How many rows from index i on follow each other in the file. */
static uint64_t picked_run(const struct picked *p, uint64_t i)
{
    if (!p->list)
        return p->count - i;
    uint64_t n = 1;
    while (i + n < p->count && p->list[i + n] == p->list[i] + n)
        n++;
    return n;
}

/* ---- which rows ---- */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static struct rng own_rng(const struct bag *b)
{
    return rng_stream(RNG_TRANSFORM, b->f->seed, b->l->slot->epoch, b->l->position, b->l->attempt);
}

/* `wanted` of `there` instances, each at most once; a smaller bag repeats its instances evenly. Ascending. */
static int draw_instances(struct bag *b, uint64_t there, uint64_t wanted, struct fb_error *e)
{
    if (there == 0)
        return refuse(b, e, "the bag is empty: no instance can be drawn", "leave the file out");
    uint64_t *list = worker_memory(b->f, &b->w->mapped[0], wanted * sizeof(*list), e);
    if (!list)
        return e->code;
    struct rng rng = own_rng(b);
    struct order o;
    order_init(&o, there, rng_u64(&rng), 0, true, NULL);
    for (uint64_t i = 0; i < wanted; i++)
        list[i] = order_at(&o, i);
    qsort(list, wanted, sizeof(*list), by_number);
    b->picked = (struct picked){.count = wanted, .list = list};
    return 0;
}

static int pick(struct bag *b, uint64_t there, struct fb_error *e)
{
    const struct array_steps *s = &b->f->arrays->steps;
    if (s->instances)
        return draw_instances(b, there, s->instances, e);
    b->picked = (struct picked){.count = there};
    if (!b->f->arrays->is_sound)
        return 0;
    b->clip = (struct clip){.frames = there};
    if (s->crop_samples) {
        struct rng rng = own_rng(b);
        b->clip = clip_crop_or_pad(there, s->crop_samples, s->crop_is_random ? rng_u64(&rng) : 0);
    }
    b->picked = (struct picked){.first = b->clip.first, .count = b->clip.frames};
    return 0;
}

/* ---- fitting the place ---- */

static const struct array_layout *layout_of(const struct bag *b, int field)
{
    return array_find(&b->file, b->f->arrays->want[field].source);
}

/* An instance field takes the picked rows; one of a fixed shape all of its own. */
static struct picked picked_of(const struct bag *b, int field, const struct array_layout *l)
{
    const struct arrays *a = b->f->arrays;
    return a->is_sound || a->want[field].is_instance ? b->picked : (struct picked){.count = array_rows(l)};
}

/* The file may be another than the one that was surveyed: nothing of its shape is taken for granted. */
static bool fits(const struct bag *b, const struct array_want *w, const struct array_layout *l)
{
    int first = w->is_instance, shift = w->is_variable; /* a variable field's shape is that of a row */
    if (l->dtype != w->stored || l->ndim != w->ndim + shift || (first && l->shape[0] != array_rows(layout_of(b, 0))))
        return false;
    for (int d = first; d < l->ndim; d++)
        if ((int64_t)l->shape[d] != w->shape[d - shift])
            return false;
    return true;
}

static int check_field(const struct bag *b, int field, const struct array_layout *l, struct fb_error *e)
{
    const struct arrays *a = b->f->arrays;
    const struct array_want *w = &a->want[field];
    char cause[300];
    if (!l) {
        snprintf(cause, sizeof(cause), "there is no array '%.200s' in it", w->source);
        return refuse(b, e, cause, "all files must have the fields that are wanted");
    }
    if (a->is_sound || fits(b, w, l))
        return 0;
    bool is_short = w->is_instance && l->ndim > 0 && l->shape[0] != array_rows(layout_of(b, 0));
    if (is_short)
        snprintf(cause, sizeof(cause), "'%.100s' has %llu rows, '%.100s' %llu", w->source, (unsigned long long)l->shape[0], a->want[0].source,
                 (unsigned long long)array_rows(layout_of(b, 0)));
    else
        snprintf(cause, sizeof(cause), "'%.100s' is %s with %d dimensions, of another type or shape than in the first file", w->source,
                 fb_dtype_name(l->dtype), l->ndim);
    return refuse(b, e, cause, "files of one data set have fields of one type and shape");
}

static int check_room(struct bag *b, struct fb_error *e)
{
    struct slot *s = b->l->slot;
    if (!s->shape->row_bytes)
        return 0;
    char cause[160];
    if (b->picked.count > s->room[b->l->place]) {
        snprintf(cause, sizeof(cause), "it has %llu rows, but %llu were expected", (unsigned long long)b->picked.count,
                 (unsigned long long)s->room[b->l->place]);
        return refuse(b, e, cause, "the file was changed since it was looked into: open the loader again");
    }
    slot_set_rows(s, b->l->place, b->picked.count);
    return 0;
}

/* ---- listing the reads ---- */

static bool is_copied(const struct bag *b, const struct array_conversion *c)
{
    return array_conversion_is_copy(c) && !(b->f->arrays->is_sound && b->f->arrays->steps.crop_samples);
}

static int list_straight(struct bag *b, const struct array_layout *l, const struct picked *p, uint8_t *to, struct fb_error *e)
{
    uint64_t row_bytes = array_row_bytes(l);
    for (uint64_t i = 0, n; i < p->count; i += n) {
        n = picked_run(p, i);
        struct array_runs runs;
        struct array_run run;
        array_runs_start(&runs, l, picked_row(p, i), n);
        while (array_runs_next(&runs, &run)) {
            uint64_t at = i * row_bytes + run.at;
            if (run.offset == ARRAY_NO_CHUNK && to)
                array_fill(l, to + at, run.length);
            else if (run.offset != ARRAY_NO_CHUNK)
                FB_TRY(gather_add(&b->gather, b->gather.fd, b->l->where.key, run.offset, run.length, to ? to + at : NULL, b->at + at, e));
        }
    }
    if (!to)
        b->at += p->count * row_bytes;
    return 0;
}

/* The picked rows that lie in one band of chunks: indices [i, i + *count), chunks *chunk .. + *chunks. */
static void band_at(const struct array_layout *l, const struct picked *p, uint64_t i, uint64_t *count, uint64_t *chunk, uint64_t *chunks)
{
    uint64_t height = l->ndim ? l->chunk_shape[0] : 1, row = picked_row(p, i), end = (row / height + 1) * height;
    uint64_t n = p->list ? 1 : end - row < p->count - i ? end - row : p->count - i;
    while (p->list && i + n < p->count && p->list[i + n] < end)
        n++;
    *count = n;
    array_chunks_of_rows(l, row, 1, chunk, chunks);
}

static size_t next_on_stage(size_t at, const struct array_chunk *c)
{
    return c->offset == ARRAY_NO_CHUNK ? at : (at + c->length + 63) & ~(size_t)63;
}

static int list_chunks(struct bag *b, const struct array_layout *l, const struct picked *p, struct fb_error *e)
{
    for (uint64_t i = 0, n, chunk, chunks; i < p->count; i += n) {
        band_at(l, p, i, &n, &chunk, &chunks);
        for (; chunks > 0; chunk++, chunks--) {
            const struct array_chunk *c = &l->chunk[chunk];
            if (c->offset != ARRAY_NO_CHUNK)
                FB_TRY(gather_add(&b->gather, b->gather.fd, b->l->where.key, c->offset, c->length, NULL, b->at, e));
            b->at = next_on_stage(b->at, c);
        }
    }
    return 0;
}

static int list_whole(struct bag *b, const struct array_layout *l, struct fb_error *e)
{
    FB_TRY(gather_add(&b->gather, b->gather.fd, b->l->where.key, l->offset, l->bytes, NULL, b->at, e));
    b->at += l->bytes;
    return 0;
}

static int list_field(struct bag *b, int field, struct fb_error *e)
{
    const struct array_layout *l = layout_of(b, field);
    struct array_conversion c;
    FB_TRY(arrays_prepare_conversion(b->f->arrays, field, l, &c, e));
    struct picked p = picked_of(b, field, l);
    b->at = (b->at + 63) & ~(size_t)63;
    if (array_is_straight(l))
        return list_straight(b, l, &p, is_copied(b, &c) ? slot_at(b->l->slot, field, b->l->place) : NULL, e);
    if (l->storage == ARRAY_CHUNKED)
        return list_chunks(b, l, &p, e);
    return l->storage == ARRAY_CONTIGUOUS ? list_whole(b, l, e) : 0;
}

/* ---- taking what was read ---- */

/* A chunk of whole rows, all of which are wanted, may be unfiltered where its rows belong. */
static bool is_whole_band(const struct array_layout *l, uint64_t row, uint64_t n, uint64_t chunks)
{
    bool is_wide = chunks == 1 && !l->is_fortran;
    for (int d = 1; d < l->ndim; d++)
        is_wide &= l->chunk_shape[d] == l->shape[d];
    return is_wide && (l->ndim == 0 || (row % l->chunk_shape[0] == 0 && n == l->chunk_shape[0]));
}

static int take_chunk(struct bag *b, const struct array_layout *l, const struct picked *p, uint64_t i, uint64_t n, uint64_t chunk,
                      uint64_t chunks, uint8_t *out, struct fb_error *e)
{
    const struct array_chunk *c = &l->chunk[chunk];
    uint64_t row = picked_row(p, i), row_bytes = array_row_bytes(l);
    bool is_here = !p->list && c->offset != ARRAY_NO_CHUNK && is_whole_band(l, row, n, chunks);
    uint8_t *data = NULL;
    if (c->offset != ARRAY_NO_CHUNK) {
        data = is_here ? out + i * row_bytes : worker_memory(b->f, &b->w->pixels, unfilter_chunk_bytes(l), e);
        if (!data)
            return e->code;
        int rc = unfilter_chunk(&b->w->unfilter, l, c->skips, b->stage + b->at, c->length, data, e);
        if (rc < 0) {
            error_at(e, b->l->where.key, (int64_t)c->offset);
            return rc;
        }
        b->at = next_on_stage(b->at, c);
    }
    if (is_here)
        return 0;
    for (uint64_t k = 0, run; k < n; k += run) {
        run = p->list ? 1 : n;
        array_copy_from_chunk(l, chunk, data, picked_row(p, i + k), run, out + (i + k) * row_bytes);
    }
    return 0;
}

static int take_chunks(struct bag *b, const struct array_layout *l, const struct picked *p, uint8_t *out, struct fb_error *e)
{
    for (uint64_t i = 0, n, chunk, chunks; i < p->count; i += n) {
        band_at(l, p, i, &n, &chunk, &chunks);
        uint64_t all = chunks;
        for (; chunks > 0; chunk++, chunks--)
            FB_TRY(take_chunk(b, l, p, i, n, chunk, all, out, e));
    }
    return 0;
}

static int read_memory(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    const struct bag *b = ctx;
    if (offset > b->byte_count || length > b->byte_count - offset)
        return error_set(e, FB_E_DATA, "decode", "the file ends at byte %zu", b->byte_count);
    memcpy(out, b->bytes + offset, length);
    return 0;
}

static int read_opaque(struct bag *b, const struct array_layout *l, const struct picked *p, uint8_t *out, struct fb_error *e)
{
    const struct array_ops *ops = array_format_by_name(b->file.format);
    if (!ops || !ops->read_rows)
        return refuse(b, e, l->why_opaque, "leave the field out of fields=");
    char path[4352];
    snprintf(path, sizeof(path), "%s%s%s", b->l->where.object[0] == '/' ? "" : b->f->dataset.root,
             b->l->where.object[0] == '/' ? "" : "/", b->l->where.object);
    struct array_source s = {.path = b->bytes ? NULL : path, .size = b->file.object_size, .read = read_memory, .ctx = b,
                             .allows_external = b->f->arrays->allows_external};
    for (uint64_t i = 0, n; i < p->count; i += n) {
        n = picked_run(p, i);
        FB_TRY(ops->read_rows(&s, l, picked_row(p, i), n, out + i * array_row_bytes(l), e));
    }
    return 0;
}

/* Rows in chunks that were never written. */
static void fill_missing(const struct array_layout *l, const struct picked *p, uint8_t *rows)
{
    for (uint64_t i = 0, n; l->storage == ARRAY_CHUNKED && i < p->count; i += n) {
        n = picked_run(p, i);
        struct array_runs runs;
        struct array_run run;
        array_runs_start(&runs, l, picked_row(p, i), n);
        while (array_runs_next(&runs, &run))
            if (run.offset == ARRAY_NO_CHUNK)
                array_fill(l, rows + i * array_row_bytes(l) + run.at, run.length);
    }
}

/* The picked rows as stored: where they are now. NULL: an error. `out` may be used for them. */
static uint8_t *stored_rows(struct bag *b, const struct array_layout *l, const struct picked *p, uint8_t *out, struct fb_error *e)
{
    uint64_t row_bytes = array_row_bytes(l);
    if (array_is_straight(l)) {
        uint8_t *rows = b->stage + b->at;
        b->at += p->count * row_bytes;
        fill_missing(l, p, rows);
        return rows;
    }
    if (!out && !(out = worker_memory(b->f, &b->w->mapped[1], p->count * row_bytes + 64, e)))
        return NULL;
    int rc = 0;
    if (l->storage == ARRAY_CHUNKED)
        rc = take_chunks(b, l, p, out, e);
    else if (l->storage == ARRAY_OPAQUE)
        rc = read_opaque(b, l, p, out, e);
    else
        for (uint64_t i = 0; i < p->count; i++)
            array_copy_from_whole(l, l->storage == ARRAY_INLINE ? l->inline_data : b->stage + b->at, picked_row(p, i), 1, out + i * row_bytes);
    if (l->storage == ARRAY_CONTIGUOUS)
        b->at += l->bytes;
    return rc < 0 ? NULL : out;
}

static int take_field(struct bag *b, int field, struct fb_error *e)
{
    const struct arrays *a = b->f->arrays;
    const struct array_layout *l = layout_of(b, field);
    struct array_conversion c;
    FB_TRY(arrays_prepare_conversion(a, field, l, &c, e));
    struct picked p = picked_of(b, field, l);
    uint8_t *to = slot_at(b->l->slot, field, b->l->place);
    b->at = (b->at + 63) & ~(size_t)63;
    if (is_copied(b, &c) && array_is_straight(l))
        return 0; /* read into its place */
    uint8_t *stored = stored_rows(b, l, &p, is_copied(b, &c) ? to : NULL, e);
    if (!stored)
        return e->code;
    uint64_t row_numbers = array_row_bytes(l) / l->stored_bytes;
    if (!is_copied(b, &c))
        for (uint64_t i = 0; i < p.count; i++)
            array_convert(&c, stored + i * array_row_bytes(l), to + i * row_numbers * c.to_bytes, row_numbers);
    return 0;
}

/* ---- sound ---- */

static int check_channels(const struct bag *b, uint64_t channels, struct fb_error *e)
{
    const struct arrays *a = b->f->arrays;
    const struct array_want *w = &a->want[0];
    int own = a->steps.spectrogram.is_wanted ? 2 : !w->is_variable; /* dimensions of one channel */
    uint64_t wanted = a->steps.is_mono ? channels : w->ndim > own ? (uint64_t)w->shape[0] : 1;
    if (channels == wanted)
        return 0;
    char cause[120];
    snprintf(cause, sizeof(cause), "it has %llu channels, the first file %llu", (unsigned long long)channels, (unsigned long long)wanted);
    return refuse(b, e, cause, "use Mono(), or sort the recordings by their channels");
}

static int check_rate(const struct bag *b, uint32_t rate, struct fb_error *e)
{
    uint32_t wanted = b->f->arrays->steps.spectrogram.options.rate;
    if (rate == wanted)
        return 0;
    char cause[120];
    snprintf(cause, sizeof(cause), "it has %u samples per second; LogMel was made for %u", rate, wanted);
    return refuse(b, e, cause, "convert it, or sort the recordings by their rate");
}

/* Samples of all channels on the worker's memory, then one spectrogram after the other into the place. */
static int place_spectrogram(struct bag *b, const struct array_layout *l, const struct array_conversion *c, const uint8_t *frames,
                             uint32_t channels, struct fb_error *e)
{
    const struct arrays *a = b->f->arrays;
    const struct array_want *w = &a->want[0];
    const struct spectrogram *s = &a->steps.spectrogram;
    uint64_t samples = a->steps.crop_samples, planes = a->steps.is_mono ? 1 : channels;
    size_t numbers = (size_t)(w->shape[w->ndim - 2] * w->shape[w->ndim - 1]), work = spectrogram_work_bytes(s, samples);
    size_t signal = (size_t)(planes * samples * sizeof(float) + 63) & ~(size_t)63;
    uint8_t *memory = worker_memory(b->f, &b->w->work, work + signal + numbers * sizeof(float), e);
    FB_TRY(check_rate(b, l->rate, e));
    if (!memory)
        return e->code;
    struct array_conversion narrow;
    FB_TRY(array_conversion_init(&narrow, ARRAY_PLAIN, FB_FLOAT32, w->dtype, NULL, e));
    float *sound = (float *)(void *)(memory + work), *out = (float *)(void *)(memory + work + signal);
    if (planes < channels)
        clip_mono(c, frames, b->clip.frames, b->clip.after, channels, sound);
    else
        clip_planes(c, frames, b->clip.frames, b->clip.after, channels, sound, (size_t)samples);
    struct rng rng = own_rng(b);
    if (a->steps.crop_is_random)
        rng_u64(&rng); /* the crop's */
    for (uint64_t k = 0; k < planes; k++) {
        FB_TRY(spectrogram_make(s, sound + k * samples, samples, out, memory, &rng, e));
        array_convert(&narrow, out, (uint8_t *)slot_at(b->l->slot, 0, b->l->place) + k * numbers * narrow.to_bytes, numbers);
    }
    return 0;
}

/* Frames as stored -> the place. */
static int place_sound(struct bag *b, const struct array_layout *l, enum array_code code, const uint8_t *frames, struct fb_error *e)
{
    const struct arrays *a = b->f->arrays;
    const struct array_want *w = &a->want[0];
    uint32_t channels = l->ndim > 1 ? (uint32_t)l->shape[1] : 1;
    struct array_layout as = *l;
    as.code = code;
    struct array_conversion c;
    FB_TRY(check_channels(b, channels, e));
    if (a->steps.spectrogram.is_wanted) {
        FB_TRY(array_conversion_init(&c, as.code, as.dtype, FB_FLOAT32, NULL, e));
        return place_spectrogram(b, l, &c, frames, channels, e);
    }
    FB_TRY(arrays_prepare_conversion(a, 0, &as, &c, e));
    void *to = slot_at(b->l->slot, 0, b->l->place);
    if (a->steps.is_mono && channels > 1) {
        if (!clip_can_mix(&c))
            return refuse(b, e, "several channels can only be mixed into a float type", "leave dtype= out, or use float32 or float16");
        clip_mono(&c, frames, b->clip.frames, b->clip.after, channels, to);
    } else if (w->is_variable) {
        array_convert(&c, frames, to, b->clip.frames * channels);
    } else {
        clip_planes(&c, frames, b->clip.frames, b->clip.after, channels, to, (size_t)a->steps.crop_samples);
    }
    return 0;
}

/* Compressed sound: decoded to float32 by its own reader. */
static int place_compressed(struct bag *b, const struct array_layout *l, struct fb_error *e)
{
    const struct array_ops *ops = array_format_by_name(b->file.format);
    struct array_source s = {.size = b->byte_count, .read = read_memory, .ctx = b};
    if (!ops || !ops->read_rows)
        return refuse(b, e, l->why_opaque, "convert it to WAV or FLAC");
    uint8_t *frames = worker_memory(b->f, &b->w->mapped[1], b->clip.frames * array_row_bytes(l) + 64, e);
    if (!frames)
        return e->code;
    FB_TRY(ops->read_rows(&s, l, b->clip.first, b->clip.frames, frames, e));
    return place_sound(b, l, l->code, frames, e);
}

static int place_clip(struct bag *b, struct fb_error *e)
{
    const struct array_layout *l = &b->file.array[0];
    FB_TRY(pick(b, array_rows(l), e));
    FB_TRY(check_room(b, e));
    if (l->storage == ARRAY_OPAQUE)
        return place_compressed(b, l, e);
    return place_sound(b, l, l->code, b->bytes + l->offset + b->clip.first * array_row_bytes(l), e);
}

static int copy_labels(const struct bag *b, struct fb_error *e)
{
    const struct feed *f = b->f;
    for (int k = 0; k < f->labels.count; k++)
        FB_TRY(labels_get(&f->labels, k, b->l->selected, b->l->sample, slot_at(b->l->slot, f->arrays->count + k, b->l->place), e));
    return 0;
}

/* ---- files read by the worker ---- */

static int open_file(struct bag *b, struct catalog_sample *now, struct fb_error *e)
{
    struct stat st;
    const struct catalog_sample *s = &b->l->where;
    int fd = openat(b->f->dataset.root_fd, s->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int rc = errno == ENOENT ? error_set(e, FB_E_NOT_FOUND, "read", "it has vanished since the data set was catalogued")
                                 : error_set_errno(e, "read", errno, "open the file");
        if (fd >= 0)
            close(fd);
        return rc;
    }
    b->gather.fd = fd;
    *now = *s;
    now->length = now->object_size = (uint64_t)st.st_size;
    now->mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    if (now->length != s->length || now->mtime_ns != s->mtime_ns)
        atomic_fetch_add_explicit(&b->f->changed, 1, memory_order_relaxed);
    return S_ISREG(st.st_mode) ? 0 : error_set(e, FB_E_DATA, "read", "it is not a regular file");
}

static int prepare(struct bag *b, struct fb_error *e)
{
    const struct arrays *a = b->f->arrays;
    for (int k = 0; k < a->count; k++)
        FB_TRY(check_field(b, k, layout_of(b, k), e)); /* the first one first: the others are compared with it */
    FB_TRY(pick(b, array_rows(layout_of(b, 0)), e));
    return check_room(b, e);
}

static int list_all(struct bag *b, struct fb_error *e)
{
    b->at = 0;
    for (int k = 0; k < b->f->arrays->count; k++)
        FB_TRY(list_field(b, k, e));
    if (b->at > b->gather.stage_bytes)
        b->gather.stage_bytes = b->at; /* rows that were never written take room, too */
    return 0;
}

static int read_all(struct bag *b, struct fb_error *e)
{
    FB_TRY(list_all(b, e));
    return gather_read(b->f, &b->gather, b->l, &b->stage, e);
}

static int take_all(struct bag *b, struct fb_error *e)
{
    const struct arrays *a = b->f->arrays;
    b->at = 0;
    if (a->is_sound)
        return place_sound(b, layout_of(b, 0), layout_of(b, 0)->code, b->stage, e);
    for (int k = 0; k < a->count; k++)
        FB_TRY(take_field(b, k, e));
    return 0;
}

static int run_looked(struct bag *b, struct fb_error *e)
{
    FB_TRY(prepare(b, e));
    if (b->l->waited) {
        FB_TRY(waited_check(b->l->waited, e));
        b->stage = b->l->waited->stage;
    } else {
        int rc = read_all(b, e);
        if (rc != 0)
            return rc;
    }
    uint64_t since = clock_now_ns();
    FB_TRY(take_all(b, e));
    FB_TRY(copy_labels(b, e));
    meter_work(&b->f->meter, b->w->index, STAGE_DECODE, clock_now_ns() - since, 1, b->picked.count * b->f->arrays->want[0].row_bytes);
    return 0;
}

/* ---- files that were brought ---- */

/* What was listed, out of the bytes of the file. */
static int copy_pieces(struct bag *b, struct fb_error *e)
{
    struct gather *g = &b->gather;
    if (g->stage_bytes && !(b->stage = worker_memory(b->f, &b->w->work, g->stage_bytes + IO_TAIL, e)))
        return e->code;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct io_piece *p = &g->piece[i];
        int rc = read_memory(b, p->offset, p->length, p->is_staged ? b->stage + (size_t)p->to : p->to, e);
        if (rc < 0) {
            error_at(e, b->l->where.key, (int64_t)b->byte_count);
            return rc;
        }
    }
    return 0;
}

static int place_arrays(struct bag *b, struct fb_error *e)
{
    FB_TRY(prepare(b, e));
    FB_TRY(list_all(b, e));
    FB_TRY(copy_pieces(b, e));
    return take_all(b, e);
}

static int place_bytes(struct bag *b, struct fb_error *e)
{
    if (!b->f->arrays->is_sound)
        return place_arrays(b, e);
    return b->file.count ? place_clip(b, e) : refuse(b, e, "there is no sound in it", "leave the file out");
}

int bag_place(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct fb_error *e)
{
    struct bag b = {.w = w, .f = f, .l = l, .bytes = bytes, .byte_count = n};
    uint64_t since = clock_now_ns();
    gather_start(&b.gather, w);
    FB_TRY(copy_labels(&b, e));
    FB_TRY(look_into_bytes(bytes, n, NULL, false, &b.file, e));
    int rc = place_bytes(&b, e);
    array_file_free(&b.file);
    meter_work(&f->meter, w->index, STAGE_DECODE, clock_now_ns() - since, 1, f->arrays->want[0].row_bytes);
    return rc;
}

/* ---- */

int bag_run(struct worker *w, struct feed *f, struct load *l, struct fb_error *e)
{
    struct bag b = {.w = w, .f = f, .l = l};
    struct catalog_sample now;
    gather_start(&b.gather, w);
    int rc = 0;
    if (l->waited)
        now = l->seen;
    else
        rc = open_file(&b, &now, e);
    l->seen = now;
    if (rc == 0 && f->cache) {
        source_cache_describe(f, &now, l->selected, &b.gather.own);
        b.gather.object = &b.gather.own;
    }
    if (rc == 0)
        rc = look_at_file(f, &now, &b.file, e);
    if (rc == 0) {
        rc = run_looked(&b, e);
        array_file_free(&b.file);
    }
    if (b.gather.fd >= 0)
        close(b.gather.fd);
    if (rc != 1) {
        waited_free(f, l->waited);
        l->waited = NULL;
    }
    return rc;
}
