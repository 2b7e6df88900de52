/* One recording -> its rows: read as far as they reach, cut, mixed, converted; what is computed goes straight into the task's rows. */
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/round_up.h"
#include "codec/array/array_format.h"
#include "codec/sound/clip.h"
#include "jobs/build/build_internal.h"

enum { FIRST_BYTES = 65536 };

/* ---- reading ---- */

/* The first `end` bytes, or as many as there are. */
static int read_until(struct build_sound *s, uint64_t end, struct fb_error *e)
{
    end = end < s->size ? end : s->size;
    if (end <= s->have)
        return 0;
    uint8_t *to = s->have ? scratch_grow(&s->bytes, s->have, end + 64, e) : scratch_need(&s->bytes, end + 64, e);
    if (!to)
        return FB_E_NOMEM;
    s->have += file_read_all_at(s->fd, to + s->have, end - s->have, s->first + s->have);
    if (s->have < end && errno)
        return error_set_errno(e, "read", errno, "read the file");
    if (s->have < end)
        s->size = s->have; /* it has become shorter */
    return 0;
}

/* For who describes or decodes it; what lies behind the bytes that are there is fetched one by one. */
static int read_part(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    const struct build_sound *s = ctx;
    if (offset > s->size || length > s->size - offset)
        return error_set(e, FB_E_DATA, "decode", "the file ends at byte %llu", (unsigned long long)s->size);
    if (offset + length <= s->have) {
        memcpy(out, (const uint8_t *)s->bytes.data + offset, length);
        return 0;
    }
    if (file_read_all_at(s->fd, out, length, s->first + offset) == length)
        return 0;
    return errno ? error_set_errno(e, "read", errno, "read the file") : error_set(e, FB_E_DATA, "read", "the file became shorter");
}

static int describe(struct build_sound *s, struct fb_error *e)
{
    struct array_source source = {.size = s->size, .read = read_part, .ctx = s};
    s->ops = array_find_format(s->bytes.data, s->have);
    if (!s->ops)
        return error_set(e, FB_E_DATA, "decode", "it is not sound that can be read");
    FB_TRY(s->ops->describe(&source, &s->file, e));
    if (s->file.count == 1 && s->file.array[0].rate)
        return 0;
    array_file_free(&s->file);
    return error_set(e, FB_E_DATA, "decode", "there is no sound in it");
}

/* Frames that rows are made of. */
static uint64_t frames_used(const struct build_plan *p, const struct array_layout *l)
{
    uint64_t there = array_rows(l);
    return p->is_segmented || there < p->window ? there : p->window;
}

static uint64_t bytes_used(const struct build_sound *s)
{
    const struct array_layout *l = &s->file.array[0];
    return l->storage == ARRAY_CONTIGUOUS ? l->offset + frames_used(s->p, l) * array_row_bytes(l) : s->size;
}

