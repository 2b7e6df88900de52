/* Shuffle undone for numbers of 2, 4 and 8 bytes: planes of 32 bytes are interleaved byte by byte, then pair by pair ..., as often as the
 * size has halves. Unpacking works inside halves of a register, so the order of the halves is put right when storing. Others are C's. */
#include <immintrin.h>
#include <string.h>

#include "codec/unfilter.h"

static __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* Two registers whose lower halves belong before both upper halves. */
static void store_pair(uint8_t *out, __m256i a, __m256i b)
{
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(a, b, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 32), _mm256_permute2x128_si256(a, b, 0x31));
}

static size_t unshuffle_2(uint8_t *out, const uint8_t *in, size_t count)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i a = load(in + i), b = load(in + count + i);
        store_pair(out + 2 * i, _mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
    }
    return i;
}

static size_t unshuffle_4(uint8_t *out, const uint8_t *in, size_t count)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i a = load(in + i), b = load(in + count + i), c = load(in + 2 * count + i), d = load(in + 3 * count + i);
        __m256i ab_low = _mm256_unpacklo_epi8(a, b), ab_high = _mm256_unpackhi_epi8(a, b);
        __m256i cd_low = _mm256_unpacklo_epi8(c, d), cd_high = _mm256_unpackhi_epi8(c, d);
        __m256i q0 = _mm256_unpacklo_epi16(ab_low, cd_low), q1 = _mm256_unpackhi_epi16(ab_low, cd_low);
        __m256i q2 = _mm256_unpacklo_epi16(ab_high, cd_high), q3 = _mm256_unpackhi_epi16(ab_high, cd_high);
        uint8_t *to = out + 4 * i; /* q0..q3: numbers 0-3, 4-7, 8-11, 12-15 in the lower halves, 16-19 ... in the upper ones */
        _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(q0, q1, 0x20));
        _mm256_storeu_si256((__m256i *)(to + 32), _mm256_permute2x128_si256(q2, q3, 0x20));
        _mm256_storeu_si256((__m256i *)(to + 64), _mm256_permute2x128_si256(q0, q1, 0x31));
        _mm256_storeu_si256((__m256i *)(to + 96), _mm256_permute2x128_si256(q2, q3, 0x31));
    }
    return i;
}

/* Eight planes of 16 numbers: 128-bit registers suffice, and the order comes out right by itself. */
static size_t unshuffle_8(uint8_t *out, const uint8_t *in, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m128i p[8], pair[8], quad[8];
        for (int k = 0; k < 8; k++)
            p[k] = _mm_loadu_si128((const __m128i *)(in + (size_t)k * count + i));
        for (int k = 0; k < 4; k++) {
            pair[k] = _mm_unpacklo_epi8(p[2 * k], p[2 * k + 1]);
            pair[k + 4] = _mm_unpackhi_epi8(p[2 * k], p[2 * k + 1]);
        }
        for (int half = 0; half < 8; half += 4) /* half: numbers 0-7 or 8-15 */
            for (int k = 0; k < 2; k++) {
                quad[half + k] = _mm_unpacklo_epi16(pair[half + 2 * k], pair[half + 2 * k + 1]);
                quad[half + k + 2] = _mm_unpackhi_epi16(pair[half + 2 * k], pair[half + 2 * k + 1]);
            }
        for (int k = 0; k < 8; k += 2) {
            uint8_t *to = out + 8 * i + (size_t)k * 16;
            _mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi32(quad[k], quad[k + 1]));
            _mm_storeu_si128((__m128i *)(to + 16), _mm_unpackhi_epi32(quad[k], quad[k + 1]));
        }
    }
    return i;
}

void unshuffle_avx2(uint8_t *out, const uint8_t *in, size_t n, size_t size)
{
    size_t count = n / size, whole = count * size, done;
    switch (size) {
    case 2: done = unshuffle_2(out, in, count); break;
    case 4: done = unshuffle_4(out, in, count); break;
    case 8: done = unshuffle_8(out, in, count); break;
    default: unshuffle_c(out, in, n, size); return;
    }
    for (size_t i = done; i < count; i++)
        for (size_t k = 0; k < size; k++)
            out[i * size + k] = in[k * count + i];
    memcpy(out + whole, in + whole, n - whole);
}
