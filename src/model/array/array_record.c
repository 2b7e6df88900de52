/* Layouts as bytes to be kept, and back.
 *
 * A record is a version, the format's number and its arrays. Numbers are varints, seven bits a byte, the lowest first; differences are
 * folded so that small ones of either sign stay small. A chunk table is a row of runs, each `n << 2 | kind`:
 *   MISSING  n chunks that were never written
 *   EVEN     n chunks of one length, each `gap` bytes after the end of the one before: how a file is laid out that was written in order
 *   SINGLE   n chunks told one by one: distance from the end of the one before, difference of length
 * EVEN and SINGLE start with the filters skipped, the same for the whole run.
 *
 * Reading goes over the bytes twice with the same code: first without memory, to learn how much there will be, then to fill it. So a record
 * gets memory only for a table that it describes to the end. Version 1 did not know second paths to an array: such records are made anew.
 */
#include <stdlib.h>
#include <string.h>

#include "model/array/array.h"

enum { VERSION = 2, MAX_INLINE = 1 << 24, MIN_EVEN = 4 };
enum run_kind { RUN_MISSING, RUN_EVEN, RUN_SINGLE };

static const char *const formats[] = {"npy", "npz", "safetensors", "hdf5", "wav", "sound"};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

static uint64_t folded(uint64_t difference)
{
    return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static uint64_t unfolded(uint64_t v)
{
    return v >> 1 ^ -(v & 1);
}

static uint64_t end_of(const struct array_chunk *c)
{
    return c->offset + c->length;
}

/* ---- writing: what does not fit is counted all the same ---- */

struct sink {
    uint8_t *out;
    size_t room, at;
};

static void put_bytes(struct sink *s, const void *bytes, size_t n)
{
    if (s->out && s->at <= s->room && n <= s->room - s->at && n)
        memcpy(s->out + s->at, bytes, n);
    s->at += n;
}

static void put(struct sink *s, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; v >= 128; v >>= 7)
        bytes[n++] = (uint8_t)(v | 128);
    bytes[n++] = (uint8_t)v;
    put_bytes(s, bytes, n);
}

static void put_text(struct sink *s, const char *text)
{
    put(s, strlen(text));
    put_bytes(s, text, strlen(text));
}

static uint64_t count_missing(const struct array_chunk *c, uint64_t n)
{
    uint64_t i = 0;
    while (i < n && c[i].offset == ARRAY_NO_CHUNK)
        i++;
    return i;
}

static bool goes_on(const struct array_chunk *c, uint64_t gap)
{
    return c[1].offset != ARRAY_NO_CHUNK && c[1].length == c[0].length && c[1].skips == c[0].skips && c[1].offset - end_of(c) == gap;
}

static uint64_t count_even(const struct array_chunk *c, uint64_t n)
{
    uint64_t i = 1;
    if (n < 2 || c[0].offset == ARRAY_NO_CHUNK)
        return 0;
    for (uint64_t gap = c[1].offset - end_of(c); i < n && goes_on(c + i - 1, gap); i++)
        ;
    return i >= MIN_EVEN ? i : 0;
}

static uint64_t count_single(const struct array_chunk *c, uint64_t n)
{
    uint64_t i = 1;
    while (i < n && c[i].offset != ARRAY_NO_CHUNK && c[i].skips == c[0].skips && !count_even(c + i, n - i < MIN_EVEN ? n - i : MIN_EVEN))
        i++;
    return i;
}

static void put_even(struct sink *s, const struct array_chunk *c, uint64_t n, const struct array_chunk *before)
{
    put(s, n << 2 | RUN_EVEN);
    put(s, c->skips);
    put(s, folded(c->offset - end_of(before)));
    put(s, c->length);
    put(s, folded(c[1].offset - end_of(c)));
}

static void put_single(struct sink *s, const struct array_chunk *c, uint64_t n, const struct array_chunk *before)
{
    put(s, n << 2 | RUN_SINGLE);
    put(s, c->skips);
    for (uint64_t i = 0; i < n; before = &c[i++]) {
        put(s, folded(c[i].offset - end_of(before)));
        put(s, folded((uint64_t)c[i].length - before->length));
    }
}

static void put_table(struct sink *s, const struct array_chunk *c, uint64_t count)
{
    struct array_chunk before = {0};
    for (uint64_t i = 0, n; i < count; i += n) {
        if ((n = count_missing(c + i, count - i))) {
            put(s, n << 2 | RUN_MISSING);
            continue;
        }
        if ((n = count_even(c + i, count - i)))
            put_even(s, c + i, n, &before);
        else
            put_single(s, c + i, n = count_single(c + i, count - i), &before);
        before = c[i + n - 1];
    }
}

static void put_chunked(struct sink *s, const struct array_layout *a)
{
    for (int d = 0; d < a->ndim; d++)
        put(s, a->chunk_shape[d]);
    put(s, (uint64_t)a->filter_count);
    for (int i = 0; i < a->filter_count; i++) {
        put(s, a->filter[i].id);
        put(s, a->filter[i].param);
    }
    put_bytes(s, a->fill, sizeof(a->fill));
    put_table(s, a->chunk, a->chunk_count);
}

