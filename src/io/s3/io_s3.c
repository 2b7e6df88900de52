/* "s3": objects of a bucket. Small ones by one GET, large ones by ranges of 8 MiB that are fetched side by side.
 *
 *   s3:[option=value,...]url=s3://bucket/prefix      paths are relative to the prefix; "" is the object of that name
 *
 * All parts of a read belong to one version of the object: the first part that is there says which, later ones ask for it (If-Match) and
 * every answer is compared, so a server that ignores If-Match changes nothing. A server that sends the whole object for a range, or whose
 * answers do not tell versions apart, is read in one piece.
 *
 * Safety: `lock` guards the spare reads; a read belongs to its submitter until it is handed to the loop, then to the loop's thread.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file/file_read.h"
#include "io/io_count.h"
#include "io/io_list.h"
#include "io/io_shared.h"
#include "io/s3/loop/s3_figures.h"

enum { KEY_BYTES = 1025, MOST_PARTS = 1 << 16 };

struct s3_io {
    struct io io;
    struct io_count count;
    unsigned forks; /* at open */
    struct s3_loop *loop;
    uint64_t part_bytes;
    _Atomic bool has_nameless; /* relaxed: a hint. Parts of this server's objects cannot be told apart by version */
    pthread_mutex_t lock;
    struct s3_read *spare;
};

/* One request under way. */
struct s3_read {
    struct s3_io *io;
    struct io_request *r;
    struct s3_read *next;
    struct s3_task one;   /* of a read in one part: no allocation */
    struct s3_task *part; /* &one, or an array */
    uint32_t part_count, open;
    uint64_t length; /* bytes wanted */
    bool is_whole, is_in_one, has_pin, has_no_ranges;
    struct s3_version pin;
    uint64_t end; /* of the object as a part beyond it was told; S3_UNKNOWN: none was */
    int status;
    char key[KEY_BYTES];
};

/* ---- reads ---- */

static struct s3_read *take_read(struct s3_io *io)
{
    pthread_mutex_lock(&io->lock);
    struct s3_read *d = io->spare;
    if (d)
        io->spare = d->next;
    pthread_mutex_unlock(&io->lock);
    return d ? d : calloc(1, sizeof(*d));
}

static void give_read(struct s3_io *io, struct s3_read *d)
{
    if (d->part != &d->one)
        free(d->part);
    d->part = NULL;
    pthread_mutex_lock(&io->lock);
    d->next = io->spare;
    io->spare = d;
    pthread_mutex_unlock(&io->lock);
}

static int refuse_path(struct io_request *r, const char *cause)
{
    r->got = 0;
    r->status = error_set(r->error, FB_E_USAGE, "read", "%s", cause);
    error_at(r->error, r->path, -1);
    return r->status;
}

static int make_key(const struct s3_place *p, struct io_request *r, char out[KEY_BYTES])
{
    size_t n = strlen(p->bucket), prefix = strlen(p->prefix);
    int length;
    if (strncmp(r->path, "s3://", 5) == 0) {
        if (strncmp(r->path + 5, p->bucket, n) != 0 || r->path[5 + n] != '/')
            return refuse_path(r, "the object lies in another bucket than its data set");
        length = snprintf(out, KEY_BYTES, "%s", r->path + 5 + n + 1);
    } else {
        bool needs_slash = prefix > 0 && r->path[0] && p->prefix[prefix - 1] != '/';
        length = snprintf(out, KEY_BYTES, "%s%s%s", p->prefix, needs_slash ? "/" : "", r->path);
    }
    return length < KEY_BYTES ? 0 : refuse_path(r, "the key is longer than 1024 bytes");
}

/* ---- over ---- */

static void finish(struct s3_read *d)
{
    struct s3_io *io = d->io;
    struct io_request *r = d->r;
    give_read(io, d);
    io_count_end(&io->count, r);
    r->done(r);
}

