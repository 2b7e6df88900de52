/* Pixels into their final type and layout with AVX2.
 *
 * Eight pixels (24 bytes) at a time: a shuffle picks one channel and widens it to 32 bits. Each channel has only 256 values, but looking
 * eight of them up costs more than computing them. Measured for 224 x 224 pixels to float32 planes on a Zen 4: 46 us by table, 53 by
 * gather, 31 by two divisions, 17.5 by two-part multiplications (see levels.h), which were tried against the tables when those were made.
 * Where they were not equal the tables are used. Streaming stores took more than twice as long as plain ones.
 */
#include "transform/image/kernels/store_avx2.h"

#include <stddef.h>

#include "transform/image/kernels/pixels_avx2.h"
#include "transform/image/kernels/store_c.h"

enum { ROW_MIN = 10 }; /* pixels: one whole block, and four bytes before the last one */

/* Bytes c, c + 3, c + 6, c + 9 of each half, widened; backwards if mirrored. */
static inline __m256i channel_shuffle(int c, bool mirrored)
{
    const char a = (char)c, b = (char)(c + 3), d = (char)(c + 6), e = (char)(c + 9);
    __m128i forwards = _mm_setr_epi8(a, -1, -1, -1, b, -1, -1, -1, d, -1, -1, -1, e, -1, -1, -1);
    __m128i backwards = _mm_setr_epi8(e, -1, -1, -1, d, -1, -1, -1, b, -1, -1, -1, a, -1, -1, -1);
    return _mm256_broadcastsi128_si256(mirrored ? backwards : forwards);
}

struct scale {
    __m256 mean, high, low;
};

static inline struct scale scale_of(const struct levels *l, int c0, int c1, int c2, int c3, int c4, int c5, int c6, int c7)
{
    const float *m = l->mean, *h = l->high, *w = l->low;
    return (struct scale){
        _mm256_setr_ps(m[c0], m[c1], m[c2], m[c3], m[c4], m[c5], m[c6], m[c7]),
        _mm256_setr_ps(h[c0], h[c1], h[c2], h[c3], h[c4], h[c5], h[c6], h[c7]),
        _mm256_setr_ps(w[c0], w[c1], w[c2], w[c3], w[c4], w[c5], w[c6], w[c7]),
    };
}

static inline __m256 level(__m256i bytes, const struct scale *s)
{
    __m256 v = _mm256_cvtepi32_ps(bytes);
    __m256 x = _mm256_fmadd_ps(v, _mm256_set1_ps(LEVELS_255_HIGH), _mm256_mul_ps(v, _mm256_set1_ps(LEVELS_255_LOW)));
    x = _mm256_sub_ps(x, s->mean);
    return _mm256_fmadd_ps(x, s->high, _mm256_mul_ps(x, s->low));
}

static inline void put_f32(float *out, __m256 v)
{
    _mm256_storeu_ps(out, v);
}

