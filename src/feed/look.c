/* Looking into array files: where their arrays lie. What is found out is a learnt record, so that a file is looked into once, whatever the
 * number of epochs, processes and starts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codec/array_format.h"
#include "feed/arrays.h"
#include "feed/feed.h"

struct open_file {
    int fd;
    uint64_t base;
};

static int read_file(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    const struct open_file *o = ctx;
    for (uint64_t got = 0; got < length;) {
        ssize_t n = pread(o->fd, (char *)out + got, length - got, (off_t)(o->base + offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(e, "read", errno, "read the file");
        if (n == 0)
            return error_set(e, FB_E_DATA, "read", "it ends at byte %llu, inside of its own structure", (unsigned long long)(offset + got));
        got += (uint64_t)n;
    }
    return 0;
}

struct bytes {
    const uint8_t *data;
    uint64_t size;
};

static int read_bytes(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    const struct bytes *b = ctx;
    if (offset > b->size || length > b->size - offset)
        return error_set(e, FB_E_DATA, "decode", "it ends at byte %llu, inside of its own structure", (unsigned long long)b->size);
    memcpy(out, b->data + offset, length);
    return 0;
}

static int describe(const struct array_source *s, struct array_file *out, struct fb_error *e)
{
    uint8_t head[ARRAY_PROBE_BYTES];
    uint64_t n = s->size < sizeof(head) ? s->size : sizeof(head);
    if (n == 0)
        return error_set(e, FB_E_DATA, "decode", "the file is empty");
    FB_TRY(s->read(s->ctx, 0, n, head, e));
    const struct array_ops *ops = array_find_format(head, n);
    if (!ops) {
        error_set(e, FB_E_DATA, "decode", "it is neither sound nor an array (HDF5, npy, npz, safetensors, WAV, FLAC, Ogg, AIFF, MP3)");
        error_remedy(e, "take it out of the data set");
        return FB_E_DATA;
    }
    return ops->describe(s, out, e);
}

int look_into_bytes(const uint8_t *bytes, size_t n, const char *path, bool allows_external, struct array_file *out, struct fb_error *e)
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

int look_into_file(const struct dataset *d, const struct catalog_sample *s, bool allows_external, struct array_file *out, struct fb_error *e)
{
    if (d->io)
        return error_set(e, FB_E_UNSUPPORTED, "read", "it lies in a bucket");
    struct open_file o = {openat(d->root_fd, s->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), s->offset};
    if (o.fd < 0)
        return error_set_errno(e, "read", errno, "open the file");
    char *path = full_path(d, s);
    struct array_source source = {.path = path, .size = s->length, .read = read_file, .ctx = &o, .allows_external = allows_external};
    int rc = describe(&source, out, e);
    free(path);
    close(o.fd);
    return rc;
}

void look_keep(struct feed *f, const struct catalog_sample *s, const struct array_file *file)
{
    struct learnt_identity id = {s->length, s->mtime_ns};
    size_t n = array_record_write(file, NULL, 0);
    uint8_t *record = n ? malloc(n) : NULL;
    if (record && array_record_write(file, record, n) == n)
        learnt_put(f->learnt, learnt_key(s->key), &id, record, n);
    free(record);
}

bool look_is_known(struct feed *f, const struct catalog_sample *s)
{
    struct learnt_identity id = {s->length, s->mtime_ns};
    struct scratch record = {0};
    size_t n = learnt_get(f->learnt, learnt_key(s->key), &id, &record);
    scratch_free(&record);
    return n > 0;
}

int look_at_file(struct feed *f, const struct catalog_sample *s, struct array_file *out, struct fb_error *e)
{
    struct learnt_identity id = {s->length, s->mtime_ns};
    uint64_t key = learnt_key(s->key);
    struct scratch record = {0};
    size_t n = f->learnt ? learnt_get(f->learnt, key, &id, &record) : 0;
    int rc = n ? array_record_read(out, record.data, n, s->length, NULL) : -1;
    scratch_free(&record);
    if (rc == 0)
        return 0;
    rc = f->dataset.io ? look_in_store(f, s, out, e) : look_into_file(&f->dataset, s, f->arrays->allows_external, out, e);
    if (rc < 0)
        error_at(e, s->key, -1);
    else if (f->learnt)
        look_keep(f, s, out);
    return rc;
}
