/* Tar headers as POSIX wants them. Owner, group and mode are the same for every member, so that equal data gives equal packs. */
#include <stdio.h>
#include <string.h>

#include "base/round_up.h"
#include "dataset/tar/tar_header.h"
#include "jobs/output/pack_record.h"

#define MOST_OCTAL ((UINT64_C(1) << 33) - 1) /* 11 digits */

static void put_octal(uint8_t *field, int digits, uint64_t value)
{
    for (int i = digits - 1; i >= 0; i--, value >>= 3)
        field[i] = (uint8_t)('0' + (value & 7));
}

/* Sizes from 8 GiB on have no octal form; the binary one is read by everything that is still in use. */
static void put_size(uint8_t *field, uint64_t size)
{
    if (size <= MOST_OCTAL) {
        put_octal(field, 11, size);
        return;
    }
    field[0] = 0x80;
    for (int i = 0; i < 8; i++)
        field[11 - i] = (uint8_t)(size >> (8 * i));
}

static void put_block(struct text *out, const char *prefix, size_t prefix_length, const char *name, size_t name_length, uint64_t size,
                      int64_t mtime_s, char type)
{
    uint8_t block[TAR_BLOCK] = {0};
    memcpy(block + TAR_AT_NAME, name, name_length);
    memcpy(block + TAR_AT_PREFIX, prefix, prefix_length);
    put_octal(block + TAR_AT_MODE, 7, 0644);
    put_octal(block + TAR_AT_UID, 7, 0);
    put_octal(block + TAR_AT_GID, 7, 0);
    put_size(block + TAR_AT_SIZE, size);
    put_octal(block + TAR_AT_MTIME, 11, mtime_s < 0 ? 0 : (uint64_t)mtime_s > MOST_OCTAL ? MOST_OCTAL : (uint64_t)mtime_s);
    block[TAR_AT_TYPE] = (uint8_t)type;
    memcpy(block + TAR_AT_MAGIC, "ustar\00000", 8);
    strcpy((char *)block + TAR_AT_OWNER, TAR_PACK_OWNER);
    strcpy((char *)block + TAR_AT_GROUP, TAR_PACK_GROUP);
    put_octal(block + TAR_AT_MAJOR, 7, 0);
    put_octal(block + TAR_AT_MINOR, 7, 0);
    put_octal(block + TAR_AT_SUM, 6, tar_sum(block));
    block[TAR_AT_SUM + 7] = ' ';
    text_append(out, (const char *)block, sizeof(block));
}

void pack_put_padding(struct text *out, size_t from)
{
    static const char zeros[TAR_BLOCK];
    text_append(out, zeros, (size_t)(round_up(out->length - from, TAR_BLOCK) - (out->length - from)));
}

static bool is_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        int length = text_utf8_length(s + i, n - i);
        if (length == 0)
            return false;
        i += (size_t)length;
    }
    return true;
}

/* "LENGTH path=NAME\n", the length counting its own digits. */
static void put_pax(struct text *out, const char *name, size_t n)
{
    size_t rest = strlen(" path=\n") + n, length = rest + 1;
    char digits[24];
    while (length != rest + (size_t)snprintf(digits, sizeof(digits), "%zu", length))
        length = rest + strlen(digits);
    put_block(out, "", 0, "PaxHeaders/path", 15, length, 0, 'x');
    size_t from = out->length;
    text_append(out, digits, strlen(digits));
    text_append(out, " path=", 6);
    text_append(out, name, n);
    text_append(out, "\n", 1);
    pack_put_padding(out, from);
}

static void put_long_name(struct text *out, const char *name, size_t n)
{
    put_block(out, "", 0, "././@LongLink", 13, n + 1, 0, 'L');
    size_t from = out->length;
    text_append(out, name, n + 1);
    pack_put_padding(out, from);
}

/* Where to cut a name in two fields: 0 if it fits in one, SIZE_MAX if it fits in none. */
static size_t find_cut(const char *name, size_t n)
{
    if (n <= TAR_AT_MODE)
        return 0;
    for (size_t cut = n - 1; cut > 0; cut--)
        if (name[cut] == '/' && cut <= TAR_AT_END - TAR_AT_PREFIX && n - cut - 1 <= TAR_AT_MODE && n - cut - 1 > 0)
            return cut;
    return SIZE_MAX;
}

void pack_put_header(struct text *out, const char *name, uint64_t size, int64_t mtime_ns)
{
    size_t n = strlen(name), cut = find_cut(name, n);
    int64_t mtime_s = mtime_ns / 1000000000;
    if (cut == SIZE_MAX) {
        if (is_utf8(name, n))
            put_pax(out, name, n);
        else
            put_long_name(out, name, n);
        put_block(out, "", 0, name, TAR_AT_MODE, size, mtime_s, '0');
        return;
    }
    put_block(out, name, cut, cut ? name + cut + 1 : name, cut ? n - cut - 1 : n, size, mtime_s, '0');
}

void pack_put_member(struct text *out, const char *name, const char *bytes, size_t n, int64_t mtime_ns)
{
    pack_put_header(out, name, n, mtime_ns);
    size_t from = out->length;
    text_append(out, bytes, n);
    pack_put_padding(out, from);
}
