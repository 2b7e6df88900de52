/* Opening a catalog: everything that can be known to be right without reading its samples is checked here, once.
 *
 * That is the header, the table of block sums, the sizes of all sections, the fields, and the names of classes and notes (whose accessors
 * have no way to fail). The cost depends on the number of classes, not of samples.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/file/file_kind.h"
#include "model/catalog/catalog_reader.h"

static int check_header(const struct catalog *c, struct fb_error *e)
{
    const struct catalog_header *h = &c->header;
    if (memcmp(h->magic, CATALOG_MAGIC, sizeof(h->magic)) != 0)
        return catalog_damaged(c, e, 0, "it does not begin with the signature of a catalog");
    if (h->version != CATALOG_VERSION || h->section_count != SECTION_COUNT)
        return catalog_damaged(c, e, 8, "it is of another version");
    if (checksum_of(h, catalog_header_checksum_bytes()) != h->header_checksum)
        return catalog_damaged(c, e, 0, "the header does not match its checksum");
    if (h->file_size != c->size)
        return catalog_damaged(c, e, (int64_t)c->size, "it is cut off or too long");
    if (h->body < sizeof(*h) || h->body > c->size || h->body % 8 != 0)
        return catalog_damaged(c, e, 0, "the header is invalid");
    if ((h->body - sizeof(*h)) / 8 != catalog_block_count(c->size - h->body))
        return catalog_damaged(c, e, 0, "the number of blocks is invalid");
    for (int i = 0; i < SECTION_COUNT; i++) {
        const struct section_record *s = &h->section[i];
        if (s->offset < h->body || s->offset > c->size || s->length > c->size - s->offset || s->offset % 8 != 0)
            return catalog_damaged(c, e, 0, "a section lies outside the file");
    }
    return 0;
}

static int check_tables(const struct catalog *c, struct fb_error *e)
{
    const struct catalog_header *h = &c->header;
    uint64_t n = h->count;
    if (n > c->size / sizeof(uint64_t) - 1)
        return catalog_damaged(c, e, 0, "more samples than fit");
    bool has_extents = h->section[SECTION_EXTENTS].length != 0;
    if (h->section[SECTION_KEY_STARTS].length != (n + 1) * sizeof(uint64_t) ||
        h->section[SECTION_FILES].length != (has_extents ? 0 : n * sizeof(struct file_record)) ||
        h->section[SECTION_EXTENTS].length != (has_extents ? n * sizeof(struct extent_record) : 0))
        return catalog_damaged(c, e, 0, "a table does not have one row per sample");
    static const enum catalog_section_id texts[] = {SECTION_STRINGS, SECTION_OBJECT_PATHS};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t length = h->section[texts[i]].length;
        const char *last = length ? catalog_bytes_at(c, texts[i], length - 1, 1, e) : "";
        if (!last)
            return FB_E_DATA;
        if (*last)
            return catalog_damaged(c, e, (int64_t)h->section[texts[i]].offset, "a name has no end");
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
        return catalog_damaged(c, e, (int64_t)c->header.section[SECTION_FIELDS].offset, "a field is invalid");
    uint64_t bytes = catalog_field_bytes(f), room = c->header.section[SECTION_VALUES].length;
    if (r->column % 8 != 0 || r->column > room || c->header.count > (room - r->column) / bytes)
        return catalog_damaged(c, e, (int64_t)c->header.section[SECTION_FIELDS].offset, "a column lies outside the file");
    c->column[i] = r->column;
    bool is_number = f->dtype == FB_INT64 && !f->ndim && !f->is_class;
    if (r->role > FIELD_PARTS || c->has_parts || (r->role == FIELD_LABEL ? c->file_count > 0 : !is_number) ||
        (r->role == FIELD_PARTS && (c->file_count > 0 || !c->header.section[SECTION_EXTENTS].length)))
        return catalog_damaged(c, e, (int64_t)c->header.section[SECTION_FIELDS].offset, "a field of files is invalid");
    c->file_count += r->role == FIELD_FILE;
    c->has_parts = r->role == FIELD_PARTS;
    if (f->is_class)
        c->class_field = i;
    return 0;
}

static int read_fields(struct catalog *c, struct fb_error *e)
{
    uint64_t n = catalog_entries(c, SECTION_FIELDS, sizeof(struct field_record));
    if (n > FB_MAX_FIELDS)
        return catalog_damaged(c, e, (int64_t)c->header.section[SECTION_FIELDS].offset, "too many fields");
    c->class_field = -1;
    for (int i = 0; i < (int)n; i++) {
        const struct field_record *r = catalog_bytes_at(c, SECTION_FIELDS, (uint64_t)i * sizeof(*r), sizeof(*r), e);
        if (!r)
            return FB_E_DATA;
        FB_TRY(read_field(c, i, r, e));
        c->field_count++;
    }
    c->field_count -= c->file_count + c->has_parts;
    return 0;
}

/* What the accessors without an error record return must be known to be right now. */
static int check_names(struct catalog *c, struct fb_error *e)
{
    uint64_t n = catalog_entries(c, SECTION_CLASSES, sizeof(uint64_t));
    if (n > INT_MAX || catalog_entries(c, SECTION_DIRS, sizeof(struct dir_record)) > INT_MAX)
        return catalog_damaged(c, e, 0, "too many classes or directories");
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t *name = catalog_bytes_at(c, SECTION_CLASSES, i * sizeof(*name), sizeof(*name), e);
        if (!name || !catalog_string_at(c, SECTION_STRINGS, *name, e))
            return FB_E_DATA;
    }
    c->class_count = (int)n;
    for (uint64_t i = 0; i < catalog_entries(c, SECTION_NOTES, sizeof(struct note_record)); i++) {
        const struct note_record *r = catalog_bytes_at(c, SECTION_NOTES, i * sizeof(*r), sizeof(*r), e);
        if (!r || !catalog_string_at(c, SECTION_STRINGS, r->name, e) || !catalog_string_at(c, SECTION_STRINGS, r->text, e))
            return FB_E_DATA;
    }
    return 0;
}

