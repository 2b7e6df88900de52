/* Eight RGB pixels in and out of registers: 24 bytes, loaded as four pixels per half. */
#ifndef FB_TRANSFORM_IMAGE_KERNELS_PIXELS_AVX2_H
#define FB_TRANSFORM_IMAGE_KERNELS_PIXELS_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* A block of 8 pixels is loaded by reading 28 bytes. */
enum { PIXELS_BLOCK = 8, PIXELS_REACH = 28 };

static inline __m256i pixels_load(const uint8_t *in)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)in)), _mm_loadu_si128((const void *)(in + 12)), 1);
}

/* The same from a place that nothing may be read after: reads the four bytes before instead. */
static inline __m256i pixels_load_last(const uint8_t *in)
{
    __m128i left = _mm_loadu_si128((const void *)(in - 4)), right = _mm_loadu_si128((const void *)(in + 8));
    return _mm256_srli_si256(_mm256_inserti128_si256(_mm256_castsi128_si256(left), right, 1), 4);
}

/* Writes 24 bytes from eight 32-bit words (r, g, b, anything). */
static inline void pixels_store(uint8_t *out, __m256i words)
{
    const __m256i pack = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    __m256i packed = _mm256_shuffle_epi8(words, pack);
    __m128i right = _mm256_extracti128_si256(packed, 1);
    uint32_t end = (uint32_t)_mm_extract_epi32(right, 2);
    _mm_storeu_si128((void *)out, _mm256_castsi256_si128(packed)); /* four bytes too many, written over next */
    _mm_storel_epi64((void *)(out + 12), right);
    memcpy(out + 20, &end, sizeof(end));
}

/* One channel, widened to 32 bits. */
static inline __m256i pixels_channel(__m256i pixels, int c)
{
    const char a = (char)c, b = (char)(c + 3), d = (char)(c + 6), e = (char)(c + 9);
    const __m128i pick = _mm_setr_epi8(a, -1, -1, -1, b, -1, -1, -1, d, -1, -1, -1, e, -1, -1, -1);
    return _mm256_shuffle_epi8(pixels, _mm256_broadcastsi128_si256(pick));
}

/* Pillow's luma, 0..255 in 32 bits. Green's weight is beyond 16 bits with sign: half of it comes with red, half with blue. */
static inline __m256i pixels_luma(__m256i pixels)
{
    const __m128i pick = _mm_setr_epi8(0, -1, 1, -1, 3, -1, 4, -1, 6, -1, 7, -1, 9, -1, 10, -1);
    const __m256i red_green = _mm256_broadcastsi128_si256(pick);
    const __m256i green_blue = _mm256_broadcastsi128_si256(_mm_adds_epu8(pick, _mm_set1_epi8(1)));
    __m256i sum = _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, red_green), _mm256_set1_epi32(19595 | 19235 << 16));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, green_blue), _mm256_set1_epi32(19235 | 7471 << 16)));
    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(0x8000)), 16);
}

#endif