static uint64_t bytes_in_a_row(const struct s3_read *d)
{
    uint64_t got = 0;
    for (uint32_t i = 0; i < d->part_count; i++) {
        got += d->part[i].got;
        if (d->part[i].got < d->part[i].wanted.length)
            break;
    }
    return got;
}

static void fail_changed(struct s3_read *d)
{
    d->status = error_set(d->r->error, FB_E_DATA, "read", "the object was replaced while it was read");
    error_remedy(d->r->error, "open the data set again once nobody writes to it");
}

/* A part that lies beyond the end of a smaller version has no bytes to tell it by, but the others are of one that has more. */
static bool is_cut_short(const struct s3_read *d)
{
    uint64_t at = d->r->offset, size = d->pin.size, left = size > at ? size - at : 0;
    return d->part_count > 1 && d->has_pin && bytes_in_a_row(d) != (left < d->length ? left : d->length);
}

static void fill_in(struct s3_read *d)
{
    struct io_request *r = d->r;
    uint64_t size = d->has_pin ? d->pin.size : d->end;
    if (d->status == 0 && is_cut_short(d))
        fail_changed(d);
    r->status = d->status;
    r->got = 0;
    r->object_mtime_ns = d->has_pin ? s3_version_mtime_ns(&d->pin, r->expected_mtime_ns) : 0;
    if (d->status < 0) {
        error_at(r->error, r->path, -1);
        return;
    }
    r->object_size = size;
    if (d->status > 0)
        return;
    r->got = bytes_in_a_row(d);
    if (size == S3_UNKNOWN)
        r->object_size = r->offset + r->got;
    else if (d->is_whole && d->part_count > 1 && size != d->length)
        r->status = IO_GREW; /* parts were cut for another size */
}

static void start_in_one(struct s3_read *d);

/* ---- a part is there ---- */

/* A part of it could be of another version and nobody would know: a time counts in seconds, a weak ETag may stand for several, and without
 * a size there is no telling where the object ends. */
static bool is_nameless(const struct s3_version *v)
{
    return v->etag_hash == 0 || v->etag[0] == 'W' || v->size == S3_UNKNOWN;
}

static void pin_others(struct s3_read *d, const struct s3_task *t)
{
    d->pin = t->version;
    d->has_pin = true;
    for (uint32_t i = 0; i < d->part_count; i++)
        d->part[i].wanted.pin = &d->pin;
}

static void part_done(struct s3_task *t)
{
    struct s3_read *d = t->owner;
    if (t->status < 0 && d->status >= 0)
        d->status = t->status;
    else if (t->status == S3_IS_TOO_LARGE && d->status == 0)
        d->status = IO_GREW;
    else if (t->status == S3_HAS_NO_RANGES)
        d->has_no_ranges = true;
    bool is_beyond = t->status == 0 && t->got == 0 && d->part_count > 1; /* such an answer often has no version */
    if (is_beyond)
        d->end = t->version.size;
    if (t->status >= 0 && t->status != S3_HAS_NO_RANGES && !is_beyond) {
        if (d->part_count > 1 && is_nameless(&t->version)) {
            d->has_no_ranges = true;
            atomic_store_explicit(&d->io->has_nameless, true, memory_order_relaxed);
        } else if (!d->has_pin)
            pin_others(d, t);
        else if (s3_version_differs(&t->version, &d->pin) && d->status >= 0)
            fail_changed(d);
    }
    if (--d->open > 0)
        return;
    if (d->has_no_ranges && d->status >= 0 && !d->is_in_one) {
        start_in_one(d);
        return;
    }
    fill_in(d);
    finish(d);
}

/* ---- starting ---- */

static void set_part(struct s3_read *d, struct s3_task *t, uint64_t at, uint64_t length)
{
    struct io_request *r = d->r;
    *t = (struct s3_task){
        .key = d->key,
        .wanted = {.offset = r->offset + at,
                   .length = length,
                   .room = length == S3_ALL ? r->capacity - IO_TAIL : length,
                   .expected_size = d->is_whole ? r->expected_size : S3_UNKNOWN,
                   .expected_mtime_ns = r->expected_mtime_ns,
                   .must_match = r->must_match && !d->is_whole},
        .to = r->buffer + at,
        .goes_first = r->goes_first,
        .done = part_done,
        .owner = d,
        .error = r->error,
    };
}

