#include "transform/image/kernels/image_kernels.h"

#ifdef FB_HAVE_AVX2
#include <cpuid.h>
#endif
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "transform/image/kernels/color_c.h"
#include "transform/image/kernels/resample/resample_c.h"
#include "transform/image/kernels/store_c.h"

const struct kernels kernels_c = {
    .name = "c",
    .rows = resample_rows_c,
    .columns = resample_columns_c,
    .planes_u8 = planes_u8_c,
    .planes_f32 = planes_f32_c,
    .planes_f16 = planes_f16_c,
    .planes_bf16 = planes_bf16_c,
    .pixels_f32 = pixels_f32_c,
    .pixels_f16 = pixels_f16_c,
    .pixels_bf16 = pixels_bf16_c,
    .mirror = mirror_c,
    .blend_constant = blend_constant_c,
    .blend_gray = blend_gray_c,
    .gray = gray_c,
    .gray_sum = gray_sum_c,
    .shift_hue = shift_hue_c,
};

#ifdef FB_HAVE_AVX2
static struct kernels kernels_avx2;

static bool has_avx2(void)
{
    unsigned a, b, c, d; /* clang 14's __builtin_cpu_supports does not know f16c */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static const struct kernels *best = &kernels_c;

static void choose(void)
{
#ifdef FB_HAVE_AVX2
    if (!has_avx2())
        return;
    kernels_avx2 = kernels_c;
    kernels_add_avx2(&kernels_avx2);
    const char *wish = getenv("FULLBORE_SIMD");
    if (!wish || strcmp(wish, "c") != 0)
        best = &kernels_avx2;
#endif
}

static void choose_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
}

const struct kernels *kernels(void)
{
    choose_once();
    return best;
}

const struct kernels *kernels_by_name(const char *name)
{
    choose_once();
    if (strcmp(name, "c") == 0)
        return &kernels_c;
#ifdef FB_HAVE_AVX2
    if (strcmp(name, "avx2") == 0 && kernels_avx2.name)
        return &kernels_avx2;
#endif
    return NULL;
}
