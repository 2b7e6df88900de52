#include "dataset/tar/tar_header.h"

#include <string.h>

uint32_t tar_sum(const uint8_t block[TAR_BLOCK])
{
    uint32_t sum = 8 * ' ';
    for (int i = 0; i < TAR_BLOCK; i++)
        sum += i >= TAR_AT_SUM && i < TAR_AT_TYPE ? 0 : block[i];
    return sum;
}

/* Some old programs summed bytes as signed numbers. */
static int32_t signed_sum(const uint8_t block[TAR_BLOCK])
{
    int32_t sum = 8 * ' ';
    for (int i = 0; i < TAR_BLOCK; i++)
        sum += i >= TAR_AT_SUM && i < TAR_AT_TYPE ? 0 : (int8_t)block[i];
    return sum;
}

/* Octal digits among spaces, ended by a space or NUL. An empty field is 0. */
static bool parse_octal(const uint8_t *field, int n, int64_t *out)
{
    int i = 0;
    uint64_t value = 0;
    while (i < n && field[i] == ' ')
        i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++) {
        if (value >> 60)
            return false;
        value = value * 8 + (uint64_t)(field[i] - '0');
    }
    while (i < n && field[i] == ' ')
        i++;
    *out = (int64_t)value;
    return i == n || field[i] == 0;
}

/* Binary, big-endian, two's complement below the first bit. */
static bool parse_base256(const uint8_t *field, int n, int64_t *out)
{
    bool is_negative = field[0] & 0x40;
    uint64_t value = is_negative ? UINT64_MAX : 0;
    for (int i = 0; i < n; i++) {
        uint8_t byte = i ? field[i] : (uint8_t)((field[0] & 0x7F) | (is_negative ? 0x80 : 0));
        if (value >> 55 != (is_negative ? UINT64_MAX >> 55 : 0))
            return false;
        value = value << 8 | byte;
    }
    *out = (int64_t)value;
    return true;
}

static bool parse_number(const uint8_t *field, int n, int64_t *out)
{
    return field[0] & 0x80 ? parse_base256(field, n, out) : parse_octal(field, n, out);
}

static bool is_zero(const uint8_t block[TAR_BLOCK])
{
    return block[0] == 0 && memcmp(block, block + 1, TAR_BLOCK - 1) == 0;
}

static bool is_sum_right(const uint8_t block[TAR_BLOCK])
{
    int64_t stated;
    return parse_number(block + TAR_AT_SUM, TAR_AT_TYPE - TAR_AT_SUM, &stated) &&
           (stated == (int64_t)tar_sum(block) || stated == signed_sum(block));
}

static bool has_text(const uint8_t *field, const char *text)
{
    return memcmp(field, text, strlen(text) + 1) == 0;
}

static void join_name(const uint8_t block[TAR_BLOCK], struct tar_block *out)
{
    const char *name = (const char *)block + TAR_AT_NAME, *prefix = (const char *)block + TAR_AT_PREFIX;
    bool is_star = memcmp(block + TAR_AT_STAR_MARK, "tar", 4) == 0;
    bool has_prefix = !out->is_gnu && memcmp(block + TAR_AT_MAGIC, "ustar", 5) == 0;
    size_t before = has_prefix ? strnlen(prefix, (is_star ? TAR_AT_STAR_END - 1 : TAR_AT_END) - TAR_AT_PREFIX) : 0;
    size_t n = strnlen(name, TAR_AT_MODE);
    memcpy(out->name, prefix, before);
    if (before)
        out->name[before++] = '/';
    memcpy(out->name + before, name, n);
    out->name[before + n] = 0;
}

enum tar_block_kind tar_parse_block(const uint8_t block[TAR_BLOCK], struct tar_block *out)
{
    if (is_zero(block))
        return TAR_BLOCK_ZERO;
    if (!is_sum_right(block))
        return TAR_BLOCK_BAD_SUM;
    int64_t size;
    memset(out, 0, sizeof(*out));
    out->type = (char)block[TAR_AT_TYPE];
    out->is_gnu = memcmp(block + TAR_AT_MAGIC, "ustar  ", 8) == 0;
    out->is_pack = has_text(block + TAR_AT_OWNER, TAR_PACK_OWNER) && has_text(block + TAR_AT_GROUP, TAR_PACK_GROUP);
    out->is_extended = out->type == 'S' && block[TAR_AT_SPARSE_MORE] != 0;
    join_name(block, out);
    if (!parse_number(block + TAR_AT_SIZE, TAR_AT_MTIME - TAR_AT_SIZE, &size) || size < 0)
        return TAR_BLOCK_BAD_NUMBER;
    out->size = (uint64_t)size;
    if (!parse_number(block + TAR_AT_MTIME, TAR_AT_SUM - TAR_AT_MTIME, &out->mtime_s))
        out->mtime_s = 0;
    return TAR_BLOCK_HEADER;
}
