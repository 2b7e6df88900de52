#include "codec/array/convert/array_convert_kernels.h"

#ifdef FB_HAVE_AVX2
#include <cpuid.h>
#endif
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct array_kernels *usual = &array_kernels_c, *wanted;

#ifdef FB_HAVE_AVX2
static struct array_kernels with_avx2;

static bool has_avx2(void)
{
    unsigned a, b, c, d; /* clang 14's __builtin_cpu_supports does not know f16c */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static void choose(void)
{
#ifdef FB_HAVE_AVX2
    if (!has_avx2())
        return;
    with_avx2 = array_kernels_c;
    array_kernels_add_avx2(&with_avx2);
    const char *wish = getenv("FULLBORE_SIMD");
    if (!wish || strcmp(wish, "c") != 0)
        usual = &with_avx2;
#endif
}

static void choose_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
}

const struct array_kernels *array_kernels(void)
{
    choose_once();
    return wanted ? wanted : usual;
}

const struct array_kernels *array_kernels_by_name(const char *name)
{
    choose_once();
    if (strcmp(name, "c") == 0)
        return &array_kernels_c;
#ifdef FB_HAVE_AVX2
    if (strcmp(name, "avx2") == 0 && with_avx2.name)
        return &with_avx2;
#endif
    return NULL;
}

void array_kernels_use(const struct array_kernels *k)
{
    wanted = k;
}
