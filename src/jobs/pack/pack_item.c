/* Making one record of a pack. */
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "codec/image/codec.h"
#include "jobs/pack/pack_input.h"
#include "jobs/pack/pack_item.h"

enum { PACK_SHRINK_MOST = 512 << 20 };

/* ---- bytes ---- */

static bool reserve(struct text *t, size_t more)
{
    size_t wanted = t->length + more + 1;
    if (wanted <= t->capacity)
        return true;
    char *data = realloc(t->data, wanted);
    if (!data)
        return false;
    t->data = data;
    t->capacity = wanted;
    return true;
}

/* For a key without a usable extension. */
static const char *extension_by_content(const struct pack_input *in, uint64_t size)
{
    uint8_t b[12] = {0};
    bool is_read = size >= sizeof(b) && pack_input_read(in, b, 0, sizeof(b), NULL) == 0;
    return !is_read                        ? "bin"
           : b[0] == 0xFF && b[1] == 0xD8  ? "jpg"
           : memcmp(b, "\x89PNG", 4) == 0  ? "png"
           : memcmp(b + 8, "WEBP", 4) == 0 ? "webp"
                                           : "bin";
}

static int no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "pack", "no memory for a record");
}

static int check_image(const uint8_t *bytes, size_t n, struct fb_error *e)
{
    struct image_header h;
    const struct codec_ops *codec;
    return codec_header(bytes, n, &h, &codec, e);
}

/* ---- the record ---- */

static int put_name(const struct pack_source *s, struct pack_item *item, const struct pack_input *in, bool is_shrunk, size_t *stem)
{
    const char *extension = is_shrunk ? "jpg" : pack_names_extension(item->where.key);
    item->name.length = 0;
    item->is_renamed = pack_names_stem(s->names, item->sample, item->where.key, &item->name);
    *stem = item->name.length;
    text_printf(&item->name, ".%s", extension[0] ? extension : extension_by_content(in, item->source_size));
    return item->name.failed ? -1 : 0;
}

static int put_labels(const struct pack_source *s, struct pack_item *item, struct text *out, size_t stem, struct fb_error *e)
{
    char dot = item->name.data[stem];
    item->name.data[stem] = 0;
    int rc = pack_put_labels(out, s->dataset->catalog, item->sample, item->name.data, item->mtime_ns, e);
    item->name.data[stem] = dot;
    return rc < 0 ? rc : out->failed ? no_memory(e) : 0;
}

/* Reads the sample into `tail`, which small ones do not need, and makes a smaller picture of it. 1: it is in `shrunk`. */
static int shrink(const struct pack_source *s, struct pack_item *item, const struct pack_input *in, struct fb_error *e)
{
    item->tail.length = item->shrunk.length = 0;
    if (s->shrink.shorter == 0)
        return 0;
    if (item->size > PACK_SHRINK_MOST)
        return error_set(e, FB_E_DATA, "pack", "a file of %llu bytes is too large to be made smaller", (unsigned long long)item->size);
    if (!reserve(&item->tail, item->size))
        return no_memory(e);
    FB_TRY(pack_input_read(in, item->tail.data, 0, item->size, e));
    int rc = pack_shrink(&s->shrink, (const uint8_t *)item->tail.data, item->size, &item->shrunk, e);
    if (rc == 1)
        item->size = item->shrunk.length;
    return rc;
}

static int finish_record(const struct pack_source *s, struct pack_item *item, size_t stem, struct fb_error *e)
{
    struct text *r = &item->record;
    item->checksum = checksum_of(r->data + item->data_at, item->size);
    pack_put_padding(r, item->data_at);
    FB_TRY(put_labels(s, item, r, stem, e));
    item->record_checksum = checksum_of(r->data, r->length);
    return 0;
}

static int fill_small(const struct pack_source *s, struct pack_item *item, const struct pack_input *in, size_t stem, struct fb_error *e)
{
    struct text *r = &item->record;
    if (!reserve(r, item->size + 4096))
        return no_memory(e);
    FB_TRY(pack_input_read(in, r->data + r->length, 0, item->size, e));
    const uint8_t *bytes = (const uint8_t *)r->data + r->length;
    if (s->must_be_image)
        FB_TRY(check_image(bytes, item->size, e));
    r->length += item->size;
    return finish_record(s, item, stem, e);
}

static int fill(const struct pack_source *s, struct pack_item *item, const struct pack_input *in, struct fb_error *e)
{
    size_t stem;
    item->record.length = 0;
    int is_shrunk = shrink(s, item, in, e);
    if (is_shrunk < 0)
        return is_shrunk;
    if (put_name(s, item, in, is_shrunk, &stem) < 0)
        return no_memory(e);
    pack_put_header(&item->record, item->name.data, item->size, item->mtime_ns);
    item->data_at = item->record.length;
    item->is_large = item->size > PACK_LARGE;
    if (item->record.failed)
        return no_memory(e);
    if (is_shrunk) {
        item->is_large = false;
        text_append(&item->record, item->shrunk.data, item->shrunk.length);
        return item->record.failed ? no_memory(e) : finish_record(s, item, stem, e);
    }
    item->tail.length = 0;
    if (!item->is_large)
        return fill_small(s, item, in, stem, e);
    static const char zeros[512];
    text_append(&item->tail, zeros, (size_t)(-item->size & 511));
    return put_labels(s, item, &item->tail, stem, e);
}

static int make(const struct pack_source *s, struct pack_item *item, struct fb_error *e)
{
    struct pack_input in;
    FB_TRY(catalog_sample(s->dataset->catalog, item->sample, &item->where, e));
    FB_TRY(pack_input_open(&in, s, item, e));
    int rc = fill(s, item, &in, e);
    if (rc == 0)
        rc = pack_input_check(&in, e);
    pack_input_close(&in);
    return rc;
}

void pack_item_make(const struct pack_source *s, struct pack_item *item)
{
    error_clear(&item->error);
    item->where.key = "";
    if (make(s, item, &item->error) < 0)
        error_at(&item->error, item->where.key, -1);
}

void pack_item_init(struct pack_item *item)
{
    *item = (struct pack_item){.name = {.limit = 1 << 20},
                               .record = {.limit = (size_t)1 << 32},
                               .tail = {.limit = (size_t)1 << 32},
                               .shrunk = {.limit = (size_t)1 << 32}};
}

void pack_item_free(struct pack_item *item)
{
    text_free(&item->name);
    text_free(&item->record);
    text_free(&item->tail);
    text_free(&item->shrunk);
}
