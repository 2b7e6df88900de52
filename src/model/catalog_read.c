/* Reading a catalog in place.
 *
 * Two kinds of damage are met. Accidents (flipped bits, torn writes) are caught by the checksums: header and table at open, each block when
 * first touched. A file made to harm has right checksums and wrong numbers, so every position and length is also checked against its
 * section before use. The header and the fields are copied at open; what is validated there is not read again from the map.
 *
 * Limit: the file is mapped, so truncating it in place under a reader is a SIGBUS. Writers replace catalogs by rename, never in place.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "model/catalog_format.h"

struct catalog {
    uint8_t *map; /* read-only except for catalog_set_fingerprint */
    size_t size;
    char *path; /* for messages; NULL: in memory */
    struct catalog_header header;
    struct catalog_field fields[FB_MAX_FIELDS];
    uint64_t column[FB_MAX_FIELDS]; /* where the field's values start in VALUES */
    int field_count, class_field, class_count;
    const uint64_t *block_sum;
    /* One bit per block, set once its sum was found right. Relaxed: the block's bytes never change, so a bit carries no other data; two
     * threads that both see it unset both check, and set the same bit. */
    _Atomic uint64_t *is_checked;
};

static int damaged(const struct catalog *c, struct fb_error *e, int64_t offset, const char *what)
{
    error_set(e, FB_E_DATA, "dataset", "the catalog is damaged: %s", what);
    error_remedy(e, "remove it; it will be made anew");
    error_at(e, c->path, offset);
    return FB_E_DATA;
}

/* ---- blocks ---- */

static int check_block(const struct catalog *c, uint64_t block, struct fb_error *e)
{
    uint64_t start = c->header.body + block * CATALOG_BLOCK;
    uint64_t n = c->size - start < CATALOG_BLOCK ? c->size - start : CATALOG_BLOCK;
    if (checksum_of(c->map + start, n) != c->block_sum[block])
        return damaged(c, e, (int64_t)start, "a block does not match its checksum");
    atomic_fetch_or_explicit(&c->is_checked[block / 64], UINT64_C(1) << block % 64, memory_order_relaxed);
    return 0;
}

static int touch(const struct catalog *c, uint64_t offset, uint64_t n, struct fb_error *e)
{
    uint64_t first = (offset - c->header.body) / CATALOG_BLOCK, last = (offset + n - 1 - c->header.body) / CATALOG_BLOCK;
    for (uint64_t b = first; b <= last; b++) {
        uint64_t word = atomic_load_explicit(&c->is_checked[b / 64], memory_order_relaxed);
        if (!(word >> b % 64 & 1))
            FB_TRY(check_block(c, b, e));
    }
    return 0;
}

/* n > 0 checked bytes at `position` of a section, or NULL. */
static const void *bytes_at(const struct catalog *c, enum catalog_section_id id, uint64_t position, uint64_t n, struct fb_error *e)
{
    const struct section_record *s = &c->header.section[id];
    if (n > s->length || position > s->length - n) {
        damaged(c, e, (int64_t)s->offset, "a position lies outside its section");
        return NULL;
    }
    return touch(c, s->offset + position, n, e) < 0 ? NULL : c->map + s->offset + position;
}

/* A NUL-terminated string; the section's last byte is known to be NUL. */
static const char *string_at(const struct catalog *c, enum catalog_section_id id, uint64_t position, struct fb_error *e)
{
    const struct section_record *s = &c->header.section[id];
    if (position >= s->length) {
        damaged(c, e, (int64_t)s->offset, "a name lies outside its section");
        return NULL;
    }
    const char *name = (const char *)c->map + s->offset + position;
    return touch(c, s->offset + position, strlen(name) + 1, e) < 0 ? NULL : name;
}

static uint64_t entries(const struct catalog *c, enum catalog_section_id id, size_t entry_bytes)
{
    return c->header.section[id].length / entry_bytes;
}

/* ---- opening ---- */

