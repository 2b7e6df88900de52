#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "transform/fft.h"

/* Fours first: fewer passes. A factor that is none of 2, 3, 4, 5 is a pass of its own. */
static uint32_t next_radix(uint32_t left)
{
    static const uint32_t known[] = {4, 2, 3, 5};
    for (int i = 0; i < 4; i++)
        if (left % known[i] == 0)
            return known[i];
    for (uint32_t f = 7; f * f <= left; f += 2)
        if (left % f == 0)
            return f;
    return left;
}

static void put_root(float *to, double numerator, double denominator)
{
    double angle = -2 * M_PI * numerator / denominator;
    to[0] = (float)cos(angle);
    to[1] = (float)sin(angle);
}

static bool is_general(uint32_t radix)
{
    return radix > 5;
}

static size_t table_floats(uint32_t half)
{
    size_t floats = (size_t)(half / 2 + 1) * 2;
    for (uint32_t left = half, radix; left > 1; left /= radix) {
        radix = next_radix(left);
        floats += (size_t)2 * (radix - 1) * (left / radix) + (is_general(radix) ? 2 * radix : 0);
    }
    return floats;
}

static float *add_pass(struct fft_plan *p, uint32_t left, uint32_t stride, float *table)
{
    uint32_t radix = next_radix(left), positions = left / radix;
    struct fft_pass *pass = &p->pass[p->pass_count++];
    *pass = (struct fft_pass){.radix = radix, .length = left, .stride = stride, .twiddle = table};
    for (uint32_t i = 0; i < positions; i++)
        for (uint32_t k = 1; k < radix; k++, table += 2)
            put_root(table, (double)i * k, left);
    if (!is_general(radix))
        return table;
    pass->roots = table;
    for (uint32_t k = 0; k < radix; k++, table += 2)
        put_root(table, k, radix);
    return table;
}

int fft_plan_make(struct fft_plan *p, uint32_t n, struct fb_error *e)
{
    *p = (struct fft_plan){.n = n, .half = n / 2};
    if (n < 2 || n % 2 || n > FFT_MAX_SIZE)
        return error_set(e, FB_E_USAGE, "transform", "n_fft=%u: an even number from 2 to %d is needed", n, FFT_MAX_SIZE);
    float *table = p->memory = malloc(table_floats(p->half) * sizeof(float));
    if (!table)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for the tables of a Fourier transform");
    uint32_t stride = 1;
    for (uint32_t left = p->half; left > 1; left /= next_radix(left)) {
        table = add_pass(p, left, stride, table);
        stride *= next_radix(left);
    }
    p->last = table;
    for (uint32_t k = 0; k <= p->half / 2; k++, table += 2)
        put_root(table, k, n);
    return 0;
}

void fft_plan_free(struct fft_plan *p)
{
    free(p->memory);
    memset(p, 0, sizeof(*p));
}
