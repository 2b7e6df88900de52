#include "codec/image/jpeg/kernels/jpeg_kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct jpeg_kernels *usual, *wanted;

#ifdef FB_HAVE_AVX2
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
#endif

static void choose(void)
{
    const char *wish = getenv("FULLBORE_SIMD");
    usual = jpeg_kernels_by_name(wish && strcmp(wish, "c") == 0 ? "c" : "avx2");
}

const struct jpeg_kernels *jpeg_kernels(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return wanted ? wanted : usual;
}

const struct jpeg_kernels *jpeg_kernels_by_name(const char *name)
{
    if (strcmp(name, "c") == 0)
        return &jpeg_kernels_c;
#ifdef FB_HAVE_AVX2
    if (strcmp(name, "avx2") == 0 && has_avx2())
        return &jpeg_kernels_avx2;
#endif
    return NULL;
}

void jpeg_kernels_use(const struct jpeg_kernels *k)
{
    wanted = k;
}
