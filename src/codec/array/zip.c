/* Zip archives, as far as arrays need it: the table at the end, 64-bit sizes, stored and deflated members.
 *
 * The table is the truth; of a local header only its length counts. Members that share bytes are refused, so an archive unpacks to at most
 * 1032 times its size (deflate's limit).
 */
#include "codec/array/zip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/text/text.h"

enum { END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56, ENTRY_BYTES = 46, LOCAL_BYTES = 30, MAX_COMMENT = 65535 };
enum { FLAG_ENCRYPTED = 1, FLAG_STRONG = 1 << 6, FLAG_MASKED = 1 << 13 };
enum { MAX_TABLE = 16 << 20 };
#define END_MAGIC 0x06054b50u
#define LOCATOR_MAGIC 0x07064b50u
#define END64_MAGIC 0x06064b50u
#define ENTRY_MAGIC 0x02014b50u
#define LOCAL_MAGIC 0x04034b50u

struct table {
    uint64_t count, bytes, at;
};

/* ---- the end ---- */

/* Where the end record begins in the last n bytes of the file, or -1. */
static int64_t find_end(const uint8_t *tail, size_t n)
{
    for (int64_t i = (int64_t)n - END_BYTES; i >= 0; i--)
        if (array_u32(tail + i) == END_MAGIC && array_u16(tail + i + 20) <= n - (size_t)i - END_BYTES)
            return i;
    return -1;
}

/* The record with 64-bit numbers, when the locator before the end record points to one. */
static int read_end64(const struct array_source *s, uint64_t end_at, struct table *t, struct fb_error *e)
{
    uint8_t locator[LOCATOR_BYTES], end[END64_BYTES];
    if (end_at < LOCATOR_BYTES)
        return 0;
    FB_TRY(s->read(s->ctx, end_at - LOCATOR_BYTES, sizeof(locator), locator, e));
    if (array_u32(locator) != LOCATOR_MAGIC)
        return 0;
    uint64_t at = array_u64(locator + 8);
    if (end_at - LOCATOR_BYTES < END64_BYTES || at > end_at - LOCATOR_BYTES - END64_BYTES)
        return array_damaged(e, (int64_t)(end_at - LOCATOR_BYTES),
                             "the zip archive's table of contents is not where the archive says it is");
    FB_TRY(s->read(s->ctx, at, sizeof(end), end, e));
    if (array_u32(end) != END64_MAGIC)
        return array_damaged(e, (int64_t)at, "the zip archive's table of contents is not where the archive says it is");
    *t = (struct table){array_u64(end + 32), array_u64(end + 40), array_u64(end + 48)};
    return 0;
}

static int find_table(const struct array_source *s, struct table *t, struct fb_error *e)
{
    size_t n = s->size < END_BYTES + MAX_COMMENT ? (size_t)s->size : END_BYTES + MAX_COMMENT;
    uint8_t *tail = malloc(n + 1);
    if (!tail)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for the end of a zip archive");
    int rc = s->read(s->ctx, s->size - n, n, tail, e);
    int64_t found = rc < 0 ? -1 : find_end(tail, n);
    uint64_t end_at = found < 0 ? 0 : s->size - n + (uint64_t)found;
    if (found >= 0)
        *t = (struct table){array_u16(tail + found + 10), array_u32(tail + found + 12), array_u32(tail + found + 16)};
    free(tail);
    FB_TRY(rc);
    if (found < 0)
        return array_damaged(e, (int64_t)s->size, "the zip archive has no table of contents: it is cut off");
    FB_TRY(read_end64(s, end_at, t, e));
    if (t->at > end_at || t->bytes > end_at - t->at)
        return array_damaged(e, (int64_t)end_at, "the zip archive's table of contents is not where the archive says it is");
    if (t->bytes > MAX_TABLE || t->count > t->bytes / ENTRY_BYTES)
        return array_damaged(e, (int64_t)t->at, "the zip archive claims %llu members in a table of %llu bytes",
                             (unsigned long long)t->count, (unsigned long long)t->bytes);
    return 0;
}

/* ---- the table ---- */

/* Sizes that did not fit in 32 bits stand in an extra field, in this order, those that are needed. */
static bool widen(const uint8_t *extra, size_t n, uint64_t *bytes, uint64_t *stored, uint64_t *at)
{
    uint64_t *const wanted[] = {bytes, stored, at};
    for (size_t i = 0; i + 4 <= n; i += 4 + array_u16(extra + i + 2)) {
        size_t length = array_u16(extra + i + 2), used = 0;
        if (array_u16(extra + i) != 1 || length > n - i - 4)
            continue;
        for (int k = 0; k < 3; k++) {
            if (*wanted[k] != UINT32_MAX)
                continue;
            if (used + 8 > length)
                return false;
            *wanted[k] = array_u64(extra + i + 4 + used);
            used += 8;
        }
        return true;
    }
    return *bytes != UINT32_MAX && *stored != UINT32_MAX && *at != UINT32_MAX;
}

