/* Reading a catalog in place.
 *
 * Two kinds of damage are met. Accidents (flipped bits, torn writes) are caught by the checksums: header and table at open, each block when
 * first touched. A file made to harm has right checksums and wrong numbers, so every position and length is also checked against its
 * section before use. The header and the fields are copied at open; what is validated there is not read again from the map.
 *
 * Limit: a catalog's own file on a local disk is mapped, so truncating it in place under a reader is a SIGBUS. Writers replace catalogs by
 * rename, never in place. On a file server, where others may do what they like, it is read instead (catalog_open_fd).
 */
#include <string.h>

#include "base/checksum.h"
#include "model/catalog/catalog_reader.h"

int catalog_damaged(const struct catalog *c, struct fb_error *e, int64_t offset, const char *what)
{
    bool is_foreign = c->place.path;
    error_set(e, FB_E_DATA, "dataset", "the catalog is damaged: %s", what);
    error_remedy(e, is_foreign ? "fetch it again from where you trust it, or pack it anew" : "remove it; it will be made anew");
    error_at(e, c->path, offset + (int64_t)c->part_offset);
    return FB_E_DATA;
}

/* ---- blocks ---- */

static bool is_checked(const struct catalog *c, uint64_t block)
{
    return atomic_load_explicit(&c->is_checked[block / 64], memory_order_acquire) >> block % 64 & 1;
}

static int check_bytes(const struct catalog *c, uint64_t block, uint64_t start, uint64_t n, struct fb_error *e)
{
    if (checksum_of(c->map + start, n) != c->block_sum[block])
        return catalog_damaged(c, e, (int64_t)start, "a block does not match its checksum");
    atomic_fetch_or_explicit(&c->is_checked[block / 64], UINT64_C(1) << block % 64, memory_order_release);
    return 0;
}

static int check_block(const struct catalog *c, uint64_t block, struct fb_error *e)
{
    uint64_t start = c->header.body + block * CATALOG_BLOCK;
    uint64_t n = c->size - start < CATALOG_BLOCK ? c->size - start : CATALOG_BLOCK;
    if (c->part_fd < 0)
        return check_bytes(c, block, start, n, e);
    pthread_mutex_t *lock = (pthread_mutex_t *)&c->fill_lock;
    pthread_mutex_lock(lock);
    int rc = is_checked(c, block) ? 0 : catalog_fill(c, start, n, e);
    if (rc == 0 && !is_checked(c, block))
        rc = check_bytes(c, block, start, n, e);
    pthread_mutex_unlock(lock);
    return rc;
}

static int touch(const struct catalog *c, uint64_t offset, uint64_t n, struct fb_error *e)
{
    uint64_t first = (offset - c->header.body) / CATALOG_BLOCK, last = (offset + n - 1 - c->header.body) / CATALOG_BLOCK;
    for (uint64_t b = first; b <= last; b++)
        if (!is_checked(c, b))
            FB_TRY(check_block(c, b, e));
    return 0;
}

const void *catalog_bytes_at(const struct catalog *c, enum catalog_section_id id, uint64_t position, uint64_t n, struct fb_error *e)
{
    const struct section_record *s = &c->header.section[id];
    if (n > s->length || position > s->length - n) {
        catalog_damaged(c, e, (int64_t)s->offset, "a position lies outside its section");
        return NULL;
    }
    return touch(c, s->offset + position, n, e) < 0 ? NULL : c->map + s->offset + position;
}

const char *catalog_string_at(const struct catalog *c, enum catalog_section_id id, uint64_t position, struct fb_error *e)
{
    const struct section_record *s = &c->header.section[id];
    if (position >= s->length) {
        catalog_damaged(c, e, (int64_t)s->offset, "a name lies outside its section");
        return NULL;
    }
    const char *name = (const char *)c->map + s->offset + position;
    uint64_t at = s->offset + position, end = s->offset + s->length;
    while (at < end) { /* by blocks, since what was not touched may not be there yet */
        uint64_t rest = CATALOG_BLOCK - (at - c->header.body) % CATALOG_BLOCK, n = rest < end - at ? rest : end - at;
        if (touch(c, at, n, e) < 0)
            return NULL;
        if (memchr(c->map + at, 0, n))
            return name;
        at += n;
    }
    catalog_damaged(c, e, (int64_t)s->offset, "a name has no end");
    return NULL;
}

/* ---- samples ---- */

uint64_t catalog_count(const struct catalog *c)
{
    return c->header.count;
}

uint64_t catalog_fingerprint(const struct catalog *c)
{
    return c->header.fingerprint;
}

