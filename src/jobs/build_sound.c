/* One recording -> its rows. A recording is read whole, cut, mixed, converted; what is computed goes straight into the task's rows. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "codec/array_format.h"
#include "codec/clip.h"
#include "jobs/build_own.h"

/* ---- reading ---- */

static int read_whole(struct build_sound *s, int fd, const struct catalog_sample *where, struct fb_error *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_set_errno(e, "read", errno, "look at the file");
    if (!S_ISREG(st.st_mode))
        return error_set(e, FB_E_DATA, "read", "it is not a regular file");
    bool is_whole = where->offset == 0 && where->length == where->object_size;
    uint64_t size = is_whole ? (uint64_t)st.st_size : where->length;
    if (size > s->p->memory / 2)
        return error_set(e, FB_E_DATA, "read", "it has %llu bytes; with this --memory a recording may have %llu", (unsigned long long)size,
                         (unsigned long long)s->p->memory / 2);
    uint8_t *to = scratch_need(&s->bytes, size + 64, e);
    if (!to)
        return FB_E_NOMEM;
    for (s->size = 0; s->size < size;) {
        ssize_t n = pread(fd, to + s->size, size - s->size, (off_t)(where->offset + s->size));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(e, "read", errno, "read the file");
        if (n == 0)
            break;
        s->size += (uint64_t)n;
    }
    return s->size ? 0 : error_set(e, FB_E_DATA, "read", "the file is empty");
}