static int check_all(struct catalog *c, struct fb_error *e)
{
    if (c->size < sizeof(c->header))
        return catalog_damaged(c, e, (int64_t)c->size, "it is cut off");
    memcpy(&c->header, c->map, sizeof(c->header));
    FB_TRY(check_header(c, e));
    uint64_t blocks = catalog_block_count(c->size - c->header.body);
    c->block_sum = (const uint64_t *)(const void *)(c->map + sizeof(c->header));
    if (checksum_of(c->block_sum, blocks * sizeof(uint64_t)) != c->header.table_checksum)
        return catalog_damaged(c, e, sizeof(c->header), "the table of checksums does not match its own");
    c->is_checked = calloc(blocks / 64 + 1, sizeof(*c->is_checked));
    if (!c->is_checked)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to open a catalog");
    FB_TRY(check_tables(c, e));
    FB_TRY(read_fields(c, e));
    return check_names(c, e);
}

static void free_parts(struct catalog *c)
{
    if (c->part_fd >= 0)
        close(c->part_fd);
    pthread_mutex_destroy(&c->fill_lock);
    free(c->place.path);
    free((void *)c->is_checked);
    free(c->path);
    free(c);
}

static struct catalog *new_catalog(void *map, size_t size, const char *path, struct fb_error *e)
{
    struct catalog *c = calloc(1, sizeof(*c));
    char *copy = path ? strdup(path) : NULL;
    if (!c || (path && !copy)) {
        free(c);
        free(copy);
        error_set(e, FB_E_NOMEM, "dataset", "no memory to open a catalog");
        return NULL;
    }
    c->map = map;
    c->size = size;
    c->path = copy;
    c->part_fd = -1;
    pthread_mutex_init(&c->fill_lock, NULL);
    return c;
}

static int check_new(struct catalog *c, struct catalog **out, struct fb_error *e)
{
    int rc = check_all(c, e);
    if (rc < 0)
        free_parts(c);
    else
        *out = c;
    return rc;
}

int catalog_adopt(void *map, size_t size, const char *path, struct catalog **out, struct fb_error *e)
{
    *out = NULL;
    struct catalog *c = new_catalog(map, size, path, e);
    return c ? check_new(c, out, e) : FB_E_NOMEM;
}

/* ---- a part of a larger file ---- */

int catalog_fill(const struct catalog *c, uint64_t start, uint64_t n, struct fb_error *e)
{
    size_t got = file_read_all_at(c->part_fd, c->map + start, n, c->part_offset + start);
    if (got == n)
        return 0;
    if (errno)
        return error_set_errno(e, "dataset", errno, "read the catalog");
    return catalog_damaged(c, e, (int64_t)(start + got), "its file became shorter");
}