static int check_header(const struct catalog *c, struct fb_error *e)
{
    const struct catalog_header *h = &c->header;
    if (memcmp(h->magic, CATALOG_MAGIC, sizeof(h->magic)) != 0)
        return damaged(c, e, 0, "it does not begin like a catalog");
    if (h->version != CATALOG_VERSION || h->section_count != SECTION_COUNT)
        return damaged(c, e, 8, "it is of another version");
    if (checksum_of(h, catalog_header_checksum_bytes()) != h->header_checksum)
        return damaged(c, e, 0, "the header does not match its checksum");
    if (h->file_size != c->size)
        return damaged(c, e, (int64_t)c->size, "it is cut off or too long");
    if (h->body < sizeof(*h) || h->body > c->size || h->body % 8 != 0)
        return damaged(c, e, 0, "the header is not sensible");
    if ((h->body - sizeof(*h)) / 8 != catalog_block_count(c->size - h->body))
        return damaged(c, e, 0, "the number of blocks is not sensible");
    for (int i = 0; i < SECTION_COUNT; i++) {
        const struct section_record *s = &h->section[i];
        if (s->offset < h->body || s->offset > c->size || s->length > c->size - s->offset || s->offset % 8 != 0)
            return damaged(c, e, 0, "a section lies outside the file");
    }
    return 0;
}

static int check_tables(const struct catalog *c, struct fb_error *e)
{
    const struct catalog_header *h = &c->header;
    uint64_t n = h->count;
    if (n > c->size / sizeof(uint64_t) - 1)
        return damaged(c, e, 0, "more samples than fit");
    bool has_extents = h->section[SECTION_EXTENTS].length != 0;
    if (h->section[SECTION_KEY_STARTS].length != (n + 1) * sizeof(uint64_t) ||
        h->section[SECTION_FILES].length != (has_extents ? 0 : n * sizeof(struct file_record)) ||
        h->section[SECTION_EXTENTS].length != (has_extents ? n * sizeof(struct extent_record) : 0))
        return damaged(c, e, 0, "a table does not have one row per sample");
    static const enum catalog_section_id texts[] = {SECTION_STRINGS, SECTION_OBJECT_PATHS};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t length = h->section[texts[i]].length;
        const char *last = length ? bytes_at(c, texts[i], length - 1, 1, e) : "";
        if (!last)
            return FB_E_DATA;
        if (*last)
            return damaged(c, e, (int64_t)h->section[texts[i]].offset, "a name has no end");
    }
    return 0;
}

bool catalog_field_is_valid(const struct catalog_field *f)
{
    if (fb_dtype_size(f->dtype) == 0 || f->ndim < 0 || f->ndim > 1 || !memchr(f->name, 0, sizeof(f->name)) || !f->name[0])
        return false;
    if (f->ndim == 1 && (f->shape[0] < 1 || f->shape[0] > CATALOG_MAX_VALUE_BYTES / (int64_t)fb_dtype_size(f->dtype)))
        return false;
    return !f->is_class || (f->dtype == FB_INT64 && f->ndim == 0);
}

static int read_field(struct catalog *c, int i, const struct field_record *r, struct fb_error *e)
{
    struct catalog_field *f = &c->fields[i];
    memcpy(f->name, r->name, sizeof(f->name));
    f->dtype = r->dtype <= FB_BOOL ? (enum fb_dtype)r->dtype : (enum fb_dtype)0;
    f->ndim = r->ndim <= 1 ? (int)r->ndim : -1;
    f->shape[0] = f->ndim == 1 && r->shape <= CATALOG_MAX_VALUE_BYTES ? (int64_t)r->shape : 0;
    f->is_class = r->is_class != 0;
    if (!catalog_field_is_valid(f) || (f->is_class && c->class_field >= 0))
        return damaged(c, e, (int64_t)c->header.section[SECTION_FIELDS].offset, "a field is not sensible");
    uint64_t bytes = catalog_field_bytes(f), room = c->header.section[SECTION_VALUES].length;
    if (r->column % 8 != 0 || r->column > room || c->header.count > (room - r->column) / bytes)
        return damaged(c, e, (int64_t)c->header.section[SECTION_FIELDS].offset, "a column lies outside the file");
    c->column[i] = r->column;
    if (f->is_class)
        c->class_field = i;
    return 0;
}

static int read_fields(struct catalog *c, struct fb_error *e)
{
    uint64_t n = entries(c, SECTION_FIELDS, sizeof(struct field_record));
    if (n > FB_MAX_FIELDS)
        return damaged(c, e, (int64_t)c->header.section[SECTION_FIELDS].offset, "too many fields");
    c->class_field = -1;
    for (int i = 0; i < (int)n; i++) {
        const struct field_record *r = bytes_at(c, SECTION_FIELDS, (uint64_t)i * sizeof(*r), sizeof(*r), e);
        if (!r)
            return FB_E_DATA;
        FB_TRY(read_field(c, i, r, e));
        c->field_count++;
    }
    return 0;
}

