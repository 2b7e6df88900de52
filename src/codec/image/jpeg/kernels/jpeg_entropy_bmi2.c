/* The entropy decoder for processors with AVX2 and BMI2, and the copy without stuffed zeros, 32 bytes at a time. */
#define JPEG_ENTROPY jpeg_entropy_bmi2
#include "codec/image/jpeg/kernels/jpeg_entropy_body.h"

#include <immintrin.h>

uint32_t jpeg_unstuff_avx2(uint8_t *out, uint32_t room, const uint8_t **in, const uint8_t *end, uint16_t *dropped, uint32_t *drops,
                           uint32_t before)
{
    const uint8_t *p = *in;
    uint32_t n = 0;
    while (n + 32 <= room && end - p >= 33) { /* 33: the byte after the last one is looked at */
        __m256i v = _mm256_loadu_si256((const void *)p);
        uint32_t ff = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_set1_epi8(-1)));
        _mm256_storeu_si256((void *)(out + n), v);
        if (!ff) {
            n += 32;
            p += 32;
            continue;
        }
        uint32_t at = (uint32_t)__builtin_ctz(ff);
        n += at;
        p += at;
        if (p[1] != 0) {
            *in = p;
            return n;
        }
        n++;
        p += 2;
        dropped[(*drops)++] = (uint16_t)(before + n);
    }
    *in = p;
    return n + jpeg_unstuff_c(out + n, room - n, in, end, dropped, drops, before + n);
}
