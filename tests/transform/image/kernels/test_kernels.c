/* Every SIMD kernel against the C one on random inputs: the same bytes, and no byte written outside. With --bench it times both instead.
 *
 * Inputs lie in buffers of exactly their size, so that a sanitizer sees reads outside; outputs are followed by a pattern that must survive.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "transform/image/kernels/image_kernels.h"

enum { GUARD = 64, ROUNDS = 400 };

static struct rng random_numbers;

static uint32_t below(uint32_t n)
{
    return (uint32_t)rng_below(&random_numbers, n);
}

static uint8_t *random_bytes(size_t n)
{
    uint8_t *p = malloc(n ? n : 1);
    bool is_extreme = below(4) == 0; /* sums reach their limits with 0 and 255 */
    for (size_t i = 0; i < n; i++)
        p[i] = is_extreme ? (uint8_t)(below(2) * 255) : (uint8_t)below(256);
    return p;
}

/* Two outputs of the same size with guards, one for each version. */
struct pair {
    uint8_t *a, *b;
    size_t bytes;
};

static struct pair outputs(size_t bytes)
{
    struct pair p = {malloc(bytes + GUARD), malloc(bytes + GUARD), bytes};
    memset(p.a, 0xA5, bytes + GUARD);
    memset(p.b, 0xA5, bytes + GUARD);
    return p;
}

static struct pair copies(const uint8_t *from, size_t bytes)
{
    struct pair p = outputs(bytes);
    memcpy(p.a, from, bytes);
    memcpy(p.b, from, bytes);
    return p;
}

static void check_equal(struct pair p, const char *what, unsigned n)
{
    for (size_t i = 0; i < p.bytes + GUARD; i++)
        if (p.a[i] != p.b[i])
            fail_msg("%s with n = %u: byte %zu of %zu is %u, should be %u", what, n, i, p.bytes, p.b[i], p.a[i]);
    free(p.a);
    free(p.b);
}

static uint32_t some_width(void)
{
    return below(3) ? 1 + below(300) : 1 + below(40);
}

static void *filter_memory(enum resample_kind kind, const struct axis *a, struct filter *f)
{
    void *memory = aligned_alloc(64, (filter_bytes(kind, a) + 63) & ~(size_t)63);
    filter_build(f, kind, a, memory);
    return memory;
}

static struct axis some_axis(enum resample_kind kind)
{
    struct axis a = {.in_size = some_width(), .out_size = below(2) ? some_width() : 1 + below(30)};
    a.to = below(a.out_size);
    a.to_count = 1 + below(a.out_size - a.to);
    if (a.in_size == a.out_size)
        a.in_size++;
    resample_span(kind, a.in_size, a.out_size, a.to, a.to_count, &a.from, &a.from_count);
    return a;
}

static void rows_are_filtered_as_in_c(void **state)
{
    const struct kernels *k = *state;
    for (int round = 0; round < ROUNDS * 4; round++) {
        enum resample_kind kind = (enum resample_kind)below(2);
        struct axis a = some_axis(kind);
        struct filter f;
        void *memory = filter_memory(kind, &a, &f);
        int channels = (int[]){1, 3, 3, 4}[below(4)];
        uint32_t rows = 1 + below(80);
        size_t bytes = (size_t)a.from_count * (size_t)channels, stride = bytes + below(5);
        uint8_t *in = random_bytes((rows - 1) * stride + bytes);
        void *work = aligned_alloc(64, (KERNEL_ROWS_WORK(a.from_count, channels) + 63) & ~(size_t)63);
        size_t out_stride = (size_t)a.to_count * (size_t)channels;
        struct pair out = outputs(rows * out_stride);
        kernels_c.rows(out.a, out_stride, in, stride, rows, a.from_count, channels, &f, work);
        k->rows(out.b, out_stride, in, stride, rows, a.from_count, channels, &f, work);
        check_equal(out, "rows", a.to_count);
        free(work);
        free(in);
        free(memory);
    }
}

static void columns_are_filtered_as_in_c(void **state)
{
    const struct kernels *k = *state;
    for (int round = 0; round < ROUNDS; round++) {
        enum resample_kind kind = (enum resample_kind)below(2);
        struct axis a = some_axis(kind);
        struct filter f;
        void *memory = filter_memory(kind, &a, &f);
        size_t bytes = some_width(), stride = bytes + below(5);
        uint8_t *in = random_bytes((a.from_count - 1) * stride + bytes);
        for (uint32_t i = 0; i < f.count; i += 1 + below(4)) {
            struct pair out = outputs(bytes);
            kernels_c.columns(out.a, in, stride, bytes, &f, i);
            k->columns(out.b, in, stride, bytes, &f, i);
            check_equal(out, "columns", (unsigned)bytes);
        }
        free(in);
        free(memory);
    }
}