static void start_in_one(struct s3_read *d)
{
    if (d->part != &d->one)
        free(d->part);
    d->part = &d->one;
    d->part_count = d->open = 1;
    d->is_in_one = true;
    d->status = 0;
    d->has_pin = d->has_no_ranges = false;
    set_part(d, &d->one, 0, d->is_whole ? S3_ALL : d->length);
    d->one.wanted.may_skip = !d->is_whole;
    s3_loop_submit(d->io->loop, &d->one);
}

static uint64_t count_parts(const struct s3_read *d)
{
    uint64_t n = (d->length + d->io->part_bytes - 1) / d->io->part_bytes;
    return n < 1 ? 1 : n;
}

static bool start_parts(struct s3_read *d)
{
    uint64_t n = count_parts(d), size = d->io->part_bytes;
    d->part = n > 1 ? calloc(n, sizeof(*d->part)) : &d->one;
    if (!d->part)
        return false;
    d->part_count = d->open = (uint32_t)n;
    if (n == 1) {
        set_part(d, d->part, 0, d->is_whole ? S3_ALL : d->length);
    } else {
        for (uint64_t i = 0; i < n; i++)
            set_part(d, &d->part[i], i * size, d->length - i * size < size ? d->length - i * size : size);
    }
    for (uint64_t i = 0; i < n; i++) /* the last one's done may free the array: no look at it afterwards */
        s3_loop_submit(d->io->loop, &d->part[i]);
    return true;
}

static int start(struct s3_io *io, struct io_request *r)
{
    r->object_mtime_ns = 0;
    r->object_size = r->expected_size;
    FB_TRY(io_file_check(r));
    bool is_whole = r->length == IO_WHOLE;
    uint64_t length = is_whole ? r->expected_size : r->length;
    if (length == 0 && !is_whole) {
        r->got = 0;
        r->status = 0;
        return 1;
    }
    if (length / io->part_bytes >= MOST_PARTS)
        return refuse_path(r, "the read is too large");
    struct s3_read *d = take_read(io);
    if (!d)
        return r->status = error_set(r->error, FB_E_NOMEM, "read", "no memory for a read");
    d->io = io;
    d->r = r;
    d->length = length;
    d->is_whole = is_whole;
    d->is_in_one = d->has_pin = d->has_no_ranges = false;
    d->status = 0;
    d->end = S3_UNKNOWN;
    d->part = &d->one;
    int rc = make_key(s3_loop_place(io->loop), r, d->key);
    bool is_in_one =
        s3_loop_ignores_ranges(io->loop) || (count_parts(d) > 1 && atomic_load_explicit(&io->has_nameless, memory_order_relaxed));
    if (rc == 0 && is_in_one)
        start_in_one(d);
    else if (rc == 0 && !start_parts(d))
        rc = r->status = error_set(r->error, FB_E_NOMEM, "read", "no memory for the parts of a read");
    if (rc < 0) {
        d->part = &d->one;
        give_read(io, d);
    }
    return rc;
}

static void s3_submit(struct io *io, struct io_request *r, bool more)
{
    (void)more; /* the loop is woken only if it sleeps */
    struct s3_io *s = (struct s3_io *)io;
    if (s->forks != io_fork_count()) {
        io_refuse_forked(r);
        return;
    }
    io_count_begin(&s->count, r);
    if (start(s, r) == 0)
        return;
    io_count_end(&s->count, r);
    io_done_here(r);
}

/* ---- life ---- */

struct s3_spec {
    uint64_t part_bytes, stall_bytes;
    int64_t attempts, concurrency;
    double stall_s;
    int64_t hedge;
};

