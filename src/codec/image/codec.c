/* Finding the codec of a file and calling it, with the checks that are the same for all of them. */
#include "codec/image/codec.h"

#include <assert.h>
#include <string.h>

#include "base/text/text.h"
#include "codec/codec_internal.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

const struct codec_ops *codec_find(const uint8_t *bytes, size_t n)
{
    for (int i = 0; codec_list[i]; i++)
        if (codec_list[i]->probe(bytes, smaller(n, CODEC_PROBE_BYTES)))
            return codec_list[i];
    return NULL;
}

int codec_header_part(const uint8_t *bytes, size_t n, struct image_header *h, const struct codec_ops **codec, struct fb_error *e)
{
    const struct codec_ops *found = codec_find(bytes, n);
    if (codec)
        *codec = found;
    if (!found)
        return n < CODEC_PROBE_BYTES ? 1 : codec_not_an_image(bytes, n, e);
    *h = (struct image_header){.orientation = 1};
    return found->header(bytes, n, h, e);
}

int codec_header(const uint8_t *bytes, size_t n, struct image_header *h, const struct codec_ops **codec, struct fb_error *e)
{
    const struct codec_ops *found;
    int rc = codec_header_part(bytes, n, h, &found, e);
    if (codec)
        *codec = found;
    if (rc <= 0)
        return rc;
    if (!found)
        return codec_not_an_image(bytes, n, e);
    error_set(e, FB_E_DATA, "decode", "the %s file is cut off inside its header, after %zu bytes", found->name, n);
    error_at(e, NULL, (int64_t)n);
    return FB_E_DATA;
}

static int place_of(const struct codec_ops *codec)
{
    for (int i = 0; codec_list[i]; i++)
        if (codec_list[i] == codec)
            return i;
    return -1;
}

static int check_region(const struct image_header *h, const struct region *r, const struct image *out, struct fb_error *e)
{
    if (!r->width || !r->height || r->left >= h->width || r->top >= h->height || r->width > h->width - r->left ||
        r->height > h->height - r->top)
        return error_set(e, FB_E_USAGE, "decode", "the region %u x %u at left %u, top %u is not inside the image of %u x %u pixels",
                         r->width, r->height, r->left, r->top, h->width, h->height);
    if (out->width != r->width || out->height != r->height || out->stride < (size_t)3 * r->width)
        return error_set(e, FB_E_USAGE, "decode", "the output of %u x %u pixels does not fit the region of %u x %u", out->width,
                         out->height, r->width, r->height);
    return 0;
}

int codec_decode(struct codec_state *s, const struct codec_ops *codec, const uint8_t *bytes, size_t n, const struct image_header *h,
                 const struct region *r, const struct image *out, struct fb_error *e)
{
    int place = place_of(codec);
    assert(place >= 0 && place < CODEC_MAX);
    FB_TRY(check_region(h, r, out, e));
    s->record_bytes = 0;
    s->way = CODEC_PLAIN;
    if (s->taker && !codec->gives_rows)
        return CODEC_CALL_AGAIN;
    return codec->decode(s, &s->own[place], bytes, n, h, r, out, e);
}

bool codec_range(const uint8_t *record, size_t n, const struct region *r, uint64_t *head, uint64_t *first, uint64_t *last)
{
    for (int i = 0; codec_list[i]; i++)
        if (codec_list[i]->range && codec_list[i]->range(record, n, r, head, first, last))
            return true;
    return false;
}

void codec_state_init(struct codec_state *s, struct budget *budget)
{
    *s = (struct codec_state){.scratch.budget = budget, .record.budget = budget};
}

void codec_state_free(struct codec_state *s)
{
    for (int i = 0; codec_list[i]; i++)
        if (codec_list[i]->close)
            codec_list[i]->close(&s->own[i]);
    scratch_free(&s->scratch);
    scratch_free(&s->record);
}

int codec_check_size(uint64_t width, uint64_t height, struct fb_error *e)
{
    if (!width || !height)
        return error_set(e, FB_E_DATA, "decode", "the header claims an empty image of %llu x %llu pixels", (unsigned long long)width,
                         (unsigned long long)height);
    if (width <= IMAGE_MAX_SIDE && height <= IMAGE_MAX_SIDE && width * height <= IMAGE_MAX_PIXELS)
        return 0;
    return error_set(e, FB_E_DATA, "decode", "the header claims %llu x %llu pixels; the limits are %d on a side and %llu in all",
                     (unsigned long long)width, (unsigned long long)height, IMAGE_MAX_SIDE, (unsigned long long)IMAGE_MAX_PIXELS);
}

int codec_borrow(struct codec_state *s, uint64_t bytes, const char *for_what, struct fb_error *e)
{
    struct budget *b = s->scratch.budget;
    if (!b || budget_take(b, MEMORY_SCRATCH, bytes))
        return 0;
    char need[32], limit[32];
    error_set(e, FB_E_BUDGET, "decode", "decoding it needs %s for %s, which the budget of %s does not have left",
              text_size(bytes, need, sizeof(need)), for_what,
              text_size(atomic_load_explicit(&b->limit, memory_order_relaxed), limit, sizeof(limit)));
    error_remedy(e, "raise memory=, or lower batch_size= or threads=");
    return FB_E_BUDGET;
}

void codec_give_back(struct codec_state *s, uint64_t bytes)
{
    if (s->scratch.budget)
        budget_give(s->scratch.budget, MEMORY_SCRATCH, bytes);
}
