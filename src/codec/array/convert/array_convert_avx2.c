/* The steps of a conversion that are worth it, eight or sixteen numbers at a time. The last few of each call go through C: nothing is
 * read or written beyond the n numbers. */
#include <immintrin.h>

#include "codec/array/convert/array_convert_kernels.h"

/* ---- swapped ---- */

static __m256i swap_pattern(int bytes)
{
    uint8_t p[32];
    for (int i = 0; i < 32; i++)
        p[i] = (uint8_t)(i % 16 / bytes * bytes + bytes - 1 - i % bytes);
    return _mm256_loadu_si256((const __m256i *)p);
}

static inline __attribute__((always_inline)) void swap(void *to, const void *from, size_t n, int bytes)
{
    const uint8_t *in = from;
    uint8_t *out = to;
    const __m256i pattern = swap_pattern(bytes);
    size_t i = 0, total = n * (size_t)bytes;
    for (; i + 32 <= total; i += 32)
        _mm256_storeu_si256((__m256i *)(out + i), _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(in + i)), pattern));
    array_kernels_c.swap[bytes](out + i, in + i, (total - i) / (size_t)bytes);
}

static void swap_2(void *to, const void *from, size_t n)
{
    swap(to, from, n, 2);
}

static void swap_4(void *to, const void *from, size_t n)
{
    swap(to, from, n, 4);
}

static void swap_8(void *to, const void *from, size_t n)
{
    swap(to, from, n, 8);
}

/* ---- integers to float32 ---- */

static inline __m256 u8_to_ps(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

static inline __m256 i16_to_ps(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)p)));
}

static inline __m256 u16_to_ps(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)));
}

static inline __m256 i32_to_ps(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* Eight numbers of BYTES bytes by EXPRESSION of `p`, the rest by C's step. Reads ahead of the eighth go at most SPARE numbers far. */
#define DEFINE_TO_F32(NAME, BYTES, SPARE, REST, EXPRESSION) \
    static void NAME(void *to, const void *from, size_t n)  \
    {                                                       \
        const uint8_t *p = from;                            \
        float *out = to;                                    \
        size_t i = 0;                                       \
        for (; i + 8 + SPARE <= n; i += 8, p += 8 * BYTES)  \
            _mm256_storeu_ps(out + i, EXPRESSION);          \
        REST(out + i, p, n - i);                            \
    }

DEFINE_TO_F32(u8_to_f32, 1, 0, array_kernels_c.widen_f32[FB_UINT8], u8_to_ps(p))
DEFINE_TO_F32(i16_to_f32, 2, 0, array_kernels_c.widen_f32[FB_INT16], i16_to_ps(p))
DEFINE_TO_F32(u16_to_f32, 2, 0, array_kernels_c.widen_f32[FB_UINT16], u16_to_ps(p))
DEFINE_TO_F32(i32_to_f32, 4, 0, array_kernels_c.widen_f32[FB_INT32], i32_to_ps(p))

/* ---- sound to float32 ---- */

/* Three bytes go to the upper ones of four: the number times 256. */
static inline __m256 s24_to_ps(const uint8_t *p)
{
    const __m256i pattern = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11));
    __m256i bytes = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)(p + 12)), _mm_loadu_si128((const __m128i *)p));
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, pattern));
}

DEFINE_TO_F32(sound_u8, 1, 0, array_kernels_c.sound_f32[ARRAY_PCM_U8],
              _mm256_mul_ps(_mm256_sub_ps(u8_to_ps(p), _mm256_set1_ps(128)), _mm256_set1_ps(0x1p-7f)))
DEFINE_TO_F32(sound_s16, 2, 0, array_kernels_c.sound_f32[ARRAY_PCM_S16], _mm256_mul_ps(i16_to_ps(p), _mm256_set1_ps(0x1p-15f)))
DEFINE_TO_F32(sound_s24, 3, 2, array_kernels_c.sound_f32[ARRAY_PCM_S24], _mm256_mul_ps(s24_to_ps(p), _mm256_set1_ps(0x1p-31f)))
DEFINE_TO_F32(sound_s32, 4, 0, array_kernels_c.sound_f32[ARRAY_PCM_S32], _mm256_mul_ps(i32_to_ps(p), _mm256_set1_ps(0x1p-31f)))

/* ---- between floats ---- */

static inline __m256 bf16_to_ps(const uint8_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}

static inline __m256 pd_to_ps(const uint8_t *p)
{
    return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd((const double *)(p + 32))), _mm256_cvtpd_ps(_mm256_loadu_pd((const double *)p)));
}