/* What the accessors without an error record return must be known to be right now. */
static int check_names(struct catalog *c, struct fb_error *e)
{
    uint64_t n = entries(c, SECTION_CLASSES, sizeof(uint64_t));
    if (n > INT_MAX || entries(c, SECTION_DIRS, sizeof(struct dir_record)) > INT_MAX)
        return damaged(c, e, 0, "too many classes or directories");
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t *name = bytes_at(c, SECTION_CLASSES, i * sizeof(*name), sizeof(*name), e);
        if (!name || !string_at(c, SECTION_STRINGS, *name, e))
            return FB_E_DATA;
    }
    c->class_count = (int)n;
    for (uint64_t i = 0; i < entries(c, SECTION_NOTES, sizeof(struct note_record)); i++) {
        const struct note_record *r = bytes_at(c, SECTION_NOTES, i * sizeof(*r), sizeof(*r), e);
        if (!r || !string_at(c, SECTION_STRINGS, r->name, e) || !string_at(c, SECTION_STRINGS, r->text, e))
            return FB_E_DATA;
    }
    return 0;
}

static int check_all(struct catalog *c, struct fb_error *e)
{
    if (c->size < sizeof(c->header))
        return damaged(c, e, (int64_t)c->size, "it is cut off");
    memcpy(&c->header, c->map, sizeof(c->header));
    FB_TRY(check_header(c, e));
    uint64_t blocks = catalog_block_count(c->size - c->header.body);
    c->block_sum = (const uint64_t *)(const void *)(c->map + sizeof(c->header));
    if (checksum_of(c->block_sum, blocks * sizeof(uint64_t)) != c->header.table_checksum)
        return damaged(c, e, sizeof(c->header), "the table of checksums does not match its own");
    c->is_checked = calloc(blocks / 64 + 1, sizeof(*c->is_checked));
    if (!c->is_checked)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to open a catalog");
    FB_TRY(check_tables(c, e));
    FB_TRY(read_fields(c, e));
    return check_names(c, e);
}

static void free_parts(struct catalog *c)
{
    free((void *)c->is_checked);
    free(c->path);
    free(c);
}

int catalog_adopt(void *map, size_t size, const char *path, struct catalog **out, struct fb_error *e)
{
    *out = NULL;
    struct catalog *c = calloc(1, sizeof(*c));
    char *copy = path ? strdup(path) : NULL;
    if (!c || (path && !copy)) {
        free(c);
        free(copy);
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to open a catalog");
    }
    c->map = map;
    c->size = size;
    c->path = copy;
    int rc = check_all(c, e);
    if (rc < 0)
        free_parts(c);
    else
        *out = c;
    return rc;
}

int catalog_open_fd(int fd, const char *path, struct catalog **out, struct fb_error *e)
{
    *out = NULL;
    struct stat st;
    int rc = fstat(fd, &st) < 0 ? error_set_errno(e, "dataset", errno, "stat the catalog") : 0;
    if (rc == 0 && (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct catalog_header))) {
        rc = error_set(e, FB_E_DATA, "dataset", "the catalog is damaged: it is cut off or not a file");
        error_remedy(e, "remove it; it will be made anew");
    }
    if (rc == 0) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            rc = error_set_errno(e, "dataset", errno, "map the catalog");
        else if ((rc = catalog_adopt(map, (size_t)st.st_size, path, out, e)) < 0)
            munmap(map, (size_t)st.st_size);
    }
    if (rc < 0)
        error_at(e, path, -1);
    return rc;
}

int catalog_open(const char *path, struct catalog **out, struct fb_error *e)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO in its place must not hang us */
    if (fd < 0) {
        int rc = error_set_errno(e, "dataset", errno, "open the catalog");
        error_at(e, path, -1);
        return rc;
    }
    int rc = catalog_open_fd(fd, path, out, e);
    close(fd);
    return rc;
}

void catalog_close(struct catalog *c)
{
    if (!c)
        return;
    munmap(c->map, c->size);
    free_parts(c);
}

const void *catalog_bytes(const struct catalog *c, size_t *size)
{
    *size = c->size;
    return c->map;
}

