#include "jobs/info.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "codec/codec.h"
#include "dataset/dataset.h"

enum { LOOKS = 256, HEAD_BYTES = 1 << 20 };

static void count_format(struct info *i, const char *name)
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

static int read_head(const struct dataset *d, const struct catalog_sample *s, uint8_t *buffer, size_t *n, struct fb_error *e)
{
    int fd = openat(d->root_fd, s->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return error_set_errno(e, "read", errno, "open it");
    size_t wanted = s->length < HEAD_BYTES ? s->length : HEAD_BYTES;
    ssize_t got = pread(fd, buffer, wanted, (off_t)s->offset);
    int rc = got < 0 ? error_set_errno(e, "read", errno, "read it") : 0;
    close(fd);
    *n = got < 0 ? 0 : (size_t)got;
    return rc;
}

static int read_header(const struct dataset *d, const struct catalog_sample *s, uint8_t *buffer, struct image_header *h,
                       const struct codec_ops **codec, struct fb_error *e)
{
    size_t n;
    FB_TRY(read_head(d, s, buffer, &n, e));
    if (n == s->length)
        return codec_header(buffer, n, h, codec, e);
    int rc = codec_header_part(buffer, n, h, codec, e);
    return rc == 1 ? error_set(e, FB_E_DATA, "info", "its header does not end within the first %zu bytes", n) : rc;
}

static void note_damaged(struct info *i, const char *key, struct fb_error *e)
{
    count_format(i, "damaged");
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

static void look_at_headers(const struct dataset *d, struct info *i, uint8_t *buffer)
{
    uint32_t width[LOOKS], height[LOOKS];
    int seen = 0;
    uint64_t stride = i->samples / LOOKS + 1;
    for (uint64_t k = 0; k < i->samples && i->looked < LOOKS; k += stride) {
        struct catalog_sample s;
        struct fb_error e;
        struct image_header h;
        const struct codec_ops *codec;
        error_clear(&e);
        if (catalog_sample(d->catalog, k, &s, &e) < 0)
            return;
        i->looked++;
        if (read_header(d, &s, buffer, &h, &codec, &e) < 0) {
            note_damaged(i, s.key, &e);
            continue;
        }
        count_format(i, codec->name);
        width[seen] = h.width;
        height[seen++] = h.height;
    }
    if (!seen)
        return;
    qsort(width, (size_t)seen, sizeof(width[0]), by_value);
    qsort(height, (size_t)seen, sizeof(height[0]), by_value);
    i->width_median = width[seen / 2];
    i->height_median = height[seen / 2];
    i->width_most = width[seen - 1];
    i->height_most = height[seen - 1];
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
}

static int describe(const struct dataset *d, struct info *i, struct fb_error *e)
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
    uint8_t *buffer = malloc(HEAD_BYTES);
    if (!buffer)
        return error_set(e, FB_E_NOMEM, "info", "no memory to read headers");
    look_at_headers(d, i, buffer);
    free(buffer);
    return 0;
}

int info_of(const fb_options *o, struct info *out, struct fb_error *e)
{
    memset(out, 0, sizeof(*out));
    struct dataset d;
    struct dataset_request r = {.source = o->source, .catalog_dir = o->catalog_dir, .progress = o->progress, .interrupted = o->interrupted,
                                .ctx = o->ctx, .log = {o->log, o->ctx}};
    uint64_t since = clock_now_ns();
    FB_TRY(dataset_open(&d, &r, e));
    out->open_seconds = (double)(clock_now_ns() - since) / 1e9;
    int rc = describe(&d, out, e);
    dataset_close(&d);
    return rc;
}

void info_free(struct info *i)
{
    free(i->root);
    free(i->left_out);
    free(i->damaged_example);
}