int64_t catalog_made_ns(const struct catalog *c)
{
    return c->header.made_ns;
}

const char *catalog_key(const struct catalog *c, uint64_t i, struct fb_error *e)
{
    assert(i < c->header.count);
    const uint64_t *start = catalog_bytes_at(c, SECTION_KEY_STARTS, i * sizeof(*start), 2 * sizeof(*start), e);
    if (!start)
        return NULL;
    if (start[1] <= start[0] || start[1] - start[0] > CATALOG_MAX_KEY + 1) {
        catalog_damaged(c, e, (int64_t)c->header.section[SECTION_KEY_STARTS].offset, "a key has an impossible length");
        return NULL;
    }
    size_t n = start[1] - start[0];
    const char *key = catalog_bytes_at(c, SECTION_KEYS, start[0], n, e);
    if (key && memchr(key, 0, n) != key + n - 1) {
        catalog_damaged(c, e, (int64_t)c->header.section[SECTION_KEYS].offset, "a key is not one string");
        return NULL;
    }
    return key;
}

static int read_extent(const struct catalog *c, uint64_t i, struct catalog_sample *out, struct fb_error *e)
{
    const struct extent_record *x = catalog_bytes_at(c, SECTION_EXTENTS, i * sizeof(*x), sizeof(*x), e);
    if (!x)
        return FB_E_DATA;
    if (x->object >= catalog_entries(c, SECTION_OBJECTS, sizeof(struct object_record)))
        return catalog_damaged(c, e, (int64_t)c->header.section[SECTION_EXTENTS].offset, "a sample lies in no object");
    const struct object_record *o = catalog_bytes_at(c, SECTION_OBJECTS, x->object * sizeof(*o), sizeof(*o), e);
    if (!o || !(out->object = catalog_string_at(c, SECTION_OBJECT_PATHS, o->path, e)))
        return FB_E_DATA;
    uint64_t end = c->place.path ? c->place.end : o->size;
    if (x->length > end || x->offset > end - x->length)
        return catalog_damaged(c, e, (int64_t)c->header.section[SECTION_EXTENTS].offset, "a sample lies outside its object");
    out->offset = x->offset;
    out->length = x->length;
    out->object_size = o->size;
    out->mtime_ns = o->mtime_ns;
    if (c->place.path) {
        out->object = c->place.path;
        out->object_size = c->place.size;
        out->mtime_ns = c->place.mtime_ns;
    }
    return 0;
}

int catalog_sample(const struct catalog *c, uint64_t i, struct catalog_sample *out, struct fb_error *e)
{
    out->key = out->object = catalog_key(c, i, e);
    if (!out->key)
        return FB_E_DATA;
    if (c->header.section[SECTION_EXTENTS].length)
        return read_extent(c, i, out, e);
    const struct file_record *f = catalog_bytes_at(c, SECTION_FILES, i * sizeof(*f), sizeof(*f), e);
    if (!f)
        return FB_E_DATA;
    out->offset = 0;
    out->length = out->object_size = f->length;
    out->mtime_ns = f->mtime_ns;
    return 0;
}

/* ---- further files ---- */

int catalog_file_count(const struct catalog *c)
{
    return c->file_count;
}

const char *catalog_file_name(const struct catalog *c, int file)
{
    assert(file >= 0 && file < c->file_count);
    return c->fields[c->field_count + file].name;
}

/* The object as a sample of its own. */
static int read_object(const struct catalog *c, uint64_t number, struct catalog_sample *out, struct fb_error *e)
{
    if (number >= catalog_entries(c, SECTION_OBJECTS, sizeof(struct object_record)))
        return catalog_damaged(c, e, (int64_t)c->header.section[SECTION_VALUES].offset, "a file of a sample is no object");
    const struct object_record *o = catalog_bytes_at(c, SECTION_OBJECTS, number * sizeof(*o), sizeof(*o), e);
    const char *path = o ? catalog_string_at(c, SECTION_OBJECT_PATHS, o->path, e) : NULL;
    if (!path)
        return FB_E_DATA;
    *out = (struct catalog_sample){path, path, 0, o->size, o->size, o->mtime_ns};
    return 0;
}

int catalog_file(const struct catalog *c, uint64_t i, int file, struct catalog_sample *out, struct fb_error *e)
{
    assert(i < c->header.count && file >= 0 && file < c->file_count);
    const int64_t *number = catalog_bytes_at(c, SECTION_VALUES, c->column[c->field_count + file] + i * sizeof(*number), sizeof(*number), e);
    return number ? read_object(c, (uint64_t)*number, out, e) : FB_E_DATA; /* a negative one is too large */
}

