/* The public functions: each checks its arguments and calls the part that does the work. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/json_writer.h"
#include "feed/load_ops.h"
#include "meter/metrics.h"
#include "meter/trace.h"

static struct feed *feed_of(const fb_loader *l)
{
    return (struct feed *)l;
}

static const struct slot *slot_of(const fb_batch *b)
{
    return (const struct slot *)b;
}

const char *fb_version(void)
{
    return FB_VERSION;
}

/* ---- options: the caller's struct may have fewer fields than ours, or more ---- */

/* The library writes it into memory of the caller's, and it has no size of its own: it can never grow. */
_Static_assert(sizeof(struct fb_error) == 2088, "older callers have less memory for it");
/* The same of what the caller reads through pointers and makes arrays of: fields have their places for ever. */
_Static_assert(sizeof(struct fb_array) == 184 && sizeof(struct fb_column) == 96, "older callers look for the fields elsewhere");

static const fb_options defaults = {
    .fraction = 1,
    .batch_size = 1,
    .rank = -1,
    .world_size = -1,
    .max_errors = -1,
};

void fb_init_options_sized(fb_options *o, size_t struct_size)
{
    size_t known = struct_size < sizeof(defaults) ? struct_size : sizeof(defaults);
    memset(o, 0, struct_size);
    memcpy(o, &defaults, known);
    if (struct_size >= sizeof(o->struct_size))
        o->struct_size = struct_size;
}

void(fb_init_options)(fb_options *o)
{
    fb_init_options_sized(o, offsetof(fb_options, group_by) + sizeof(o->group_by));
}

/* The options with all our fields. A newer caller's further fields must be as they were made: unused. */
static int complete_options(const fb_options *o, fb_options *full, struct fb_error *e)
{
    size_t size = o->struct_size, known = size < sizeof(*full) ? size : sizeof(*full);
    if (size < sizeof(size) || size > (1 << 16))
        return error_set(e, FB_E_USAGE, "feed", "fb_options was not made by fb_init_options");
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)o)[i])
            return error_advise(e,
                                error_set(e, FB_E_USAGE, "feed",
                                          "fb_options sets a field that this library does not know: the program was made for a newer one"),
                                "use the library of that version (this is " FB_VERSION "), or leave the field out");
    *full = defaults;
    memcpy(full, o, known);
    full->struct_size = sizeof(*full);
    return 0;
}

int fb_open(const fb_options *o, fb_loader **out, struct fb_error *e)
{
    fb_options full;
    *out = NULL;
    FB_TRY(complete_options(o, &full, e));
    struct feed *f;
    int rc = feed_open(&full, &f, e ? e : &(struct fb_error){0});
    *out = (fb_loader *)f;
    return rc;
}

int64_t fb_start_epoch(fb_loader *l, int64_t epoch, struct fb_error *e)
{
    return feed_start_epoch(feed_of(l), epoch, e ? e : &(struct fb_error){0});
}

int fb_next_batch(fb_loader *l, fb_batch **out, struct fb_error *e)
{
    struct slot *s;
    int rc = feed_next(feed_of(l), 0, &s, e ? e : &(struct fb_error){0});
    *out = (fb_batch *)s;
    if (rc == 1)
        delivery_done(feed_of(l), s);
    return rc;
}

int fb_next_batch_since(fb_loader *l, uint64_t asked_ns, fb_batch **out, struct fb_error *e)
{
    struct slot *s;
    int rc = feed_next(feed_of(l), asked_ns, &s, e ? e : &(struct fb_error){0});
    *out = (fb_batch *)s;
    return rc;
}

void fb_deliver_batch(fb_batch *b)
{
    struct feed *f = slot_of(b)->owner;
    if (f->pid == getpid())
        delivery_done(f, slot_of(b));
}

int fb_batch_size(const fb_batch *b)
{
    return (int)slot_of(b)->count;
}

int fb_batch_array_count(const fb_batch *b)
{
    return slot_of(b)->shape->field_count;
}

const struct fb_array *fb_batch_array(const fb_batch *b, int field)
{
    return field >= 0 && field < slot_of(b)->shape->field_count ? &slot_of(b)->array[field] : NULL;
}

static const struct slot_place *place_of(const fb_batch *b, int place)
{
    static const struct slot_place none = {.key = ""};
    return place >= 0 && (uint32_t)place < slot_of(b)->count ? &slot_of(b)->place[place] : &none;
}

