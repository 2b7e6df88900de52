#include "feed/single/partial_read.h"

#include "codec/image/codec.h"
#include "feed/single/images.h"

static struct learnt_identity identity_of(const struct load *l)
{
    return (struct learnt_identity){l->where.length, l->where.mtime_ns};
}

void partial_read_prepare(struct feed *f, struct load *l, struct scratch *known)
{
    struct single_load *s = single_of(l);
    struct learnt_identity id = identity_of(l);
    uint64_t head, first, last;
    if (s->is_settled || !images_of(f)->reads_parts || l->where.length < PART_FROM_BYTES)
        return;
    s->is_settled = true;
    size_t n = learnt_get(f->learnt, learnt_key(l->where.key), &id, known);
    if (n == 0 || !codec_range(known->data, n, NULL, &head, &first, &last) || head >= l->where.length)
        return;
    s->part = PART_HEAD;
    s->part_first = 0;
    s->part_last = head;
}

void partial_read_choose(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes)
{
    struct learnt_identity id = identity_of(l);
    struct single_load *s = single_of(l);
    struct region r;
    uint64_t head = s->part_last, first, last;
    struct fb_error unused = {0};
    partial_read_give_up(l);
    if (image_load_region(w, f, l, bytes, head, &r, &unused) != 0)
        return;
    size_t n = learnt_get(f->learnt, learnt_key(l->where.key), &id, &w->known);
    if (n == 0 || !codec_range(w->known.data, n, &r, &head, &first, &last) || first > last || last > l->where.length)
        return;
    if (last - first > l->where.length / 4 * 3)
        return;
    s->part = PART_RANGE;
    s->part_first = first;
    s->part_last = last;
    meter_add(&f->part_reads, 1);
}

void partial_read_give_up(struct load *l)
{
    single_of(l)->part = PART_ALL;
    single_of(l)->part_first = single_of(l)->part_last = 0;
}

bool partial_read_is_spoilt(const struct load *l)
{
    const struct io_request *r = &l->request;
    bool is_changed = r->object_mtime_ns && l->where.mtime_ns && r->object_mtime_ns != l->where.mtime_ns;
    return single_of(l)->part != PART_ALL && (is_changed || r->got != r->length);
}
