#include "jobs/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "codec/image/codec.h"
#include "dataset/data_names.h"
#include "jobs/info/sample_heads.h"
#include "jobs/info/info_internal.h"

void info_count_format(struct info *i, const char *name)
{
    for (int k = 0; k < i->format_count; k++)
        if (strcmp(i->format[k].name, name) == 0) {
            i->format[k].files++;
            return;
        }
    if (i->format_count < INFO_MAX_FORMATS) {
        snprintf(i->format[i->format_count].name, sizeof(i->format[0].name), "%s", name);
        i->format[i->format_count++].files = 1;
    }
}

/* Decoded pictures have no headers: the catalog says how large they are. */
static bool examine_decoded(const struct dataset *d, struct info *i)
{
    if (catalog_decoded_size(d->catalog, &i->height_median, &i->width_median, NULL) != 1)
        return false;
    i->height_most = i->height_median;
    i->width_most = i->width_median;
    i->examined = i->samples;
    i->format_count = 1;
    i->format[0] = (struct info_format){"decoded", i->samples};
    return true;
}

static int read_header(struct heads *h, uint32_t at, const struct catalog_sample *s, struct image_header *header,
                       const struct codec_ops **codec, struct fb_error *e)
{
    const uint8_t *bytes = heads_bytes(h, at);
    size_t n = h->got[at];
    if (h->status[at] < 0) {
        *e = h->error[at];
        return h->status[at];
    }
    if (n == s->length)
        return codec_header(bytes, n, header, codec, e);
    int rc = codec_header_part(bytes, n, header, codec, e);
    return rc == 1 ? error_set(e, FB_E_DATA, "info", "its header does not end within the first %zu bytes", n) : rc;
}