DEFINE_TO_F32(f16_to_f32, 2, 0, array_kernels_c.widen_f32[FB_FLOAT16], _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)))
DEFINE_TO_F32(bf16_to_f32, 2, 0, array_kernels_c.widen_f32[FB_BFLOAT16], bf16_to_ps(p))
DEFINE_TO_F32(f64_to_f32, 8, 0, array_kernels_c.widen_f32[FB_FLOAT64], pd_to_ps(p))

static void f32_to_f16(void *to, const void *from, size_t n)
{
    const float *in = from;
    uint16_t *out = to;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    array_kernels_c.narrow_f32[FB_FLOAT16](out + i, in + i, n - i);
}

/* Each result in the lower half of its 32 bits. */
static inline __m256i ps_to_bf16(__m256 v)
{
    __m256i u = _mm256_castps_si256(v), high = _mm256_srli_epi32(u, 16);
    __m256i rounding = _mm256_add_epi32(_mm256_and_si256(high, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, rounding), 16), quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}

static void f32_to_bf16(void *to, const void *from, size_t n)
{
    const float *in = from;
    uint16_t *out = to;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i both = _mm256_packus_epi32(ps_to_bf16(_mm256_loadu_ps(in + i)), ps_to_bf16(_mm256_loadu_ps(in + i + 8)));
        _mm256_storeu_si256((__m256i *)(out + i), _mm256_permute4x64_epi64(both, 0xd8));
    }
    array_kernels_c.narrow_f32[FB_BFLOAT16](out + i, in + i, n - i);
}

/* ---- on floats ---- */

static void norm_one(float *x, float mean, float inv_std, size_t n)
{
    const __m256 m = _mm256_set1_ps(mean), s = _mm256_set1_ps(inv_std);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), m), s));
    array_kernels_c.norm_one(x + i, mean, inv_std, n - i);
}

static void norm_each(float *x, const float *mean, const float *inv_std, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 difference = _mm256_sub_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(mean + i));
        _mm256_storeu_ps(x + i, _mm256_mul_ps(difference, _mm256_loadu_ps(inv_std + i)));
    }
    array_kernels_c.norm_each(x + i, mean + i, inv_std + i, n - i);
}

/* Eight frames: the left channels in order, the right ones in order. */
static inline void load_2(const float *from, __m256 *left, __m256 *right)
{
    __m256 a = _mm256_loadu_ps(from), b = _mm256_loadu_ps(from + 8);
    __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    *left = _mm256_shuffle_ps(low, high, 0x88);
    *right = _mm256_shuffle_ps(low, high, 0xdd);
}

static void split_2(float *left, float *right, const float *from, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 l, r;
        load_2(from + 2 * i, &l, &r);
        _mm256_storeu_ps(left + i, l);
        _mm256_storeu_ps(right + i, r);
    }
    array_kernels_c.split_2(left + i, right + i, from + 2 * i, n - i);
}

static void mix_2(float *to, const float *from, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 l, r;
        load_2(from + 2 * i, &l, &r);
        _mm256_storeu_ps(to + i, _mm256_mul_ps(_mm256_add_ps(l, r), _mm256_set1_ps(0.5f)));
    }
    array_kernels_c.mix_2(to + i, from + 2 * i, n - i);
}

void array_kernels_add_avx2(struct array_kernels *k)
{
    k->name = "avx2";
    k->swap[2] = swap_2;
    k->swap[4] = swap_4;
    k->swap[8] = swap_8;
    k->widen_f32[FB_UINT8] = u8_to_f32;
    k->widen_f32[FB_INT16] = i16_to_f32;
    k->widen_f32[FB_UINT16] = u16_to_f32;
    k->widen_f32[FB_INT32] = i32_to_f32;
    k->widen_f32[FB_FLOAT16] = f16_to_f32;
    k->widen_f32[FB_BFLOAT16] = bf16_to_f32;
    k->widen_f32[FB_FLOAT64] = k->narrow_f64[FB_FLOAT32] = k->sound_f32[ARRAY_PCM_F64] = f64_to_f32;
    k->narrow_f32[FB_FLOAT16] = f32_to_f16;
    k->narrow_f32[FB_BFLOAT16] = f32_to_bf16;
    k->sound_f32[ARRAY_PCM_U8] = sound_u8;
    k->sound_f32[ARRAY_PCM_S16] = sound_s16;
    k->sound_f32[ARRAY_PCM_S24] = sound_s24;
    k->sound_f32[ARRAY_PCM_S32] = sound_s32;
    k->norm_one = norm_one;
    k->norm_each = norm_each;
    k->split_2 = split_2;
    k->mix_2 = mix_2;
}
