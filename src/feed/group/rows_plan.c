/* Planning a batch of rows: which places go together into a load.
 *
 * Rows that are read one by one go together as they come; which ones they are is left to the workers, who are many. Rows in filtered chunks
 * are sorted first, so that those of one chunk come together and no two loads of a batch share one.
 */
#include <stdlib.h>
#include <string.h>

#include "feed/group/rows_group.h"

enum { RADIX_BITS = 11, RADIX = 1 << RADIX_BITS };

struct turn {
    uint64_t row;
    uint32_t place;
};

/* Room for the turns and for sorting them, allocated once per slot. */
static bool make_turn(struct slot *s)
{
    if (!s->turn)
        s->turn = malloc(s->shape->places * (2 * sizeof(struct turn) + sizeof(*s->turn)));
    return s->turn;
}

/* One pass of a radix sort, by the digit at `shift`; rows that are equal keep their order. */
static void sort_digit(const struct turn *from, struct turn *to, uint32_t count, int shift)
{
    uint32_t at[RADIX] = {0}, sum = 0;
    for (uint32_t i = 0; i < count; i++)
        at[from[i].row >> shift & (RADIX - 1)]++;
    for (int d = 0; d < RADIX; d++) {
        uint32_t n = at[d];
        at[d] = sum;
        sum += n;
    }
    for (uint32_t i = 0; i < count; i++)
        to[at[from[i].row >> shift & (RADIX - 1)]++] = from[i];
}

/* Places in the order of their rows. (qsort took 130 ns a row on the planner's thread, a tenth of what inflating a row of 1 KB takes.) */
static void sort_places(struct slot *s, uint64_t rows)
{
    struct turn *from = (struct turn *)s->turn, *to = from + s->shape->places; /* the turns themselves come last, over the first ones */
    for (uint32_t i = 0; i < s->count; i++)
        from[i] = (struct turn){s->place[i].sample, i};
    for (int shift = 0; shift < 64 && rows >> shift; shift += RADIX_BITS) {
        sort_digit(from, to, s->count, shift);
        struct turn *swap = from;
        from = to;
        to = swap;
    }
    for (uint32_t i = 0; i < s->count; i++)
        s->turn[i] = from[i].place;
}

/* May a load end before the i-th place in turn? Not between rows of one chunk. */
static bool can_cut(const struct arrays *a, const struct slot *s, uint32_t i)
{
    if (!s->turn)
        return true;
    uint64_t before = s->place[s->turn[i - 1]].sample, next = s->place[s->turn[i]].sample;
    const struct array_object *o = arrays_object_of(a, before);
    return next >= o->first + o->rows || !o->chunk_rows || (before - o->first) / o->chunk_rows != (next - o->first) / o->chunk_rows;
}

static struct load *make_loads(struct feed *f, struct slot *s, bool must_aim)
{
    struct load *loads = s->loads, *first = NULL, **tail = &first;
    uint32_t count = 0;
    for (uint32_t i = 0, n; i < s->count; i += n) {
        for (n = 1; i + n < s->count && (n < ROWS_PER_LOAD || !can_cut(arrays_of(f), s, i + n)); n++)
            ;
        struct load *l = &loads[count++];
        load_init(l, s, i, s->place[i].position);
        l->count = n;
        l->needs_aim = must_aim;
        l->reads_itself = true;
        l->where = (struct catalog_sample){.key = "", .object = ""};
        *tail = l;
        tail = &l->next;
    }
    *tail = NULL;
    atomic_store_explicit(&s->remaining, count, memory_order_relaxed);
    return first;
}

struct load *rows_plan(struct feed *f, struct slot *s, const struct order *o, const uint64_t *given)
{
    const struct arrays *a = arrays_of(f);
    bool is_sorted = a->is_chunked && make_turn(s), must_aim = !is_sorted && !given;
    for (uint32_t i = 0; i < s->count; i++) {
        struct slot_place *p = &s->place[i];
        p->key = NULL;
        if (must_aim)
            continue;
        p->selected = given ? given[i] : order_at(o, p->position);
        p->sample = f->subset.sample ? f->subset.sample[p->selected] : p->selected;
    }
    if (is_sorted)
        sort_places(s, a->rows);
    free(s->keys);
    s->keys = NULL;
    return make_loads(f, s, must_aim);
}
