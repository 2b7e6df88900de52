/* Chroma upsampling and colour, 32 samples at a time. What lies in the margin behind a row may be read and written. */
#include <immintrin.h>
#include <string.h>

#include "codec/image/jpeg/kernels/jpeg_idct_avx2.h"

static inline __m256i load16(const uint8_t *p) /* sixteen samples, 16 bits each */
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)p));
}

static inline __m256i thrice(__m256i v)
{
    return _mm256_add_epi16(v, _mm256_slli_epi16(v, 1));
}

/* Even samples in the low bytes, odd ones in the high bytes: that is their order in memory. */
static inline void store_woven(uint8_t *out, __m256i even, __m256i odd)
{
    _mm256_storeu_si256((void *)out, _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

static void repeat_avx2(uint8_t *out, const uint8_t *in, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        __m256i v = load16(in + i);
        store_woven(out + 2 * i, v, v);
    }
}

static void widen_avx2(uint8_t *out, const uint8_t *in, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        __m256i here = thrice(load16(in + i)), before = load16(in + i - 1), behind = load16(in + i + 1);
        __m256i even = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(here, before), _mm256_set1_epi16(1)), 2);
        __m256i odd = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(here, behind), _mm256_set1_epi16(2)), 2);
        store_woven(out + 2 * i, even, odd);
    }
}

static inline __m256i column_sum(const uint8_t *near, const uint8_t *next)
{
    return _mm256_add_epi16(thrice(load16(near)), load16(next));
}

static void widen_blend_avx2(uint8_t *out, const uint8_t *near, const uint8_t *next, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        __m256i here = thrice(column_sum(near + i, next + i));
        __m256i before = column_sum(near + i - 1, next + i - 1), behind = column_sum(near + i + 1, next + i + 1);
        __m256i even = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(here, before), _mm256_set1_epi16(8)), 4);
        __m256i odd = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(here, behind), _mm256_set1_epi16(7)), 4);
        store_woven(out + 2 * i, even, odd);
    }
}

static void blend_avx2(uint8_t *out, const uint8_t *near, const uint8_t *next, uint32_t n, bool is_lower)
{
    const __m256i bias = _mm256_set1_epi16(is_lower ? 2 : 1);
    for (uint32_t i = 0; i < n; i += 16) {
        __m256i v = _mm256_srli_epi16(_mm256_add_epi16(column_sum(near + i, next + i), bias), 2);
        _mm_storeu_si128((void *)(out + i), _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
    }
}

/* 32 pixels of three colours, one byte each, in the order of memory -> 96 bytes. */
static inline void store_pixels(uint8_t *out, __m256i r, __m256i g, __m256i b)
{
    const __m256i r0 = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5));
    const __m256i g0 = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1));
    const __m256i b0 = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1));
    const __m256i r1 = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1));
    const __m256i g1 = _mm256_broadcastsi128_si256(_mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10));
    const __m256i b1 = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1));
    const __m256i r2 = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1));
    const __m256i g2 = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1));
    const __m256i b2 = _mm256_broadcastsi128_si256(_mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15));
    __m256i first = _mm256_or_si256(_mm256_or_si256(_mm256_shuffle_epi8(r, r0), _mm256_shuffle_epi8(g, g0)), _mm256_shuffle_epi8(b, b0));
    __m256i second = _mm256_or_si256(_mm256_or_si256(_mm256_shuffle_epi8(r, r1), _mm256_shuffle_epi8(g, g1)), _mm256_shuffle_epi8(b, b1));
    __m256i third = _mm256_or_si256(_mm256_or_si256(_mm256_shuffle_epi8(r, r2), _mm256_shuffle_epi8(g, g2)), _mm256_shuffle_epi8(b, b2));
    _mm256_storeu_si256((void *)out, _mm256_permute2x128_si256(first, second, 0x20));
    _mm256_storeu_si256((void *)(out + 32), _mm256_permute2x128_si256(third, first, 0x30));
    _mm256_storeu_si256((void *)(out + 64), _mm256_permute2x128_si256(second, third, 0x31));
}

/* Sixteen pixels, 16 bits each, not yet cut to 0..255. */
struct colours {
    __m256i r, g, b;
};

/* v * factor / 65536, rounded; |v| <= 128 */
static inline __m256i share(__m256i v, int factor)
{
    __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(v, v), _mm256_set1_epi16((short)factor));
    return _mm256_srai_epi16(_mm256_add_epi16(twice, _mm256_set1_epi16(1)), 1);
}

/* 1.402 = 1 + 26345 / 65536, 1.772 = 2 - 14942 / 65536, 0.71414 = 1 - 18734 / 65536: what fits in 16 bits with sign */
static inline struct colours colours_of(__m256i y, __m256i b, __m256i r)
{
    const __m256i weights = _mm256_set1_epi32((int)((uint32_t)(uint16_t)-22554 | (uint32_t)18734 << 16)), half = _mm256_set1_epi32(32768);
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(b, r), weights), high = _mm256_madd_epi16(_mm256_unpackhi_epi16(b, r), weights);
    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
    return (struct colours){
        _mm256_add_epi16(_mm256_add_epi16(y, r), share(r, 26345)),
        _mm256_add_epi16(_mm256_sub_epi16(y, r), _mm256_packs_epi32(low, high)),
        _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(b, b)), share(b, -14942)),
    };
}

static inline void rgb_32(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr)
{
    const __m256i zero = _mm256_setzero_si256(), middle = _mm256_set1_epi16(128);
    __m256i ys = _mm256_loadu_si256((const void *)y), bs = _mm256_loadu_si256((const void *)cb), rs = _mm256_loadu_si256((const void *)cr);
    struct colours low = colours_of(_mm256_unpacklo_epi8(ys, zero), _mm256_sub_epi16(_mm256_unpacklo_epi8(bs, zero), middle),
                                    _mm256_sub_epi16(_mm256_unpacklo_epi8(rs, zero), middle));
    struct colours high = colours_of(_mm256_unpackhi_epi8(ys, zero), _mm256_sub_epi16(_mm256_unpackhi_epi8(bs, zero), middle),
                                     _mm256_sub_epi16(_mm256_unpackhi_epi8(rs, zero), middle));
    store_pixels(out, _mm256_packus_epi16(low.r, high.r), _mm256_packus_epi16(low.g, high.g), _mm256_packus_epi16(low.b, high.b));
}

static void rgb_avx2(uint8_t *out, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 32 <= n; i += 32)
        rgb_32(out + 3 * (size_t)i, y + i, cb + i, cr + i);
    if (i < n) {
        uint8_t rest[96];
        rgb_32(rest, y + i, cb + i, cr + i);
        memcpy(out + 3 * (size_t)i, rest, 3 * (size_t)(n - i));
    }
}

static void grey_avx2(uint8_t *out, const uint8_t *y, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i v = _mm256_loadu_si256((const void *)(y + i));
        store_pixels(out + 3 * (size_t)i, v, v, v);
    }
    for (; i < n; i++)
        memset(out + 3 * (size_t)i, y[i], 3);
}

const struct jpeg_kernels jpeg_kernels_avx2 = {
    .name = "avx2",
    .entropy = jpeg_entropy_bmi2,
    .unstuff = jpeg_unstuff_avx2,
    .idct = {jpeg_idct_avx2, jpeg_idct_4_avx2, jpeg_idct_2_avx2, jpeg_idct_1_c},
    .repeat = repeat_avx2,
    .widen = widen_avx2,
    .widen_blend = widen_blend_avx2,
    .blend = blend_avx2,
    .rgb = rgb_avx2,
    .grey = grey_avx2,
};