int build_sound_read(struct build_sound *s, const struct catalog_sample *where, struct fb_error *e)
{
    int fd = openat(s->p->dataset.root_fd, where->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return error_set_errno(e, "read", errno, "open the file");
    int rc = read_whole(s, fd, where, e);
    close(fd);
    return rc;
}

static int read_memory(void *ctx, uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    const struct build_sound *s = ctx;
    if (offset > s->size || length > s->size - offset)
        return error_set(e, FB_E_DATA, "decode", "the file ends at byte %llu", (unsigned long long)s->size);
    memcpy(out, (const uint8_t *)s->bytes.data + offset, length);
    return 0;
}

/* ---- what it is ---- */

static int describe(struct build_sound *s, struct array_file *file, const struct array_ops **ops, struct fb_error *e)
{
    struct array_source source = {.size = s->size, .read = read_memory, .ctx = s};
    *ops = array_find_format(s->bytes.data, s->size);
    if (!*ops)
        return error_set(e, FB_E_DATA, "decode", "it is no sound that can be read");
    FB_TRY((*ops)->describe(&source, file, e));
    if (file->count == 1 && file->array[0].rate)
        return 0;
    array_file_free(file);
    return error_set(e, FB_E_DATA, "decode", "there is no sound in it");
}

int build_sound_look(struct build_sound *s, const struct catalog_sample *where, uint32_t *rate, uint64_t *samples, struct fb_error *e)
{
    struct array_file file;
    const struct array_ops *ops;
    FB_TRY(build_sound_read(s, where, e));
    FB_TRY(describe(s, &file, &ops, e));
    *rate = file.array[0].rate;
    *samples = array_rows(&file.array[0]);
    array_file_free(&file);
    return *samples ? 0 : error_set(e, FB_E_DATA, "decode", "there is no sound in it: it has 0 samples");
}

static uint32_t channels_of(const struct array_layout *l)
{
    return l->ndim > 1 ? (uint32_t)l->shape[1] : 1;
}

static int check_kind(const struct build_plan *p, const struct array_layout *l, struct fb_error *e)
{
    uint64_t samples = array_rows(l);
    if (l->rate != p->rate) {
        error_set(e, FB_E_DATA, "decode", "it has %u samples per second, not %u", l->rate, p->rate);
        error_remedy(e, "recordings of one rate make one file: sort them, or convert this one");
        return FB_E_DATA;
    }
    if (channels_of(l) != 1 && !p->q->is_mono) {
        error_set(e, FB_E_DATA, "decode", "it has %u channels", channels_of(l));
        error_remedy(e, "--mono mixes channels into one");
        return FB_E_DATA;
    }
    if (samples == 0)
        return error_set(e, FB_E_DATA, "decode", "there is no sound in it: it has 0 samples");
    if (samples < p->window && !p->is_padded)
        return error_set(e, FB_E_DATA, "decode", "it has %llu samples, less than the %llu of a row", (unsigned long long)samples,
                         (unsigned long long)p->window);
    if (samples != p->window && !p->is_padded && !p->is_segmented) {
        error_set(e, FB_E_DATA, "decode", "it has %llu samples, the first recording %llu", (unsigned long long)samples,
                  (unsigned long long)p->window);
        error_remedy(e, "--length makes all of them one length, --segment cuts them into rows");
        return FB_E_DATA;
    }
    return 0;
}

uint64_t build_rows_of(const struct build_plan *p, uint64_t samples)
{
    return p->is_segmented ? samples < p->window ? 0 : 1 + (samples - p->window) / p->stride : 1;
}

/* ---- its samples ---- */

/* Frames as stored; compressed sound is decoded first. */
static const uint8_t *frames_of(struct build_sound *s, const struct array_ops *ops, const struct array_layout *l, uint64_t wanted,
                                struct fb_error *e)
{
    if (l->storage == ARRAY_CONTIGUOUS)
        return (const uint8_t *)s->bytes.data + l->offset;
    struct array_source source = {.size = s->size, .read = read_memory, .ctx = s};
    uint64_t bytes = array_row_bytes(l);
    if (!ops->read_rows || wanted > s->p->memory / 2 / (bytes ? bytes : 1)) {
        error_set(e, FB_E_DATA, "decode", "%s", ops->read_rows ? "it is too long for this --memory" : l->why_opaque);
        return NULL;
    }
    uint8_t *out = scratch_need(&s->wide, wanted * bytes + 64, e);
    return out && ops->read_rows(&source, l, 0, wanted, out, e) == 0 ? out : NULL;
}

/* `frames` of them into one channel of `c->to`, then `after` of silence. */
static void place(const struct array_conversion *c, const struct array_layout *l, const uint8_t *from, uint64_t frames, uint64_t after,
                  void *to)
{
    uint32_t channels = channels_of(l);
    if (channels > 1)
        clip_mono(c, from, frames, after, channels, to);
    else
        clip_planes(c, from, frames, after, 1, to, (size_t)(frames + after));
}

static int check_finite(const struct array_layout *l, const float *x, uint64_t n, struct fb_error *e)
{
    if (l->storage == ARRAY_CONTIGUOUS && l->code != ARRAY_PCM_F32 && l->code != ARRAY_PCM_F64)
        return 0;
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return error_set(e, FB_E_DATA, "decode", "its sample %llu is not a number", (unsigned long long)i);
    return 0;
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
    size_t work = (log_mel_work_bytes(p->mel) + 63) & ~(size_t)63;
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

static int compute(struct build_sound *s, const struct array_ops *ops, const struct array_layout *l, uint64_t skip, uint64_t rows,
                   uint8_t *out, struct fb_error *e)
{
    const struct build_plan *p = s->p;
    uint64_t there = array_rows(l), used = p->is_segmented ? there : there < p->window ? there : p->window;
    uint64_t after = used < p->window ? p->window - used : 0;
    struct array_conversion wide, half;
    const uint8_t *from = frames_of(s, ops, l, used, e);
    if (!from)
        return e->code;
    FB_TRY(array_conversion_init(&wide, l->code, l->dtype, FB_FLOAT32, NULL, e));
    FB_TRY(array_conversion_init(&half, ARRAY_PLAIN, FB_FLOAT32, p->dtype, NULL, e));
    if (is_direct(p, l)) {
        place(&wide, l, from, used, after, out);
        return 0;
    }
    float *signal = scratch_need(&s->signal, (used + after) * sizeof(float) + 64, e);
    if (!signal)
        return FB_E_NOMEM;
    place(&wide, l, from, used, after, signal);
    FB_TRY(check_finite(l, signal, used, e));
    for (uint64_t i = 0; i < rows; i++)
        FB_TRY(make_row(s, &half, signal + (skip + i) * p->stride, out + i * p->row_bytes, e));
    return 0;
}

static int64_t add_rows(struct build_sound *s, const struct array_ops *ops, const struct array_layout *l, uint32_t file, uint64_t skip,
                        struct scratch *out, struct scratch *row, uint64_t before, struct fb_error *e)
{
    const struct build_plan *p = s->p;
    FB_TRY(check_kind(p, l, e));
    uint64_t all = build_rows_of(p, array_rows(l)), rows = all > skip ? all - skip : 0, bytes = (before + rows) * p->row_bytes;
    if (rows > p->memory / 2 / p->row_bytes || before + rows > UINT32_MAX)
        return error_set(e, FB_E_DATA, "transform", "its %llu rows are too many for this --memory", (unsigned long long)rows);
    uint8_t *data = scratch_grow(out, before * p->row_bytes, bytes, e);
    struct build_row *info = data ? scratch_grow(row, before * sizeof(*info), (before + rows) * sizeof(*info), e) : NULL;
    if (!info)
        return FB_E_NOMEM;
    data += before * p->row_bytes;
    FB_TRY(compute(s, ops, l, skip, rows, data, e));
    for (uint64_t i = 0; i < rows; i++)
        info[before + i] = (struct build_row){file, (uint32_t)(skip + i), checksum_of(data + i * p->row_bytes, p->row_bytes)};
    return (int64_t)rows;
}

int64_t build_sound_rows(struct build_sound *s, uint32_t file, uint64_t skip, struct scratch *out, struct scratch *row, uint64_t rows,
                         struct fb_error *e)
{
    struct array_file described;
    const struct array_ops *ops;
    FB_TRY(describe(s, &described, &ops, e));
    int64_t rc = add_rows(s, ops, &described.array[0], file, skip, out, row, rows, e);
    array_file_free(&described);
    return rc;
}

void build_sound_free(struct build_sound *s)
{
    scratch_free(&s->bytes);
    scratch_free(&s->signal);
    scratch_free(&s->work);
    scratch_free(&s->wide);
}
