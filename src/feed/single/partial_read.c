#include "feed/partial_read.h"

#include "codec/image/codec.h"
#include "feed/single/image_load.h"

static struct learnt_identity identity_of(const struct load *l)
{
    return (struct learnt_identity){l->where.length, l->where.mtime_ns};
}

void partial_read_prepare(struct feed *f, struct load *l, struct scratch *known)
{
    struct learnt_identity id = identity_of(l);
    uint64_t head, first, last;
    l->may_part = false;
    size_t n = learnt_get(f->learnt, learnt_key(l->where.key), &id, known);
    if (n == 0 || !codec_range(known->data, n, NULL, &head, &first, &last) || head >= l->where.length)
        return;
    l->part = PART_HEAD;
    l->part_first = 0;
    l->part_last = head;
}

void partial_read_choose(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes)
{
    struct learnt_identity id = identity_of(l);
    struct region r;
    uint64_t head = l->part_last, first, last;
    struct fb_error unused = {0};
    partial_read_give_up(l);
    if (image_load_region(w, f, l, bytes, head, &r, &unused) != 0)
        return;
    size_t n = learnt_get(f->learnt, learnt_key(l->where.key), &id, &w->known);
    if (n == 0 || !codec_range(w->known.data, n, &r, &head, &first, &last) || first > last || last > l->where.length)
        return;
    if (last - first > l->where.length / 4 * 3)
        return;
    l->part = PART_RANGE;
    l->part_first = first;
    l->part_last = last;
    meter_add(&f->part_reads, 1);
}

void partial_read_give_up(struct load *l)
{
    l->part = PART_ALL;
    l->part_first = l->part_last = 0;
}

bool partial_read_is_spoilt(const struct load *l)
{
    const struct io_request *r = &l->request;
    bool is_changed = r->object_mtime_ns && l->where.mtime_ns && r->object_mtime_ns != l->where.mtime_ns;
    return l->part != PART_ALL && (is_changed || r->got != r->length);
}
