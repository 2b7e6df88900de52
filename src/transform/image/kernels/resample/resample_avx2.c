/* Resampling with AVX2.
 *
 * The weights have 22 fractional bits, too many for 16-bit multiplication; 32-bit multiplication is slow or wasteful. So a weight is split
 * in two 15-bit parts (see struct filter) and VPMADDWD multiplies two neighbouring inputs by each part and adds them: exact, and put
 * together at the end as high * 2^15 + low, which is the sum that C makes.
 *
 * Along columns 32 bytes lie side by side ready to use. Along rows they would have to be picked apart for each pixel; instead 32 rows at a
 * time are transposed, filtered like columns, and transposed back: measured 3.5 times as fast as shuffling three channels of a pixel into
 * place, and the same code for any number of channels.
 */
#include "transform/image/kernels/resample/resample_avx2.h"

#include <immintrin.h>
#include <string.h>

#include "transform/image/kernels/resample/resample_c.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

struct sums {
    __m256i low, high;
};

static ALWAYS_INLINE void add_pair(struct sums *s, __m256i values, __m256i low, __m256i high)
{
    s->low = _mm256_add_epi32(s->low, _mm256_madd_epi16(values, low));
    s->high = _mm256_add_epi32(s->high, _mm256_madd_epi16(values, high));
}

static ALWAYS_INLINE __m256i total(struct sums s)
{
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(s.high, 15), s.low), RESAMPLE_BITS);
}

static ALWAYS_INLINE struct sums half(void)
{
    return (struct sums){_mm256_set1_epi32(1 << (RESAMPLE_BITS - 1)), _mm256_setzero_si256()};
}

static ALWAYS_INLINE __m256i spread(const int16_t *pair)
{
    int32_t word;
    memcpy(&word, pair, sizeof(word));
    return _mm256_set1_epi32(word);
}

/* The bytes of two neighbouring input rows, interleaved into 16-bit (upper, lower) pairs. */
static ALWAYS_INLINE void add_rows(struct sums s[4], __m256i upper, __m256i lower, const int16_t *w)
{
    const __m256i zero = _mm256_setzero_si256(), low = spread(w), high = spread(w + 2);
    __m256i left = _mm256_unpacklo_epi8(upper, lower), right = _mm256_unpackhi_epi8(upper, lower);
    add_pair(&s[0], _mm256_unpacklo_epi8(left, zero), low, high);
    add_pair(&s[1], _mm256_unpackhi_epi8(left, zero), low, high);
    add_pair(&s[2], _mm256_unpacklo_epi8(right, zero), low, high);
    add_pair(&s[3], _mm256_unpackhi_epi8(right, zero), low, high);
}

/* 32 outputs side by side from `length` inputs, `stride` bytes apart. */
static ALWAYS_INLINE __m256i filter_block(const uint8_t *in, size_t stride, const int16_t *w, uint32_t length)
{
    struct sums s[4] = {half(), half(), half(), half()};
    for (uint32_t k = 0; k < length; k += 2, w += 4) {
        __m256i upper = _mm256_loadu_si256((const void *)(in + k * stride));
        __m256i lower = k + 1 < length ? _mm256_loadu_si256((const void *)(in + (k + 1) * stride)) : _mm256_setzero_si256();
        add_rows(s, upper, lower, w);
    }
    return _mm256_packus_epi16(_mm256_packs_epi32(total(s[0]), total(s[1])), _mm256_packs_epi32(total(s[2]), total(s[3])));
}

static ALWAYS_INLINE void filter_columns(uint8_t *out, const uint8_t *in, size_t stride, size_t bytes, const int16_t *w, uint32_t length)
{
    size_t x = 0;
    for (; x + 32 <= bytes; x += 32)
        _mm256_storeu_si256((void *)(out + x), filter_block(in + x, stride, w, length));
    if (x < bytes) /* the last 32 once more, overlapping */
        _mm256_storeu_si256((void *)(out + bytes - 32), filter_block(in + bytes - 32, stride, w, length));
}

void resample_columns_avx2(uint8_t *out, const uint8_t *in, size_t in_stride, size_t bytes, const struct filter *f, uint32_t i)
{
    if (bytes < 32) {
        resample_columns_c(out, in, in_stride, bytes, f, i);
        return;
    }
    const int16_t *w = f->pair_weight + (size_t)i * f->pairs * 4;
    in += f->start[i] * in_stride;
    switch (f->length[i]) { /* constant lengths are unrolled */
    case 1: filter_columns(out, in, in_stride, bytes, w, 1); break;
    case 2: filter_columns(out, in, in_stride, bytes, w, 2); break;
    case 3: filter_columns(out, in, in_stride, bytes, w, 3); break;
    case 4: filter_columns(out, in, in_stride, bytes, w, 4); break;
    default: filter_columns(out, in, in_stride, bytes, w, f->length[i]); break;
    }
}

/* ---- rows ---- */

enum { BAND = 32, SIDE = 16, MIN_ROWS = 6 };

/* Both halves: 16 x 16 bytes. Interleaving the first eight registers with the last eight turns the index of a byte by one bit; four times
 * swaps row and column. */
