/* Probing array files: where their arrays lie. The result is kept as a learnt record, so a file is probed once, however many epochs,
 * processes and starts follow. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "codec/array/array_format.h"
#include "dataset/catalog_keep.h"
#include "feed/arrays.h"
#include "feed/feed.h"

struct open_file {
    int fd;
    uint64_t base;
};

static int read_file(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    const struct open_file *o = ctx;
    uint64_t got = file_read_all_at(o->fd, out, length, o->base + offset);
    if (got == length)
        return 0;
    if (errno)
        return error_set_errno(e, "read", errno, "read the file");
    return error_set(e, FB_E_DATA, "read", "the file is truncated at byte %llu", (unsigned long long)(offset + got));
}

struct bytes {
    const uint8_t *data;
    uint64_t size;
};

static int read_bytes(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    const struct bytes *b = ctx;
    if (offset > b->size || length > b->size - offset)
        return error_set(e, FB_E_DATA, "decode", "the file is truncated at byte %llu", (unsigned long long)b->size);
    memcpy(out, b->data + offset, length);
    return 0;
}

static int describe(const struct array_source *s, struct array_file *out, struct fb_error *e)
{
    const struct array_ops *ops;
    FB_TRY(array_find_source(s, &ops, e));
    if (!ops) {
        error_set(e, FB_E_DATA, "decode",
                  "it is neither sound nor an array (HDF5, npy, npz, safetensors, WAV, FLAC, Ogg, MP3, AIFF, AU, CAF, W64)");
        error_remedy(e, "take it out of the data set");
        return FB_E_DATA;
    }
    return ops->describe(s, out, e);
}

int probe_bytes(const uint8_t *bytes, size_t n, const char *path, bool allows_external, struct array_file *out, struct fb_error *e)
{
    struct bytes b = {bytes, n};
    struct array_source s = {.path = path, .size = n, .read = read_bytes, .ctx = &b, .allows_external = allows_external};
    return describe(&s, out, e);
}

/* The whole path, for readers in another process; NULL: only a part of a larger file, or no memory. */
static char *full_path(const struct dataset *d, const struct catalog_sample *s)
{
    char *path = NULL;
    if (s->offset != 0 || s->length != s->object_size)
        return NULL;
    if (s->object[0] == '/')
        return strdup(s->object);
    return asprintf(&path, "%s/%s", d->root, s->object) < 0 ? NULL : path;
}

int probe_read_rows(struct feed *f, const struct probed_file *o, const struct array_layout *l, uint64_t first, uint64_t rows, void *out,
                    struct fb_error *e)
{
    const struct array_ops *ops = array_format_by_name(o->file->format);
    if (!ops || !ops->read_rows) {
        error_set(e, FB_E_UNSUPPORTED, "decode", "'%s' cannot be read: %s", l->name, l->why_opaque);
        error_remedy(e, "leave it out of fields=");
        return FB_E_UNSUPPORTED;
    }
    struct bytes b = {o->bytes, o->file->object_size};
    struct open_file open = {o->fd, o->seen->offset};
    char *path = o->bytes ? NULL : full_path(&f->dataset, o->seen);
    struct array_source s = {.path = path, .size = b.size, .allows_external = arrays_of(f)->allows_external};
    s.read = o->bytes ? read_bytes : read_file;
    s.ctx = o->bytes ? (void *)&b : &open;
    int rc = ops->read_rows(&s, l, first, rows, out, e);
    free(path);
    if (rc < 0)
        error_at(e, o->seen->key, -1);
    return rc < 0 || o->bytes ? rc : probe_check_named(f, o->seen, o->fd, e);
}

static int describe_open(const struct dataset *d, const struct catalog_sample *s, int fd, bool allows_external, struct array_file *out,
                         struct fb_error *e)
{
    struct open_file o = {fd, s->offset};
    char *path = full_path(d, s);
    struct array_source source = {.path = path, .size = s->length, .read = read_file, .ctx = &o, .allows_external = allows_external};
    int rc = describe(&source, out, e);
    free(path);
    return rc;
}