/* ---- parts ---- */

bool catalog_has_parts(const struct catalog *c)
{
    return c->has_parts;
}

int catalog_part_count(const struct catalog *c, uint64_t i, uint64_t *out, struct fb_error *e)
{
    assert(i < c->header.count);
    *out = 1;
    if (!c->has_parts)
        return 0;
    const int64_t *number = catalog_bytes_at(c, SECTION_VALUES, c->column[c->field_count] + i * sizeof(*number), sizeof(*number), e);
    if (!number)
        return FB_E_DATA;
    if (*number < 1 || (uint64_t)*number > catalog_entries(c, SECTION_OBJECTS, sizeof(struct object_record)))
        return catalog_damaged(c, e, (int64_t)c->header.section[SECTION_VALUES].offset, "a sample has more parts than there are files");
    *out = (uint64_t)*number;
    return 0;
}

int catalog_part(const struct catalog *c, uint64_t i, uint64_t part, struct catalog_sample *out, struct fb_error *e)
{
    if (!c->has_parts)
        return catalog_sample(c, i, out, e);
    const struct extent_record *x = catalog_bytes_at(c, SECTION_EXTENTS, i * sizeof(*x), sizeof(*x), e);
    return x ? read_object(c, x->object + part, out, e) : FB_E_DATA;
}

/* ---- fields ---- */

int catalog_field_count(const struct catalog *c)
{
    return c->field_count;
}

const struct catalog_field *catalog_field(const struct catalog *c, int field)
{
    assert(field >= 0 && field < c->field_count);
    return &c->fields[field];
}

size_t catalog_field_bytes(const struct catalog_field *f)
{
    return fb_dtype_size(f->dtype) * (f->ndim == 1 ? (size_t)f->shape[0] : 1);
}

const void *catalog_value(const struct catalog *c, uint64_t i, int field, struct fb_error *e)
{
    assert(i < c->header.count && field >= 0 && field < c->field_count);
    size_t n = catalog_field_bytes(&c->fields[field]);
    const void *value = catalog_bytes_at(c, SECTION_VALUES, c->column[field] + i * n, n, e);
    if (!value || field != c->class_field)
        return value;
    int64_t label = *(const int64_t *)value;
    if (label >= 0 && label < c->class_count)
        return value;
    catalog_damaged(c, e, (int64_t)c->header.section[SECTION_VALUES].offset, "a label names no class");
    return NULL;
}

int catalog_class_count(const struct catalog *c)
{
    return c->class_count;
}

bool catalog_is_one_object(const struct catalog *c)
{
    return catalog_entries(c, SECTION_OBJECTS, sizeof(struct object_record)) == 1;
}

int catalog_class_field(const struct catalog *c)
{
    return c->class_field;
}

const char *catalog_class_name(const struct catalog *c, int label)
{
    if (label < 0 || label >= c->class_count)
        return NULL;
    const uint64_t *name = catalog_bytes_at(c, SECTION_CLASSES, (uint64_t)label * sizeof(*name), sizeof(*name), NULL);
    return name ? catalog_string_at(c, SECTION_STRINGS, *name, NULL) : NULL;
}

/* ---- the source ---- */

int catalog_dir_count(const struct catalog *c)
{
    return (int)catalog_entries(c, SECTION_DIRS, sizeof(struct dir_record));
}

int catalog_dir(const struct catalog *c, int i, const char **path, int64_t *mtime_ns, struct fb_error *e)
{
    assert(i >= 0 && i < catalog_dir_count(c));
    const struct dir_record *d = catalog_bytes_at(c, SECTION_DIRS, (uint64_t)i * sizeof(*d), sizeof(*d), e);
    if (!d || !(*path = catalog_string_at(c, SECTION_STRINGS, d->path, e)))
        return FB_E_DATA;
    *mtime_ns = d->mtime_ns;
    return 0;
}

const char *catalog_note(const struct catalog *c, const char *name)
{
    if (c->place.path && (!c->place.note || strcmp(name, c->place.note) != 0))
        return NULL;
    for (uint64_t i = 0; i < catalog_entries(c, SECTION_NOTES, sizeof(struct note_record)); i++) {
        const struct note_record *r = catalog_bytes_at(c, SECTION_NOTES, i * sizeof(*r), sizeof(*r), NULL);
        const char *found = r ? catalog_string_at(c, SECTION_STRINGS, r->name, NULL) : NULL;
        if (found && strcmp(found, name) == 0)
            return catalog_string_at(c, SECTION_STRINGS, r->text, NULL);
    }
    return NULL;
}
