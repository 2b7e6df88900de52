/* Collecting samples and putting the finished catalog in its place.
 *
 * A file is written under a unique name in the same directory, fsynced, renamed over the old one, and the directory fsynced: whoever opens
 * the path at any moment, or after a crash, finds the old catalog or the new one, whole. Writers of the same path do not know of each
 * other; the last rename wins.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file/file.h"
#include "model/catalog/catalog_save.h"
#include "model/catalog/catalog_writer.h"

#define MOST_BYTES ((size_t)1 << 42)

static int no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "dataset", "no memory for the catalog");
}

static int64_t wall_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int catalog_writer_open(struct catalog_writer **out, struct fb_error *e)
{
    struct catalog_writer *w = *out = calloc(1, sizeof(*w));
    if (!w)
        return no_memory(e);
    w->made_ns = wall_clock_ns();
    w->class_field = -1;
    struct text *const arrays[] = {&w->samples, &w->keys,      &w->rows,  &w->extents,   &w->objects,
                                   &w->dirs,    &w->dir_paths, &w->notes, &w->note_texts};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        arrays[i]->limit = MOST_BYTES;
    return 0;
}

void catalog_writer_discard(struct catalog_writer *w)
{
    if (!w)
        return;
    struct text *const arrays[] = {&w->samples, &w->keys,      &w->rows,  &w->extents,   &w->objects,
                                   &w->dirs,    &w->dir_paths, &w->notes, &w->note_texts};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        text_free(arrays[i]);
    name_table_free(&w->object_paths);
    name_table_free(&w->classes);
    free(w->order);
    free(w);
}

static bool push(struct text *array, const void *entry, size_t n)
{
    text_append(array, entry, n);
    return !array->failed;
}

/* Appends a string with its NUL; *start is where. */
static bool push_string(struct text *strings, const char *s, uint64_t *start)
{
    *start = strings->length;
    return push(strings, s, strlen(s) + 1);
}

/* ---- what comes in ---- */

static int add_field(struct catalog_writer *w, const struct catalog_field *f, struct fb_error *e)
{
    if (w->count > 0)
        return error_set(e, FB_E_USAGE, "dataset", "a field is added after the first sample");
    if (w->field_count == FB_MAX_FIELDS)
        return error_set(e, FB_E_USAGE, "dataset", "there can be at most %d label fields", FB_MAX_FIELDS);
    if (!catalog_field_is_valid(f))
        return error_set(e, FB_E_USAGE, "dataset", "a label field has an unusable name, type or shape");
    for (int i = 0; i < w->field_count; i++)
        if (strcmp(w->fields[i].name, f->name) == 0)
            return error_set(e, FB_E_USAGE, "dataset", "two label fields are called '%s'", f->name);
    if (f->is_class && w->class_field >= 0)
        return error_set(e, FB_E_USAGE, "dataset", "'%s' and '%s' are both class fields; there can be one", w->fields[w->class_field].name,
                         f->name);
    if (f->is_class)
        w->class_field = w->field_count;
    w->field_offset[w->field_count] = w->row_bytes;
    w->row_bytes += catalog_field_bytes(f);
    w->fields[w->field_count++] = *f;
    return 0;
}

int catalog_add_field(struct catalog_writer *w, const struct catalog_field *f, struct fb_error *e)
{
    return w->file_count || w->has_parts ? error_set(e, FB_E_USAGE, "dataset", "a label field is added after one of files")
                                         : add_field(w, f, e);
}

int catalog_add_file_field(struct catalog_writer *w, const char *name, struct fb_error *e)
{
    struct catalog_field f = {.dtype = FB_INT64};
    if (w->has_parts)
        return error_set(e, FB_E_USAGE, "dataset", "samples have parts or further files, not both");
    strncpy(f.name, name, sizeof(f.name) - 1);
    FB_TRY(add_field(w, &f, e));
    w->file_count++;
    return 0;
}

int catalog_add_parts_field(struct catalog_writer *w, struct fb_error *e)
{
    if (w->file_count || w->has_parts)
        return error_set(e, FB_E_USAGE, "dataset", "samples have parts or further files, not both");
    FB_TRY(add_field(w, &(struct catalog_field){.name = "number of parts", .dtype = FB_INT64}, e));
    w->has_parts = true;
    return 0;
}

