/* LZF streams: a byte below 32 is followed by that many literal bytes and one more; any other is a reference back: three bits of length (7:
 * another byte of length follows), thirteen of distance.
 *
 * Written here because the format is a page long while liblzf is packaged in few places. Literals and references of up to 16 bytes, nearly
 * all of them, are moved as 16 bytes at once where there is room behind them.
 */
#include "codec/array/hdf5/lzf.h"

#include <string.h>

enum { WIDE = 16 };

static void repeat(uint8_t *to, size_t distance, size_t length)
{
    const uint8_t *from = to - distance;
    if (distance == 1) {
        memset(to, *from, length);
        return;
    }
    while (length > distance) { /* overlapping: what was just written is repeated */
        memcpy(to, from, distance);
        to += distance;
        length -= distance;
    }
    memcpy(to, from, length);
}

bool lzf_expand(const uint8_t *in, size_t n, uint8_t *out, size_t capacity, size_t *made)
{
    size_t i = 0, o = 0;
    while (i < n) {
        size_t head = in[i++];
        if (head < 32) {
            size_t length = head + 1;
            if (length > n - i || length > capacity - o)
                return false;
            if (length <= WIDE && n - i >= WIDE && capacity - o >= WIDE)
                memcpy(out + o, in + i, WIDE);
            else
                memcpy(out + o, in + i, length);
            i += length;
            o += length;
            continue;
        }
        size_t length = head >> 5;
        if (length == 7) {
            if (i == n)
                return false;
            length += in[i++];
        }
        if (i == n)
            return false;
        size_t distance = ((head & 31) << 8 | in[i++]) + 1;
        length += 2;
        if (distance > o || length > capacity - o)
            return false;
        if (length <= WIDE && distance >= WIDE && capacity - o >= WIDE)
            memcpy(out + o, out + o - distance, WIDE);
        else
            repeat(out + o, distance, length);
        o += length;
    }
    *made = o;
    return true;
}