static int open_file(struct build_sound *s, const struct catalog_sample *where, struct fb_error *e)
{
    struct stat st;
    s->fd = openat(s->p->dataset.root_fd, where->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (s->fd < 0)
        return error_set_errno(e, "read", errno, "open the file");
    if (fstat(s->fd, &st) < 0)
        return error_set_errno(e, "read", errno, "look at the file");
    if (!S_ISREG(st.st_mode))
        return error_set(e, FB_E_DATA, "read", "it is not a regular file");
    bool is_whole = where->offset == 0 && where->length == where->object_size;
    s->first = where->offset;
    s->size = is_whole ? (uint64_t)st.st_size : where->length;
    s->have = 0;
    return s->size ? 0 : error_set(e, FB_E_DATA, "read", "the file is empty");
}

/* ---- what it is ---- */

static uint32_t channels_of(const struct array_layout *l)
{
    return l->ndim > 1 ? (uint32_t)l->shape[1] : 1;
}

static int check_kind(const struct build_plan *p, const struct array_layout *l, struct fb_error *e)
{
    uint64_t samples = array_rows(l);
    if (l->rate != p->rate)
        return error_advise(e, error_set(e, FB_E_DATA, "decode", "it has %u samples per second, not %u", l->rate, p->rate),
                            "recordings of one rate make one file: sort them, or convert this one");
    if (channels_of(l) != 1 && !p->q->is_mono)
        return error_advise(e, error_set(e, FB_E_DATA, "decode", "it has %u channels", channels_of(l)), "--mono mixes channels into one");
    if (samples == 0)
        return error_set(e, FB_E_DATA, "decode", "there is no sound in it: it has 0 samples");
    if (samples < p->window && !p->is_padded)
        return error_set(e, FB_E_DATA, "decode", "it has %llu samples, less than the %llu of a row", (unsigned long long)samples,
                         (unsigned long long)p->window);
    if (samples != p->window && !p->is_padded && !p->is_segmented)
        return error_advise(e,
                            error_set(e, FB_E_DATA, "decode", "it has %llu samples, the first recording %llu", (unsigned long long)samples,
                                      (unsigned long long)p->window),
                            "--length makes all of them one length, --segment cuts them into rows");
    return 0;
}

uint64_t build_rows_of(const struct build_plan *p, uint64_t samples)
{
    return p->is_segmented ? samples < p->window ? 0 : 1 + (samples - p->window) / p->stride : 1;
}

/* ---- room ---- */

/* What it takes while its rows are made: `bytes` (which grows by halves), `wide` and `signal`. Headers may promise any number of frames. */
static uint64_t scratch_bytes(const struct build_sound *s, const struct array_layout *l)
{
    uint64_t used = frames_used(s->p, l), frame = l->storage == ARRAY_CONTIGUOUS ? 0 : array_row_bytes(l);
    uint64_t signal = used < s->p->window ? s->p->window : used;
    if (used > s->p->memory / (frame + 1) || signal > s->p->memory)
        return UINT64_MAX / 4;
    return bytes_used(s) / 2 * 3 + used * frame + signal * sizeof(float) + 256;
}

/* Known as soon as it is described, before much of it is read. */
static int find_room(struct build_sound *s, struct fb_error *e)
{
    const struct array_layout *l = &s->file.array[0];
    uint64_t scratch = scratch_bytes(s, l), rows = build_rows_of(s->p, array_rows(l));
    uint64_t row = s->p->row_bytes + sizeof(struct build_row);
    if (rows <= s->p->large_bytes / row && scratch <= s->p->large_bytes - rows * row)
        return scratch <= s->room && rows <= s->room_for_rows / row ? 0 : BUILD_NO_ROOM;
    char size[32], need[32], most[32];
    bool is_known = scratch < UINT64_MAX / 4 && rows < UINT64_MAX / 4 / row;
    s->needed = is_known ? scratch + rows * row : s->p->large_bytes + 1;
    return error_advise(e,
                        error_set(e, FB_E_DATA, "read", "it needs %s of memory for its %s and %llu rows; this --memory allows %s",
                                  is_known ? text_size(scratch + rows * row, need, sizeof(need)) : "more than any machine has",
                                  text_size(s->size, size, sizeof(size)), (unsigned long long)rows,
                                  text_size(s->p->large_bytes, most, sizeof(most))),
                        "give more --memory");
}

/* Buffers of recordings before it that would not leave it enough; `bytes` has its beginning. */
static void make_room(struct build_sound *s)
{
    uint64_t have = s->signal.capacity + s->wide.capacity;
    if (have + scratch_bytes(s, &s->file.array[0]) <= s->p->sound_bytes)
        return;
    scratch_free(&s->signal);
    scratch_free(&s->wide);
}

/* What only a large one needed. */
static void give_back(struct build_sound *s)
{
    if (s->bytes.capacity > s->p->sound_bytes)
        scratch_free(&s->bytes);
    if (s->signal.capacity > s->p->sound_bytes)
        scratch_free(&s->signal);
    if (s->wide.capacity > s->p->sound_bytes)
        scratch_free(&s->wide);
}

/* Segments are made of all of it; else as much is read at once as others needed: recordings of a folder are mostly alike. */
static int read_used(struct build_sound *s, struct fb_error *e)
{
    uint64_t first = s->p->is_segmented ? s->size : s->usual ? s->usual : FIRST_BYTES;
    FB_TRY(read_until(s, first > FIRST_BYTES && first > s->p->sound_bytes / 2 ? FIRST_BYTES : first, e));
    if (!s->size)
        return error_set(e, FB_E_DATA, "read", "the file is empty");
    FB_TRY(describe(s, e));
    uint64_t end = bytes_used(s);
    int rc = check_kind(s->p, &s->file.array[0], e);
    if (rc == 0)
        rc = find_room(s, e);
    if (rc == 0) {
        make_room(s);
        rc = read_until(s, end, e);
    }
    if (rc == 0 && s->have < end)
        rc = error_set(e, FB_E_DATA, "read", "the file became shorter while it was read");
    if (rc != 0)
        array_file_free(&s->file);
    else
        s->usual = end > s->usual ? end : s->usual;
    return rc;
}

static void close_file(struct build_sound *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

int build_sound_read(struct build_sound *s, const struct catalog_sample *where, struct fb_error *e)
{
    s->size = s->have = s->needed = 0;
    int rc = open_file(s, where, e);
    if (rc == 0)
        rc = read_used(s, e);
    close_file(s);
    return rc;
}

int build_sound_probe(struct build_sound *s, const struct catalog_sample *where, uint32_t *rate, uint64_t *samples, struct fb_error *e)
{
    s->size = s->have = 0;
    int rc = open_file(s, where, e);
    if (rc == 0)
        rc = read_until(s, FIRST_BYTES, e);
    if (rc == 0 && (rc = describe(s, e)) == 0) {
        *rate = s->file.array[0].rate;
        *samples = array_rows(&s->file.array[0]);
        array_file_free(&s->file);
        rc = *samples ? 0 : error_set(e, FB_E_DATA, "decode", "there is no sound in it: it has 0 samples");
    }
    close_file(s);
    return rc;
}

/* ---- its samples ---- */

/* Frames as stored; compressed sound is decoded first. */
static const uint8_t *frames_of(struct build_sound *s, const struct array_layout *l, uint64_t wanted, struct fb_error *e)
{
    if (l->storage == ARRAY_CONTIGUOUS)
        return (const uint8_t *)s->bytes.data + l->offset;
    struct array_source source = {.size = s->size, .read = read_part, .ctx = s};
    uint64_t bytes = array_row_bytes(l);
    if (!s->ops->read_rows) {
        error_set(e, FB_E_DATA, "decode", "%s", l->why_opaque);
        return NULL;
    }
    uint8_t *out = scratch_need(&s->wide, wanted * bytes + 64, e);
    return out && s->ops->read_rows(&source, l, 0, wanted, out, e) == 0 ? out : NULL;
}

/* `frames` of them into one channel of `c->to`, then `after` of silence. */
static int place(const struct array_conversion *c, const struct array_layout *l, const uint8_t *from, uint64_t frames, uint64_t after,
                 void *to, struct fb_error *e)
{
    uint32_t channels = channels_of(l);
    return channels == 1 ? clip_planes(c, from, frames, after, 1, to, (size_t)(frames + after), e)
                         : clip_mono(c, from, frames, after, channels, to, e);
}

/* The largest sample that makes a row of numbers: float16 ends at 65504 (what is rounded to it included), and the power of larger ones than
 * 1e12 need not fit into float32 with the longest frames and 1 for each weight. */
static float largest_sample(const struct build_plan *p)
{
    return p->mel ? 1e12f : p->dtype == FB_FLOAT16 ? 65519.996f : FLT_MAX;
}

/* Sound in integers is never beyond 1; in floats it is whatever somebody has written. */
static int check_samples(const struct build_plan *p, const struct array_layout *l, const float *x, uint64_t n, struct fb_error *e)
{
    float most = largest_sample(p);
    int are_good = 1;
    uint64_t i = 0;
    if (l->storage == ARRAY_CONTIGUOUS && l->code != ARRAY_PCM_F32 && l->code != ARRAY_PCM_F64)
        return 0;
    for (uint64_t k = 0; k < n; k++)
        are_good &= fabsf(x[k]) <= most; /* not with NaN */
    if (are_good)
        return 0;
    while (fabsf(x[i]) <= most)
        i++;
    if (!isfinite(x[i]))
        return error_set(e, FB_E_DATA, "decode", "its sample %llu is not a number", (unsigned long long)i);
    return error_set(e, FB_E_DATA, "decode", "its sample %llu is %g, too large for a row of %s", (unsigned long long)i, (double)x[i],
                     p->mel ? "log-mel" : fb_dtype_name(p->dtype));
}

/* ---- rows ---- */

static void narrow(const struct build_plan *p, const struct array_conversion *half, const float *from, void *to)
{
    if (p->dtype == FB_FLOAT32)
        memcpy(to, from, p->row_bytes);
    else
        array_convert(half, from, to, p->row_numbers);
}

/* Row `i` of a recording whose samples are at `signal`. */
static int make_row(struct build_sound *s, const struct array_conversion *half, const float *signal, uint8_t *to, struct fb_error *e)
{
    const struct build_plan *p = s->p;
    if (!p->mel) {
        narrow(p, half, signal, to);
        return 0;
    }
    float *out = (float *)(void *)to;
    size_t work = round_up(log_mel_work_bytes(p->mel), 64);
    if (!scratch_need(&s->work, work + p->row_numbers * sizeof(float), e))
        return FB_E_NOMEM;
    if (p->dtype != FB_FLOAT32)
        out = (float *)(void *)((uint8_t *)s->work.data + work);
    FB_TRY(log_mel_run(p->mel, signal, p->window, out, (size_t)p->shape[1], s->work.data, e));
    if (p->dtype != FB_FLOAT32)
        array_convert(half, out, to, p->row_numbers);
    return 0;
}

/* Raw rows of one whole recording need no copy in between. */
static bool is_direct(const struct build_plan *p, const struct array_layout *l)
{
    bool is_float = l->storage != ARRAY_CONTIGUOUS || l->code == ARRAY_PCM_F32 || l->code == ARRAY_PCM_F64;
    return !p->mel && !p->is_segmented && p->dtype == FB_FLOAT32 && !is_float;
}

static int compute(struct build_sound *s, const struct array_layout *l, uint64_t skip, uint64_t rows, uint8_t *out, struct fb_error *e)
{
    const struct build_plan *p = s->p;
    uint64_t used = frames_used(p, l), after = used < p->window ? p->window - used : 0;
    struct array_conversion wide, half;
    const uint8_t *from = frames_of(s, l, used, e);
    if (!from)
        return e->code;
    FB_TRY(array_conversion_init(&wide, l->code, l->dtype, FB_FLOAT32, NULL, e));
    FB_TRY(array_conversion_init(&half, ARRAY_PLAIN, FB_FLOAT32, p->dtype, NULL, e));
    if (is_direct(p, l))
        return place(&wide, l, from, used, after, out, e);
    float *signal = scratch_need(&s->signal, (used + after) * sizeof(float) + 64, e);
    if (!signal)
        return FB_E_NOMEM;
    FB_TRY(place(&wide, l, from, used, after, signal, e));
    FB_TRY(check_samples(p, l, signal, used, e));
    for (uint64_t i = 0; i < rows; i++)
        FB_TRY(make_row(s, &half, signal + (skip + i) * p->stride, out + i * p->row_bytes, e));
    return 0;
}

/* At once as much as a task has: a list that grew would be there twice for a moment. */
static void *room_for(struct scratch *s, size_t kept, size_t bytes, size_t most, struct fb_error *e)
{
    return kept ? scratch_grow(s, kept, bytes, e) : scratch_need(s, bytes > most ? bytes : most, e);
}

static int64_t add_rows(struct build_sound *s, uint32_t file, uint64_t skip, struct scratch *out, struct scratch *row, uint64_t before,
                        struct fb_error *e)
{
    const struct build_plan *p = s->p;
    const struct array_layout *l = &s->file.array[0];
    uint64_t all = build_rows_of(p, array_rows(l)), rows = all > skip ? all - skip : 0, bytes = (before + rows) * p->row_bytes;
    if (rows == 0)
        return 0; /* an earlier run has made them all */
    if (before + rows > UINT32_MAX)
        return error_set(e, FB_E_DATA, "transform", "its %llu rows are too many", (unsigned long long)rows);
    uint8_t *data = room_for(out, before * p->row_bytes, bytes, p->task_rows * p->row_bytes, e);
    struct build_row *info =
        data ? room_for(row, before * sizeof(*info), (before + rows) * sizeof(*info), p->task_rows * sizeof(*info), e) : NULL;
    if (!info)
        return FB_E_NOMEM;
    data += before * p->row_bytes;
    FB_TRY(compute(s, l, skip, rows, data, e));
    for (uint64_t i = 0; i < rows; i++)
        info[before + i] = (struct build_row){file, (uint32_t)(skip + i), checksum_of(data + i * p->row_bytes, p->row_bytes)};
    return (int64_t)rows;
}

int64_t build_sound_rows(struct build_sound *s, uint32_t file, uint64_t skip, struct scratch *out, struct scratch *row, uint64_t rows,
                         struct fb_error *e)
{
    int64_t rc = add_rows(s, file, skip, out, row, rows, e);
    array_file_free(&s->file);
    give_back(s);
    return rc;
}

void build_sound_free(struct build_sound *s)
{
    scratch_free(&s->bytes);
    scratch_free(&s->signal);
    scratch_free(&s->work);
    scratch_free(&s->wide);
}
