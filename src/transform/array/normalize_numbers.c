/* normalize of sound and arrays: (x - mean) / std with one pair of numbers for all, or one for each channel, column or mel. It costs
 * nothing while numbers are converted; behind a step that runs on planes it is one itself. */
#include <math.h>
#include <stdlib.h>

#include "base/text/text.h"
#include "transform/transform_list.h"

enum { NUMBERS_MAX = 1 << 16 };

struct normalize {
    const char *mean_text, *std_text; /* until checked */
    uint64_t count;                   /* 1, or one per channel, column or mel */
    float *mean, *inv_std;
    bool is_per_row; /* as a step on planes: one for each of their rows */
};

/* "1,2,3" -> how many there are, into `out` if that is not NULL; -1: something else. */
static int64_t read_numbers(const char *text, float *out)
{
    int64_t count = 0;
    for (const char *end; text && *text; text = end + 1) {
        double value;
        if (!text_parse_double(text, &value, &end) || !isfinite((float)value) || count == NUMBERS_MAX)
            return -1;
        if (out)
            out[count] = (float)value;
        count++;
        if (!*end)
            return count;
        if (*end != ',')
            return -1;
    }
    return -1;
}

/* Three times the same number are one: mixing channels and rows of any width can use it. */
static bool are_equal(const float *x, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++)
        if (x[i] != x[0])
            return false;
    return true;
}

static int normalize_check(void *params, struct fb_error *e)
{
    struct normalize *p = params;
    int64_t count = read_numbers(p->mean_text, NULL);
    if (count < 1 || read_numbers(p->std_text, NULL) != count)
        return error_set(e, FB_E_USAGE, "transform",
                         "normalize: mean= and std= want the same count of numbers, 1 to %d, that a float32 can hold", NUMBERS_MAX);
    p->mean = malloc((size_t)count * sizeof(*p->mean));
    p->inv_std = malloc((size_t)count * sizeof(*p->inv_std));
    if (!p->mean || !p->inv_std)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for the transforms");
    read_numbers(p->mean_text, p->mean);
    read_numbers(p->std_text, p->inv_std);
    p->mean_text = p->std_text = NULL;
    p->count = are_equal(p->mean, (uint64_t)count) && are_equal(p->inv_std, (uint64_t)count) ? 1 : (uint64_t)count;
    for (uint64_t i = 0; i < p->count; i++) {
        float inverse = 1.0f / p->inv_std[i];
        if (!(p->inv_std[i] > 0) || !isfinite(inverse))
            return error_set(e, FB_E_USAGE, "transform", "normalize: std= must be from 3e-39 up, not %g", (double)p->inv_std[i]);
        p->inv_std[i] = inverse;
    }
    return 0;
}

static void normalize_release(void *params)
{
    struct normalize *p = params;
    free(p->mean);
    free(p->inv_std);
}

static void normalize_norm(const void *params, struct step_norm *n)
{
    const struct normalize *p = params;
    *n = (struct step_norm){p->count, p->mean, p->inv_std};
}

/* Of sound: one for each mel. Of arrays, as when converting: one for each column, or for each number. */
static int normalize_shape(void *params, struct planes *p, struct fb_error *e)
{
    struct normalize *n = params;
    n->is_per_row = p->is_sound;
    uint64_t each = p->is_sound ? p->rows : p->columns;
    if (n->count == 1 || n->count == each || (!p->is_sound && n->count == p->count * p->rows * p->columns))
        return 0;
    return error_set(e, FB_E_USAGE, "transform", "normalize has %llu numbers; here it wants one, or one for each of %llu %s",
                     (unsigned long long)n->count, (unsigned long long)each, p->is_sound ? "mels" : "columns");
}

static int normalize_run(const void *params, const struct step_run *r, struct fb_error *e)
{
    const struct normalize *p = params;
    uint64_t columns = r->planes.columns, first = r->plane * r->planes.rows * columns;
    (void)e;
    for (uint64_t row = 0; row < r->planes.rows; row++) {
        float *x = r->to + row * columns;
        uint64_t at = p->count == 1 ? 0 : p->is_per_row ? row : (first + row * columns) % p->count;
        uint64_t step = p->count == 1 || p->is_per_row ? 0 : 1;
        for (uint64_t i = 0; i < columns; i++)
            x[i] = (x[i] - p->mean[at + i * step]) * p->inv_std[at + i * step];
    }
    return 0;
}

static const struct option normalize_options[] = {
    {"mean", OPTION_STRING, offsetof(struct normalize, mean_text), 0, 0, NULL, "M", "one number, or one per channel, column or mel"},
    {"std", OPTION_STRING, offsetof(struct normalize, std_text), 0, 0, NULL, "S", "one number, or one per channel, column or mel; above 0"},
    {0},
};

const struct transform_ops transform_normalize_numbers = {
    .name = "normalize",
    .takes = TAKES_SOUND | TAKES_ARRAYS,
    .options = normalize_options,
    .params_size = sizeof(struct normalize),
    .check = normalize_check,
    .release = normalize_release,
    .role = STEP_CONVERTS,
    .norm = normalize_norm,
    .shape = normalize_shape,
    .run = normalize_run,
};
