/* The inverse DCT of two blocks at once, one in each half of the registers: no lane ever crosses. Blocks with DC alone are filled.
 *
 * Half the work for blocks whose coefficients lie in the upper left quarter was tried: choosing cost more (a jump that cannot be foreseen)
 * than it saved. */
#include "codec/image/jpeg/kernels/jpeg_idct_avx2.h"

#include <immintrin.h>
#include <string.h>

static inline __m256i pair(int first, int second)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)first | (uint32_t)second << 16));
}

/* 32-bit values of eight columns (of each block): columns 0-3 and 4-7. */
struct wide {
    __m256i low, high;
};

static inline struct wide products(__m256i a, __m256i b, __m256i factors)
{
    return (struct wide){_mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), factors), _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), factors)};
}

static inline struct wide plus(struct wide a, struct wide b)
{
    return (struct wide){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

static inline struct wide minus(struct wide a, struct wide b)
{
    return (struct wide){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

/* v * 8192 + half */
static inline struct wide scaled(__m256i v, __m256i half)
{
    const __m256i zero = _mm256_setzero_si256();
    return (struct wide){_mm256_add_epi32(_mm256_srai_epi32(_mm256_unpacklo_epi16(zero, v), 3), half),
                         _mm256_add_epi32(_mm256_srai_epi32(_mm256_unpackhi_epi16(zero, v), 3), half)};
}

static inline __m256i narrow(struct wide v, int shift)
{
    return _mm256_packs_epi32(_mm256_srai_epi32(v.low, shift), _mm256_srai_epi32(v.high, shift));
}

/* Each column of eight, in place. */
static inline __attribute__((always_inline)) void transform(__m256i x[8], int shift)
{
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    struct wide even2 = products(x[2], x[6], pair(4433, -10704)), even3 = products(x[2], x[6], pair(10703, 4433));
    struct wide even0 = scaled(_mm256_add_epi16(x[0], x[4]), half), even1 = scaled(_mm256_sub_epi16(x[0], x[4]), half);
    struct wide e0 = plus(even0, even3), e3 = minus(even0, even3), e1 = plus(even1, even2), e2 = minus(even1, even2);

    __m256i z3 = _mm256_add_epi16(x[7], x[3]), z4 = _mm256_add_epi16(x[5], x[1]);
    struct wide odd3 = products(z3, z4, pair(-6436, 9633)), odd4 = products(z3, z4, pair(9633, 6437));
    struct wide o0 = plus(products(x[7], x[1], pair(-4927, -7373)), odd3), o3 = plus(products(x[7], x[1], pair(-7373, 4926)), odd4);
    struct wide o1 = plus(products(x[5], x[3], pair(-4176, -20995)), odd4), o2 = plus(products(x[5], x[3], pair(-20995, 4177)), odd3);

    x[0] = narrow(plus(e0, o3), shift);
    x[7] = narrow(minus(e0, o3), shift);
    x[1] = narrow(plus(e1, o2), shift);
    x[6] = narrow(minus(e1, o2), shift);
    x[2] = narrow(plus(e2, o1), shift);
    x[5] = narrow(minus(e2, o1), shift);
    x[3] = narrow(plus(e3, o0), shift);
    x[4] = narrow(minus(e3, o0), shift);
}

static inline __attribute__((always_inline)) void transpose(__m256i x[8])
{
    __m256i a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi16(x[2 * i], x[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(x[2 * i], x[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm256_unpacklo_epi32(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi32(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi32(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi32(a[4 * i + 1], a[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        x[2 * i] = _mm256_unpacklo_epi64(b[i], b[4 + i]);
        x[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[4 + i]);
    }
}

static inline __m256i both(const int16_t *a, const int16_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128((const void *)a)), _mm_load_si128((const void *)b), 1);
}

/* Blocks with coefficients in their first row only: libjpeg-turbo shifts there, and does not saturate. */
static __attribute__((noinline)) void shift_instead(__m256i x[8], __m256i first, bool in_a, bool in_b)
{
    __m256i mask = _mm256_setr_epi64x(-in_a, -in_a, -in_b, -in_b), shifted = _mm256_slli_epi16(first, 2);
    for (int i = 0; i < 8; i++)
        x[i] = _mm256_blendv_epi8(x[i], shifted, mask);
}

static inline void store_rows(__m256i rows, uint8_t *a, uint8_t *b, size_t stride)
{
    __m128i in_a = _mm256_castsi256_si128(rows), in_b = _mm256_extracti128_si256(rows, 1);
    _mm_storel_epi64((void *)a, in_a);
    _mm_storeh_pd((void *)(a + stride), _mm_castsi128_pd(in_a));
    _mm_storel_epi64((void *)b, in_b);
    _mm_storeh_pd((void *)(b + stride), _mm_castsi128_pd(in_b));
}

static void transform_two(const struct jpeg_block *a, const struct jpeg_block *b, const int16_t *quant, size_t stride)
{
    __m256i x[8], any = _mm256_setzero_si256();
    for (int i = 0; i < 8; i++) {
        __m256i c = both(a->coefficients + 8 * i, b->coefficients + 8 * i);
        if (i)
            any = _mm256_or_si256(any, c);
        x[i] = _mm256_mullo_epi16(c, _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(quant + 8 * i))));
    }
    __m128i in_a = _mm256_castsi256_si128(any), in_b = _mm256_extracti128_si256(any, 1);
    bool flat_a = _mm_testz_si128(in_a, in_a), flat_b = _mm_testz_si128(in_b, in_b);
    __m256i first = x[0];
    transform(x, 11);
    if (__builtin_expect(flat_a | flat_b, 0))
        shift_instead(x, first, flat_a, flat_b);
    transpose(x);
    transform(x, 18);
    transpose(x);
    for (size_t i = 0; i < 8; i += 2) {
        __m256i rows = _mm256_add_epi8(_mm256_packs_epi16(x[i], x[i + 1]), _mm256_set1_epi8(-128));
        store_rows(rows, a->out + i * stride, b->out + i * stride, stride);
    }
}

static inline void fill(const struct jpeg_block *b, const int16_t *quant, size_t stride)
{
    int16_t dc = (int16_t)(uint16_t)((uint32_t)(b->coefficients[0] * quant[0]) << 2);
    int v = ((dc + 16) >> 5) + 128;
    uint64_t row = (uint64_t)(uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v) * UINT64_C(0x0101010101010101);
    for (size_t i = 0; i < 8; i++)
        memcpy(b->out + i * stride, &row, 8);
}

void jpeg_idct_avx2(const struct jpeg_block *blocks, int n, const int16_t *quant, size_t stride)
{
    const struct jpeg_block *waiting = NULL;
    for (int i = 0; i < n; i++) {
        if (blocks[i].count == 1) {
            fill(&blocks[i], quant, stride);
        } else if (!waiting) {
            waiting = &blocks[i];
        } else {
            transform_two(waiting, &blocks[i], quant, stride);
            waiting = NULL;
        }
    }
    if (waiting)
        transform_two(waiting, waiting, quant, stride);
}
