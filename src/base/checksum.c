#include "base/checksum.h"

#include <xxhash.h>

#include "base/checksum_avx2.h"

enum { WORTH_IT = 1024 };

uint64_t checksum_of(const void *bytes, size_t n)
{
#ifdef FB_HAVE_AVX2
    if (n >= WORTH_IT && __builtin_cpu_supports("avx2"))
        return checksum_of_avx2(bytes, n);
#endif
    return XXH3_64bits(bytes, n);
}

struct checksum *checksum_open(void)
{
    XXH3_state_t *s = XXH3_createState();
    if (s)
        XXH3_64bits_reset(s);
    return (struct checksum *)s;
}

void checksum_add(struct checksum *c, const void *bytes, size_t n)
{
    XXH3_64bits_update((XXH3_state_t *)c, bytes, n);
}

uint64_t checksum_value(const struct checksum *c)
{
    return XXH3_64bits_digest((const XXH3_state_t *)c);
}

void checksum_close(struct checksum *c)
{
    XXH3_freeState((XXH3_state_t *)c);
}
