/* Which rows of a bag are wanted, and whether they fit their place. */
#include <stdio.h>
#include <stdlib.h>

#include "base/compare.h"
#include "codec/array/array_rows.h"
#include "feed/single/bag.h"

/* `wanted` of `there` instances, each at most once; a smaller bag repeats its instances evenly. Ascending. */
static int draw_instances(struct bag *b, uint64_t there, uint64_t wanted, struct fb_error *e)
{
    if (there == 0)
        return bag_refuse(b, e, "the bag is empty: no instance can be drawn", "leave the file out");
    uint64_t *list = worker_memory(b->f, &b->w->mapped[0], wanted * sizeof(*list), e);
    if (!list)
        return e->code;
    struct rng rng = rng_stream(RNG_TRANSFORM, b->f->seed, b->l->slot->epoch, b->l->position, b->l->attempt);
    struct order o;
    order_init(&o, there, rng_u64(&rng), 0, true, NULL);
    for (uint64_t i = 0; i < wanted; i++)
        list[i] = order_at(&o, i);
    qsort(list, wanted, sizeof(*list), compare_u64);
    b->picked = (struct picked){.count = wanted, .list = list};
    return 0;
}

int bag_pick(struct bag *b, uint64_t there, struct fb_error *e)
{
    const struct arrays *a = b->f->arrays;
    if (a->steps.instances)
        return draw_instances(b, there, a->steps.instances, e);
    b->picked = (struct picked){.count = there};
    if (!a->is_sound)
        return 0;
    b->rng = rng_stream(RNG_TRANSFORM, b->f->seed, b->l->slot->epoch, b->l->position, b->l->attempt);
    b->clip = array_steps_clip(&a->steps, there, &b->rng, slot_draws(b->l->slot, b->l->place));
    if (a->is_cropped)
        b->clip = clip_crop_or_pad(b->clip, a->samples, 0); /* it may have another length by now */
    b->picked = (struct picked){.first = b->clip.first, .count = b->clip.frames};
    return 0;
}

/* ---- fitting the place ---- */

/* Where in the ascending list the first number of at least `least` is. */
static uint64_t find_in_list(const struct picked *p, uint64_t least)
{
    uint64_t low = 0, high = p->count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        *(p->list[middle] < least ? &low : &high) = p->list[middle] < least ? middle + 1 : middle;
    }
    return low;
}

static struct picked picked_of_part(const struct bag *b)
{
    const struct bag_part *part = b->now;
    if (b->parts == 1)
        return b->picked;
    if (!b->picked.list)
        return (struct picked){.count = part->rows};
    uint64_t first = find_in_list(&b->picked, part->first), end = find_in_list(&b->picked, part->first + part->rows);
    return (struct picked){.count = end - first, .list = b->picked.list + first, .base = part->first};
}

/* An instance field takes the picked rows; one of a fixed shape all of its own. */
struct picked bag_picked(const struct bag *b, int field, const struct array_layout *l)
{
    const struct arrays *a = b->f->arrays;
    return a->is_sound || a->want[field].is_instance ? picked_of_part(b) : (struct picked){.count = array_rows(l)};
}

/* The file may be another than the one that was surveyed: nothing of its shape is taken for granted. */
static bool fits(const struct bag *b, const struct array_want *w, const struct array_layout *l)
{
    int first = w->is_instance, shift = w->is_variable; /* a variable field's shape is that of a row */
    if (l->dtype != w->stored || l->ndim != w->ndim + shift || (first && l->shape[0] != array_rows(bag_layout(b, 0))))
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
        snprintf(cause, sizeof(cause), "there is no array '%.200s' %s", w->source,
                 b->now->file->count < ARRAY_MAX_IN_FILE ? "in it" : "among the first 256 of it, and no more are looked at");
        return bag_refuse(b, e, cause, "all files must have the fields that are wanted");
    }
    if (a->is_sound || fits(b, w, l))
        return 0;
    bool is_short = w->is_instance && l->ndim > 0 && l->shape[0] != array_rows(bag_layout(b, 0));
    if (is_short)
        snprintf(cause, sizeof(cause), "'%.100s' has %llu rows, '%.100s' %llu", w->source, (unsigned long long)l->shape[0],
                 a->want[0].source, (unsigned long long)array_rows(bag_layout(b, 0)));
    else
        snprintf(cause, sizeof(cause), "'%.100s' is %s with %d dimensions, of another type or shape than in the first file", w->source,
                 fb_dtype_name(l->dtype), l->ndim);
    return bag_refuse(b, e, cause, "files of one data set have fields of one type and shape");
}

int bag_check_room(struct bag *b, struct fb_error *e)
{
    struct slot *s = b->l->slot;
    if (!s->shape->has_rows)
        return 0;
    char cause[160];
    if (b->picked.count > s->room[b->l->place]) {
        snprintf(cause, sizeof(cause), "it has %llu rows, but %llu were expected", (unsigned long long)b->picked.count,
                 (unsigned long long)s->room[b->l->place]);
        return bag_refuse(b, e, cause, "the file was changed since it was looked into: open the loader again");
    }
    slot_set_rows(s, b->l->place, b->picked.count);
    return 0;
}

/* The first field first: the others are compared with it. */
int bag_prepare(struct bag *b, struct fb_error *e)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < b->parts; i++) {
        b->now = &b->part[i];
        for (int k = 0; k < b->f->arrays->count; k++)
            FB_TRY(check_field(b, k, bag_layout(b, k), e));
        b->now->first = all;
        b->now->rows = array_rows(bag_layout(b, 0));
        if (__builtin_add_overflow(all, b->now->rows, &all))
            return bag_refuse(b, e, "it has more rows than can be counted", "check the file");
    }
    b->now = b->part;
    FB_TRY(bag_pick(b, all, e));
    return bag_check_room(b, e);
}
