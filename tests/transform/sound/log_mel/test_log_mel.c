/* The lane-parallel Fourier transform against its definition in float64, its versions against each other, masks. Spectrograms:
 * test_log_mel_oracle.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transform/image/kernels/image_kernels.h"
#include "transform/sound/log_mel/log_mel.h"
#include "transform/sound/spec_augment.h"

static void fill_signals(float *x, size_t n, uint64_t seed)
{
    struct rng r = rng_stream(RNG_MAP, seed, 0, 0, 0);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(rng_double(&r) * 2 - 1);
}

/* The squared magnitude of bin k by the definition. */
static double defined_power(const float *x, uint32_t n, uint32_t k, int lane)
{
    double re = 0, im = 0;
    for (uint32_t t = 0; t < n; t++) {
        double angle = -2 * M_PI * (double)((uint64_t)t * k % n) / n;
        re += x[t * FFT_LANES + (uint32_t)lane] * cos(angle);
        im += x[t * FFT_LANES + (uint32_t)lane] * sin(angle);
    }
    return re * re + im * im;
}

static float *make_buffer(const struct fft_plan *p)
{
    float *b = aligned_alloc(64, (fft_buffer_numbers(p, FFT_LANES) * sizeof(float) + 63) / 64 * 64);
    assert_non_null(b);
    return b;
}

/* The error of a bin is that of a complex number whose size goes with the signal's norm, so powers are compared by their roots. */
static void check_size(uint32_t n, fft_power_fn *power)
{
    struct fft_plan p;
    struct fb_error e = {0};
    assert_int_equal(fft_plan_make(&p, n, &e), 0);
    float *x = make_buffer(&p), *y = make_buffer(&p), *kept = make_buffer(&p);
    fill_signals(x, (size_t)n * FFT_LANES, n);
    memcpy(kept, x, (size_t)n * FFT_LANES * sizeof(float));
    const float *got = power(&p, x, y);
    double norm = sqrt(n / 3.0 * n);
    for (uint32_t k = 0; k <= n / 2; k += n > 300 ? 7 : 1)
        for (int lane = 0; lane < FFT_LANES; lane += 3) {
            double error = fabs(sqrt(got[k * FFT_LANES + (uint32_t)lane]) - sqrt(defined_power(kept, n, k, lane))) / norm;
            if (error > 4e-7)
                fail_msg("n %u, bin %u, lane %d: off by %g of the norm", n, k, lane, error);
        }
    free(x);
    free(y);
    free(kept);
    fft_plan_free(&p);
}

static void a_transform_of_any_even_size_equals_its_definition(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2,   4,   6,   8,   10,  12,  14,  16,  22,  30,  32,   46,   60,   64,   98,   100,      128,
                                     200, 256, 300, 320, 400, 480, 512, 640, 800, 882, 1000, 1024, 1102, 1200, 2048, 2205 * 2, 4096};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        check_size(sizes[i], fft_power_c);
}

static void the_versions_give_the_same_bytes(void **state)
{
    (void)state;
#ifdef FB_HAVE_AVX2
    if (!kernels_by_name("avx2"))
        skip();
    static const uint32_t sizes[] = {2, 4, 6, 10, 14, 64, 400, 480, 882, 1024, 2048};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fft_plan p;
        assert_int_equal(fft_plan_make(&p, sizes[i], NULL), 0);
        float *a = make_buffer(&p), *b = make_buffer(&p), *work = make_buffer(&p), *other = make_buffer(&p);
        fill_signals(a, (size_t)sizes[i] * FFT_LANES, i);
        memcpy(b, a, (size_t)sizes[i] * FFT_LANES * sizeof(float));
        const float *one = fft_power_c(&p, a, work), *two = fft_power_avx2(&p, b, other);
        assert_memory_equal(one, two, (size_t)(sizes[i] / 2 + 1) * FFT_LANES * sizeof(float));
        free(a);
        free(b);
        free(work);
        free(other);
        fft_plan_free(&p);
    }
