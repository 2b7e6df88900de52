/* The entropy decoder for any processor, and the copy without stuffed zeros. */
#include "codec/image/jpeg/kernels/jpeg_entropy_body.h"

uint32_t jpeg_unstuff_c(uint8_t *out, uint32_t room, const uint8_t **in, const uint8_t *end, uint16_t *dropped, uint32_t *drops,
                        uint32_t before)
{
    const uint8_t *p = *in;
    uint32_t n = 0;
    while (n < room && p < end) {
        size_t most = (size_t)(end - p) < room - n ? (size_t)(end - p) : room - n;
        const uint8_t *ff = memchr(p, 0xff, most);
        size_t plain = ff ? (size_t)(ff - p) : most;
        memcpy(out + n, p, plain);
        n += (uint32_t)plain;
        p += plain;
        if (!ff)
            continue;
        if (end - p < 2 || p[1] != 0)
            break;
        out[n++] = 0xff;
        dropped[(*drops)++] = (uint16_t)(before + n);
        p += 2;
    }
    *in = p;
    return n;
}
