/* Laying out a catalog in memory: sections sized, filled, summed, and opened by the ordinary reader, which also gives the fingerprint. */
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/checksum.h"
#include "base/round_up.h"
#include "model/catalog/catalog_writer.h"
#include "model/catalog/fingerprint.h"

struct image_plan {
    struct catalog_writer *w;
    struct catalog_header header;
    uint8_t *map;
    uint64_t column[FB_MAX_FIELDS];
    uint32_t *class_at; /* label in the catalog -> number in the writer */
    int64_t *label_of;  /* the other way round */
    bool has_extents;
};

static void *section(struct image_plan *p, enum catalog_section_id id)
{
    return p->map + p->header.section[id].offset;
}

/* ---- sizes ---- */

static uint64_t size_values(struct image_plan *p)
{
    uint64_t end = 0;
    for (int i = 0; i < p->w->field_count; i++) {
        p->column[i] = end;
        end = round_up(end + p->w->count * catalog_field_bytes(&p->w->fields[i]), 8);
    }
    return end;
}

/* With objects (extents, further files), samples that are whole files become objects of their own, after the shared ones. */
static void size_places(struct image_plan *p)
{
    const struct catalog_writer *w = p->w;
    struct section_record *s = p->header.section;
    if (!p->has_extents) {
        s[SECTION_FILES].length = w->count * sizeof(struct file_record);
        return;
    }
    uint64_t objects = w->object_paths.count, path_bytes = w->object_paths.names.length;
    for (uint64_t i = 0; i < w->count; i++)
        if (!(writer_sample(w, i)->key & WRITER_IS_EXTENT)) {
            objects++;
            path_bytes += strlen(writer_key(w, i)) + 1;
        }
    s[SECTION_EXTENTS].length = w->count * sizeof(struct extent_record);
    s[SECTION_OBJECTS].length = objects * sizeof(struct object_record);
    s[SECTION_OBJECT_PATHS].length = path_bytes;
}

static uint64_t plan_sections(struct image_plan *p)
{
    const struct catalog_writer *w = p->w;
    struct section_record *s = p->header.section;
    s[SECTION_FIELDS].length = (uint64_t)w->field_count * sizeof(struct field_record);
    s[SECTION_CLASSES].length = w->classes.count * sizeof(uint64_t);
    s[SECTION_NOTES].length = w->notes.length;
    s[SECTION_DIRS].length = w->dirs.length;
    s[SECTION_STRINGS].length = w->classes.names.length + w->note_texts.length + w->dir_paths.length;
    s[SECTION_KEY_STARTS].length = (w->count + 1) * sizeof(uint64_t);
    s[SECTION_KEYS].length = w->keys.length;
    s[SECTION_VALUES].length = size_values(p);
    size_places(p);
    uint64_t body_bytes = 0;
    for (int i = 0; i < SECTION_COUNT; i++)
        body_bytes += round_up(s[i].length, 8);
    p->header.body = sizeof(p->header) + catalog_block_count(body_bytes) * sizeof(uint64_t);
    uint64_t at = p->header.body;
    for (int i = 0; i < SECTION_COUNT; i++) {
        s[i].offset = at;
        at += round_up(s[i].length, 8);
    }
    return at;
}

/* ---- contents ---- */

static int compare_classes(const void *a, const void *b, void *table)
{
    return strcmp(name_table_name(table, *(const uint32_t *)a), name_table_name(table, *(const uint32_t *)b));
}

static int number_classes(struct image_plan *p, struct fb_error *e)
{
    uint32_t n = p->w->classes.count;
    p->class_at = calloc(n + 1, sizeof(*p->class_at));
    p->label_of = calloc(n + 1, sizeof(*p->label_of));
    if (!p->class_at || !p->label_of)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for the classes");
    for (uint32_t i = 0; i < n; i++)
        p->class_at[i] = i;
    qsort_r(p->class_at, n, sizeof(*p->class_at), compare_classes, &p->w->classes);
    for (uint32_t i = 0; i < n; i++)
        p->label_of[p->class_at[i]] = i;
    return 0;
}

