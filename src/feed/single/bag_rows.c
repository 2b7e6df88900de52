/* The rows of a bag, by array_walk.h: every field of every part. */
#include "feed/single/bag.h"

#include <string.h>

/* Of the part at hand; `before`: how many of the field's rows come from earlier parts. Sound stays on the stage, to be cut there. */
static int aim_walk(struct bag *b, int field, uint64_t before, struct array_conversion *c, struct fb_error *e)
{
    struct array_walk *x = &b->walk;
    const struct arrays *a = arrays_of(b->f);
    const struct array_layout *l = bag_layout(b, field);
    const struct gather *g = &x->gather;
    FB_TRY(arrays_prepare_conversion(a, field, l, c, e));
    struct picked p = bag_picked(b, field, l);
    x->open = (struct probed_file){&b->now->where, b->now->fd, b->bytes, b->now->file};
    x->from = (struct gather_source){.fd = b->now->fd, .path = b->now->where.key};
    x->from.object = b->f->cache && g->files ? &g->file[b->now - b->part].object : NULL;
    x->layout = l;
    x->conversion = c;
    x->first = p.first;
    x->count = p.count;
    x->list = p.list;
    x->list_step = sizeof(*p.list);
    x->base = p.base;
    x->to = a->is_sound ? NULL : (uint8_t *)slot_at(b->l->slot, field, b->l->place) + before * a->want[field].row_bytes;
    return 0;
}

/* In the one order that both listing and taking follow. */
static int walk_parts(struct bag *b, int (*visit)(struct array_walk *x, struct fb_error *e), struct fb_error *e)
{
    struct array_conversion c;
    for (int field = 0; field < arrays_of(b->f)->count; field++) {
        uint32_t parts = arrays_of(b->f)->want[field].is_instance ? b->parts : 1;
        uint64_t before = 0;
        for (uint32_t i = 0; i < parts; i++) {
            b->now = &b->part[i];
            FB_TRY(aim_walk(b, field, before, &c, e));
            FB_TRY(visit(&b->walk, e));
            before += b->walk.count;
        }
    }
    b->now = b->part;
    return 0;
}

/* Compressed sound is decoded from memory, so that no worker waits for a disk inside of a decoder. */
static int list_array(struct array_walk *x, struct fb_error *e)
{
    if (x->to || x->layout->storage != ARRAY_OPAQUE)
        return array_walk_list(x, e);
    return gather_stage(&x->gather, &x->from, x->layout, 0, x->open.file->object_size, e);
}

int bag_list(struct bag *b, struct fb_error *e)
{
    return walk_parts(b, list_array, e);
}

static int take_sound(struct bag *b, struct fb_error *e)
{
    const struct array_layout *l = bag_layout(b, 0);
    const uint8_t *stored = gather_next(&b->walk.gather, l);
    if (l->storage != ARRAY_OPAQUE)
        return bag_place_sound(b, l, stored, e);
    b->bytes = stored;
    return bag_place_compressed(b, l, e);
}

int bag_take(struct bag *b, struct fb_error *e)
{
    return arrays_of(b->f)->is_sound ? take_sound(b, e) : walk_parts(b, array_walk_take, e);
}