static int open_file(const struct dataset *d, const struct catalog_sample *s, struct fb_error *e)
{
    int fd = openat(d->root_fd, s->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? error_set_errno(e, "read", errno, "open the file") : fd;
}

int probe_file_alone(const struct dataset *d, const struct catalog_sample *s, bool allows_external, struct array_file *out,
                     struct fb_error *e)
{
    if (d->io)
        return error_set(e, FB_E_UNSUPPORTED, "read", "it lies in a bucket");
    int fd = open_file(d, s, e);
    if (fd < 0)
        return fd;
    int rc = describe_open(d, s, fd, allows_external, out, e);
    close(fd);
    return rc;
}

/* ---- one identity from the beginning to the end ---- */

static bool is_whole(const struct catalog_sample *s)
{
    return s->offset == 0 && s->length == s->object_size;
}

int probe_stat(const struct catalog_sample *s, int fd, struct catalog_sample *seen, struct fb_error *e)
{
    struct stat st;
    *seen = *s;
    if (fstat(fd, &st) < 0)
        return error_set_errno(e, "read", errno, "look at the file");
    if (!S_ISREG(st.st_mode))
        return error_set(e, FB_E_DATA, "read", "it is not a regular file");
    if (!is_whole(s))
        return 0;
    seen->length = seen->object_size = (uint64_t)st.st_size;
    seen->mtime_ns = keep_mtime_ns(&st);
    return 0;
}

static int refuse_changed(struct feed *f, const struct catalog_sample *seen, struct fb_error *e)
{
    atomic_fetch_add_explicit(&f->changed, 1, memory_order_relaxed);
    error_set(e, FB_E_DATA, "read", "it was changed while it was read");
    error_remedy(e, "leave the file alone while it is being read; replace it by renaming a new one");
    error_at(e, seen->key, -1);
    return FB_E_DATA;
}

static bool is_as_seen(const struct catalog_sample *seen, const struct stat *st)
{
    return !is_whole(seen) || ((uint64_t)st->st_size == seen->length && keep_mtime_ns(st) == seen->mtime_ns);
}

int probe_check_unchanged(struct feed *f, const struct catalog_sample *seen, int fd, struct fb_error *e)
{
    struct stat st;
    return fstat(fd, &st) < 0 || is_as_seen(seen, &st) ? 0 : refuse_changed(f, seen, e);
}

int probe_check_named(struct feed *f, const struct catalog_sample *seen, int fd, struct fb_error *e)
{
    struct stat open, named;
    bool is_same = fstat(fd, &open) == 0 && fstatat(f->dataset.root_fd, seen->object, &named, 0) == 0 && open.st_dev == named.st_dev &&
                   open.st_ino == named.st_ino && is_as_seen(seen, &open);
    return is_same ? 0 : refuse_changed(f, seen, e);
}

/* ---- with what was learnt ---- */

static bool is_sound(const struct array_file *file)
{
    const struct array_layout *l = &file->array[0];
    return l->rate && l->ndim <= 2 && !l->is_fortran && (l->storage == ARRAY_CONTIGUOUS || l->storage == ARRAY_OPAQUE);
}

int probe_check_kind(const struct feed *f, const char *key, const struct array_file *file, struct fb_error *e)
{
    bool wants_sound = arrays_of(f)->is_sound;
    if (file->count == 0 || is_sound(file) == wants_sound)
        return 0;
    error_set(e, FB_E_DATA, "decode", wants_sound ? "it holds arrays (%s), not sound" : "it holds sound (%s), not arrays", file->format);
    error_remedy(e, "take it out of the data set, or open files of its kind alone");
    error_at(e, key, -1);
    return FB_E_DATA;
}

void probe_keep(struct feed *f, const struct catalog_sample *s, const struct array_file *file)
{
    struct learnt_identity id = {s->length, s->mtime_ns};
    size_t n = array_record_write(file, NULL, 0);
    uint8_t *record = n ? malloc(n) : NULL;
    if (record && array_record_write(file, record, n) == n)
        learnt_put(f->learnt, learnt_key(s->key), &id, record, n);
    free(record);
}

/* False: nothing is known of the file as it is. */
static bool recall(struct feed *f, const struct catalog_sample *s, struct array_file *out)
{
    struct learnt_identity id = {s->length, s->mtime_ns};
    struct scratch record = {0};
    size_t n = f->learnt ? learnt_get(f->learnt, learnt_key(s->key), &id, &record) : 0;
    bool is_known = n && array_record_read(out, record.data, n, s->length, NULL) == 0;
    scratch_free(&record);
    return is_known;
}

bool probe_is_known(struct feed *f, const struct catalog_sample *s)
{
    struct learnt_identity id = {s->length, s->mtime_ns};
    struct scratch record = {0};
    size_t n = learnt_get(f->learnt, learnt_key(s->key), &id, &record);
    scratch_free(&record);
    return n > 0;
}

/* Looks, and keeps what was found if the file stayed the same meanwhile. */
static int look_anew(struct feed *f, const struct catalog_sample *s, int fd, struct array_file *out, struct fb_error *e)
{
    FB_TRY(describe_open(&f->dataset, s, fd, arrays_of(f)->allows_external, out, e));
    int rc = probe_check_named(f, s, fd, e); /* a format's reader in another process opens the name again */
    if (rc < 0)
        array_file_free(out);
    else if (f->learnt)
        probe_keep(f, s, out);
    return rc;
}

static int check_found(const struct feed *f, const struct catalog_sample *s, int rc, struct array_file *out, struct fb_error *e)
{
    if (rc == 0 && (rc = probe_check_kind(f, s->key, out, e)) < 0)
        array_file_free(out);
    if (rc < 0)
        error_at(e, s->key, -1);
    return rc;
}

int probe_open_array(struct feed *f, const struct catalog_sample *s, int fd, struct array_file *out, struct fb_error *e)
{
    int rc = recall(f, s, out) ? 0 : look_anew(f, s, fd, out, e);
    return check_found(f, s, rc, out, e);
}

static int open_and_look(struct feed *f, const struct catalog_sample *s, struct array_file *out, struct fb_error *e)
{
    struct catalog_sample seen;
    int fd = open_file(&f->dataset, s, e);
    if (fd < 0)
        return fd;
    int rc = probe_stat(s, fd, &seen, e);
    if (rc == 0)
        rc = look_anew(f, &seen, fd, out, e);
    close(fd);
    return rc;
}

static int look_through_feed(struct feed *f, const struct catalog_sample *s, struct array_file *out, struct fb_error *e)
{
    if (!f->dataset.io)
        return open_and_look(f, s, out, e);
    FB_TRY(probe_in_store(f, s, out, e));
    if (f->learnt)
        probe_keep(f, s, out);
    return 0;
}

int probe_array_file(struct feed *f, const struct catalog_sample *s, struct array_file *out, struct fb_error *e)
{
    int rc = recall(f, s, out) ? 0 : look_through_feed(f, s, out, e);
    return check_found(f, s, rc, out, e);
}
