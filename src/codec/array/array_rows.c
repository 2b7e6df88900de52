#include "codec/array/array_rows.h"

#include <assert.h>
#include <string.h>

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Fortran order of what is in truth a row of numbers is C order too. */
static bool is_c_order(const struct array_layout *a)
{
    if (!a->is_fortran)
        return true;
    int wide = 0;
    for (int d = 0; d < a->ndim; d++)
        wide += a->shape[d] != 1;
    return wide <= 1;
}

static bool has_whole_rows(const struct array_layout *a)
{
    for (int d = 1; d < a->ndim; d++)
        if (a->chunk_shape[d] != a->shape[d])
            return false;
    return a->ndim > 0;
}

/* ---- straight ---- */

bool array_is_straight(const struct array_layout *a)
{
    if (a->storage == ARRAY_CONTIGUOUS)
        return is_c_order(a);
    return a->storage == ARRAY_CHUNKED && !a->filter_count && is_c_order(a) && has_whole_rows(a);
}

void array_runs_start(struct array_runs *r, const struct array_layout *a, uint64_t first, uint64_t rows)
{
    assert(array_is_straight(a) && first <= array_rows(a) && rows <= array_rows(a) - first);
    *r = (struct array_runs){.array = a, .row = first, .end = array_row_bytes(a) ? first + rows : first, .first = first};
}

/* The rows from r->row to the end of their chunk, or of what is wanted. */
static struct array_run run_in_chunk(const struct array_runs *r, uint64_t row_bytes, uint64_t *next)
{
    const struct array_layout *a = r->array;
    uint64_t side = a->chunk_shape[0], index = r->row / side, inside = r->row % side;
    const struct array_chunk *c = &a->chunk[index];
    *next = smaller(r->end, r->row - inside + side);
    return (struct array_run){
        .offset = c->offset == ARRAY_NO_CHUNK ? ARRAY_NO_CHUNK : c->offset + inside * row_bytes,
        .length = (*next - r->row) * row_bytes,
        .at = (r->row - r->first) * row_bytes,
    };
}

static bool follows(const struct array_run *a, const struct array_run *b)
{
    if (a->offset == ARRAY_NO_CHUNK || b->offset == ARRAY_NO_CHUNK)
        return a->offset == b->offset;
    return a->offset + a->length == b->offset;
}

bool array_runs_next(struct array_runs *r, struct array_run *out)
{
    const struct array_layout *a = r->array;
    uint64_t row_bytes = array_row_bytes(a), next;
    if (r->row >= r->end)
        return false;
    if (a->storage == ARRAY_CONTIGUOUS) {
        *out = (struct array_run){a->offset + r->row * row_bytes, (r->end - r->row) * row_bytes, (r->row - r->first) * row_bytes};
        r->row = r->end;
        return true;
    }
    *out = run_in_chunk(r, row_bytes, &next);
    for (r->row = next; r->row < r->end; r->row = next) {
        struct array_run more = run_in_chunk(r, row_bytes, &next);
        if (!follows(out, &more))
            break;
        out->length += more.length;
    }
    return true;
}

/* ---- by chunks ---- */

static uint64_t chunks_across(const struct array_layout *a, int d)
{
    return a->shape[d] / a->chunk_shape[d] + (a->shape[d] % a->chunk_shape[d] != 0);
}

static uint64_t chunks_beside(const struct array_layout *a) /* that share the same rows */
{
    uint64_t n = 1;
    for (int d = 1; d < a->ndim; d++)
        n *= chunks_across(a, d);
    return n;
}

void array_chunks_of_rows(const struct array_layout *a, uint64_t first, uint64_t rows, uint64_t *chunk, uint64_t *count)
{
    assert(a->storage == ARRAY_CHUNKED && first <= array_rows(a) && rows <= array_rows(a) - first);
    uint64_t beside = chunks_beside(a), side = a->ndim ? a->chunk_shape[0] : 1;
    *chunk = first / side * beside;
    *count = rows ? ((first + rows - 1) / side + 1) * beside - *chunk : 0;
}

/* A box of numbers to be moved between two arrays in C order: how far to go for one step in each dimension, on either side. */
struct box {
    int ndim;
    uint64_t count[FB_MAX_DIMS], from_step[FB_MAX_DIMS], to_step[FB_MAX_DIMS]; /* steps in bytes */
    const uint8_t *from;                                                       /* NULL: the fill value */
    uint8_t *to;
};

/* Innermost dimensions that lie side by side in both arrays become one run of bytes. */
static uint64_t take_run(struct box *b, uint64_t number)
{
    uint64_t run = number;
    for (; b->ndim; run *= b->count[--b->ndim]) {
        int d = b->ndim - 1;
        if (b->count[d] > 1 && (b->to_step[d] != run || (b->from && b->from_step[d] != run)))
            break;
    }
    return run;
}

