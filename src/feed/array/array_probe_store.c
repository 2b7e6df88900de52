/* Probing array files and recordings in a bucket, by ranged reads.
 *
 * The start of an object holds nearly all that is needed; what lies elsewhere (the directory of an .npz) is fetched on demand, a window at
 * a time. Each fetch is a round trip, so the starts of a few hundred objects are fetched side by side, and the results are kept as learnt
 * records.
 *
 * HDF5 is not read in a bucket: libhdf5 finds out its structure, and needs a file.
 */
#include <stdlib.h>
#include <string.h>

#include "codec/array/array_format.h"
#include "feed/arrays.h"
#include "feed/feed.h"
#include "io/io_wait.h"

enum { HEAD_BYTES = 16 << 10, WINDOW_BYTES = 256 << 10 };

/* ---- reads that are waited for ---- */

static void start(struct io_wait *w, uint32_t i, const struct catalog_sample *s, uint64_t offset, uint64_t length, bool more)
{
    io_wait_submit(w, i,
                   &(struct io_request){.dir_fd = -1,
                                        .path = s->object,
                                        .offset = s->offset + offset,
                                        .length = length,
                                        .expected_mtime_ns = s->mtime_ns,
                                        .must_match = true},
                   more);
}

static int await(const struct probe_reader *l, struct io_wait *w, struct fb_error *e)
{
    int rc = io_wait_all(w, &(struct io_wait_stop){.interrupted = l->interrupted, .ctx = l->ctx});
    return rc < 0 ? error_set(e, rc, "dataset", "interrupted while files were probed") : 0;
}

static int check_read(const struct io_wait *w, uint32_t i, struct fb_error *e)
{
    const struct io_request *r = io_wait_result(w, i);
    int rc = io_wait_status(w, i, e);
    if (rc < 0 || (rc == 0 && r->got == r->length))
        return rc;
    return error_set(e, FB_E_DATA, "read", "the file is truncated at byte %llu", (unsigned long long)(r->offset + r->got));
}

static int read_now(const struct probe_reader *l, const struct catalog_sample *s, uint64_t offset, uint64_t length, uint8_t *out,
                    struct fb_error *e)
{
    struct io_wait *w = io_wait_new(l->io, 1, length);
    if (!w)
        return error_set(e, FB_E_NOMEM, "read", "no memory to probe a file");
    start(w, 0, s, offset, length, false);
    int rc = await(l, w, e);
    if (rc == 0)
        rc = check_read(w, 0, e);
    if (rc == 0)
        memcpy(out, io_wait_result(w, 0)->buffer, length);
    io_wait_end(w);
    return rc;
}

/* ---- an object as an array_source ---- */

struct object {
    const struct probe_reader *reader;
    const struct catalog_sample *sample;
    const uint8_t *head;
    uint64_t head_bytes;
    uint8_t *window;
    uint64_t window_at, window_bytes;
};

static int move_window(struct object *o, uint64_t offset, struct fb_error *e)
{
    uint64_t left = o->sample->length - offset;
    if (!o->window && !(o->window = malloc(WINDOW_BYTES)))
        return error_set(e, FB_E_NOMEM, "read", "no memory to probe a file");
    o->window_at = offset;
    o->window_bytes = 0;
    uint64_t n = left < WINDOW_BYTES ? left : WINDOW_BYTES;
    FB_TRY(read_now(o->reader, o->sample, offset, n, o->window, e));
    o->window_bytes = n;
    return 0;
}

static int read_object(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    struct object *o = ctx;
    uint64_t size = o->sample->length;
    if (offset > size || length > size - offset)
        return error_set(e, FB_E_DATA, "decode", "the file is truncated at byte %llu", (unsigned long long)size);
    if (offset + length <= o->head_bytes) {
        memcpy(out, o->head + offset, length);
        return 0;
    }
    if (length > WINDOW_BYTES)
        return read_now(o->reader, o->sample, offset, length, out, e);
    if (offset < o->window_at || offset + length > o->window_at + o->window_bytes)
        FB_TRY(move_window(o, offset, e));
    memcpy(out, o->window + (offset - o->window_at), length);
    return 0;
}

static int refuse_hdf5(struct fb_error *e)
{
    error_set(e, FB_E_UNSUPPORTED, "dataset", "HDF5 files are not read in a bucket");
    error_remedy(e, "copy it to a disk first: fullbore stage s3://bucket/... FOLDER");
    return FB_E_UNSUPPORTED;
}

static int describe(const struct probe_reader *l, const struct catalog_sample *s, const uint8_t *head, uint64_t n, struct array_file *out,
                    struct fb_error *e)
{
    const struct array_ops *ops = array_find_format(head, n);
    if (ops == &array_hdf5)
        return refuse_hdf5(e);
    if (!ops) {
        error_set(e, FB_E_DATA, "decode",
                  "it is neither sound nor an array (npy, npz, safetensors, WAV, FLAC, Ogg, MP3, AIFF, AU, CAF, W64)");
        error_remedy(e, "take it out of the data set");
        return FB_E_DATA;
    }
    struct object o = {.reader = l, .sample = s, .head = head, .head_bytes = n};
    struct array_source source = {.size = s->length, .read = read_object, .ctx = &o};
    int rc = ops->describe(&source, out, e);
    free(o.window);
    return rc;
}

static uint64_t head_of(const struct catalog_sample *s)
{
    return s->length < HEAD_BYTES ? s->length : HEAD_BYTES;
}

int probe_through(const struct probe_reader *l, const struct catalog_sample *s, struct array_file *out, struct fb_error *e)
{
    uint8_t head[HEAD_BYTES];
    if (s->length == 0)
        return error_set(e, FB_E_DATA, "decode", "the file is empty");
    FB_TRY(read_now(l, s, 0, head_of(s), head, e));
    return describe(l, s, head, head_of(s), out, e);
}

static struct probe_reader reader_of(const struct feed *f)
{
    return (struct probe_reader){f->io, f->interrupted, f->ctx};
}

int probe_in_store(struct feed *f, const struct catalog_sample *s, struct array_file *out, struct fb_error *e)
{
    struct probe_reader l = reader_of(f);
    return probe_through(&l, s, out, e);
}

/* ---- many at once ---- */

static void keep_what_it_tells(struct feed *f, const struct catalog_sample *s, const struct io_wait *w, uint32_t i)
{
    struct probe_reader l = reader_of(f);
    struct array_file file;
    struct fb_error bad;
    error_clear(&bad);
    const struct io_request *r = io_wait_result(w, i);
    if (check_read(w, i, &bad) < 0 || describe(&l, s, r->buffer, r->length, &file, &bad) < 0)
        return; /* its own turn will say why */
    probe_keep(f, s, &file);
    array_file_free(&file);
}

int probe_ahead_in_store(struct feed *f, uint64_t first, struct fb_error *e)
{
    struct catalog_sample s[PROBE_AHEAD];
    struct probe_reader l = reader_of(f);
    uint32_t n = 0;
    for (uint64_t i = first; f->learnt && i < first + PROBE_AHEAD && i < catalog_count(f->dataset.catalog); i++) {
        FB_TRY(catalog_sample(f->dataset.catalog, i, &s[n], e));
        n += s[n].length > 0 && !probe_is_known(f, &s[n]);
    }
    struct io_wait *w = n ? io_wait_new(l.io, n, HEAD_BYTES) : NULL;
    if (!w)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        start(w, i, &s[i], 0, head_of(&s[i]), i + 1 < n);
    int rc = await(&l, w, e);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        keep_what_it_tells(f, &s[i], w, i);
    io_wait_end(w);
    return rc;
}
