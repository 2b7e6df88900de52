/* "null": bytes at once, from nowhere; to measure everything but reading, and to feed decoders one real image over and over.
 *
 *   size=N     every object is N bytes (default: as large as expected)
 *   file=PATH  every object is this file, read at open
 *   now=0      answers try_now with IO_BLOCKED, so that the hand-over is measured too
 *
 * Without file= byte i of an object is a fixed function of i: io_null_byte.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "io/file/file_read.h"
#include "io/io_count.h"
#include "io/io_list.h"
#include "io/wrap/io_null.h"
#include "io/io_shared.h"

enum { PATTERN_BYTES = 1 << 16, FILE_MAX = 1 << 30 };

struct null_io {
    struct io io;
    struct io_count count;
    uint8_t *data; /* the file, or the pattern, repeated */
    uint64_t data_size;
    uint64_t size; /* of every object, if has_size */
    bool has_size, is_now;
};

struct null_options {
    uint64_t size;
    const char *file;
    bool is_now;
};

static const struct option options[] = {
    {"size", OPTION_SIZE, offsetof(struct null_options, size), 0, 0, NULL, "SIZE", "bytes of every object (default: as large as expected)"},
    {"file", OPTION_STRING, offsetof(struct null_options, file), 0, 0, NULL, "PATH", "every object is this file"},
    {"now", OPTION_FLAG, offsetof(struct null_options, is_now), 0, 0, NULL, NULL, "0: never on the caller's thread (default 1)"},
    {0},
};

uint8_t io_null_byte(uint64_t i)
{
    return (uint8_t)rng_mix(0x6e756c6c, i % PATTERN_BYTES);
}

static void copy_out(const struct null_io *n, uint8_t *to, uint64_t offset, uint64_t bytes)
{
    while (bytes > 0) {
        uint64_t at = offset % n->data_size;
        uint64_t part = n->data_size - at < bytes ? n->data_size - at : bytes;
        memcpy(to, n->data + at, part);
        to += part;
        offset += part;
        bytes -= part;
    }
}

static int serve(const struct null_io *n, struct io_request *r)
{
    FB_TRY(io_file_check(r));
    bool is_whole = r->length == IO_WHOLE;
    uint64_t size = n->has_size ? n->size : is_whole ? r->expected_size : r->offset + r->length;
    uint64_t from = is_whole ? 0 : r->offset < size ? r->offset : size;
    uint64_t bytes = is_whole || r->length > size - from ? size - from : r->length;
    r->object_size = size;
    if (!r->has_fd && bytes > r->capacity - IO_TAIL)
        return r->status = IO_GREW;
    copy_out(n, r->buffer, from, bytes);
    r->got = bytes;
    return r->status = 0;
}

static void null_submit(struct io *io, struct io_request *r, bool more)
{
    (void)more;
    struct null_io *n = (struct null_io *)io;
    io_count_begin(&n->count, r);
    serve(n, r);
    io_count_end(&n->count, r);
    io_done_here(r);
}

static int null_try_now(struct io *io, struct io_request *r)
{
    struct null_io *n = (struct null_io *)io;
    if (!n->is_now)
        return IO_BLOCKED;
    r->submitted_ns = clock_now_ns();
    int rc = serve(n, r);
    r->done_ns = clock_now_ns();
    io_count_add(&n->count, r);
    return rc;
}

static void null_figures(struct io *io, struct io_figures *f)
{
    io_count_figures(&((struct null_io *)io)->count, f);
}

static uint32_t null_close(struct io *io, uint64_t timeout_ns)
{
    (void)timeout_ns;
    struct null_io *n = (struct null_io *)io;
    free(n->data);
    free(n);
    return 0;
}

static int fill_pattern(struct null_io *n, struct fb_error *e)
{
    n->data = io_alloc(PATTERN_BYTES, e);
    if (!n->data)
        return FB_E_NOMEM;
    n->data_size = PATTERN_BYTES;
    for (uint64_t i = 0; i < PATTERN_BYTES; i++)
        n->data[i] = io_null_byte(i);
    return 0;
}

static int read_file(struct null_io *n, const char *path, struct fb_error *e)
{
    struct stat s;
    if (stat(path, &s) != 0)
        return error_set_errno(e, "read", errno, "read the file of null:file=");
    if (!S_ISREG(s.st_mode) || s.st_size == 0 || s.st_size > FILE_MAX)
        return error_set(e, FB_E_USAGE, "read", "null: file= wants a regular file of 1 byte to 1 GiB");
    struct io_request r = {.dir_fd = AT_FDCWD, .path = path, .length = IO_WHOLE, .capacity = (size_t)s.st_size + IO_TAIL, .error = e};
    r.buffer = n->data = io_alloc(r.capacity, e);
    if (!n->data)
        return FB_E_NOMEM;
    FB_TRY(io_file_read(&r));
    if (r.status != 0 || r.got == 0)
        return error_set(e, FB_E_IO, "read", "null: the file of file= changes while being read");
    n->data_size = n->size = r.got;
    n->has_size = true;
    return 0;
}

static int null_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    (void)log;
    struct io_spec s;
    struct null_options o = {.size = UINT64_MAX, .is_now = true};
    FB_TRY(io_spec_split(&s, "null", spec, e));
    FB_TRY(io_spec_options(options, &o, "null", s.text, e));
    if (o.file && o.size != UINT64_MAX)
        return error_set(e, FB_E_USAGE, "read", "null: size= and file= exclude each other");
    struct null_io *n = io_alloc(sizeof(*n), e);
    if (!n)
        return FB_E_NOMEM;
    *n = (struct null_io){.io.ops = &io_null, .size = o.size, .has_size = o.size != UINT64_MAX, .is_now = o.is_now};
    n->count.depth = depth;
    int rc = o.file ? read_file(n, o.file, e) : fill_pattern(n, e);
    if (rc < 0) {
        error_at(e, o.file, -1);
        null_close(&n->io, 0);
        return rc;
    }
    *out = &n->io;
    return 0;
}

const struct io_ops io_null = {
    .name = "null",
    .open = null_open,
    .submit = null_submit,
    .try_now = null_try_now,
    .figures = null_figures,
    .close = null_close,
};
