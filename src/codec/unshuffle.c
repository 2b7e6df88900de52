/* Shuffle undone: bytes that lie by their place in the number are put together again. C is the reference. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "codec/unfilter.h"

/* `size` is 2, 4 or 8 mostly: given as a constant the inner loop has no branch. */
static inline void put_together(uint8_t *out, const uint8_t *in, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < size; k++)
            out[i * size + k] = in[k * count + i];
}

void unshuffle_c(uint8_t *out, const uint8_t *in, size_t n, size_t size)
{
    size_t count = n / size, whole = count * size;
    switch (size) {
    case 2: put_together(out, in, count, 2); break;
    case 4: put_together(out, in, count, 4); break;
    case 8: put_together(out, in, count, 8); break;
    default: put_together(out, in, count, size);
    }
    memcpy(out + whole, in + whole, n - whole);
}

static unshuffle_fn *chosen;

static void choose(void)
{
    const char *wish = getenv("FULLBORE_SIMD");
    chosen = unshuffle_c;
#ifdef FB_HAVE_AVX2
    if (!(wish && strcmp(wish, "c") == 0) && __builtin_cpu_supports("avx2"))
        chosen = unshuffle_avx2;
#else
    (void)wish;
#endif
}

unshuffle_fn *unshuffle_chosen(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return chosen;
}