static inline void put_f16(uint16_t *out, __m256 v)
{
    _mm_storeu_si128((void *)out, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

/* Round to nearest even: add just under half, plus the bit that stays last. No NaN comes here. */
static inline void put_bf16(uint16_t *out, __m256 v)
{
    __m256i u = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    u = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    u = _mm256_permute4x64_epi64(_mm256_packus_epi32(u, u), 0x08);
    _mm_storeu_si128((void *)out, _mm256_castsi256_si128(u));
}

/* The constants of a row into planes. */
struct planes {
    __m256i shuffle[3];
    struct scale scale[3];
};

static inline struct planes planes_of(const struct levels *l, bool mirrored)
{
    struct planes p;
    for (int c = 0; c < 3; c++) {
        p.scale[c] = scale_of(l, c, c, c, c, c, c, c, c);
        p.shuffle[c] = channel_shuffle(c, mirrored);
    }
    return p;
}

/* Mirrored, the shuffle turns each half, and here the halves change places. */
static inline __m256i swapped_if(__m256i pixels, bool mirrored)
{
    return mirrored ? _mm256_permute2x128_si256(pixels, pixels, 1) : pixels;
}

/* What is left of a row after its whole blocks is done as one more block that ends with the row, overlapping the one before. */
#define DEFINE_PLANES(SUFFIX, TYPE)                                                                                                      \
    static inline void block_##SUFFIX(TYPE *const out[3], size_t at, __m256i pixels, const struct planes *p)                             \
    {                                                                                                                                    \
        for (int c = 0; c < 3; c++)                                                                                                      \
            put_##SUFFIX(out[c] + at, level(_mm256_shuffle_epi8(pixels, p->shuffle[c]), &p->scale[c]));                                  \
    }                                                                                                                                    \
    static inline __attribute__((always_inline)) void row_##SUFFIX(TYPE *const out[3], const uint8_t *in, uint32_t n, bool mirrored,     \
                                                                   const struct levels *l)                                               \
    {                                                                                                                                    \
        const struct planes p = planes_of(l, mirrored);                                                                                  \
        uint32_t i = 0;                                                                                                                  \
        for (; 3 * (size_t)i + PIXELS_REACH <= 3 * (size_t)n; i += PIXELS_BLOCK)                                                         \
            block_##SUFFIX(out, mirrored ? n - PIXELS_BLOCK - i : i, swapped_if(pixels_load(in + 3 * (size_t)i), mirrored), &p);         \
        while (i < n) {                                                                                                                  \
            uint32_t at = i + PIXELS_BLOCK <= n ? i : n - PIXELS_BLOCK;                                                                  \
            block_##SUFFIX(out, mirrored ? n - PIXELS_BLOCK - at : at, swapped_if(pixels_load_last(in + 3 * (size_t)at), mirrored), &p); \
            i = at + PIXELS_BLOCK;                                                                                                       \
        }                                                                                                                                \
    }                                                                                                                                    \
    void planes_##SUFFIX##_avx2(TYPE *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l)                \
    {                                                                                                                                    \
        if (n < ROW_MIN || !l->is_arithmetic)                                                                                            \
            planes_##SUFFIX##_c(out, in, n, mirrored, l);                                                                                \
        else if (mirrored)                                                                                                               \
            row_##SUFFIX(out, in, n, true, l);                                                                                           \
        else                                                                                                                             \
            row_##SUFFIX(out, in, n, false, l);                                                                                          \
    }

DEFINE_PLANES(f32, float)
DEFINE_PLANES(f16, uint16_t)
DEFINE_PLANES(bf16, uint16_t)

/* Values in the order they have: three registers hold eight pixels, and the channels' constants repeat after three registers. Mirrored rows
 * are turned in pieces first. */
#define DEFINE_PIXELS(SUFFIX, TYPE)                                                                                       \
    static void forwards_##SUFFIX(TYPE *out, const uint8_t *in, uint32_t n, const struct levels *l)                       \
    {                                                                                                                     \
        const struct scale scale[3] = {scale_of(l, 0, 1, 2, 0, 1, 2, 0, 1), scale_of(l, 2, 0, 1, 2, 0, 1, 2, 0),          \
                                       scale_of(l, 1, 2, 0, 1, 2, 0, 1, 2)};                                              \
        uint32_t i = 0;                                                                                                   \
        for (; l->is_arithmetic && i + PIXELS_BLOCK <= n; i += PIXELS_BLOCK)                                              \
            for (int k = 0; k < 3; k++) {                                                                                 \
                size_t at = 3 * (size_t)i + 8 * (size_t)k;                                                                \
                put_##SUFFIX(out + at, level(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(in + at))), &scale[k])); \
            }                                                                                                             \
        pixels_##SUFFIX##_c(out + 3 * (size_t)i, in + 3 * (size_t)i, n - i, false, l);                                    \
    }                                                                                                                     \
    void pixels_##SUFFIX##_avx2(TYPE *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l)          \
    {                                                                                                                     \
        enum { PIECE = 256 };                                                                                             \
        uint8_t turned[3 * PIECE];                                                                                        \
        if (!mirrored) {                                                                                                  \
            forwards_##SUFFIX(out, in, n, l);                                                                             \
            return;                                                                                                       \
        }                                                                                                                 \
        for (uint32_t end = n, piece; end > 0; end -= piece, out += 3 * (size_t)piece) {                                  \
            piece = end < PIECE ? end : PIECE;                                                                            \
            mirror_avx2(turned, in + 3 * (size_t)(end - piece), piece);                                                   \
            forwards_##SUFFIX(out, turned, piece, l);                                                                     \
        }                                                                                                                 \
    }

DEFINE_PIXELS(f32, float)
DEFINE_PIXELS(f16, uint16_t)
DEFINE_PIXELS(bf16, uint16_t)

/* ---- bytes ----
 *
 * 16 pixels (48 bytes) in three registers; each plane collects its bytes from all three.
 */
/* By mirrored, plane and register: which bytes go where. */
static const int8_t plane_parts[2][3][3][16] = {
    {
        {{0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13}},
        {{1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14}},
        {{2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15}},
    },
    {
        {{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 15, 12, 9, 6, 3, 0},
         {-1, -1, -1, -1, -1, 14, 11, 8, 5, 2, -1, -1, -1, -1, -1, -1},
         {13, 10, 7, 4, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}},
        {{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 13, 10, 7, 4, 1},
         {-1, -1, -1, -1, -1, 15, 12, 9, 6, 3, 0, -1, -1, -1, -1, -1},
         {14, 11, 8, 5, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}},
        {{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 14, 11, 8, 5, 2},
         {-1, -1, -1, -1, -1, -1, 13, 10, 7, 4, 1, -1, -1, -1, -1, -1},
         {15, 12, 9, 6, 3, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}},
    },
};

void planes_u8_avx2(uint8_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored)
{
    __m128i shuffle[3][3];
    for (int c = 0; c < 3; c++)
        for (int part = 0; part < 3; part++)
            shuffle[c][part] = _mm_loadu_si128((const void *)plane_parts[mirrored][c][part]);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const uint8_t *p = in + 3 * (size_t)i;
        __m128i a = _mm_loadu_si128((const void *)p), b = _mm_loadu_si128((const void *)(p + 16)),
                d = _mm_loadu_si128((const void *)(p + 32));
        for (int c = 0; c < 3; c++) {
            __m128i v = _mm_or_si128(_mm_shuffle_epi8(a, shuffle[c][0]), _mm_shuffle_epi8(b, shuffle[c][1]));
            v = _mm_or_si128(v, _mm_shuffle_epi8(d, shuffle[c][2]));
            _mm_storeu_si128((void *)(out[c] + (mirrored ? n - 16 - i : i)), v);
        }
    }
    size_t rest = mirrored ? 0 : i;
    uint8_t *const tail[3] = {out[0] + rest, out[1] + rest, out[2] + rest};
    planes_u8_c(tail, in + 3 * (size_t)i, n - i, mirrored);
}

/* Five pixels at a time from the front of `in` to the back of `out`; the sixteenth byte lands where the pixel written next goes. */
void mirror_avx2(uint8_t *out, const uint8_t *in, uint32_t n)
{
    const __m128i shuffle = _mm_setr_epi8(-1, 12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2);
    uint32_t i = 0;
    for (; i + 6 <= n; i += 5) {
        __m128i v = _mm_loadu_si128((const void *)(in + 3 * (size_t)i));
        _mm_storeu_si128((void *)(out + 3 * (size_t)(n - i) - 16), _mm_shuffle_epi8(v, shuffle));
    }
    mirror_c(out, in + 3 * (size_t)i, n - i);
}
