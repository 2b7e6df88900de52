/* Resampling with AVX2.
 *
 * The weights have 22 fractional bits, too many for 16-bit multiplication; 32-bit multiplication is slow or wasteful. So a weight is
 * split in two 15-bit parts (see struct filter) and VPMADDWD multiplies two neighbouring inputs by each part and adds them: exact, and put
 * together at the end as high * 2^15 + low, which is the sum that C makes.
 */
#include "transform/resample_avx2.h"

#include <immintrin.h>
#include <string.h>

#include "transform/resample_c.h"

static inline int32_t load_word(const void *p)
{
    int32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline __m256i spread(const int16_t *pair)
{
    return _mm256_set1_epi32(load_word(pair));
}

/* ---- rows ----
 *
 * Two rows side by side in one register, four rows at a time, one output pixel after the other. A shuffle takes two neighbouring pixels from
 * a 16-byte load and lays them out as 16-bit (first, second) pairs, one per channel.
 */
struct row_shuffle {
    __m256i first, second; /* pixels 0 and 1, pixels 2 and 3 */
};

static inline struct row_shuffle row_shuffle_of(int channels)
{
    const __m128i rgb = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
    const __m128i rgba = _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
    const __m128i first = channels == 3 ? rgb : rgba;
    const __m128i step = _mm_set1_epi8((char)(channels * 2)); /* added with saturation: what picks nothing stays so */
    return (struct row_shuffle){_mm256_broadcastsi128_si256(first), _mm256_broadcastsi128_si256(_mm_adds_epu8(first, step))};
}

struct sums {
    __m256i low, high;
};

static inline void add_pair(struct sums *s, __m256i pixels, __m256i low, __m256i high)
{
    s->low = _mm256_add_epi32(s->low, _mm256_madd_epi16(pixels, low));
    s->high = _mm256_add_epi32(s->high, _mm256_madd_epi16(pixels, high));
}

static inline __m256i total(struct sums s)
{
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(s.high, 15), s.low), RESAMPLE_BITS);
}

static inline struct sums half(void)
{
    return (struct sums){_mm256_set1_epi32(1 << (RESAMPLE_BITS - 1)), _mm256_setzero_si256()};
}

static inline __m256i load_two(const uint8_t *a, const uint8_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)a)), _mm_loadu_si128((const void *)b), 1);
}

static inline __m256i load_two_short(const uint8_t *a, const uint8_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadl_epi64((const void *)a)), _mm_loadl_epi64((const void *)b), 1);
}

/* One output pixel of rows a and b. */
static inline __attribute__((always_inline)) __m256i filter_two(const uint8_t *a, const uint8_t *b, const int16_t *w, uint32_t pairs, int channels,
                                                               const struct row_shuffle *shuffle)
{
    struct sums s = half();
    if (pairs == 1) {
        add_pair(&s, _mm256_shuffle_epi8(load_two_short(a, b), shuffle->first), spread(w), spread(w + 2));
        return total(s);
    }
    for (uint32_t k = 0; k < pairs; k += 2, w += 8, a += 4 * channels, b += 4 * channels) {
        __m256i pixels = load_two(a, b);
        add_pair(&s, _mm256_shuffle_epi8(pixels, shuffle->first), spread(w), spread(w + 2));
        add_pair(&s, _mm256_shuffle_epi8(pixels, shuffle->second), spread(w + 4), spread(w + 6));
    }
    return total(s);
}

static inline void put(uint8_t *out, uint32_t pixel, size_t bytes)
{
    memcpy(out, &pixel, bytes);
}

/* Rows a, b (and c, d). Each pixel is written as four bytes, the spare one overwritten by the next; the last pixel as it is. */
static inline __attribute__((always_inline)) void filter_rows(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride, int rows,
                                                             int channels, uint32_t pairs, const struct filter *f)
{
    const struct row_shuffle shuffle = row_shuffle_of(channels);
    const uint8_t *a = in, *b = rows > 1 ? a + in_stride : a, *c = rows > 2 ? b + in_stride : a, *d = rows > 3 ? c + in_stride : a;
    for (uint32_t i = 0; i < f->count; i++, out += channels) {
        const int16_t *w = f->pair_weight + (size_t)i * pairs * 4;
        size_t at = (size_t)f->pair_start[i] * (size_t)channels, bytes = i + 1 < f->count ? 4 : (size_t)channels;
        __m256i ab = filter_two(a + at, b + at, w, pairs, channels, &shuffle);
        __m256i cd = rows > 2 ? filter_two(c + at, d + at, w, pairs, channels, &shuffle) : ab;
        __m256i packed = _mm256_packs_epi32(ab, cd); /* a c | b d */
        packed = _mm256_packus_epi16(packed, packed);
        __m128i ac = _mm256_castsi256_si128(packed), bd = _mm256_extracti128_si256(packed, 1);
        put(out, (uint32_t)_mm_cvtsi128_si32(ac), bytes);
        if (rows > 1)
            put(out + out_stride, (uint32_t)_mm_cvtsi128_si32(bd), bytes);
        if (rows > 2)
            put(out + 2 * out_stride, (uint32_t)_mm_extract_epi32(ac, 1), bytes);
        if (rows > 3)
            put(out + 3 * out_stride, (uint32_t)_mm_extract_epi32(bd, 1), bytes);
    }
}

