#include "transform/image/geometry/crop_window.h"

#include <math.h>
#include <string.h>

const char *const border_names[] = {"constant", "edge", "reflect", "symmetric", NULL};

struct window_axis {
    int64_t size;
    int64_t inner_before, inner_after;
    int64_t outer_before;
    int64_t at;
};

struct window {
    struct window_axis y, x;
    enum border_mode mode;
    uint8_t fill[3];
};

static struct window window_of(const struct border *b, const struct step_plan *s)
{
    return (struct window){
        .y = {s->in_height, b->padding[1], b->padding[3], (int64_t)s->value[OUTER_TOP], (int64_t)s->value[AT_TOP]},
        .x = {s->in_width, b->padding[0], b->padding[2], (int64_t)s->value[OUTER_LEFT], (int64_t)s->value[AT_LEFT]},
        .mode = (enum border_mode)b->mode,
        .fill = {b->fill[0], b->fill[1], b->fill[2]},
    };
}

void window_for_mask(void *params)
{
    struct border *b = params;
    memset(b->fill, (int)b->mask_fill, sizeof(b->fill));
}

/* Folds a position outside [0, n) back inside; -1: the fill. */
static int64_t fold(int64_t at, int64_t n, enum border_mode mode)
{
    if (at >= 0 && at < n)
        return at;
    if (mode == BORDER_CONSTANT)
        return -1;
    if (mode == BORDER_EDGE || n == 1)
        return at < 0 ? 0 : n - 1;
    int64_t period = mode == BORDER_REFLECT ? 2 * (n - 1) : 2 * n;
    at = (at % period + period) % period;
    if (at < n)
        return at;
    return mode == BORDER_REFLECT ? period - at : period - 1 - at;
}

/* The source pixel shown at `position` of the window, or -1: the fill. */
static int64_t source_at(const struct window_axis *a, enum border_mode mode, int64_t position)
{
    int64_t at = fold(a->at + position - a->outer_before, a->size + a->inner_before + a->inner_after, mode);
    return at < 0 ? -1 : fold(at - a->inner_before, a->size, mode);
}

/* Positions below which and from which on the window shows borders. */
static int64_t first_inside(const struct window_axis *a)
{
    return a->outer_before + a->inner_before - a->at;
}

static bool is_axis_inside(const struct window_axis *a, uint32_t from, uint32_t count)
{
    int64_t first = first_inside(a);
    return from >= first && (int64_t)from + count <= first + a->size;
}

/* The part at hand is what is wanted already. */
bool window_is_idle(const void *params, const struct step_plan *s, struct region out)
{
    struct window w = window_of(params, s);
    return is_axis_inside(&w.y, out.top, out.height) && is_axis_inside(&w.x, out.left, out.width);
}

size_t window_memory(const void *params, const struct step_plan *s, struct region out, bool *is_in_place)
{
    (void)params, (void)s, (void)out;
    *is_in_place = false;
    return 0;
}

static void axis_back(const struct window_axis *a, enum border_mode mode, uint32_t from, uint32_t count, uint32_t *start, uint32_t *length)
{
    if (is_axis_inside(a, from, count)) {
        *start = (uint32_t)(from - first_inside(a));
        *length = count;
        return;
    }
    int64_t low = a->size, high = -1;
    for (int64_t i = from; i < (int64_t)from + count; i++) {
        int64_t at = source_at(a, mode, i);
        if (at < 0)
            continue;
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    *start = high < 0 ? 0 : (uint32_t)low; /* nothing but fill: one pixel, which nobody looks at */
    *length = high < 0 ? 1 : (uint32_t)(high - low + 1);
}

struct region window_back(const void *params, const struct step_plan *s, struct region out)
{
    struct window w = window_of(params, s);
    struct region need;
    axis_back(&w.y, w.mode, out.top, out.height, &need.top, &need.height);
    axis_back(&w.x, w.mode, out.left, out.width, &need.left, &need.width);
    return need;
}

static void copy_row(const struct window *w, const struct region *need, struct region out, const uint8_t *in, uint8_t *to)
{
    int64_t first = first_inside(&w->x), end = first + w->x.size;
    for (int64_t i = out.left; i < (int64_t)out.left + out.width; i++, to += 3) {
        if (i >= first && i < end) { /* the middle in one piece */
            int64_t n = end - i, left = (int64_t)out.left + out.width - i;
            n = n < left ? n : left;
            memcpy(to, in + 3 * (i - first - need->left), (size_t)n * 3);
            to += 3 * (n - 1);
            i += n - 1;
            continue;
        }
        int64_t at = source_at(&w->x, w->mode, i);
        memcpy(to, at < 0 ? w->fill : in + 3 * (at - need->left), 3);
    }
}

void window_apply(const void *params, const struct step_plan *s, struct region out, struct image *image, const struct step_memory *m)
{
    struct window w = window_of(params, s);
    uint8_t *to = m->pixels;
    for (uint32_t y = 0; y < out.height; y++, to += m->pixels_stride) {
        int64_t at = source_at(&w.y, w.mode, (int64_t)out.top + y);
        if (at >= 0)
            copy_row(&w, &s->need, out, image->data + (size_t)(at - s->need.top) * image->stride, to);
        else
            for (uint32_t x = 0; x < out.width; x++)
                memcpy(to + 3 * (size_t)x, w.fill, 3);
    }
    *image = (struct image){m->pixels, m->pixels_stride, out.width, out.height};
}

int fill_option(const struct option_numbers *n, uint8_t fill[3], const char *what, struct fb_error *e)
{
    bool is_good = n->count == 0 || n->count == 1 || n->count == 3;
    for (int c = 0; is_good && c < 3; c++) {
        double v = n->count == 0 ? 0 : n->value[n->count == 3 ? c : 0];
        is_good = v == floor(v) && v >= 0 && v <= 255;
        fill[c] = is_good ? (uint8_t)v : 0;
    }
    if (is_good)
        return 0;
    error_set(e, FB_E_USAGE, "transform", "%s: fill= wants one or three whole numbers from 0 to 255", what);
    return FB_E_USAGE;
}

int padding_option(const struct option_numbers *n, uint32_t padding[4], const char *what, struct fb_error *e)
{
    static const int from[5][4] = {{0}, {0, 0, 0, 0}, {0, 1, 0, 1}, {0}, {0, 1, 2, 3}};
    bool is_good = n->count == 1 || n->count == 2 || n->count == 4;
    for (int i = 0; is_good && i < 4; i++) {
        double v = n->value[from[n->count][i]];
        is_good = v == floor(v) && v >= 0 && v <= IMAGE_MAX_SIDE;
        padding[i] = is_good ? (uint32_t)v : 0;
    }
    if (is_good)
        return 0;
    error_set(e, FB_E_USAGE, "transform", "%s: padding= wants 1, 2 or 4 whole numbers from 0 to %d", what, IMAGE_MAX_SIDE);
    error_remedy(e, "one for all sides, two for left and right, top and bottom, or left,top,right,bottom");
    return FB_E_USAGE;
}