void info_note_damaged(struct info *i, const char *key, struct fb_error *e)
{
    info_count_format(i, "damaged");
    if (i->damaged_example)
        return;
    char line[2048];
    error_at(e, key, -1);
    fb_format_error(e, line, sizeof(line));
    i->damaged_example = strdup(line);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

struct sizes_seen {
    uint32_t width[INFO_PROBES], height[INFO_PROBES];
    int seen;
};

static void examine_some(struct heads *h, struct info *i, struct sizes_seen *l, const struct catalog_sample *s, uint32_t count)
{
    heads_read(h, s, count);
    for (uint32_t k = 0; k < count; k++) {
        struct fb_error e;
        struct image_header header;
        const struct codec_ops *codec;
        error_clear(&e);
        i->examined++;
        if (read_header(h, k, &s[k], &header, &codec, &e) < 0) {
            info_note_damaged(i, s[k].key, &e);
            continue;
        }
        info_count_format(i, codec->name);
        l->width[l->seen] = header.width;
        l->height[l->seen++] = header.height;
    }
}

static void examine_headers(const struct dataset *d, struct info *i, struct heads *h)
{
    struct sizes_seen l = {.seen = 0};
    struct catalog_sample s[HEADS_AT_ONCE];
    uint32_t count = 0;
    uint64_t stride = i->samples / INFO_PROBES + 1;
    for (uint64_t k = 0; k < i->samples && i->examined < INFO_PROBES; k += stride) {
        if (catalog_sample(d->catalog, k, &s[count], NULL) < 0)
            return;
        if (++count < h->at_once && k + stride < i->samples)
            continue;
        examine_some(h, i, &l, s, count);
        count = 0;
    }
    if (!l.seen)
        return;
    qsort(l.width, (size_t)l.seen, sizeof(l.width[0]), by_value);
    qsort(l.height, (size_t)l.seen, sizeof(l.height[0]), by_value);
    i->width_median = l.width[l.seen / 2];
    i->height_median = l.height[l.seen / 2];
    i->width_most = l.width[l.seen - 1];
    i->height_most = l.height[l.seen - 1];
}

static int count_classes(const struct dataset *d, struct info *i, struct fb_error *e)
{
    int field = catalog_class_field(d->catalog);
    i->classes = catalog_class_count(d->catalog);
    if (field < 0 || i->classes == 0)
        return 0;
    uint64_t *members = calloc((size_t)i->classes, sizeof(*members));
    if (!members)
        return error_set(e, FB_E_NOMEM, "info", "no memory to count %d classes", i->classes);
    for (uint64_t k = 0; k < i->samples; k++) {
        const void *value = catalog_value(d->catalog, k, field, e);
        int64_t label = -1;
        if (value)
            memcpy(&label, value, sizeof(label));
        if (label >= 0 && label < i->classes)
            members[label]++;
    }
    i->smallest_class = UINT64_MAX;
    for (int c = 0; c < i->classes; c++) {
        i->largest_class = members[c] > i->largest_class ? members[c] : i->largest_class;
        i->smallest_class = members[c] < i->smallest_class ? members[c] : i->smallest_class;
    }
    free(members);
    return 0;
}

static int sum_sizes(const struct dataset *d, struct info *i, struct fb_error *e)
{
    i->smallest_bytes = UINT64_MAX;
    for (uint64_t k = 0; k < i->samples; k++) {
        struct catalog_sample s;
        FB_TRY(catalog_sample(d->catalog, k, &s, e));
        i->bytes += s.length;
        i->largest_bytes = s.length > i->largest_bytes ? s.length : i->largest_bytes;
        i->smallest_bytes = s.length < i->smallest_bytes ? s.length : i->smallest_bytes;
    }
    return 0;
}

static void list_fields(const struct dataset *d, struct info *i)
{
    for (int k = 0; k < catalog_field_count(d->catalog) && k < INFO_MAX_FIELDS; k++) {
        const struct catalog_field *f = catalog_field(d->catalog, k);
        struct info_field *to = &i->field[i->field_count++];
        memcpy(to->name, f->name, sizeof(to->name));
        to->dtype = f->dtype;
        to->length = f->ndim ? f->shape[0] : 1;
        to->is_class = f->is_class;
    }
    for (int k = 0; k < catalog_file_count(d->catalog) && k < INFO_MAX_FIELDS; k++)
        snprintf(i->file[i->file_count++], sizeof(i->file[0]), "%s", catalog_file_name(d->catalog, k));
}

static int describe(const struct dataset *d, const struct log *log, uint64_t memory, struct info *i, struct fb_error *e)
{
    snprintf(i->kind, sizeof(i->kind), "%s", d->kind);
    i->root = strdup(d->root);
    i->samples = catalog_count(d->catalog);
    i->fingerprint = catalog_fingerprint(d->catalog);
    i->is_fresh = d->is_fresh;
    const char *left_out = catalog_note(d->catalog, "left out");
    i->left_out = left_out && left_out[0] ? strdup(left_out) : NULL;
    list_fields(d, i);
    FB_TRY(sum_sizes(d, i, e));
    FB_TRY(count_classes(d, i, e));
    if (examine_decoded(d, i))
        return 0;
    snprintf(i->family, sizeof(i->family), "%s", data_family_name(d->family));
    if (d->family != FAMILY_IMAGE) {
        info_examine_arrays(d, i, memory);
        return 0;
    }
    struct heads h;
    FB_TRY(heads_open(&h, d, log, e));
    examine_headers(d, i, &h);
    heads_close(&h);
    return 0;
}

int info_of(const fb_options *o, struct info *out, struct fb_error *e)
{
    memset(out, 0, sizeof(*out));
    struct dataset d;
    struct dataset_request r = dataset_request_of(o, io_stores);
    uint64_t since = clock_now_ns();
    FB_TRY(dataset_open(&d, &r, e));
    out->open_seconds = (double)(clock_now_ns() - since) / 1e9;
    int rc = describe(&d, &r.log, o->memory, out, e);
    dataset_close(&d);
    return rc;
}

void info_free(struct info *i)
{
    free(i->root);
    free(i->left_out);
    free(i->damaged_example);
}