int catalog_add_class(struct catalog_writer *w, const char *name, struct fb_error *e)
{
    int64_t label = name_table_add(&w->classes, name, NULL);
    return label < 0 ? no_memory(e) : (int)label;
}

int catalog_add_fields_of(struct catalog_writer *w, const struct catalog *like, struct fb_error *e)
{
    for (int i = 0; i < catalog_field_count(like); i++)
        FB_TRY(catalog_add_field(w, catalog_field(like, i), e));
    for (int i = 0; i < catalog_class_count(like); i++)
        FB_TRY(catalog_add_class(w, catalog_class_name(like, i), e));
    return 0;
}

/* The number of the object with that path; a new one if need be. */
static int64_t add_object(struct catalog_writer *w, const char *path, uint64_t size, int64_t mtime_ns, struct fb_error *e)
{
    bool is_new;
    int64_t object = name_table_add(&w->object_paths, path, &is_new);
    struct writer_object o = {size, mtime_ns};
    return object < 0 || (is_new && !push(&w->objects, &o, sizeof(o))) ? no_memory(e) : object;
}

int64_t catalog_add_file(struct catalog_writer *w, const char *path, uint64_t size, int64_t mtime_ns, struct fb_error *e)
{
    size_t n = strlen(path);
    if (n == 0 || n > CATALOG_MAX_KEY)
        return error_set(e, FB_E_DATA, "dataset", "a path of %zu bytes cannot be catalogued", n);
    return add_object(w, path, size, mtime_ns, e);
}

static int add_extent(struct catalog_writer *w, const struct catalog_sample *s, struct writer_sample *entry, struct fb_error *e)
{
    if (s->length > s->object_size || s->offset > s->object_size - s->length)
        return error_set(e, FB_E_USAGE, "dataset", "a sample lies outside its object");
    int64_t object = add_object(w, s->object, s->object_size, s->mtime_ns, e);
    if (object < 0)
        return (int)object;
    struct writer_extent x = {s->offset, (uint64_t)object};
    entry->key |= WRITER_IS_EXTENT;
    entry->mtime_ns = (int64_t)(w->extents.length / sizeof(x));
    return push(&w->extents, &x, sizeof(x)) ? 0 : no_memory(e);
}

static bool is_whole_file(const struct catalog_sample *s)
{
    return s->offset == 0 && s->length == s->object_size && (!s->object || strcmp(s->object, s->key) == 0);
}

int catalog_add_sample(struct catalog_writer *w, const struct catalog_sample *s, const void *const *values, struct fb_error *e)
{
    size_t key_length = strlen(s->key);
    if (key_length == 0 || key_length > CATALOG_MAX_KEY)
        return error_set(e, FB_E_DATA, "dataset", "a path of %zu bytes cannot be catalogued", key_length);
    struct writer_sample entry = {.length = s->length, .mtime_ns = s->mtime_ns};
    if (!push_string(&w->keys, s->key, &entry.key))
        return no_memory(e);
    if (w->has_parts || !is_whole_file(s))
        FB_TRY(add_extent(w, s, &entry, e));
    for (int i = 0; i < w->field_count; i++)
        if (!push(&w->rows, values[i], catalog_field_bytes(&w->fields[i])))
            return no_memory(e);
    if (!push(&w->samples, &entry, sizeof(entry)))
        return no_memory(e);
    w->count++;
    free(w->order);
    w->order = NULL;
    return 0;
}

int catalog_add_dir(struct catalog_writer *w, const char *path, int64_t mtime_ns, struct fb_error *e)
{
    struct dir_record d = {.mtime_ns = mtime_ns};
    return push_string(&w->dir_paths, path, &d.path) && push(&w->dirs, &d, sizeof(d)) ? 0 : no_memory(e);
}

int catalog_add_note(struct catalog_writer *w, const char *name, const char *text, struct fb_error *e)
{
    struct note_record r;
    return push_string(&w->note_texts, name, &r.name) && push_string(&w->note_texts, text, &r.text) && push(&w->notes, &r, sizeof(r))
               ? 0
               : no_memory(e);
}

/* ---- order ---- */

/* Ties by arrival, so that duplicates are named in the order they came. */
static int compare_keys(const void *a, const void *b, void *writer)
{
    uint64_t i = *(const uint64_t *)a, j = *(const uint64_t *)b;
    int by_key = strcmp(writer_key(writer, i), writer_key(writer, j));
    return by_key ? by_key : i < j ? -1 : i > j;
}