/* Keys of rows are made when somebody asks, all of a batch at once. */
static const char *row_key(const fb_batch *b, int place)
{
    struct slot *s = (struct slot *)b;
    struct feed *f = s->owner;
    enum { KEY_BYTES = 288 };
    pthread_mutex_lock(&f->lock);
    if (!s->keys && (s->keys = calloc(s->count, KEY_BYTES)))
        for (uint32_t i = 0; i < s->count; i++)
            f->kind->key(f, s->place[i].sample, s->keys + (size_t)i * KEY_BYTES, KEY_BYTES);
    pthread_mutex_unlock(&f->lock);
    return s->keys ? s->keys + (size_t)place * KEY_BYTES : "";
}

const char *fb_batch_key(const fb_batch *b, int place)
{
    const char *key = place_of(b, place)->key;
    return key ? key : row_key(b, place);
}

uint64_t fb_batch_sample(const fb_batch *b, int place)
{
    return place_of(b, place)->sample;
}

int fb_batch_is_repeat(const fb_batch *b, int place)
{
    return place_of(b, place)->is_repeat;
}

const char *fb_batch_state(const fb_batch *b)
{
    return slot_of(b)->state_json;
}

enum { DRAWS_BYTES = 1 << 16, NUMBER_BYTES = 64 }; /* of each number that is kept, with its name */

int fb_batch_draw(const fb_batch *b, int place, char *out, size_t out_size)
{
    const struct slot *s = slot_of(b);
    const struct feed *f = s->owner;
    struct text t = {.limit = DRAWS_BYTES + (size_t)s->shape->draw_numbers * NUMBER_BYTES};
    struct json_writer w = {.out = &t};
    json_begin_object(&w, NULL);
    if (f->kind->show_draws && place >= 0 && (uint32_t)place < s->count)
        f->kind->show_draws(f, slot_draws(s, (uint32_t)place), &w);
    json_end(&w);
    int length = t.failed ? FB_E_NOMEM : snprintf(out, out_size, "%s", t.data);
    text_free(&t);
    return length;
}

enum fb_memory fb_batch_memory(const fb_batch *b, int *device)
{
    const struct slot *s = slot_of(b);
    const struct device *d = ((struct feed *)s->owner)->device_copy.device;
    if (device)
        *device = d ? d->index : 0;
    return s->device.memory ? d->ops->memory : s->device.is_pinned ? FB_PINNED : FB_HOST;
}

int fb_use_batch(fb_batch *b, uintptr_t stream, struct fb_error *e)
{
    struct slot *s = (struct slot *)b;
    struct feed *f = s->owner;
    if (f->pid != getpid())
        return error_set(e, FB_E_FORKED, "feed", "this batch belongs to another process (%d)", (int)f->pid);
    return device_copy_use(f, s, stream, e ? e : &(struct fb_error){0});
}

void fb_retain_batch(fb_batch *b)
{
    atomic_fetch_add_explicit(&((struct slot *)b)->refs, 1, memory_order_relaxed);
}

void fb_release_batch(fb_batch *b)
{
    feed_release((struct slot *)b);
}

void fb_close(fb_loader *l)
{
    if (l)
        feed_close(feed_of(l));
}

uint64_t fb_sample_count(const fb_loader *l)
{
    return feed_of(l)->subset.count;
}

uint64_t fb_batch_count(const fb_loader *l)
{
    struct feed *f = feed_of(l);
    if (f->pid != getpid() || feed_resolve(f, NULL) < 0 || f->takes_order)
        return 0;
    pthread_mutex_lock(&f->lock);
    struct run r = f->is_live && !f->must_continue ? f->live : feed_wanted_run(f, FB_NEXT_EPOCH);
    pthread_mutex_unlock(&f->lock);
    return r.batches;
}

uint64_t fb_fingerprint(const fb_loader *l)
{
    return feed_of(l)->subset.fingerprint;
}

int fb_class_count(const fb_loader *l)
{
    return feed_of(l)->subset.class_count;
}

const char *fb_class_name(const fb_loader *l, int label)
{
    const struct feed *f = feed_of(l);
    if (label < 0 || label >= f->subset.class_count)
        return NULL;
    return catalog_class_name(f->dataset.catalog, f->subset.class_old ? f->subset.class_old[label] : label);
}

static bool is_selected(const struct feed *f, uint64_t i, uint64_t *sample)
{
    if (i >= f->subset.count)
        return false;
    *sample = f->subset.sample ? f->subset.sample[i] : i;
    return true;
}

const char *fb_selected_key(const fb_loader *l, uint64_t i)
{
    uint64_t sample;
    const struct feed *f = feed_of(l);
    if (f->kind->key) /* the catalog has the files */
        return NULL;
    return is_selected(f, i, &sample) ? catalog_key(f->dataset.catalog, sample, NULL) : NULL;
}