/* Constant pair counts let the compiler unroll what nearly every filter needs: enlarging, shrinking up to 2x, up to 4x. */
static void filter_four(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride, int channels, const struct filter *f)
{
    if (channels == 3 && f->pairs == 1)
        filter_rows(out, out_stride, in, in_stride, 4, 3, 1, f);
    else if (channels == 3 && f->pairs == 2)
        filter_rows(out, out_stride, in, in_stride, 4, 3, 2, f);
    else if (channels == 3 && f->pairs == 4)
        filter_rows(out, out_stride, in, in_stride, 4, 3, 4, f);
    else
        filter_rows(out, out_stride, in, in_stride, 4, channels, f->pairs, f);
}

void resample_rows_avx2(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride, uint32_t rows, int channels,
                        const struct filter *f)
{
    if (channels < 3) {
        resample_rows_c(out, out_stride, in, in_stride, rows, channels, f);
        return;
    }
    uint32_t y = 0;
    for (; y + 4 <= rows; y += 4)
        filter_four(out + y * out_stride, out_stride, in + y * in_stride, in_stride, channels, f);
    for (; y < rows; y++)
        filter_rows(out + y * out_stride, out_stride, in + y * in_stride, in_stride, 1, channels, f->pairs, f);
}

/* ---- columns ----
 *
 * 32 bytes of a row at a time; the bytes of two neighbouring input rows are interleaved into 16-bit (upper, lower) pairs.
 */
struct column_sums {
    struct sums part[4];
};

static inline __attribute__((always_inline)) void add_rows(struct column_sums *s, __m256i upper, __m256i lower, __m256i low, __m256i high)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i left = _mm256_unpacklo_epi8(upper, lower), right = _mm256_unpackhi_epi8(upper, lower);
    add_pair(&s->part[0], _mm256_unpacklo_epi8(left, zero), low, high);
    add_pair(&s->part[1], _mm256_unpackhi_epi8(left, zero), low, high);
    add_pair(&s->part[2], _mm256_unpacklo_epi8(right, zero), low, high);
    add_pair(&s->part[3], _mm256_unpackhi_epi8(right, zero), low, high);
}

static inline __attribute__((always_inline)) __m256i filter_block(const uint8_t *in, size_t in_stride, const int16_t *w, uint32_t length)
{
    struct column_sums s = {{half(), half(), half(), half()}};
    for (uint32_t k = 0; k < length; k += 2, w += 4) {
        const uint8_t *upper = in + k * in_stride, *lower = k + 1 < length ? upper + in_stride : upper; /* weight 0 then */
        add_rows(&s, _mm256_loadu_si256((const void *)upper), _mm256_loadu_si256((const void *)lower), spread(w), spread(w + 2));
    }
    return _mm256_packus_epi16(_mm256_packs_epi32(total(s.part[0]), total(s.part[1])), _mm256_packs_epi32(total(s.part[2]), total(s.part[3])));
}

static inline __attribute__((always_inline)) void filter_columns(uint8_t *out, const uint8_t *in, size_t in_stride, size_t bytes, const int16_t *w,
                                                                uint32_t length)
{
    size_t x = 0;
    for (; x + 32 <= bytes; x += 32)
        _mm256_storeu_si256((void *)(out + x), filter_block(in + x, in_stride, w, length));
    if (x < bytes) /* the last 32 once more, overlapping */
        _mm256_storeu_si256((void *)(out + bytes - 32), filter_block(in + bytes - 32, in_stride, w, length));
}

void resample_columns_avx2(uint8_t *out, const uint8_t *in, size_t in_stride, size_t bytes, const struct filter *f, uint32_t i)
{
    if (bytes < 32) {
        resample_columns_c(out, in, in_stride, bytes, f, i);
        return;
    }
    const int16_t *w = f->pair_weight + (size_t)i * f->pairs * 4;
    in += f->start[i] * in_stride;
    switch (f->length[i]) {
    case 1: filter_columns(out, in, in_stride, bytes, w, 1); break;
    case 2: filter_columns(out, in, in_stride, bytes, w, 2); break;
    case 3: filter_columns(out, in, in_stride, bytes, w, 3); break;
    case 4: filter_columns(out, in, in_stride, bytes, w, 4); break;
    default: filter_columns(out, in, in_stride, bytes, w, f->length[i]); break;
    }
}