static int sort(struct catalog_writer *w, struct fb_error *e)
{
    w->order = malloc((w->count + 1) * sizeof(*w->order));
    if (!w->order)
        return no_memory(e);
    for (uint64_t i = 0; i < w->count; i++)
        w->order[i] = i;
    qsort_r(w->order, w->count, sizeof(*w->order), compare_keys, w);
    w->duplicate[0] = w->duplicate[1] = 0;
    for (uint64_t i = 1; i < w->count; i++)
        if (strcmp(writer_key(w, w->order[i - 1]), writer_key(w, w->order[i])) == 0) {
            w->duplicate[0] = w->order[i - 1];
            w->duplicate[1] = w->order[i];
            break;
        }
    return 0;
}

int catalog_writer_sort(struct catalog_writer *w, uint64_t *first, uint64_t *second, struct fb_error *e)
{
    if (!w->order)
        FB_TRY(sort(w, e));
    *first = w->duplicate[0];
    *second = w->duplicate[1];
    return 0;
}

const char *catalog_writer_key(const struct catalog_writer *w, uint64_t i)
{
    return writer_key(w, i);
}

/* ---- into its place ---- */

static int sync_fd(int fd, struct fb_error *e)
{
    return file_sync(fd, NULL) < 0 ? error_set_errno(e, "dataset", errno, "fsync the catalog") : 0;
}

static int sync_directory_of(const char *path, struct fb_error *e)
{
    char *copy = strdup(path);
    if (!copy)
        return no_memory(e);
    char *slash = strrchr(copy, '/');
    if (slash)
        slash[slash == copy ? 1 : 0] = 0;
    int fd = open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd < 0)
        return error_set_errno(e, "dataset", errno, "open the directory of the catalog");
    int rc = sync_fd(fd, e);
    close(fd);
    return rc;
}

/* *opened maps the very file that was written, even if another writer's rename comes right after ours. */
static int write_and_rename(const void *bytes, size_t n, char *temporary, const char *path, struct catalog **opened, struct fb_error *e)
{
    int fd = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
    if (fd < 0)
        return error_set_errno(e, "dataset", errno, "make a file for the catalog");
    int rc = file_write_all(fd, bytes, n, NULL) < 0 ? error_set_errno(e, "dataset", errno, "write the catalog") : 0;
    if (rc == 0)
        rc = sync_fd(fd, e);
    if (rc == 0)
        rc = catalog_open_fd(fd, path, opened, e);
    if (rc == 0 && rename(temporary, path) < 0)
        rc = error_set_errno(e, "dataset", errno, "rename the catalog into its place");
    close(fd);
    if (rc < 0)
        unlink(temporary);
    return rc < 0 ? rc : sync_directory_of(path, e);
}

int catalog_save(struct catalog **c, const char *path, struct fb_error *e)
{
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.tmp.XXXXXX", path) < 0)
        return no_memory(e);
    struct catalog *opened = NULL;
    size_t n;
    const void *bytes = catalog_bytes(*c, &n);
    int rc = write_and_rename(bytes, n, temporary, path, &opened, e);
    free(temporary);
    if (rc < 0) {
        error_at(e, path, -1);
        catalog_close(opened);
        return rc;
    }
    catalog_close(*c);
    *c = opened;
    return 0;
}

static int refuse_duplicates(struct catalog_writer *w, struct fb_error *e)
{
    uint64_t first, second;
    FB_TRY(catalog_writer_sort(w, &first, &second, e));
    if (first == second)
        return 0;
    error_set(e, FB_E_DATA, "dataset", "two samples have the same key (numbers %llu and %llu as they came)", (unsigned long long)first,
              (unsigned long long)second);
    error_at(e, writer_key(w, first), -1);
    return FB_E_DATA;
}

int catalog_finish(struct catalog_writer *w, const char *path, struct catalog **out, struct fb_error *e)
{
    struct catalog *c = NULL;
    int rc = refuse_duplicates(w, e);
    if (rc == 0)
        rc = catalog_image(w, &c, e);
    catalog_writer_discard(w);
    if (rc == 0 && path)
        rc = catalog_save(&c, path, e);
    if (rc < 0 || !out) {
        catalog_close(c);
        c = NULL;
    }
    if (out)
        *out = c;
    return rc;
}
