/* Turning the hue with AVX2: to HSV in 8 bits, a step around the circle, and back, with the roundings of the C version.
 *
 * Of the three distances to the largest channel one is 0 and one is the whole range, so the hue is a constant plus or minus one quotient;
 * one rounding, as in C, where the sum is made in double precision. What C does in double is done in double here, four lanes at a time.
 */
#include "transform/image/kernels/color_avx2.h"
#include "transform/image/kernels/color_c.h"
#include "transform/image/kernels/pixels_avx2.h"

struct hsv {
    __m256i h, s, v; /* 0..255 in 32 bits */
};

static inline __m256d low_half(__m256 v)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}

static inline __m256d high_half(__m256 v)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}

static inline __m256i join(__m128i low, __m128i high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* The whole part of x * 255, x a float in [0, 1]. */
static inline __m256i to_255(__m256 x)
{
    const __m256d scale = _mm256_set1_pd(255);
    return join(_mm256_cvttpd_epi32(_mm256_mul_pd(low_half(x), scale)), _mm256_cvttpd_epi32(_mm256_mul_pd(high_half(x), scale)));
}

/* h / 6 taken around the circle into [0, 1), rounded to float. */
static inline __m128 around(__m256d h)
{
    const __m256d one = _mm256_set1_pd(1);
    __m256d y = _mm256_add_pd(_mm256_div_pd(h, _mm256_set1_pd(6)), one);
    __m256d over = _mm256_and_pd(_mm256_cmp_pd(y, one, _CMP_GE_OQ), one);
    return _mm256_cvtpd_ps(_mm256_sub_pd(y, over));
}

static inline __m256i choose(__m256i mask, __m256i yes, __m256i no)
{
    return _mm256_blendv_epi8(no, yes, mask);
}

/* The hue in sixths, from which channel is largest and which smallest:
 *     r: 1 - share (b smallest) or -1 + share;    g: 1 + share (b smallest) or 3 - share;    b: 3 + share (r smallest) or 5 - share
 * where share is the distance of the middle channel from the largest. Ties come out the same either way. */
static inline __m256 sixths(__m256i r, __m256i g, __m256i b, __m256i max, __m256i min, __m256 share)
{
    const __m256i one = _mm256_set1_epi32(1), three = _mm256_set1_epi32(3), all = _mm256_set1_epi32(-1);
    __m256i is_r = _mm256_cmpeq_epi32(r, max), is_g = _mm256_cmpeq_epi32(g, max);
    __m256i r_min = _mm256_cmpeq_epi32(r, min), b_min = _mm256_cmpeq_epi32(b, min);
    __m256i not_r = choose(is_g, choose(b_min, one, three), choose(r_min, three, _mm256_set1_epi32(5)));
    __m256i offset = choose(is_r, choose(b_min, one, all), not_r);
    __m256i falls = choose(is_r, b_min, _mm256_xor_si256(choose(is_g, b_min, r_min), all));
    __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(falls), _mm256_set1_ps(-0.0f));
    return _mm256_add_ps(_mm256_cvtepi32_ps(offset), _mm256_xor_ps(share, sign));
}

static inline struct hsv to_hsv(__m256i pixels)
{
    __m256i r = pixels_channel(pixels, 0), g = pixels_channel(pixels, 1), b = pixels_channel(pixels, 2);
    __m256i max = _mm256_max_epi32(r, _mm256_max_epi32(g, b)), min = _mm256_min_epi32(r, _mm256_min_epi32(g, b));
    __m256i whole = _mm256_sub_epi32(max, min), is_colour = _mm256_cmpgt_epi32(max, min);
    __m256i middle = _mm256_sub_epi32(_mm256_add_epi32(r, _mm256_add_epi32(g, b)), _mm256_add_epi32(max, min));
    __m256 range = _mm256_cvtepi32_ps(_mm256_max_epi32(whole, _mm256_set1_epi32(1))); /* grey is masked below */
    __m256 share = _mm256_div_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(max, middle)), range);
    __m256 h = sixths(r, g, b, max, min, share);
    h = _mm256_insertf128_ps(_mm256_castps128_ps256(around(low_half(h))), around(high_half(h)), 1);
    __m256 s = _mm256_div_ps(range, _mm256_cvtepi32_ps(_mm256_max_epi32(max, _mm256_set1_epi32(1))));
    return (struct hsv){_mm256_and_si256(to_255(h), is_colour), _mm256_and_si256(to_255(s), is_colour), max};
}

