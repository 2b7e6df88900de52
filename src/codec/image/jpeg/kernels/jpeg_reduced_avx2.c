/* Blocks to 4 x 4 and 2 x 2 samples. As in jpeg_idct_avx2.c each half of a register holds a block of its own. */
#include <immintrin.h>
#include <string.h>

#include "codec/image/jpeg/kernels/jpeg_idct_avx2.h"

static inline __m256i pair(int first, int second)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)first | (uint32_t)second << 16));
}

/* A row of two blocks' coefficients, dequantised. */
static inline __m256i row_of(const struct jpeg_block *a, const struct jpeg_block *b, const int16_t *quant, int row)
{
    __m128i in_a = _mm_load_si128((const void *)(a->coefficients + 8 * row));
    __m128i in_b = _mm_load_si128((const void *)(b->coefficients + 8 * row));
    __m256i steps = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(quant + 8 * row)));
    return _mm256_mullo_epi16(_mm256_inserti128_si256(_mm256_castsi128_si256(in_a), in_b, 1), steps);
}

/* ---- four by four ---- */

/* Four columns (of each block) at once: values 1 and 3, 5 and 7, 2 and 6 woven, value 0 in the upper half of each 32 bits. */
static inline __attribute__((always_inline)) void four_of(__m256i out[4], __m256i x13, __m256i x57, __m256i x26, __m256i x0, int shift)
{
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    __m256i outer = _mm256_add_epi32(_mm256_madd_epi16(x13, pair(20995, 7373)), _mm256_madd_epi16(x57, pair(-4926, -4176)));
    __m256i inner = _mm256_add_epi32(_mm256_madd_epi16(x13, pair(8697, -17799)), _mm256_madd_epi16(x57, pair(11893, -1730)));
    __m256i even = _mm256_madd_epi16(x26, pair(15137, -6270)), first = _mm256_add_epi32(_mm256_srai_epi32(x0, 2), half);
    __m256i with = _mm256_add_epi32(first, even), without = _mm256_sub_epi32(first, even);
    out[0] = _mm256_srai_epi32(_mm256_add_epi32(with, outer), shift);
    out[1] = _mm256_srai_epi32(_mm256_add_epi32(without, inner), shift);
    out[2] = _mm256_srai_epi32(_mm256_sub_epi32(without, inner), shift);
    out[3] = _mm256_srai_epi32(_mm256_sub_epi32(with, outer), shift);
}

/* Four rows of eight columns from eight of them. */
static inline void shorten(__m256i out[4], const __m256i x[8])
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i low[4], high[4];
    four_of(low, _mm256_unpacklo_epi16(x[1], x[3]), _mm256_unpacklo_epi16(x[5], x[7]), _mm256_unpacklo_epi16(x[2], x[6]),
            _mm256_unpacklo_epi16(zero, x[0]), 12);
    four_of(high, _mm256_unpackhi_epi16(x[1], x[3]), _mm256_unpackhi_epi16(x[5], x[7]), _mm256_unpackhi_epi16(x[2], x[6]),
            _mm256_unpackhi_epi16(zero, x[0]), 12);
    for (int i = 0; i < 4; i++)
        out[i] = _mm256_packs_epi32(low[i], high[i]);
}

/* Blocks with coefficients in their first row only: libjpeg-turbo shifts there, and does not saturate. */
static __attribute__((noinline)) void shift_instead(__m256i x[4], __m256i first, bool in_a, bool in_b)
{
    __m256i mask = _mm256_setr_epi64x(-in_a, -in_a, -in_b, -in_b), shifted = _mm256_slli_epi16(first, 2);
    for (int i = 0; i < 4; i++)
        x[i] = _mm256_blendv_epi8(x[i], shifted, mask);
}

static inline void store_four(__m128i rows, uint8_t *out, size_t stride)
{
    uint32_t row[4];
    _mm_storeu_si128((void *)row, rows);
    for (size_t i = 0; i < 4; i++)
        memcpy(out + i * stride, &row[i], 4);
}

/* Four rows of eight -> four by four samples. */
static inline void narrow(const __m256i x[4], uint8_t *a, uint8_t *b, size_t stride)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i upper_low = _mm256_unpacklo_epi16(x[0], x[1]), upper_high = _mm256_unpackhi_epi16(x[0], x[1]);
    __m256i lower_low = _mm256_unpacklo_epi16(x[2], x[3]), lower_high = _mm256_unpackhi_epi16(x[2], x[3]);
    __m256i c01 = _mm256_unpacklo_epi32(upper_low, lower_low), c23 = _mm256_unpackhi_epi32(upper_low, lower_low); /* columns of four */
    __m256i c45 = _mm256_unpacklo_epi32(upper_high, lower_high), c67 = _mm256_unpackhi_epi32(upper_high, lower_high), v[4];
    four_of(v, _mm256_unpackhi_epi16(c01, c23), _mm256_unpackhi_epi16(c45, c67), _mm256_unpacklo_epi16(c23, c67),
            _mm256_unpacklo_epi16(zero, c01), 19);
    __m256i v02 = _mm256_packs_epi32(v[0], v[2]), v13 = _mm256_packs_epi32(v[1], v[3]); /* of all four rows */
    __m256i left = _mm256_unpacklo_epi16(v02, v13), right = _mm256_unpackhi_epi16(v02, v13);
    __m256i rows = _mm256_packs_epi16(_mm256_unpacklo_epi32(left, right), _mm256_unpackhi_epi32(left, right));
    rows = _mm256_add_epi8(rows, _mm256_set1_epi8(-128));
    store_four(_mm256_castsi256_si128(rows), a, stride);
    store_four(_mm256_extracti128_si256(rows, 1), b, stride);
}