static void some_levels(struct levels *l)
{
    float mean[3], std[3];
    for (int c = 0; c < 3; c++) {
        mean[c] = (float)(rng_double(&random_numbers) * 2 - 0.5);
        std[c] = below(8) == 0 ? 1e-38f : (float)(0.01 + rng_double(&random_numbers));
    }
    levels_build(l, mean, std);
}

static void check_planes(const struct kernels *k, uint32_t n, bool mirrored)
{
    struct levels l;
    some_levels(&l);
    uint8_t *in = random_bytes(3 * (size_t)n);
    struct pair bytes = outputs(3 * (size_t)n), f32 = outputs(12 * (size_t)n), f16 = outputs(6 * (size_t)n), bf16 = outputs(6 * (size_t)n);
#define PLANES(TYPE, P) ((TYPE *const[3]){(TYPE *)(void *)(P), (TYPE *)(void *)(P) + n, (TYPE *)(void *)(P) + 2 * (size_t)n})
    kernels_c.planes_u8(PLANES(uint8_t, bytes.a), in, n, mirrored);
    k->planes_u8(PLANES(uint8_t, bytes.b), in, n, mirrored);
    kernels_c.planes_f32(PLANES(float, f32.a), in, n, mirrored, &l);
    k->planes_f32(PLANES(float, f32.b), in, n, mirrored, &l);
    kernels_c.planes_f16(PLANES(uint16_t, f16.a), in, n, mirrored, &l);
    k->planes_f16(PLANES(uint16_t, f16.b), in, n, mirrored, &l);
    kernels_c.planes_bf16(PLANES(uint16_t, bf16.a), in, n, mirrored, &l);
    k->planes_bf16(PLANES(uint16_t, bf16.b), in, n, mirrored, &l);
#undef PLANES
    check_equal(bytes, "planes_u8", n);
    check_equal(f32, "planes_f32", n);
    check_equal(f16, "planes_f16", n);
    check_equal(bf16, "planes_bf16", n);
    free(in);
}

static void check_pixels(const struct kernels *k, uint32_t n, bool mirrored)
{
    struct levels l;
    some_levels(&l);
    uint8_t *in = random_bytes(3 * (size_t)n);
    struct pair turned = outputs(3 * (size_t)n), f32 = outputs(12 * (size_t)n), f16 = outputs(6 * (size_t)n), bf16 = outputs(6 * (size_t)n);
    kernels_c.mirror(turned.a, in, n);
    k->mirror(turned.b, in, n);
    kernels_c.pixels_f32((void *)f32.a, in, n, mirrored, &l);
    k->pixels_f32((void *)f32.b, in, n, mirrored, &l);
    kernels_c.pixels_f16((void *)f16.a, in, n, mirrored, &l);
    k->pixels_f16((void *)f16.b, in, n, mirrored, &l);
    kernels_c.pixels_bf16((void *)bf16.a, in, n, mirrored, &l);
    k->pixels_bf16((void *)bf16.b, in, n, mirrored, &l);
    check_equal(turned, "mirror", n);
    check_equal(f32, "pixels_f32", n);
    check_equal(f16, "pixels_f16", n);
    check_equal(bf16, "pixels_bf16", n);
    free(in);
}

static void pixels_are_stored_as_in_c(void **state)
{
    for (uint32_t n = 1; n <= 600; n += n < 70 ? 1 : 1 + below(40))
        for (int mirrored = 0; mirrored < 2; mirrored++) {
            check_planes(*state, n, mirrored);
            check_pixels(*state, n, mirrored);
        }
}

static void colours_are_changed_as_in_c(void **state)
{
    const struct kernels *k = *state;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n = some_width();
        uint8_t *in = random_bytes(3 * (size_t)n), base = (uint8_t)below(256), shift = (uint8_t)below(256);
        float factor = (float[]){0, 1, (float)rng_double(&random_numbers), (float)(rng_double(&random_numbers) * 5)}[below(4)];
        struct pair a = copies(in, 3 * (size_t)n), b = copies(in, 3 * (size_t)n), c = copies(in, 3 * (size_t)n),
                    d = copies(in, 3 * (size_t)n);
        kernels_c.blend_constant(a.a, 3 * (size_t)n, base, factor);
        k->blend_constant(a.b, 3 * (size_t)n, base, factor);
        kernels_c.blend_gray(b.a, n, factor);
        k->blend_gray(b.b, n, factor);
        kernels_c.gray(c.a, n);
        k->gray(c.b, n);
        kernels_c.shift_hue(d.a, n, shift);
        k->shift_hue(d.b, n, shift);
        check_equal(a, "blend_constant", n);
        check_equal(b, "blend_gray", n);
        check_equal(c, "gray", n);
        check_equal(d, "shift_hue", n);
        assert_true(kernels_c.gray_sum(in, n) == k->gray_sum(in, n));
        free(in);
    }
}