/* round() of what is not negative: halves up, without the sum reaching the next whole number from just below a half. */
static inline __m128i rounded(__m256d v)
{
    return _mm256_cvttpd_epi32(_mm256_add_pd(v, _mm256_set1_pd(0x1.fffffffffffffp-2)));
}

/* Four lanes of the way back: the sector, and what the two channels beside v become. */
struct corners {
    __m128i sector, low, down, up;
};

static inline struct corners corners_of(__m128i h, __m128i s, __m128i v)
{
    const __m256d one = _mm256_set1_pd(1), full = _mm256_set1_pd(255);
    __m256d sextant = _mm256_div_pd(_mm256_mul_pd(_mm256_cvtepi32_pd(h), _mm256_set1_pd(6)), full);
    __m128i sector = _mm256_cvttpd_epi32(sextant);
    __m128 part = _mm256_cvtpd_ps(_mm256_sub_pd(sextant, _mm256_cvtepi32_pd(sector)));
    __m128 strength = _mm256_cvtpd_ps(_mm256_div_pd(_mm256_cvtepi32_pd(s), full));
    __m256d value = _mm256_cvtepi32_pd(v), f = _mm256_cvtps_pd(part), d = _mm256_cvtps_pd(strength);
    __m256d falling = _mm256_cvtps_pd(_mm_mul_ps(strength, part)); /* a product of floats in C, too */
    __m256d rising = _mm256_mul_pd(d, _mm256_sub_pd(one, f));
    return (struct corners){
        sector,
        rounded(_mm256_mul_pd(value, _mm256_sub_pd(one, d))),
        rounded(_mm256_mul_pd(value, _mm256_sub_pd(one, falling))),
        rounded(_mm256_mul_pd(value, _mm256_sub_pd(one, rising))),
    };
}

/* A word per pixel holds (low, down, up, v); a table by sector says which of them r, g and b are. */
static inline __m256i from_hsv(struct hsv c)
{
    enum { LOW, DOWN, UP, V };
#define SECTOR(R, G, B) ((R) | (G) << 8 | (B) << 16)
    const __m256i sectors = _mm256_setr_epi32(SECTOR(V, UP, LOW), SECTOR(DOWN, V, LOW), SECTOR(LOW, V, UP), SECTOR(LOW, DOWN, V),
                                              SECTOR(UP, LOW, V), SECTOR(V, LOW, DOWN), SECTOR(V, UP, LOW), 0);
#undef SECTOR
    const __m256i first = _mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
    struct corners a = corners_of(_mm256_castsi256_si128(c.h), _mm256_castsi256_si128(c.s), _mm256_castsi256_si128(c.v));
    struct corners b = corners_of(_mm256_extracti128_si256(c.h, 1), _mm256_extracti128_si256(c.s, 1), _mm256_extracti128_si256(c.v, 1));
    __m256i words = _mm256_or_si256(join(a.low, b.low), _mm256_slli_epi32(join(a.down, b.down), 8));
    words = _mm256_or_si256(words, _mm256_or_si256(_mm256_slli_epi32(join(a.up, b.up), 16), _mm256_slli_epi32(c.v, 24)));
    __m256i pick = _mm256_add_epi8(_mm256_permutevar8x32_epi32(sectors, join(a.sector, b.sector)), first);
    return _mm256_shuffle_epi8(words, pick);
}

void shift_hue_avx2(uint8_t *pixels, size_t n, uint8_t shift)
{
    size_t i = 0;
    for (; 3 * i + PIXELS_REACH <= 3 * n; i += PIXELS_BLOCK) {
        struct hsv c = to_hsv(pixels_load(pixels + 3 * i));
        c.h = _mm256_and_si256(_mm256_add_epi32(c.h, _mm256_set1_epi32(shift)), _mm256_set1_epi32(255));
        pixels_store(pixels + 3 * i, from_hsv(c));
    }
    shift_hue_c(pixels + 3 * i, n - i, shift);
}