static const struct option spec_options[] = {
    {"part", OPTION_SIZE, offsetof(struct s3_spec, part_bytes), 65536, 1u << 30, .help = "bytes of a range; 8MiB"},
    {"attempts", OPTION_INT, offsetof(struct s3_spec, attempts), 1, 100, .help = "per request; 10"},
    {"concurrency", OPTION_INT, offsetof(struct s3_spec, concurrency), 0, S3_MOST_IN_FLIGHT, .help = "in flight; 0: adaptive"},
    {"stall-s", OPTION_DOUBLE, offsetof(struct s3_spec, stall_s), 1, 3600, .help = "seconds below stall-bytes; 10"},
    {"stall-bytes", OPTION_SIZE, offsetof(struct s3_spec, stall_bytes), 1, 1u << 30, .help = "per second; 1024"},
    {"hedge", OPTION_INT, offsetof(struct s3_spec, hedge), 0, 1, .help = "send late requests a second time; 1"},
    {0},
};

/* Splits off url=, which is last and takes the rest. NULL: there is none. */
static const char *split_url(char *text)
{
    for (char *p = strstr(text, "url="); p; p = strstr(p + 1, "url="))
        if (p == text || p[-1] == ',' || p[-1] == ' ') {
            *p = 0;
            return p + 4;
        }
    return NULL;
}

static int open_spec(struct s3_io *s, char *text, uint32_t depth, const struct log *log, struct fb_error *e)
{
    struct s3_spec o = {.part_bytes = S3_PART_BYTES, .stall_bytes = 1024, .attempts = 10, .stall_s = 10, .hedge = 1};
    const char *url = split_url(text);
    if (!url)
        return error_set(e, FB_E_USAGE, "read", "the s3 reader wants url=s3://bucket/prefix as its last option");
    FB_TRY(io_spec_options(spec_options, &o, "s3", text, e));
    struct s3_options options = {.most = depth < S3_MOST_IN_FLIGHT ? depth : S3_MOST_IN_FLIGHT,
                                 .fixed = (uint32_t)o.concurrency,
                                 .attempts = (int)o.attempts,
                                 .stall_s = o.stall_s,
                                 .stall_bytes = o.stall_bytes,
                                 .has_no_hedges = o.hedge == 0};
    s->part_bytes = o.part_bytes;
    s->count.depth = options.most;
    return s3_loop_open(&s->loop, url, &options, log, e);
}

static int s3_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    struct s3_io *s = io_alloc(sizeof(*s), e);
    char *text = strdup(spec);
    if (!s || !text) {
        free(s);
        free(text);
        return error_set(e, FB_E_NOMEM, "read", "no memory for a reader");
    }
    s->io.ops = &io_s3;
    s->forks = io_fork_count();
    pthread_mutex_init(&s->lock, NULL);
    int rc = open_spec(s, text, depth, log, e);
    free(text);
    if (rc < 0) {
        pthread_mutex_destroy(&s->lock);
        free(s);
        return rc;
    }
    *out = &s->io;
    return 0;
}

static void s3_figures(struct io *io, struct io_figures *f)
{
    io_count_figures(&((struct s3_io *)io)->count, f);
}

static uint32_t s3_close(struct io *io, uint64_t timeout_ns)
{
    struct s3_io *s = (struct s3_io *)io;
    if (s->forks != io_fork_count())
        return 0; /* the parent's: its memory is left alone */
    uint32_t left_behind = s3_loop_close(s->loop, timeout_ns);
    if (left_behind > 0)
        return left_behind;
    for (struct s3_read *d; (d = s->spare);) {
        s->spare = d->next;
        free(d);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
    return 0;
}

void io_s3_figures(struct io *io, struct s3_loop_figures *f)
{
    s3_loop_figures(((struct s3_io *)io)->loop, f);
}

const struct io_ops io_s3 = {
    .name = "s3",
    .open = s3_open,
    .submit = s3_submit,
    .figures = s3_figures,
    .close = s3_close,
};
