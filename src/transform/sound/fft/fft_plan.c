#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "transform/sound/fft/fft.h"

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

static bool is_general(uint32_t radix)
{
    return radix > 5;
}

static size_t table_numbers(uint32_t half)
{
    size_t numbers = (size_t)(half / 2 + 1) * 2;
    for (uint32_t left = half, radix; left > 1; left /= radix) {
        radix = next_radix(left);
        numbers += (size_t)2 * (radix - 1) * (left / radix) + (is_general(radix) ? 2 * radix : 0);
    }
    return numbers;
}

/* Tables being filled: pairs go to both. */
struct tables {
    double *f64;
    float *f32;
};

static struct fft_table here(const struct tables *t)
{
    return (struct fft_table){t->f64, t->f32};
}

static void put_root(struct tables *t, double numerator, double denominator)
{
    double angle = -2 * M_PI * numerator / denominator;
    *t->f32++ = (float)(*t->f64++ = cos(angle));
    *t->f32++ = (float)(*t->f64++ = sin(angle));
}

static void add_pass(struct fft_plan *p, uint32_t left, uint32_t stride, struct tables *t)
{
    uint32_t radix = next_radix(left), positions = left / radix;
    struct fft_pass *pass = &p->pass[p->pass_count++];
    *pass = (struct fft_pass){.radix = radix, .length = left, .stride = stride, .twiddle = here(t)};
    for (uint32_t i = 0; i < positions; i++)
        for (uint32_t k = 1; k < radix; k++)
            put_root(t, (double)i * k, left);
    pass->roots = here(t);
    for (uint32_t k = 0; k < radix && is_general(radix); k++)
        put_root(t, k, radix);
}

int fft_plan_make(struct fft_plan *p, uint32_t n, struct fb_error *e)
{
    *p = (struct fft_plan){.n = n, .half = n / 2};
    if (n < 2 || n % 2 || n > FFT_MAX_SIZE)
        return error_set(e, FB_E_USAGE, "transform", "n_fft=%u: an even number from 2 to %d is needed", n, FFT_MAX_SIZE);
    size_t numbers = table_numbers(p->half);
    p->memory = malloc(numbers * (sizeof(double) + sizeof(float)));
    if (!p->memory)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for the tables of a Fourier transform");
    struct tables t = {p->memory, (float *)((double *)p->memory + numbers)};
    uint32_t stride = 1;
    for (uint32_t left = p->half; left > 1; left /= next_radix(left)) {
        add_pass(p, left, stride, &t);
        stride *= next_radix(left);
    }
    p->last = here(&t);
    for (uint32_t k = 0; k <= p->half / 2; k++)
        put_root(&t, k, n);
    return 0;
}

void fft_plan_free(struct fft_plan *p)
{
    free(p->memory);
    memset(p, 0, sizeof(*p));
}
