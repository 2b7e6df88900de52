/* LZF streams: two bytes of room, then the stream. Compared with a decoder that goes byte by byte. */
#include <stdlib.h>
#include <string.h>

#include "codec/array/hdf5/lzf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool slowly(const uint8_t *in, size_t n, uint8_t *out, size_t room, size_t *made)
{
    size_t o = 0;
    for (size_t i = 0; i < n;) {
        size_t head = in[i++], length = head + 1, distance = 0;
        if (head >= 32) {
            length = head >> 5;
            if (length == 7 && i < n)
                length += in[i++];
            else if (length == 7)
                return false;
            if (i == n)
                return false;
            distance = ((head & 31) << 8 | in[i++]) + 1;
            length += 2;
        }
        for (size_t k = 0; k < length; k++, o++) {
            if (o == room || (distance ? distance > o : i == n))
                return false;
            out[o] = distance ? out[o - distance] : in[i++];
        }
    }
    *made = o;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t room = (size_t)data[0] << 8 | data[1], n = 0, m = 0;
    uint8_t *fast = malloc(room + 1), *slow = malloc(room + 1);
    if (!fast || !slow)
        abort();
    bool is_fine = lzf_expand(data + 2, size - 2, fast, room, &n);
    if (is_fine != slowly(data + 2, size - 2, slow, room, &m) || n != m || memcmp(fast, slow, n) != 0)
        abort();
    free(fast);
    free(slow);
    return 0;
}