int fb_selected_label(const fb_loader *l, uint64_t i, const char *name, void *out, size_t bytes, struct fb_error *e)
{
    struct feed *f = feed_of(l);
    uint64_t sample;
    int field = labels_find(&f->labels, name);
    if (field < 0 || !is_selected(f, i, &sample))
        return error_set(e, FB_E_NOT_FOUND, "dataset", "there is no label '%s' of sample %llu", name, (unsigned long long)i);
    if (bytes != f->labels.field[field].bytes)
        return error_set(e, FB_E_USAGE, "dataset", "the label '%s' has %zu bytes, not %zu", name, f->labels.field[field].bytes, bytes);
    return labels_get(&f->labels, field, i, sample, out, e);
}

const struct fb_column *fb_label_field(const fb_loader *l, int i)
{
    const struct feed *f = feed_of(l);
    return i >= 0 && i < f->labels.count ? &f->labels.field[i].shown : NULL;
}

int fb_class_field(const fb_loader *l)
{
    const struct feed *f = feed_of(l);
    for (int i = 0; i < f->labels.count; i++)
        if (f->labels.field[i].is_class)
            return i;
    return -1;
}

int fb_push_order(fb_loader *l, const uint64_t *samples, uint64_t count, int is_last, struct fb_error *e)
{
    return given_push(feed_of(l), samples, count, is_last != 0, e ? e : &(struct fb_error){0});
}

int fb_set_rank(fb_loader *l, int rank, int world_size, struct fb_error *e)
{
    struct feed *f = feed_of(l);
    if (f->is_resolved)
        return error_set(e, FB_E_STATE, "order", "rank and world size are fixed by the first epoch, length or state asked for");
    int old_rank = f->rank, old_world = f->world;
    f->rank = rank;
    f->world = world_size;
    int rc = feed_resolve(f, e);
    if (rc < 0) {
        f->rank = old_rank;
        f->world = old_world;
    }
    return rc;
}

void fb_get_rank(const fb_loader *l, int *rank, int *world_size)
{
    struct feed *f = feed_of(l);
    if (f->pid == getpid())
        feed_resolve(f, NULL);
    *rank = f->rank;
    *world_size = f->world;
}

int fb_find_rank(int *rank, int *world_size, struct fb_error *e)
{
    *rank = *world_size = -1;
    return ranks_from_environment((const char *(*)(const char *))getenv, rank, world_size, e ? e : &(struct fb_error){0});
}

int fb_save_state(const fb_loader *l, char *out, size_t out_size)
{
    struct feed *f = feed_of(l);
    pthread_mutex_lock(&f->lock);
    struct state s = feed_state_at(f, f->at.epoch, f->at.position, &f->at.skips);
    pthread_mutex_unlock(&f->lock);
    return state_write(&s, out, out_size);
}

int fb_load_state(fb_loader *l, const char *json, struct fb_error *e)
{
    return feed_load_state(feed_of(l), json, false, e ? e : &(struct fb_error){0});
}

int fb_force_state(fb_loader *l, const char *json, struct fb_error *e)
{
    return feed_load_state(feed_of(l), json, true, e ? e : &(struct fb_error){0});
}

int64_t fb_skip(fb_loader *l, uint64_t batches, struct fb_error *e)
{
    return feed_skip(feed_of(l), batches, e ? e : &(struct fb_error){0});
}

int fb_skip_range(fb_loader *l, uint64_t first, uint64_t last, struct fb_error *e)
{
    return feed_skip_range(feed_of(l), first, last, e ? e : &(struct fb_error){0});
}

int fb_trace(fb_loader *l, const char *path, uint64_t batches, struct fb_error *e)
{
    struct feed *f = feed_of(l);
    if (f->pid != getpid())
        return error_set(e, FB_E_FORKED, "trace", "this loader was opened in another process");
    return trace_start(&f->meter, path, batches, e);
}

int fb_get_stats(const fb_loader *l, char *out, size_t out_size)
{
    struct feed *f = feed_of(l);
    if (f->pid != getpid())
        return snprintf(out, out_size, "{}");
    return feed_stats_json(f, out, out_size);
}

int fb_describe_stats(char *out, size_t out_size)
{
    struct text t = {.limit = 1 << 20};
    metrics_describe(&(struct json_writer){.out = &t});
    int length = snprintf(out, out_size, "%s", t.failed ? "[]" : t.data);
    text_free(&t);
    return length;
}