#else
    skip();
#endif
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 3, 1023, FFT_MAX_SIZE + 2};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fft_plan p;
        assert_int_equal(fft_plan_make(&p, sizes[i], NULL), FB_E_USAGE);
    }
}

/* ---- masks ---- */

static const struct spec_augment usual = {
    .freq_masks = 2, .time_masks = 3, .freq_mask_param = 10, .time_mask_param = 20, .time_share = 0.1f};

static void masks_stay_inside_and_within_their_widths(void **state)
{
    (void)state;
    bool seen_freq[11] = {false}, seen_edge = false;
    for (uint64_t position = 0; position < 3000; position++) {
        struct rng r = rng_stream(RNG_TRANSFORM, 1, 2, position, 0);
        struct spec_mask m[SPEC_MAX_MASKS];
        assert_int_equal(spec_augment_draw(&usual, 64, 94, &r, m), 5);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(m[i].is_time, i >= 2);
            assert_true(m[i].count <= (m[i].is_time ? 9u : 10u)); /* a tenth of 94 frames */
            assert_true(m[i].first + m[i].count <= (m[i].is_time ? 94u : 64u));
            if (!m[i].is_time)
                seen_freq[m[i].count] = true;
            seen_edge = seen_edge || (m[i].is_time && m[i].first + m[i].count == 94);
        }
    }
    for (int i = 0; i <= 10; i++)
        assert_true(seen_freq[i]);
    assert_true(seen_edge);
}

static void the_same_stream_draws_the_same_masks(void **state)
{
    (void)state;
    struct spec_mask a[SPEC_MAX_MASKS], b[SPEC_MAX_MASKS];
    memset(a, 0, sizeof(a));
    memset(b, 0, sizeof(b));
    struct rng r = rng_stream(RNG_TRANSFORM, 7, 8, 9, 0), s = r;
    spec_augment_draw(&usual, 80, 3000, &r, a);
    spec_augment_draw(&usual, 80, 3000, &s, b);
    assert_memory_equal(a, b, sizeof(a));
}

static void masks_blank_what_they_name_and_nothing_else(void **state)
{
    (void)state;
    enum { MELS = 5, FRAMES = 7, STRIDE = 9 };
    struct spec_mask m[2] = {{false, 1, 2}, {true, 4, 3}};
    for (int mean = 0; mean < 2; mean++) {
        float x[MELS * STRIDE];
        struct spec_augment s = {.fills_mean = mean, .fill = -9, .time_share = 1};
        double sum = 0;
        for (int i = 0; i < MELS * STRIDE; i++)
            x[i] = (float)i;
        for (int i = 0; i < MELS; i++)
            for (int f = 0; f < FRAMES; f++)
                sum += i * STRIDE + f;
        spec_augment_apply(&s, m, 2, x, MELS, FRAMES, STRIDE);
        float fill = mean ? (float)(sum / (MELS * FRAMES)) : -9;
        for (int i = 0; i < MELS; i++)
            for (int f = 0; f < STRIDE; f++) {
                bool is_masked = f < FRAMES && ((i >= 1 && i < 3) || f >= 4);
                assert_true(x[i * STRIDE + f] == (is_masked ? fill : (float)(i * STRIDE + f)));
            }
    }
}

static void masks_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct spec_augment s = usual;
    assert_int_equal(spec_augment_check(&s, NULL), 0);
    s.time_masks = SPEC_MAX_MASKS;
    assert_int_equal(spec_augment_check(&s, NULL), FB_E_USAGE);
    s = usual;
    s.time_share = 0;
    assert_int_equal(spec_augment_check(&s, NULL), FB_E_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transform_of_any_even_size_equals_its_definition),
        cmocka_unit_test(the_versions_give_the_same_bytes),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(masks_stay_inside_and_within_their_widths),
        cmocka_unit_test(the_same_stream_draws_the_same_masks),
        cmocka_unit_test(masks_blank_what_they_name_and_nothing_else),
        cmocka_unit_test(masks_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
