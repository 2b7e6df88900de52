/* Which way up: the orientation tag (0x0112) of an EXIF block, or tiff:Orientation of an XMP packet.
 *
 * Only the first directory of the block is read, and of it only that tag; the value must be one BYTE, SHORT or LONG from 1 to 8. Every
 * offset is checked against the block, so a hostile one costs at most a walk over its 65,535 entries.
 */
#include <string.h>

#include "codec/codec_internal.h"

enum { TAG_ORIENTATION = 0x0112, TYPE_BYTE = 1, TYPE_SHORT = 3, TYPE_LONG = 4, ENTRY_BYTES = 12 };

struct tiff {
    const uint8_t *bytes;
    size_t n;
    bool is_big_endian;
};

static uint32_t word(const struct tiff *t, size_t at)
{
    const uint8_t *p = t->bytes + at;
    return t->is_big_endian ? (uint32_t)(p[0] << 8 | p[1]) : (uint32_t)(p[1] << 8 | p[0]);
}

static uint32_t long_word(const struct tiff *t, size_t at)
{
    return t->is_big_endian ? big_endian_32(t->bytes + at) : little_endian_32(t->bytes + at);
}

static uint8_t entry_value(const struct tiff *t, size_t at)
{
    uint32_t type = word(t, at + 2), value = 0;
    if (long_word(t, at + 4) != 1)
        return 0;
    if (type == TYPE_BYTE)
        value = t->bytes[at + 8];
    else if (type == TYPE_SHORT)
        value = word(t, at + 8);
    else if (type == TYPE_LONG)
        value = long_word(t, at + 8);
    return value >= 1 && value <= 8 ? (uint8_t)value : 0;
}

static uint8_t first_directory(const struct tiff *t)
{
    size_t at = long_word(t, 4);
    if (at < 8 || at > t->n - 2)
        return 0;
    uint32_t count = word(t, at);
    at += 2;
    for (uint32_t i = 0; i < count && t->n - at >= ENTRY_BYTES; i++, at += ENTRY_BYTES)
        if (word(t, at) == TAG_ORIENTATION)
            return entry_value(t, at);
    return 0;
}

uint8_t exif_orientation(const uint8_t *bytes, size_t n)
{
    for (int i = 0; i < 2 && n >= 6 && !memcmp(bytes, "Exif\0\0", 6); i++) { /* some writers put it there twice */
        bytes += 6;
        n -= 6;
    }
    struct tiff t = {bytes, n, n > 0 && bytes[0] == 'M'};
    if (n < 8 || memcmp(bytes, t.is_big_endian ? "MM" : "II", 2) || word(&t, 2) != 42)
        return 0;
    return first_directory(&t);
}

uint8_t xmp_orientation(const uint8_t *bytes, size_t n)
{
    static const char name[] = "tiff:Orientation";
    const size_t length = sizeof(name) - 1;
    const uint8_t *end = bytes + n;
    for (const uint8_t *p = bytes; (p = memmem(p, (size_t)(end - p), name, length));) {
        p += length;
        const uint8_t *q = p;
        if (end - q >= 2 && q[0] == '=' && q[1] == '"')
            q += 2;
        else if (end - q >= 1 && q[0] == '>')
            q += 1;
        else
            continue;
        if (q < end && *q >= '0' && *q <= '9')
            return *q >= '1' && *q <= '8' ? (uint8_t)(*q - '0') : 0;
    }
    return 0;
}
