/* Colour arithmetic with AVX2: the same floats and doubles as C, eight pixels at a time. */
#include "transform/image/kernels/color_avx2.h"

#include "transform/image/kernels/color_c.h"
#include "transform/image/kernels/pixels_avx2.h"

static inline __m256i blend(__m256 base, __m256i value, __m256 factor)
{
    __m256 difference = _mm256_sub_ps(_mm256_cvtepi32_ps(value), base);
    __m256 v = _mm256_add_ps(base, _mm256_mul_ps(factor, difference));
    v = _mm256_min_ps(_mm256_max_ps(v, _mm256_setzero_ps()), _mm256_set1_ps(255));
    return _mm256_cvttps_epi32(v);
}

void blend_constant_avx2(uint8_t *bytes, size_t n, uint8_t base, float factor)
{
    const __m256 b = _mm256_set1_ps(base), f = _mm256_set1_ps(factor);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i v[4];
        for (int k = 0; k < 4; k++)
            v[k] = blend(b, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(bytes + i + 8 * k))), f);
        __m256i packed = _mm256_packus_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
        _mm256_storeu_si256((void *)(bytes + i), _mm256_permutevar8x32_epi32(packed, order));
    }
    for (; i < n; i++) {
        float v = (float)base + factor * (float)(bytes[i] - base);
        bytes[i] = v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
    }
}

void blend_gray_avx2(uint8_t *pixels, size_t n, float factor)
{
    const __m256 f = _mm256_set1_ps(factor);
    size_t i = 0;
    for (; 3 * i + PIXELS_REACH <= 3 * n; i += PIXELS_BLOCK) {
        __m256i p = pixels_load(pixels + 3 * i);
        __m256 base = _mm256_cvtepi32_ps(pixels_luma(p));
        __m256i r = blend(base, pixels_channel(p, 0), f), g = blend(base, pixels_channel(p, 1), f),
                b = blend(base, pixels_channel(p, 2), f);
        pixels_store(pixels + 3 * i, _mm256_or_si256(r, _mm256_or_si256(_mm256_slli_epi32(g, 8), _mm256_slli_epi32(b, 16))));
    }
    blend_gray_c(pixels + 3 * i, n - i, factor);
}

void gray_avx2(uint8_t *pixels, size_t n)
{
    size_t i = 0;
    for (; 3 * i + PIXELS_REACH <= 3 * n; i += PIXELS_BLOCK) {
        __m256i luma = pixels_luma(pixels_load(pixels + 3 * i));
        __m256i two = _mm256_or_si256(luma, _mm256_slli_epi32(luma, 8));
        pixels_store(pixels + 3 * i, _mm256_or_si256(two, _mm256_slli_epi32(luma, 16)));
    }
    gray_c(pixels + 3 * i, n - i);
}

uint64_t gray_sum_avx2(const uint8_t *pixels, size_t n)
{
    __m256i sums = _mm256_setzero_si256();
    size_t i = 0;
    for (; 3 * i + PIXELS_REACH <= 3 * n; i += PIXELS_BLOCK)
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(pixels_luma(pixels_load(pixels + 3 * i)), _mm256_setzero_si256()));
    uint64_t part[4];
    _mm256_storeu_si256((void *)part, sums);
    return part[0] + part[1] + part[2] + part[3] + gray_sum_c(pixels + 3 * i, n - i);
}