static void fill_fields(struct image_plan *p)
{
    struct field_record *out = section(p, SECTION_FIELDS);
    for (int i = 0; i < p->w->field_count; i++) {
        const struct catalog_field *f = &p->w->fields[i];
        strncpy(out[i].name, f->name, sizeof(out[i].name) - 1);
        out[i].dtype = (uint32_t)f->dtype;
        out[i].ndim = (uint32_t)f->ndim;
        out[i].is_class = f->is_class;
        bool is_last = i == p->w->field_count - 1;
        out[i].role = is_last && p->w->has_parts ? FIELD_PARTS : i >= p->w->field_count - p->w->file_count ? FIELD_FILE : FIELD_LABEL;
        out[i].shape = f->ndim ? (uint64_t)f->shape[0] : 0;
        out[i].column = p->column[i];
    }
}

static uint64_t put_text(uint8_t *strings, uint64_t at, const char *bytes, size_t n)
{
    if (n)
        memcpy(strings + at, bytes, n);
    return at + n;
}

static void fill_names(struct image_plan *p)
{
    const struct catalog_writer *w = p->w;
    uint8_t *strings = section(p, SECTION_STRINGS);
    uint64_t *classes = section(p, SECTION_CLASSES), at = 0;
    for (uint32_t i = 0; i < w->classes.count; i++) {
        const char *name = name_table_name(&w->classes, p->class_at[i]);
        classes[i] = at;
        at = put_text(strings, at, name, strlen(name) + 1);
    }
    struct note_record *notes = section(p, SECTION_NOTES);
    if (w->notes.length)
        memcpy(notes, w->notes.data, w->notes.length);
    for (uint64_t i = 0; i < w->notes.length / sizeof(*notes); i++) {
        notes[i].name += at;
        notes[i].text += at;
    }
    at = put_text(strings, at, w->note_texts.data, w->note_texts.length);
    struct dir_record *dirs = section(p, SECTION_DIRS);
    if (w->dirs.length)
        memcpy(dirs, w->dirs.data, w->dirs.length);
    for (uint64_t i = 0; i < w->dirs.length / sizeof(*dirs); i++)
        dirs[i].path += at;
    put_text(strings, at, w->dir_paths.data, w->dir_paths.length);
}

static void fill_keys(struct image_plan *p)
{
    uint64_t *starts = section(p, SECTION_KEY_STARTS), at = 0;
    uint8_t *keys = section(p, SECTION_KEYS);
    for (uint64_t i = 0; i < p->w->count; i++) {
        const char *key = writer_key(p->w, p->w->order[i]);
        starts[i] = at;
        at = put_text(keys, at, key, strlen(key) + 1);
    }
    starts[p->w->count] = at;
}

static void fill_files(struct image_plan *p)
{
    struct file_record *files = section(p, SECTION_FILES);
    for (uint64_t i = 0; i < p->w->count; i++) {
        const struct writer_sample *s = writer_sample(p->w, p->w->order[i]);
        files[i] = (struct file_record){s->length, s->mtime_ns};
    }
}

static void fill_extents(struct image_plan *p)
{
    const struct catalog_writer *w = p->w;
    const struct writer_extent *x = (const void *)w->extents.data;
    const struct writer_object *o = (const void *)w->objects.data;
    struct extent_record *extents = section(p, SECTION_EXTENTS);
    struct object_record *objects = section(p, SECTION_OBJECTS);
    uint8_t *paths = section(p, SECTION_OBJECT_PATHS);
    for (uint32_t i = 0; i < w->object_paths.count; i++)
        objects[i] = (struct object_record){w->object_paths.start[i], o[i].size, o[i].mtime_ns};
    uint64_t object = w->object_paths.count, at = put_text(paths, 0, w->object_paths.names.data, w->object_paths.names.length);
    for (uint64_t i = 0; i < w->count; i++) {
        const struct writer_sample *s = writer_sample(w, w->order[i]);
        if (s->key & WRITER_IS_EXTENT) {
            extents[i] = (struct extent_record){x[s->mtime_ns].offset, s->length, x[s->mtime_ns].object};
            continue;
        }
        const char *key = writer_key(w, w->order[i]);
        extents[i] = (struct extent_record){0, s->length, object};
        objects[object++] = (struct object_record){at, s->length, s->mtime_ns};
        at = put_text(paths, at, key, strlen(key) + 1);
    }
}