/* All colours at once: conversions to HSV and back have no other inputs than these and the shift. */
static void every_colour_turns_as_in_c(void **state)
{
    const struct kernels *k = *state;
    enum { SLICE = 1 << 16 };
    uint8_t *in = malloc(3 * SLICE), *out = malloc(3 * SLICE);
    for (uint32_t r = 0; r < 256; r++) {
        for (uint32_t i = 0; i < SLICE; i++) {
            in[3 * i] = out[3 * i] = (uint8_t)r;
            in[3 * i + 1] = out[3 * i + 1] = (uint8_t)(i >> 8);
            in[3 * i + 2] = out[3 * i + 2] = (uint8_t)i;
        }
        uint8_t shift = (uint8_t)below(256);
        kernels_c.shift_hue(in, SLICE, shift);
        k->shift_hue(out, SLICE, shift);
        if (memcmp(in, out, 3 * SLICE) != 0)
            fail_msg("shift_hue by %u differs for red %u", shift, r);
    }
    free(in);
    free(out);
}

static void common_means_are_computed_not_looked_up(void **state)
{
    (void)state;
    static struct levels l;
    levels_build(&l, (const float[3]){0.485f, 0.456f, 0.406f}, (const float[3]){0.229f, 0.224f, 0.225f});
    assert_true(l.is_arithmetic);
    levels_build(&l, (const float[3]){0.5f, 0.5f, 0.5f}, (const float[3]){0.5f, 0.5f, 0.5f});
    assert_true(l.is_arithmetic);
    levels_build(&l, (const float[3]){0}, (const float[3]){1, 1, 1});
    assert_true(l.is_arithmetic);
}

static void the_environment_can_ask_for_c(void **state)
{
    (void)state;
    const char *wish = getenv("FULLBORE_SIMD");
    bool is_c = wish && strcmp(wish, "c") == 0;
    const struct kernels *simd = kernels_by_name("avx2");
    assert_string_equal(kernels()->name, is_c || !simd ? "c" : simd->name);
}

/* ---- timing ---- */

static struct filter bench_x, bench_y;
static struct levels bench_levels;
static uint8_t *bench_in;
static uint8_t *bench_out, *bench_work;
enum { BENCH_IN = 288, BENCH_OUT = 224, BENCH_ROW = BENCH_IN * 3 };

static void bench_rows(const struct kernels *k)
{
    k->rows(bench_out, BENCH_OUT * 3, bench_in, BENCH_ROW, BENCH_IN, BENCH_IN, 3, &bench_x, bench_work);
}

static void bench_columns(const struct kernels *k)
{
    for (uint32_t i = 0; i < bench_y.count; i++)
        k->columns(bench_out + i * BENCH_OUT * 3, bench_in, BENCH_ROW, BENCH_OUT * 3, &bench_y, i);
}

#define DEFINE_BENCH_STORE(SUFFIX, TYPE)                                                                                            \
    static void bench_planes_##SUFFIX(const struct kernels *k)                                                                      \
    {                                                                                                                               \
        TYPE *out = (void *)bench_out;                                                                                              \
        size_t plane = BENCH_OUT * BENCH_OUT;                                                                                       \
        for (size_t y = 0; y < BENCH_OUT; y++, out += BENCH_OUT)                                                                    \
            k->planes_##SUFFIX((TYPE *const[3]){out, out + plane, out + 2 * plane}, bench_in + y * BENCH_OUT * 3, BENCH_OUT, y & 1, \
                               &bench_levels);                                                                                      \
    }                                                                                                                               \
    static void bench_pixels_##SUFFIX(const struct kernels *k)                                                                      \
    {                                                                                                                               \
        for (size_t y = 0; y < BENCH_OUT; y++)                                                                                      \
            k->pixels_##SUFFIX((TYPE *)(void *)bench_out + y * BENCH_OUT * 3, bench_in + y * BENCH_OUT * 3, BENCH_OUT, y & 1,       \
                               &bench_levels);                                                                                      \
    }

DEFINE_BENCH_STORE(f32, float)
DEFINE_BENCH_STORE(f16, uint16_t)
DEFINE_BENCH_STORE(bf16, uint16_t)

static void bench_planes_u8(const struct kernels *k)
{
    uint8_t *out = bench_out;
    size_t plane = BENCH_OUT * BENCH_OUT;
    for (size_t y = 0; y < BENCH_OUT; y++, out += BENCH_OUT)
        k->planes_u8((uint8_t *const[3]){out, out + plane, out + 2 * plane}, bench_in + y * BENCH_OUT * 3, BENCH_OUT, y & 1);
}

