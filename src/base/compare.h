/* Comparisons for qsort and bsearch. */
#ifndef FB_BASE_COMPARE_H
#define FB_BASE_COMPARE_H

#include <stdint.h>
#include <string.h>

static inline int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static inline int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Pointers to texts. */
static inline int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#endif