static int fill_class_column(struct image_plan *p, int field, struct fb_error *e)
{
    const struct catalog_writer *w = p->w;
    int64_t *out = (void *)((uint8_t *)section(p, SECTION_VALUES) + p->column[field]);
    for (uint64_t i = 0; i < w->count; i++) {
        int64_t number;
        memcpy(&number, w->rows.data + w->order[i] * w->row_bytes + w->field_offset[field], sizeof(number));
        if (number < 0 || number >= w->classes.count)
            return error_set(e, FB_E_USAGE, "dataset", "a sample has the label %lld, which is no class", (long long)number);
        out[i] = p->label_of[number];
    }
    return 0;
}

static int fill_values(struct image_plan *p, struct fb_error *e)
{
    const struct catalog_writer *w = p->w;
    for (int f = 0; f < w->field_count; f++) {
        if (f == w->class_field) {
            FB_TRY(fill_class_column(p, f, e));
            continue;
        }
        uint8_t *out = (uint8_t *)section(p, SECTION_VALUES) + p->column[f];
        size_t n = catalog_field_bytes(&w->fields[f]);
        for (uint64_t i = 0; i < w->count; i++)
            memcpy(out + i * n, w->rows.data + w->order[i] * w->row_bytes + w->field_offset[f], n);
    }
    return 0;
}

/* ---- sums ---- */

static void seal(struct image_plan *p)
{
    struct catalog_header *h = &p->header;
    uint64_t *sums = (void *)(p->map + sizeof(*h)), blocks = catalog_block_count(h->file_size - h->body);
    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t start = h->body + b * CATALOG_BLOCK;
        sums[b] = checksum_of(p->map + start, h->file_size - start < CATALOG_BLOCK ? h->file_size - start : CATALOG_BLOCK);
    }
    h->table_checksum = checksum_of(sums, blocks * sizeof(*sums));
    h->header_checksum = checksum_of(h, catalog_header_checksum_bytes());
    memcpy(p->map, h, sizeof(*h));
}

static int add_fingerprint(struct catalog *c, struct fb_error *e)
{
    struct fingerprint *f;
    FB_TRY(fingerprint_open(&f, c, e));
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < catalog_count(c); i++)
        rc = fingerprint_add(f, i, e);
    if (rc == 0)
        catalog_set_fingerprint(c, fingerprint_value(f));
    fingerprint_close(f);
    return rc;
}

static int lay_out(struct image_plan *p, struct catalog **out, struct fb_error *e)
{
    struct catalog_header *h = &p->header;
    FB_TRY(number_classes(p, e));
    h->file_size = plan_sections(p);
    p->map = memory_map(h->file_size);
    if (!p->map)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for a catalog of %llu bytes", (unsigned long long)h->file_size);
    fill_fields(p);
    fill_names(p);
    fill_keys(p);
    if (p->has_extents)
        fill_extents(p);
    else
        fill_files(p);
    FB_TRY(fill_values(p, e));
    seal(p);
    return catalog_adopt(p->map, h->file_size, NULL, out, e);
}

int catalog_image(struct catalog_writer *w, struct catalog **out, struct fb_error *e)
{
    struct image_plan p = {.w = w, .has_extents = w->object_paths.count > 0};
    memcpy(p.header.magic, CATALOG_MAGIC, sizeof(p.header.magic));
    p.header.version = CATALOG_VERSION;
    p.header.section_count = SECTION_COUNT;
    p.header.count = w->count;
    p.header.made_ns = w->made_ns;
    struct catalog *c = NULL;
    int rc = lay_out(&p, &c, e);
    free(p.class_at);
    free(p.label_of);
    if (rc < 0)
        memory_unmap(p.map, p.header.file_size);
    else if ((rc = add_fingerprint(c, e)) < 0)
        catalog_close(c);
    *out = rc < 0 ? NULL : c;
    return rc;
}