static ALWAYS_INLINE void transpose(__m256i v[SIDE])
{
    for (int turn = 0; turn < 4; turn++) {
        __m256i next[SIDE];
        for (int i = 0; i < SIDE / 2; i++) {
            next[2 * i] = _mm256_unpacklo_epi8(v[i], v[i + SIDE / 2]);
            next[2 * i + 1] = _mm256_unpackhi_epi8(v[i], v[i + SIDE / 2]);
        }
        for (int i = 0; i < SIDE; i++)
            v[i] = next[i];
    }
}

/* Row y of the band; rows that are not there repeat the last. */
static ALWAYS_INLINE const uint8_t *band_row(const uint8_t *in, size_t stride, uint32_t rows, uint32_t y)
{
    return in + (y < rows ? y : rows - 1) * stride;
}

/* 16 bytes of 32 rows become 16 rows of 32 bytes. */
static void turn_in(uint8_t *to, const uint8_t *in, size_t stride, uint32_t rows)
{
    __m256i v[SIDE];
    for (uint32_t y = 0; y < SIDE; y++) {
        __m128i upper = _mm_loadu_si128((const void *)band_row(in, stride, rows, y));
        __m128i lower = _mm_loadu_si128((const void *)band_row(in, stride, rows, y + SIDE));
        v[y] = _mm256_inserti128_si256(_mm256_castsi128_si256(upper), lower, 1);
    }
    transpose(v);
    for (int i = 0; i < SIDE; i++)
        _mm256_store_si256((void *)(to + i * BAND), v[i]);
}

/* And back; only the rows that are there are written. */
static void turn_out(uint8_t *out, size_t stride, uint32_t rows, const uint8_t *from)
{
    __m256i v[SIDE];
    for (int i = 0; i < SIDE; i++)
        v[i] = _mm256_load_si256((const void *)(from + i * BAND));
    transpose(v);
    for (uint32_t y = 0; y < SIDE; y++) {
        if (y < rows)
            _mm_storeu_si128((void *)(out + y * stride), _mm256_castsi256_si128(v[y]));
        if (y + SIDE < rows)
            _mm_storeu_si128((void *)(out + (y + SIDE) * stride), _mm256_extracti128_si256(v[y], 1));
    }
}

static void turn_band(uint8_t *work, const uint8_t *in, size_t stride, uint32_t rows, size_t bytes)
{
    size_t x = 0;
    for (; x + SIDE <= bytes; x += SIDE)
        turn_in(work + x * BAND, in + x, stride, rows);
    if (x < bytes)
        turn_in(work + (bytes - SIDE) * BAND, in + bytes - SIDE, stride, rows);
}

/* One output pixel of the whole band. */
static ALWAYS_INLINE void filter_pixel(uint8_t *out, const uint8_t *in, int channels, const int16_t *w, uint32_t length)
{
    for (int c = 0; c < channels; c++)
        _mm256_store_si256((void *)(out + c * BAND), filter_block(in + c * BAND, (size_t)channels * BAND, w, length));
}

static void filter_band_pixel(uint8_t *out, const uint8_t *work, int channels, const struct filter *f, uint32_t i)
{
    const int16_t *w = f->pair_weight + (size_t)i * f->pairs * 4;
    const uint8_t *in = work + (size_t)f->start[i] * (size_t)channels * BAND;
    switch (f->length[i]) {
    case 1: filter_pixel(out, in, channels, w, 1); break;
    case 2: filter_pixel(out, in, channels, w, 2); break;
    case 3: filter_pixel(out, in, channels, w, 3); break;
    case 4: filter_pixel(out, in, channels, w, 4); break;
    default: filter_pixel(out, in, channels, w, f->length[i]); break;
    }
}

/* Outputs are collected 16 pixels at a time, so that they leave in whole blocks; the last group ends with the row, overlapping. */
static void filter_band(uint8_t *out, size_t out_stride, const uint8_t *work, uint32_t rows, int channels, const struct filter *f)
{
    _Alignas(32) uint8_t group[SIDE * 4 * BAND];
    for (uint32_t done = 0; done < f->count; done += SIDE) {
        uint32_t first = done + SIDE <= f->count ? done : f->count - SIDE;
        for (uint32_t i = 0; i < SIDE; i++)
            filter_band_pixel(group + (size_t)i * (size_t)channels * BAND, work, channels, f, first + i);
        for (size_t x = 0; x < (size_t)channels * SIDE; x += SIDE)
            turn_out(out + (size_t)first * (size_t)channels + x, out_stride, rows, group + x * BAND);
    }
}

void resample_rows_avx2(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride, uint32_t rows, uint32_t width, int channels,
                        const struct filter *f, void *work)
{
    size_t bytes = (size_t)width * (size_t)channels;
    uint32_t y = 0;
    if (bytes >= SIDE && f->count >= SIDE)
        for (; rows - y >= MIN_ROWS; y += rows - y < BAND ? rows - y : BAND) {
            uint32_t n = rows - y < BAND ? rows - y : BAND;
            turn_band(work, in + y * in_stride, in_stride, n, bytes);
            filter_band(out + y * out_stride, out_stride, work, n, channels, f);
        }
    resample_rows_c(out + y * out_stride, out_stride, in + y * in_stride, in_stride, rows - y, width, channels, f, work);
}
