#include "model/catalog/fingerprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"

enum { CLASS_TAG = 0, FILE_TAG = 255 }; /* in place of a dtype, which is neither */

struct fingerprint {
    const struct catalog *catalog;
    struct checksum *sum;
    uint64_t count;
};

int fingerprint_open(struct fingerprint **out, const struct catalog *c, struct fb_error *e)
{
    *out = NULL;
    struct fingerprint *f = calloc(1, sizeof(*f));
    struct checksum *sum = checksum_open();
    if (!f || !sum) {
        free(f);
        checksum_close(sum);
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for a fingerprint");
    }
    f->catalog = c;
    f->sum = sum;
    *out = f;
    return 0;
}

/* Length before content, so that no two sequences of pieces read the same. */
static void add_piece(struct fingerprint *f, uint8_t tag, const void *bytes, size_t n)
{
    uint8_t head[9] = {tag};
    for (int i = 0; i < 8; i++)
        head[1 + i] = (uint8_t)((uint64_t)n >> (8 * i));
    checksum_add(f->sum, head, sizeof(head));
    checksum_add(f->sum, bytes, n);
}

static int add_value(struct fingerprint *f, uint64_t sample, int field, struct fb_error *e)
{
    const struct catalog_field *info = catalog_field(f->catalog, field);
    const void *value = catalog_value(f->catalog, sample, field, e);
    if (!value)
        return FB_E_DATA;
    if (!info->is_class) {
        add_piece(f, (uint8_t)info->dtype, value, catalog_field_bytes(info));
        return 0;
    }
    int64_t label;
    memcpy(&label, value, sizeof(label));
    const char *name = catalog_class_name(f->catalog, (int)label); /* in range: catalog_value checks class labels */
    add_piece(f, CLASS_TAG, name, strlen(name));
    return 0;
}

static int add_file(struct fingerprint *f, uint64_t sample, int file, struct fb_error *e)
{
    struct catalog_sample s;
    FB_TRY(catalog_file(f->catalog, sample, file, &s, e));
    add_piece(f, FILE_TAG, s.key, strlen(s.key));
    return 0;
}

static int add_parts(struct fingerprint *f, uint64_t sample, struct fb_error *e)
{
    uint64_t count;
    FB_TRY(catalog_part_count(f->catalog, sample, &count, e));
    for (uint64_t i = 0; i < count; i++) {
        struct catalog_sample s;
        FB_TRY(catalog_part(f->catalog, sample, i, &s, e));
        add_piece(f, FILE_TAG, s.key, strlen(s.key));
    }
    return 0;
}

int fingerprint_add(struct fingerprint *f, uint64_t sample, struct fb_error *e)
{
    const char *key = catalog_key(f->catalog, sample, e);
    if (!key)
        return FB_E_DATA;
    int fields = catalog_field_count(f->catalog);
    add_piece(f, (uint8_t)fields, key, strlen(key));
    for (int i = 0; i < fields; i++)
        FB_TRY(add_value(f, sample, i, e));
    for (int i = 0; i < catalog_file_count(f->catalog); i++)
        FB_TRY(add_file(f, sample, i, e));
    if (catalog_has_parts(f->catalog))
        FB_TRY(add_parts(f, sample, e));
    f->count++;
    return 0;
}

uint64_t fingerprint_value(const struct fingerprint *f)
{
    uint64_t sum = checksum_value(f->sum);
    uint8_t both[16];
    for (int i = 0; i < 8; i++) {
        both[i] = (uint8_t)(f->count >> (8 * i));
        both[8 + i] = (uint8_t)(sum >> (8 * i));
    }
    return checksum_of(both, sizeof(both));
}

void fingerprint_close(struct fingerprint *f)
{
    if (!f)
        return;
    checksum_close(f->sum);
    free(f);
}