static void put_array(struct sink *s, const struct array_layout *a)
{
    put_text(s, a->name);
    put(s, a->dtype);
    put(s, a->code);
    put(s, a->stored_bytes);
    put(s, a->rate);
    put(s, (uint64_t)a->storage << 1 | a->is_fortran);
    put(s, (uint64_t)a->ndim);
    for (int d = 0; d < a->ndim; d++)
        put(s, a->shape[d]);
    if (a->storage == ARRAY_CONTIGUOUS)
        put(s, a->offset);
    if (a->storage == ARRAY_CONTIGUOUS || a->storage == ARRAY_INLINE)
        put(s, a->bytes);
    if (a->storage == ARRAY_INLINE)
        put_bytes(s, a->inline_data, a->bytes);
    if (a->storage == ARRAY_CHUNKED)
        put_chunked(s, a);
    if (a->storage == ARRAY_OPAQUE)
        put_text(s, a->why_opaque);
}

size_t array_record_write(const struct array_file *f, uint8_t *out, size_t capacity)
{
    struct sink s = {out, capacity, 0};
    uint64_t format = 0;
    while (format < FORMATS && strcmp(formats[format], f->format) != 0)
        format++;
    put(&s, VERSION);
    put(&s, format);
    put(&s, (uint64_t)f->count);
    for (int i = 0; i < f->count; i++)
        put_array(&s, &f->array[i]);
    return s.at;
}

/* ---- reading ---- */

struct source {
    const uint8_t *bytes;
    size_t n, at;
    bool has_failed;           /* everything read after that is 0 */
    struct array_chunk *chunk; /* where the next table goes; NULL on the first way */
    uint8_t *inline_data;
    uint64_t chunks, inline_bytes; /* so far */
    uint64_t most_chunks;
};

static uint64_t fail(struct source *s)
{
    s->has_failed = true;
    return 0;
}

static uint64_t take(struct source *s)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (s->has_failed || s->at == s->n)
            return fail(s);
        uint8_t byte = s->bytes[s->at++];
        if (shift == 63 && byte > 1)
            return fail(s);
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return v;
    }
    return fail(s);
}

static uint64_t take_below(struct source *s, uint64_t limit)
{
    uint64_t v = take(s);
    return v < limit ? v : fail(s);
}

static const uint8_t *take_bytes(struct source *s, uint64_t n)
{
    if (s->has_failed || n > s->n - s->at) {
        fail(s);
        return NULL;
    }
    const uint8_t *p = s->bytes + s->at;
    s->at += n;
    return p;
}

static void take_text(struct source *s, char *out, size_t size)
{
    uint64_t n = take_below(s, size);
    const uint8_t *text = take_bytes(s, n);
    if (!text || memchr(text, 0, n))
        fail(s);
    else
        memcpy(out, text, n); /* `out` was zeroed */
}

static void give_chunk(struct source *s, const struct array_chunk *c)
{
    if (s->chunk)
        *s->chunk++ = c->offset == ARRAY_NO_CHUNK ? (struct array_chunk){.offset = ARRAY_NO_CHUNK} : *c;
}

static void take_even(struct source *s, uint64_t n, struct array_chunk *c)
{
    c->offset = end_of(c) + unfolded(take(s));
    c->length = (uint32_t)take_below(s, (uint64_t)UINT32_MAX + 1);
    uint64_t gap = unfolded(take(s));
    give_chunk(s, c);
    for (uint64_t i = 1; i < n && s->chunk; i++) {
        c->offset = end_of(c) + gap;
        give_chunk(s, c);
    }
    if (!s->chunk)
        c->offset += (n - 1) * (c->length + gap);
}

static void take_single(struct source *s, uint64_t n, struct array_chunk *c)
{
    for (uint64_t i = 0; i < n && !s->has_failed; i++) {
        c->offset = end_of(c) + unfolded(take(s));
        uint64_t length = c->length + unfolded(take(s));
        if (length > UINT32_MAX)
            fail(s);
        c->length = (uint32_t)length;
        give_chunk(s, c);
    }
}

static void take_missing(struct source *s, uint64_t n)
{
    const struct array_chunk missing = {.offset = ARRAY_NO_CHUNK};
    for (uint64_t i = 0; i < n && s->chunk; i++)
        give_chunk(s, &missing);
}

static void take_run(struct source *s, struct array_chunk *before, uint64_t left, uint64_t *n)
{
    uint64_t head = take(s);
    *n = head >> 2;
    if (*n == 0 || *n > left || (head & 3) > RUN_SINGLE) {
        fail(s);
        return;
    }
    if ((head & 3) == RUN_MISSING) {
        take_missing(s, *n);
        return;
    }
    before->skips = (uint32_t)take_below(s, 1u << ARRAY_MAX_FILTERS);
    if ((head & 3) == RUN_EVEN)
        take_even(s, *n, before);
    else
        take_single(s, *n, before);
}