void catalog_set_fingerprint(struct catalog *c, uint64_t fingerprint)
{
    c->header.fingerprint = fingerprint;
    c->header.header_checksum = checksum_of(&c->header, catalog_header_checksum_bytes());
    memcpy(c->map, &c->header, sizeof(c->header));
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
    const uint64_t *start = bytes_at(c, SECTION_KEY_STARTS, i * sizeof(*start), 2 * sizeof(*start), e);
    if (!start)
        return NULL;
    if (start[1] <= start[0] || start[1] - start[0] > CATALOG_MAX_KEY + 1) {
        damaged(c, e, (int64_t)c->header.section[SECTION_KEY_STARTS].offset, "a key has no sensible length");
        return NULL;
    }
    size_t n = start[1] - start[0];
    const char *key = bytes_at(c, SECTION_KEYS, start[0], n, e);
    if (key && memchr(key, 0, n) != key + n - 1) {
        damaged(c, e, (int64_t)c->header.section[SECTION_KEYS].offset, "a key is not one string");
        return NULL;
    }
    return key;
}

static int read_extent(const struct catalog *c, uint64_t i, struct catalog_sample *out, struct fb_error *e)
{
    const struct extent_record *x = bytes_at(c, SECTION_EXTENTS, i * sizeof(*x), sizeof(*x), e);
    if (!x)
        return FB_E_DATA;
    if (x->object >= entries(c, SECTION_OBJECTS, sizeof(struct object_record)))
        return damaged(c, e, (int64_t)c->header.section[SECTION_EXTENTS].offset, "a sample lies in no object");
    const struct object_record *o = bytes_at(c, SECTION_OBJECTS, x->object * sizeof(*o), sizeof(*o), e);
    if (!o || !(out->object = string_at(c, SECTION_OBJECT_PATHS, o->path, e)))
        return FB_E_DATA;
    if (x->length > o->size || x->offset > o->size - x->length)
        return damaged(c, e, (int64_t)c->header.section[SECTION_EXTENTS].offset, "a sample lies outside its object");
    out->offset = x->offset;
    out->length = x->length;
    out->object_size = o->size;
    out->mtime_ns = o->mtime_ns;
    return 0;
}

int catalog_sample(const struct catalog *c, uint64_t i, struct catalog_sample *out, struct fb_error *e)
{
    out->key = out->object = catalog_key(c, i, e);
    if (!out->key)
        return FB_E_DATA;
    if (c->header.section[SECTION_EXTENTS].length)
        return read_extent(c, i, out, e);
    const struct file_record *f = bytes_at(c, SECTION_FILES, i * sizeof(*f), sizeof(*f), e);
    if (!f)
        return FB_E_DATA;
    out->offset = 0;
    out->length = out->object_size = f->length;
    out->mtime_ns = f->mtime_ns;
    return 0;
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
    const void *value = bytes_at(c, SECTION_VALUES, c->column[field] + i * n, n, e);
    if (!value || field != c->class_field)
        return value;
    int64_t label = *(const int64_t *)value;
    if (label >= 0 && label < c->class_count)
        return value;
    damaged(c, e, (int64_t)c->header.section[SECTION_VALUES].offset, "a label names no class");
    return NULL;
}

int catalog_class_count(const struct catalog *c)
{
    return c->class_count;
}

int catalog_class_field(const struct catalog *c)
{
    return c->class_field;
}

const char *catalog_class_name(const struct catalog *c, int label)
{
    if (label < 0 || label >= c->class_count)
        return NULL;
    const uint64_t *name = bytes_at(c, SECTION_CLASSES, (uint64_t)label * sizeof(*name), sizeof(*name), NULL);
    return name ? string_at(c, SECTION_STRINGS, *name, NULL) : NULL;
}

/* ---- the source ---- */

int catalog_dir_count(const struct catalog *c)
{
    return (int)entries(c, SECTION_DIRS, sizeof(struct dir_record));
}

int catalog_dir(const struct catalog *c, int i, const char **path, int64_t *mtime_ns, struct fb_error *e)
{
    assert(i >= 0 && i < catalog_dir_count(c));
    const struct dir_record *d = bytes_at(c, SECTION_DIRS, (uint64_t)i * sizeof(*d), sizeof(*d), e);
    if (!d || !(*path = string_at(c, SECTION_STRINGS, d->path, e)))
        return FB_E_DATA;
    *mtime_ns = d->mtime_ns;
    return 0;
}

const char *catalog_note(const struct catalog *c, const char *name)
{
    for (uint64_t i = 0; i < entries(c, SECTION_NOTES, sizeof(struct note_record)); i++) {
        const struct note_record *r = bytes_at(c, SECTION_NOTES, i * sizeof(*r), sizeof(*r), NULL);
        const char *found = r ? string_at(c, SECTION_STRINGS, r->name, NULL) : NULL;
        if (found && strcmp(found, name) == 0)
            return string_at(c, SECTION_STRINGS, r->text, NULL);
    }
    return NULL;
}