static void bench_mirror(const struct kernels *k)
{
    for (size_t y = 0; y < BENCH_OUT; y++)
        k->mirror(bench_out + y * BENCH_OUT * 3, bench_in + y * BENCH_OUT * 3, BENCH_OUT);
}

static void bench_blend_constant(const struct kernels *k)
{
    k->blend_constant(bench_out, BENCH_OUT * BENCH_OUT * 3, 100, 1.1f);
}

static void bench_blend_gray(const struct kernels *k)
{
    k->blend_gray(bench_out, BENCH_OUT * BENCH_OUT, 1.1f);
}

static void bench_gray(const struct kernels *k)
{
    k->gray(bench_out, BENCH_OUT * BENCH_OUT);
}

static void bench_gray_sum(const struct kernels *k)
{
    bench_out[0] = (uint8_t)k->gray_sum(bench_out, BENCH_OUT * BENCH_OUT);
}

static void bench_shift_hue(const struct kernels *k)
{
    k->shift_hue(bench_out, BENCH_OUT * BENCH_OUT, 5);
}

static double microseconds(void (*run)(const struct kernels *), const struct kernels *k)
{
    double best = 1e30;
    for (int i = 0; i < 60; i++) {
        if (i % 20 == 0)
            memcpy(bench_out, bench_in, BENCH_OUT * BENCH_OUT * 3);
        uint64_t start = clock_now_ns();
        run(k);
        double took = (double)(clock_now_ns() - start) / 1000;
        best = took < best ? took : best;
    }
    return best;
}

static int bench(const struct kernels *simd)
{
    static const struct {
        const char *name;
        void (*run)(const struct kernels *);
    } all[] = {
        {"rows 288x288 -> 224x288", bench_rows},
        {"columns 224x288 -> 224x224", bench_columns},
        {"planes_u8", bench_planes_u8},
        {"planes_f32", bench_planes_f32},
        {"planes_f16", bench_planes_f16},
        {"planes_bf16", bench_planes_bf16},
        {"pixels_f32", bench_pixels_f32},
        {"pixels_f16", bench_pixels_f16},
        {"pixels_bf16", bench_pixels_bf16},
        {"mirror", bench_mirror},
        {"blend_constant", bench_blend_constant},
        {"blend_gray", bench_blend_gray},
        {"gray", bench_gray},
        {"gray_sum", bench_gray_sum},
        {"shift_hue", bench_shift_hue},
    };
    struct axis axis = {BENCH_IN, BENCH_OUT, 0, BENCH_IN, 0, BENCH_OUT};
    void *x = filter_memory(RESAMPLE_BILINEAR, &axis, &bench_x), *y = filter_memory(RESAMPLE_BILINEAR, &axis, &bench_y);
    bench_in = random_bytes(BENCH_ROW * BENCH_IN + 64);
    bench_out = malloc(BENCH_IN * BENCH_IN * 12);
    bench_work = aligned_alloc(64, KERNEL_ROWS_WORK(BENCH_IN, 3));
    memset(bench_out, 0, BENCH_IN * BENCH_IN * 12);
    levels_build(&bench_levels, (const float[3]){0.485f, 0.456f, 0.406f}, (const float[3]){0.229f, 0.224f, 0.225f});
    printf("microseconds per image of 224 x 224, best of 60\n%-28s %8s %8s %6s\n", "", "c", simd ? simd->name : "-", "x");
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        double c = microseconds(all[i].run, &kernels_c), s = simd ? microseconds(all[i].run, simd) : c;
        printf("%-28s %8.1f %8.1f %6.1f\n", all[i].name, c, s, c / s);
    }
    free(x);
    free(y);
    free(bench_in);
    free(bench_out);
    free(bench_work);
    return 0;
}

static const struct kernels *tested;

static int set_tested(void **state)
{
    *state = (void *)(uintptr_t)tested;
    return 0;
}

int main(int argc, char **argv)
{
    random_numbers = rng_stream(RNG_TRANSFORM, 7, 0, 0, 0);
    tested = kernels_by_name("avx2");
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench(tested);
    if (!tested) {
        printf("this processor has no AVX2: nothing to compare with C\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(rows_are_filtered_as_in_c, set_tested),
        cmocka_unit_test_setup(columns_are_filtered_as_in_c, set_tested),
        cmocka_unit_test_setup(pixels_are_stored_as_in_c, set_tested),
        cmocka_unit_test_setup(colours_are_changed_as_in_c, set_tested),
        cmocka_unit_test_setup(every_colour_turns_as_in_c, set_tested),
        cmocka_unit_test(common_means_are_computed_not_looked_up),
        cmocka_unit_test(the_environment_can_ask_for_c),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