static bool is_flat(const struct jpeg_block *b)
{
    __m128i any = _mm_setzero_si128();
    for (int i = 1; i < 8; i++)
        if (i != 4)
            any = _mm_or_si128(any, _mm_load_si128((const void *)(b->coefficients + 8 * i)));
    return _mm_testz_si128(any, any);
}

void jpeg_idct_4_avx2(const struct jpeg_block *blocks, int n, const int16_t *quant, size_t stride)
{
    for (int i = 0; i < n; i += 2) {
        const struct jpeg_block *a = &blocks[i], *b = i + 1 < n ? a + 1 : a;
        __m256i x[8], y[4];
        for (int k = 0; k < 8; k++)
            if (k != 4)
                x[k] = row_of(a, b, quant, k);
        bool in_a = is_flat(a), in_b = is_flat(b);
        shorten(y, x);
        if (__builtin_expect(in_a | in_b, 0))
            shift_instead(y, x[0], in_a, in_b);
        narrow(y, a->out, b->out, stride);
    }
}

/* ---- two by two: four blocks at once, two in each register ---- */

struct halves { /* first pass: upper and lower result of columns 1, 3, 5, 7, and in 32 bits each of columns 0, 2, 4, 6 */
    __m256i upper, lower, first_upper, first_lower;
};

static inline struct halves first_pass(const struct jpeg_block *a, const struct jpeg_block *b, const int16_t *quant)
{
    const __m256i half = _mm256_set1_epi32(1 << 12), w13 = pair(29692, -10426), w57 = pair(6967, -5906);
    __m256i x0 = row_of(a, b, quant, 0), x1 = row_of(a, b, quant, 1), x3 = row_of(a, b, quant, 3), x5 = row_of(a, b, quant, 5),
            x7 = row_of(a, b, quant, 7);
    __m256i odd13 = _mm256_blend_epi16(_mm256_srli_epi32(x1, 16), x3, 0xaa);
    __m256i odd57 = _mm256_blend_epi16(_mm256_srli_epi32(x5, 16), x7, 0xaa);
    __m256i even13 = _mm256_blend_epi16(x1, _mm256_slli_epi32(x3, 16), 0xaa);
    __m256i even57 = _mm256_blend_epi16(x5, _mm256_slli_epi32(x7, 16), 0xaa);
    __m256i odd = _mm256_add_epi32(_mm256_madd_epi16(odd13, w13), _mm256_madd_epi16(odd57, w57));
    __m256i even = _mm256_add_epi32(_mm256_madd_epi16(even13, w13), _mm256_madd_epi16(even57, w57));
    __m256i mean = _mm256_add_epi32(_mm256_slli_epi32(_mm256_srai_epi32(x0, 16), 15), half);
    __m256i first = _mm256_add_epi32(_mm256_srai_epi32(_mm256_slli_epi32(x0, 16), 1), half);
    return (struct halves){
        _mm256_srai_epi32(_mm256_add_epi32(mean, odd), 13),
        _mm256_srai_epi32(_mm256_sub_epi32(mean, odd), 13),
        _mm256_srai_epi32(_mm256_add_epi32(first, even), 13),
        _mm256_srai_epi32(_mm256_sub_epi32(first, even), 13),
    };
}

/* 16-bit words: upper row of the first block and of the second, lower row of each. */
static inline void store_two(__m128i rows, uint8_t *first, uint8_t *second, size_t stride)
{
    uint16_t row[4];
    _mm_storel_epi64((void *)row, rows);
    memcpy(first, &row[0], 2);
    memcpy(second, &row[1], 2);
    memcpy(first + stride, &row[2], 2);
    memcpy(second + stride, &row[3], 2);
}

void jpeg_idct_2_avx2(const struct jpeg_block *blocks, int n, const int16_t *quant, size_t stride)
{
    const __m256i weights = _mm256_set1_epi64x(
        (int64_t)((uint64_t)29692 | (uint64_t)(uint16_t)-10426 << 16 | (uint64_t)6967 << 32 | (uint64_t)(uint16_t)-5906 << 48));
    for (int i = 0; i < n; i += 4) {
        const struct jpeg_block *at[4];
        for (int k = 0; k < 4; k++)
            at[k] = &blocks[i + k < n ? i + k : n - 1];
        struct halves p = first_pass(at[0], at[1], quant), q = first_pass(at[2], at[3], quant);
        __m256i upper = _mm256_madd_epi16(_mm256_packs_epi32(p.upper, q.upper), weights);
        __m256i lower = _mm256_madd_epi16(_mm256_packs_epi32(p.lower, q.lower), weights);
        __m256i odd = _mm256_hadd_epi32(upper, lower); /* upper of p and q, lower of p and q */
        __m256i first =
            _mm256_unpacklo_epi64(_mm256_unpacklo_epi32(p.first_upper, q.first_upper), _mm256_unpacklo_epi32(p.first_lower, q.first_lower));
        first = _mm256_add_epi32(_mm256_slli_epi32(first, 15), _mm256_set1_epi32(1 << 19));
        __m256i left = _mm256_srai_epi32(_mm256_add_epi32(first, odd), 20), right = _mm256_srai_epi32(_mm256_sub_epi32(first, odd), 20);
        __m256i rows = _mm256_packs_epi32(_mm256_unpacklo_epi32(left, right), _mm256_unpackhi_epi32(left, right));
        rows = _mm256_add_epi8(_mm256_packs_epi16(rows, rows), _mm256_set1_epi8(-128));
        store_two(_mm256_castsi256_si128(rows), at[0]->out, at[2]->out, stride);
        store_two(_mm256_extracti128_si256(rows, 1), at[1]->out, at[3]->out, stride);
    }
}
