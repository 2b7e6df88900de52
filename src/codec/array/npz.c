/* .npz: a zip archive of .npy files.
 *
 * A stored member is an array in one piece; a deflated one is a single chunk whose filter drops the .npy header in front, and whose sum is
 * checked. Members that are no arrays are passed over, as numpy.load gives them only when asked; arrays that cannot be read (objects,
 * strings) are listed with the reason. An archive with nothing that can be read is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/text/text.h"
#include "codec/array/npy.h"
#include "codec/array/zip.h"

static bool probe(const uint8_t *bytes, size_t n)
{
    return n >= 4 && bytes[0] == 'P' && bytes[1] == 'K' && ((bytes[2] == 3 && bytes[3] == 4) || (bytes[2] == 5 && bytes[3] == 6));
}

static int set_name(struct array_layout *a, const struct zip_member *m, struct fb_error *e)
{
    size_t n = strlen(m->name);
    if (m->is_cut)
        return array_damaged(e, (int64_t)m->at, "an array in the archive has a name longer than %d bytes, or with a NUL in it",
                             ARRAY_NAME_BYTES - 1);
    if (n >= 4 && strcmp(m->name + n - 4, ".npy") == 0)
        n -= 4;
    memcpy(a->name, m->name, n);
    return 0;
}

/* The archive has the sum of header and numbers. That of the numbers alone: take away what the header's sum has become behind so many. */
static uint32_t sum_behind(const struct zip_member *m, uint32_t header_sum, uint64_t numbers)
{
    return m->crc ^ (uint32_t)crc32_combine(header_sum, 0, (z_off_t)numbers);
}

/* A deflated member: one chunk, the whole array. */
static int set_chunk(struct array_layout *a, const struct zip_member *m, size_t header, uint32_t header_sum, struct array_chunk *chunk,
                     struct fb_error *e)
{
    if (m->stored > UINT32_MAX)
        return error_advise(e, error_set(e, FB_E_UNSUPPORTED, "decode", "it is deflated in one piece of more than 4 GB"),
                            "save it by np.savez instead of np.savez_compressed");
    *chunk = (struct array_chunk){.offset = m->at, .length = (uint32_t)m->stored};
    a->storage = ARRAY_CHUNKED;
    a->chunk = chunk;
    a->chunk_count = 1;
    memcpy(a->chunk_shape, a->shape, sizeof(a->shape));
    a->filter_count = 2;
    a->filter[0] = (struct array_filter){ARRAY_CRC32, sum_behind(m, header_sum, a->bytes)};
    a->filter[1] = (struct array_filter){ARRAY_RAW_DEFLATE, (uint32_t)header};
    a->bytes = a->offset = 0;
    return 0;
}

/* The .npy header of a member, its length and its sum. 1: it is no array. */
static int read_header(const struct array_source *s, const struct zip_member *m, struct array_layout *a, size_t *length, uint32_t *sum,
                       struct fb_error *e)
{
    uint8_t prefix[NPY_PREFIX_BYTES], header[NPY_MAX_HEADER];
    size_t n = m->bytes < sizeof(prefix) ? (size_t)m->bytes : sizeof(prefix);
    FB_TRY(zip_read_start(s, m, prefix, n, e));
    if (!npy_is_magic(prefix, n))
        return 1;
    FB_TRY(npy_header_length(prefix, n, length, e));
    if (*length > m->bytes)
        return array_damaged(e, (int64_t)m->at, "the .npy header is cut off");
    FB_TRY(zip_read_start(s, m, header, *length, e));
    *sum = (uint32_t)crc32(0, header, (uInt)*length);
    FB_TRY(npy_header_read(header, *length, a, e));
    if (m->bytes - *length != a->bytes)
        return array_damaged(e, (int64_t)m->at, "its shape needs %llu bytes, but the archive holds %llu", (unsigned long long)a->bytes,
                             (unsigned long long)(m->bytes - *length));
    return 0;
}

static int read_array(const struct array_source *s, const struct zip_member *m, struct array_layout *a, struct array_chunk *chunk,
                      struct fb_error *e)
{
    size_t header;
    uint32_t header_sum;
    FB_TRY(zip_check_method(m, e));
    int rc = read_header(s, m, a, &header, &header_sum, e);
    if (rc)
        return rc;
    a->storage = ARRAY_CONTIGUOUS;
    a->offset = a->bytes ? m->at + header : m->at;
    if (m->method == ZIP_DEFLATED && a->bytes)
        FB_TRY(set_chunk(a, m, header, header_sum, chunk, e));
    return array_check(a, s->size, e);
}

/* One member into the next free place of `f`; *left_out keeps the first reason why one cannot be read. */
static int add_member(const struct array_source *s, const struct zip_member *m, struct array_file *f, struct array_chunk *chunk,
                      struct fb_error *left_out, struct fb_error *e)
{
    struct array_layout *a = &f->array[f->count];
    struct fb_error own;
    error_clear(&own);
    FB_TRY(set_name(a, m, e));
    int rc = read_array(s, m, a, chunk, &own);
    if (rc == 1) {
        memset(a, 0, sizeof(*a));
        return 0;
    }
    if (rc < 0 && rc != FB_E_UNSUPPORTED && rc != FB_E_DATA) {
        if (e && !e->code)
            *e = own;
        return rc;
    }
    if (rc == FB_E_DATA) {
        char name[96];
        error_set(e, rc, "decode", "the array \"%s\": %s", text_escape(a->name, name, sizeof(name)), own.cause);
        error_at(e, NULL, own.offset);
        return rc;
    }
    if (array_find(f, a->name) && a->name[0])
        return array_damaged(e, (int64_t)m->at, "the archive has two arrays of one name");
    f->count++;
    if (rc < 0) {
        array_make_unreadable(a, own.cause);
        if (!left_out->code)
            *left_out = own;
    }
    return 0;
}

static int add_members(const struct array_source *s, const struct zip_member *m, int count, struct array_file *f, struct array_chunk *chunk,
                       struct fb_error *e)
{
    struct fb_error left_out;
    int readable = 0;
    error_clear(&left_out);
    f->count = 0;
    for (int i = 0; i < count; i++)
        FB_TRY(add_member(s, &m[i], f, &chunk[i], &left_out, e));
    for (int i = 0; i < f->count; i++)
        readable += f->array[i].storage != ARRAY_OPAQUE;
    if (!f->count)
        return error_set(e, FB_E_UNSUPPORTED, "decode", "it is a zip archive without arrays (no member is a .npy file)");
    if (readable)
        return 0;
    error_set(e, left_out.code, "decode", "nothing in the archive can be read: %s", left_out.cause);
    error_remedy(e, "%s", left_out.remedy);
    return left_out.code;
}

static int describe(const struct array_source *s, struct array_file *out, struct fb_error *e)
{
    struct zip_member *m = malloc(sizeof(*m) * ARRAY_MAX_IN_FILE);
    void *chunks;
    int count = 0;
    if (!m)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for the members of an archive");
    int rc = zip_read(s, m, ARRAY_MAX_IN_FILE, &count, e);
    if (rc == 0)
        rc = array_file_make(out, "npz", s->size, count, (size_t)count * sizeof(struct array_chunk), &chunks, e);
    if (rc == 0) {
        rc = add_members(s, m, count, out, chunks, e);
        if (rc < 0)
            array_file_free(out);
    }
    free(m);
    return rc;
}

const struct array_ops array_npz = {.name = "npz", .probe = probe, .describe = describe, .read_rows = array_unreadable_rows};
