#include "transform/image/geometry/orient.h"

#include <string.h>

/* Each of the eight is: swap rows and columns or not, then read rows backwards or not, columns backwards or not (of what is stored). */
struct turn {
    bool is_transposed, rows_backwards, columns_backwards;
};

static const struct turn turns[9] = {
    [2] = {false, false, true}, [3] = {false, true, true}, [4] = {false, true, false}, [5] = {true, false, false},
    [6] = {true, true, false},  [7] = {true, true, true},  [8] = {true, false, true},
};

bool orient_is_transposed(int orientation)
{
    return turns[orientation].is_transposed;
}

struct region orient_back(int orientation, uint32_t stored_height, uint32_t stored_width, struct region seen)
{
    struct turn t = turns[orientation];
    struct region r = t.is_transposed ? (struct region){seen.left, seen.top, seen.width, seen.height} : seen;
    if (t.rows_backwards)
        r.top = stored_height - r.top - r.height;
    if (t.columns_backwards)
        r.left = stored_width - r.left - r.width;
    return r;
}

void orient_apply(int orientation, const struct image *in, const struct image *out)
{
    struct turn t = turns[orientation];
    ptrdiff_t row_step = (ptrdiff_t)in->stride * (t.rows_backwards ? -1 : 1), pixel_step = t.columns_backwards ? -3 : 3;
    const uint8_t *corner = in->data + (t.rows_backwards ? (in->height - 1) * in->stride : 0);
    corner += t.columns_backwards ? 3 * (size_t)(in->width - 1) : 0;
    ptrdiff_t down = t.is_transposed ? pixel_step : row_step, right = t.is_transposed ? row_step : pixel_step;
    for (uint32_t y = 0; y < out->height; y++) {
        const uint8_t *from = corner + (ptrdiff_t)y * down;
        uint8_t *to = out->data + y * out->stride;
        for (uint32_t x = 0; x < out->width; x++, from += right, to += 3)
            memcpy(to, from, 3);
    }
}