static void take_table(struct source *s, struct array_layout *a)
{
    struct array_chunk before = {0};
    a->chunk = s->chunk;
    a->chunk_count = 1;
    for (int d = 0; d < a->ndim && !s->has_failed; d++) {
        uint64_t side = a->chunk_shape[d];
        if (!side || __builtin_mul_overflow(a->chunk_count, a->shape[d] / side + (a->shape[d] % side != 0), &a->chunk_count))
            fail(s);
    }
    if (s->has_failed || a->chunk_count > s->most_chunks - s->chunks) {
        fail(s);
        return;
    }
    s->chunks += a->chunk_count;
    for (uint64_t done = 0, n = 0; done < a->chunk_count && !s->has_failed; done += n)
        take_run(s, &before, a->chunk_count - done, &n);
}

static void take_chunked(struct source *s, struct array_layout *a)
{
    for (int d = 0; d < a->ndim; d++)
        a->chunk_shape[d] = take(s);
    a->filter_count = (int)take_below(s, ARRAY_MAX_FILTERS + 1);
    for (int i = 0; i < a->filter_count; i++) {
        a->filter[i].id = (uint32_t)take_below(s, (uint64_t)UINT32_MAX + 1);
        a->filter[i].param = (uint32_t)take_below(s, (uint64_t)UINT32_MAX + 1);
    }
    const uint8_t *fill = take_bytes(s, sizeof(a->fill));
    if (fill)
        memcpy(a->fill, fill, sizeof(a->fill));
    take_table(s, a);
}

static void take_inline(struct source *s, struct array_layout *a)
{
    const uint8_t *bytes = take_bytes(s, a->bytes);
    if (!bytes || a->bytes > MAX_INLINE) {
        fail(s);
        return;
    }
    s->inline_bytes += a->bytes;
    if (!s->inline_data)
        return;
    memcpy(s->inline_data, bytes, a->bytes);
    a->inline_data = s->inline_data;
    s->inline_data += a->bytes;
}

static void take_array(struct source *s, struct array_layout *a)
{
    memset(a, 0, sizeof(*a));
    take_text(s, a->name, sizeof(a->name));
    a->dtype = (enum fb_dtype)take_below(s, 256);
    a->code = (enum array_code)take_below(s, 256);
    a->stored_bytes = (uint32_t)take_below(s, 256);
    a->rate = (uint32_t)take_below(s, (uint64_t)UINT32_MAX + 1);
    uint64_t storage = take_below(s, (ARRAY_OPAQUE + 1) << 1);
    a->storage = (enum array_storage)(storage >> 1);
    a->is_fortran = storage & 1;
    a->ndim = (int)take_below(s, ARRAY_MAX_DIMS + 1);
    for (int d = 0; d < a->ndim; d++)
        a->shape[d] = take(s);
    if (a->storage == ARRAY_CONTIGUOUS)
        a->offset = take(s);
    if (a->storage == ARRAY_CONTIGUOUS || a->storage == ARRAY_INLINE)
        a->bytes = take(s);
    if (a->storage == ARRAY_INLINE)
        take_inline(s, a);
    if (a->storage == ARRAY_CHUNKED)
        take_chunked(s, a);
    if (a->storage == ARRAY_OPAQUE)
        take_text(s, a->why_opaque, sizeof(a->why_opaque));
}

static int not_a_record(struct fb_error *e)
{
    return error_set(e, FB_E_DATA, "decode", "the saved record of this file's arrays is damaged");
}

static uint64_t take_head(struct source *s, struct array_file *f)
{
    if (take(s) != VERSION)
        fail(s);
    f->format = formats[take_below(s, FORMATS)];
    return take_below(s, ARRAY_MAX_IN_FILE + 1);
}

/* The first way over the record: sizes only. */
static int measure(struct source *s, struct fb_error *e)
{
    struct array_file f;
    struct array_layout a;
    uint64_t count = take_head(s, &f);
    for (uint64_t i = 0; i < count && !s->has_failed; i++)
        take_array(s, &a);
    return s->has_failed || s->at != s->n ? not_a_record(e) : (int)count;
}

int array_record_read(struct array_file *f, const uint8_t *record, size_t n, uint64_t object_size, struct fb_error *e)
{
    struct source s = {.bytes = record, .n = n, .most_chunks = array_most_chunks(object_size)};
    memset(f, 0, sizeof(*f));
    int count = measure(&s, e);
    FB_TRY(count);
    size_t layouts = (size_t)count * sizeof(struct array_layout), tables = s.chunks * sizeof(struct array_chunk);
    uint8_t *memory = malloc(layouts + tables + s.inline_bytes + 1);
    if (!memory)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for the table of %llu chunks", (unsigned long long)s.chunks);
    *f = (struct array_file){.object_size = object_size, .count = count, .array = (struct array_layout *)memory, .memory = memory};
    s = (struct source){.bytes = record,
                        .n = n,
                        .most_chunks = s.most_chunks,
                        .chunk = (struct array_chunk *)(memory + layouts),
                        .inline_data = memory + layouts + tables};
    take_head(&s, f);
    int rc = 0;
    for (int i = 0; i < count && rc == 0; i++) {
        take_array(&s, &f->array[i]);
        rc = array_check(&f->array[i], object_size, e);
    }
    if (rc < 0)
        array_file_free(f);
    return rc;
}
