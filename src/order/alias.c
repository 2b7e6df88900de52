/* Vose's alias method: n columns of equal width, each split between its own sample and one other, so a draw is one column and one
 * comparison. Thresholds are 64-bit fixed point; they come from doubles in a fixed sequence of operations, so that the same weights give
 * the same draws on every machine.
 */
#include "order/alias.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct column {
    uint64_t threshold; /* draws below it are the column's own sample */
    uint64_t other;
};

struct alias_table {
    uint64_t count;
    struct column column[];
};

static int check_weights(const double *weights, uint64_t count, double *largest, struct fb_error *e)
{
    *largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!isfinite(weights[i]) || weights[i] < 0)
            return error_advise(e, error_set(e, FB_E_USAGE, "order", "weights[%llu] is %g", (unsigned long long)i, weights[i]),
                                "give every sample a weight that is zero or a positive number");
        *largest = fmax(*largest, weights[i]);
    }
    if (*largest > 0)
        return 0;
    return error_advise(e, error_set(e, FB_E_USAGE, "order", "all %llu weights are zero", (unsigned long long)count),
                        "give at least one sample a positive weight, or leave weights= out");
}

/* Sharing out: columns with less than their width are filled up by one with more. `share` is the column's content in widths. */
static void fill(struct alias_table *t, double *share, uint64_t *stack)
{
    uint64_t n = t->count, small = 0, large = n; /* small ones from the left, large ones from the right */
    for (uint64_t i = n; i-- > 0;)
        stack[share[i] < 1 ? small++ : --large] = i;
    while (small > 0 && large < n) {
        uint64_t s = stack[--small], l = stack[large];
        t->column[s] = (struct column){(uint64_t)(share[s] * 0x1p64), l};
        share[l] = share[l] + share[s] - 1;
        if (share[l] < 1) {
            large++;
            stack[small++] = l;
        }
    }
    /* what is left holds one width but for rounding, and keeps its initial "always its own" */
}

static uint64_t heaviest_of(const double *weights, uint64_t count)
{
    uint64_t best = 0;
    for (uint64_t i = 1; i < count; i++)
        best = weights[i] > weights[best] ? i : best;
    return best;
}

static int build(struct alias_table *t, const double *weights, double largest, struct fb_error *e)
{
    uint64_t n = t->count, heaviest = heaviest_of(weights, n);
    double *share = malloc(n * sizeof(*share));
    uint64_t *stack = malloc(n * sizeof(*stack));
    int rc = share && stack ? 0 : error_set_errno(e, "order", ENOMEM, "allocate a table for %llu weights", (unsigned long long)n);
    double sum = 0;
    for (uint64_t i = 0; !rc && i < n; i++)
        sum += share[i] = weights[i] / largest; /* so that the sum of huge weights stays finite */
    for (uint64_t i = 0; !rc && i < n; i++) {
        share[i] = share[i] / sum * (double)n;
        /* Rounding must never make a weight of zero possible: such a column belongs to the heaviest until it is filled. */
        t->column[i] = weights[i] > 0 ? (struct column){UINT64_MAX, i} : (struct column){0, heaviest};
    }
    if (!rc)
        fill(t, share, stack);
    free(stack);
    free(share);
    return rc;
}

int alias_open(struct alias_table **out, const double *weights, uint64_t weight_count, uint64_t sample_count, struct fb_error *e)
{
    *out = NULL;
    double largest;
    if (weight_count != sample_count || weight_count == 0)
        return error_advise(e,
                            error_set(e, FB_E_USAGE, "order", "weights= has %llu entries for %llu samples",
                                      (unsigned long long)weight_count, (unsigned long long)sample_count),
                            "give one weight per selected sample, in the order of the selection");
    FB_TRY(check_weights(weights, weight_count, &largest, e));
    if (weight_count > (SIZE_MAX - sizeof(struct alias_table)) / sizeof(struct column))
        return error_set_errno(e, "order", ENOMEM, "hold %llu weights", (unsigned long long)weight_count);
    struct alias_table *t = malloc(sizeof(*t) + weight_count * sizeof(struct column));
    if (!t)
        return error_set_errno(e, "order", ENOMEM, "allocate a table for %llu weights", (unsigned long long)weight_count);
    t->count = weight_count;
    int rc = build(t, weights, largest, e);
    if (rc < 0) {
        free(t);
        return rc;
    }
    *out = t;
    return 0;
}

uint64_t alias_draw(const struct alias_table *a, uint64_t u, uint64_t v)
{
    uint64_t i = (uint64_t)((unsigned __int128)u * a->count >> 64);
    return v < a->column[i].threshold ? i : a->column[i].other;
}

void alias_close(struct alias_table *a)
{
    free(a);
}