/* The header and the table of sums; all else comes when it is touched. */
static int fill_head(struct catalog *c, struct fb_error *e)
{
    if (c->size < sizeof(struct catalog_header))
        return 0; /* check_all will say so */
    FB_TRY(catalog_fill(c, 0, sizeof(struct catalog_header), e));
    const struct catalog_header *h = (const void *)c->map;
    bool is_sensible = h->body > sizeof(*h) && h->body <= c->size;
    return is_sensible ? catalog_fill(c, sizeof(*h), h->body - sizeof(*h), e) : 0;
}

/* What somebody else's catalog may say: where in the pack its samples are, and nothing about other files. */
static int check_foreign(const struct catalog *c, struct fb_error *e)
{
    const struct catalog_header *h = &c->header;
    if (h->section[SECTION_EXTENTS].length == 0 && h->count)
        return catalog_damaged(c, e, 0, "its samples are files outside of the pack");
    if (catalog_entries(c, SECTION_OBJECTS, sizeof(struct object_record)) > 1)
        return catalog_damaged(c, e, (int64_t)h->section[SECTION_OBJECTS].offset, "it refers to files outside of the pack");
    if (c->file_count || c->has_parts)
        return catalog_damaged(c, e, (int64_t)h->section[SECTION_FIELDS].offset, "its samples have further files, which no pack has");
    if (h->section[SECTION_DIRS].length)
        return catalog_damaged(c, e, (int64_t)h->section[SECTION_DIRS].offset, "it refers to directories, which no pack has");
    return 0;
}

static int open_part(int fd, uint64_t offset, uint64_t length, const struct catalog_place *place, const char *path, struct catalog **out,
                     struct fb_error *e)
{
    *out = NULL;
    void *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to open a catalog of %llu bytes", (unsigned long long)length);
    struct catalog *c = new_catalog(map, length, path, e);
    if (!c) {
        munmap(map, length);
        return FB_E_NOMEM;
    }
    c->part_offset = offset;
    c->part_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    c->place = *place;
    c->place.path = strdup(place->path);
    int rc = c->part_fd < 0  ? error_set_errno(e, "dataset", errno, "keep the file of a catalog open")
             : c->place.path ? fill_head(c, e)
                             : error_set(e, FB_E_NOMEM, "dataset", "no memory to open a catalog");
    if (rc < 0)
        free_parts(c);
    else
        rc = check_new(c, out, e);
    if (rc < 0)
        munmap(map, length);
    return rc;
}

int catalog_open_part(int fd, uint64_t offset, uint64_t length, const struct catalog_place *place, const char *path, struct catalog **out,
                      struct fb_error *e)
{
    *out = NULL;
    int rc = length ? open_part(fd, offset, length, place, path, out, e) : error_set(e, FB_E_DATA, "dataset", "the catalog is empty");
    if (rc == 0 && (rc = check_foreign(*out, e)) < 0) {
        catalog_close(*out);
        *out = NULL;
    }
    if (rc < 0)
        error_at(e, path, -1);
    return rc;
}

/* ---- a file of its own ---- */

/* A mapped page that cannot be read is a signal: another client of a file server may cut the file off or replace it while it is mapped.
 * All of it is read at once, because later the server may not know the file any more (ESTALE). */
int catalog_open_read(int fd, size_t size, const char *path, struct catalog **out, struct fb_error *e)
{
    *out = NULL;
    uint8_t *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to read a catalog of %zu bytes", size);
    int rc = file_read_all_at(fd, map, size, 0) == size ? 0
             : errno                                    ? error_set_errno(e, "dataset", errno, "read the catalog")
                                                        : error_set(e, FB_E_IO, "dataset", "the catalog became shorter while it was read");
    if (rc == 0)
        rc = catalog_adopt(map, size, path, out, e);
    if (rc < 0)
        munmap(map, size);
    return rc;
}

static int open_mapped(int fd, size_t size, const char *path, struct catalog **out, struct fb_error *e)
{
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return error_set_errno(e, "dataset", errno, "map the catalog");
    int rc = catalog_adopt(map, size, path, out, e);
    if (rc < 0)
        munmap(map, size);
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
    if (rc == 0)
        rc = file_is_remote(fd) ? catalog_open_read(fd, (size_t)st.st_size, path, out, e)
                                : open_mapped(fd, (size_t)st.st_size, path, out, e);
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