/* Reads one entry into `m` (at: of the local header); returns its length, 0: damaged. */
static size_t read_entry(const uint8_t *p, size_t n, struct zip_member *m)
{
    if (n < ENTRY_BYTES || array_u32(p) != ENTRY_MAGIC)
        return 0;
    size_t name = array_u16(p + 28), extra = array_u16(p + 30), total = ENTRY_BYTES + name + extra + array_u16(p + 32);
    if (total > n)
        return 0;
    *m = (struct zip_member){.flags = array_u16(p + 8),
                             .method = array_u16(p + 10),
                             .crc = array_u32(p + 16),
                             .stored = array_u32(p + 20),
                             .bytes = array_u32(p + 24),
                             .at = array_u32(p + 42)};
    if (!widen(p + ENTRY_BYTES + name, extra, &m->bytes, &m->stored, &m->at))
        return 0;
    m->is_cut = name >= sizeof(m->name) || memchr(p + ENTRY_BYTES, 0, name);
    memcpy(m->name, p + ENTRY_BYTES, name < sizeof(m->name) ? name : sizeof(m->name) - 1);
    return total;
}

/* From the local header to the bytes behind it. */
static int skip_local(const struct array_source *s, struct zip_member *m, uint64_t table_at, struct fb_error *e)
{
    uint8_t local[LOCAL_BYTES];
    char name[96];
    text_escape(m->name, name, sizeof(name));
    if (m->at > table_at || table_at - m->at < LOCAL_BYTES)
        return array_damaged(e, (int64_t)table_at, "the member %s of the zip archive is not where the table of contents says it is", name);
    FB_TRY(s->read(s->ctx, m->at, sizeof(local), local, e));
    if (array_u32(local) != LOCAL_MAGIC)
        return array_damaged(e, (int64_t)m->at, "the member %s of the zip archive is not where the table of contents says it is", name);
    m->at += LOCAL_BYTES + array_u16(local + 26) + array_u16(local + 28);
    if (m->at > table_at || m->stored > table_at - m->at)
        return array_damaged(e, (int64_t)table_at, "the member %s of the zip archive goes on beyond its table of contents", name);
    return 0;
}

static int check_apart(const struct zip_member *m, int count, struct fb_error *e)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (m[i].at < m[k].at + m[k].stored && m[k].at < m[i].at + m[i].stored)
                return array_damaged(e, (int64_t)m[i].at, "two members of the zip archive lie in the same bytes");
    return 0;
}

static bool is_folder(const struct zip_member *m)
{
    size_t n = strlen(m->name);
    return n && m->name[n - 1] == '/' && !m->bytes;
}

static int read_members(const struct array_source *s, const struct table *t, const uint8_t *table, struct zip_member *out, int capacity,
                        int *count, struct fb_error *e)
{
    size_t at = 0;
    *count = 0;
    for (uint64_t i = 0; i < t->count; i++) {
        struct zip_member m;
        size_t length = read_entry(table + at, (size_t)t->bytes - at, &m);
        if (!length)
            return array_damaged(e, (int64_t)(t->at + at), "entry %llu of the zip archive's table of contents is broken",
                                 (unsigned long long)i);
        at += length;
        if (is_folder(&m))
            continue;
        if (*count == capacity)
            return error_set(e, FB_E_UNSUPPORTED, "decode", "the zip archive has more than %d members", capacity);
        FB_TRY(skip_local(s, &m, t->at, e));
        out[(*count)++] = m;
    }
    return check_apart(out, *count, e);
}

int zip_read(const struct array_source *s, struct zip_member *out, int capacity, int *count, struct fb_error *e)
{
    struct table t;
    FB_TRY(find_table(s, &t, e));
    uint8_t *table = malloc((size_t)t.bytes + 1);
    if (!table)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for the table of contents of a zip archive");
    int rc = t.bytes ? s->read(s->ctx, t.at, t.bytes, table, e) : 0;
    if (rc == 0)
        rc = read_members(s, &t, table, out, capacity, count, e);
    free(table);
    return rc;
}

int zip_check_method(const struct zip_member *m, struct fb_error *e)
{
    if (m->flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED))
        return error_set(e, FB_E_UNSUPPORTED, "decode", "it is encrypted");
    if (m->method != ZIP_STORED && m->method != ZIP_DEFLATED)
        return error_set(e, FB_E_UNSUPPORTED, "decode", "it is compressed by method %u of zip; stored (0) and deflated (8) are read",
                         m->method);
    if (m->method == ZIP_STORED && m->stored != m->bytes)
        return array_damaged(e, (int64_t)m->at, "a stored member of the zip archive has two sizes");
    return 0;
}

/* ---- the start of a member ---- */

static int inflate_start(const struct array_source *s, const struct zip_member *m, uint8_t *out, size_t n, z_stream *z, struct fb_error *e)
{
    uint8_t in[4096];
    uint64_t used = 0;
    z->next_out = out;
    z->avail_out = (uInt)n;
    for (int state = Z_OK; z->avail_out;) {
        uint64_t left = m->stored - used;
        size_t some = left < sizeof(in) ? (size_t)left : sizeof(in);
        if (state != Z_OK || !some)
            return array_damaged(e, (int64_t)(m->at + used), "the deflated bytes of a member of the zip archive are broken");
        FB_TRY(s->read(s->ctx, m->at + used, some, in, e));
        z->next_in = in;
        z->avail_in = (uInt)some;
        used += some;
        state = inflate(z, Z_NO_FLUSH);
    }
    return 0;
}

int zip_read_start(const struct array_source *s, const struct zip_member *m, uint8_t *out, size_t n, struct fb_error *e)
{
    if (m->method == ZIP_STORED)
        return n ? s->read(s->ctx, m->at, n, out, e) : 0;
    z_stream z = {0};
    if (inflateInit2(&z, -15) != Z_OK)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for a decompressor");
    int rc = inflate_start(s, m, out, n, &z, e);
    inflateEnd(&z);
    return rc;
}