static void move_run(const struct array_layout *a, uint8_t *to, const uint8_t *from, uint64_t run)
{
    if (from)
        memcpy(to, from, run);
    else
        array_fill(a, to, run);
}

/* The innermost loop for the sizes that numbers have, which memcpy of a variable size would make many times slower. */
#define MOVE_NUMBERS(bytes)              \
    for (uint64_t i = 0; i < count; i++) \
    memcpy(to + i * to_step, from + i * from_step, bytes)

static void move_line(const struct array_layout *a, uint8_t *to, uint64_t to_step, const uint8_t *from, uint64_t from_step, uint64_t count,
                      uint64_t run)
{
    if (from && run == 1)
        MOVE_NUMBERS(1);
    else if (from && run == 2)
        MOVE_NUMBERS(2);
    else if (from && run == 4)
        MOVE_NUMBERS(4);
    else if (from && run == 8)
        MOVE_NUMBERS(8);
    else
        for (uint64_t i = 0; i < count; i++)
            move_run(a, to + i * to_step, from ? from + i * from_step : NULL, run);
}

static void move_box(const struct array_layout *a, struct box *b)
{
    uint64_t run = take_run(b, a->stored_bytes), at[FB_MAX_DIMS] = {0};
    if (b->ndim == 0) {
        move_run(a, b->to, b->from, run);
        return;
    }
    int last = b->ndim - 1;
    for (;;) {
        uint64_t from = 0, to = 0;
        for (int d = 0; d < last; d++) {
            from += at[d] * b->from_step[d];
            to += at[d] * b->to_step[d];
        }
        move_line(a, b->to + to, b->to_step[last], b->from ? b->from + from : NULL, b->from_step[last], b->count[last], run);
        int d = last - 1;
        while (d >= 0 && ++at[d] == b->count[d])
            at[d--] = 0;
        if (d < 0)
            return;
    }
}

/* Steps of an array of that shape. */
static void steps_of(const uint64_t *shape, int ndim, uint64_t number, bool is_fortran, uint64_t *step)
{
    uint64_t size = number;
    for (int i = 0; i < ndim; i++) {
        int d = is_fortran ? i : ndim - 1 - i;
        step[d] = size;
        size *= shape[d];
    }
}

static bool is_empty_box(const struct box *b)
{
    for (int d = 0; d < b->ndim; d++)
        if (!b->count[d])
            return true;
    return false;
}

void array_copy_from_chunk(const struct array_layout *a, uint64_t chunk, const uint8_t *data, uint64_t first, uint64_t rows, void *out)
{
    assert(a->storage == ARRAY_CHUNKED && chunk < a->chunk_count);
    struct box b = {.ndim = a->ndim, .from = data, .to = out};
    steps_of(a->chunk_shape, a->ndim, a->stored_bytes, a->is_fortran, b.from_step);
    steps_of(a->shape, a->ndim, a->stored_bytes, false, b.to_step);
    for (int d = a->ndim - 1; d >= 0; d--) {
        uint64_t start = chunk % chunks_across(a, d) * a->chunk_shape[d];
        uint64_t end = start + smaller(a->chunk_shape[d], a->shape[d] - start);
        uint64_t low = d ? start : larger(start, first), high = d ? end : smaller(end, first + rows);
        if (low >= high)
            return;
        b.count[d] = high - low;
        b.to += (low - (d ? 0 : first)) * b.to_step[d];
        if (b.from)
            b.from += (low - start) * b.from_step[d];
        chunk /= chunks_across(a, d);
    }
    move_box(a, &b);
}

void array_copy_from_whole(const struct array_layout *a, const uint8_t *data, uint64_t first, uint64_t rows, void *out)
{
    assert(first <= array_rows(a) && rows <= array_rows(a) - first);
    struct box b = {.ndim = a->ndim, .from = data, .to = out};
    steps_of(a->shape, a->ndim, a->stored_bytes, !is_c_order(a), b.from_step);
    steps_of(a->shape, a->ndim, a->stored_bytes, false, b.to_step);
    memcpy(b.count, a->shape, sizeof(b.count));
    if (a->ndim) {
        b.count[0] = rows;
        b.from += first * b.from_step[0];
    }
    if (!is_empty_box(&b))
        move_box(a, &b);
}

void array_fill(const struct array_layout *a, void *out, uint64_t bytes)
{
    static const uint8_t zero[ARRAY_FILL_BYTES];
    uint8_t *to = out;
    uint64_t number = a->stored_bytes, done = smaller(number, bytes);
    if (memcmp(a->fill, zero, number) == 0) {
        memset(to, 0, bytes);
        return;
    }
    memcpy(to, a->fill, done);
    for (; done < bytes; done += smaller(done, bytes - done)) /* twice as much each time */
        memcpy(to + done, to, smaller(done, bytes - done));
}
