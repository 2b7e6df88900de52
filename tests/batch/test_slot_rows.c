/* Places of different lengths: padded and ragged batches, stand-ins that are shorter, memory that is used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batch/slot.h"

enum { PLACES = 3, WIDTH = 2 };

/* A batch of bags: `x` with WIDTH floats a row, `y` with one int16, and `label`. */
static struct slot_shape make_shape(enum slot_packing packing)
{
    struct slot_shape shape = {.places = PLACES};
    struct fb_error e;
    error_clear(&e);
    assert_int_equal(slot_shape_add_variable(&shape, "x", packing, FB_FLOAT32, 1, (int64_t[]){WIDTH}, &e), 0);
    assert_int_equal(slot_shape_add_variable(&shape, "y", packing, FB_INT16, 0, NULL, &e), 0);
    assert_int_equal(slot_shape_add(&shape, "label", FB_INT64, 0, NULL, NULL, &e), 0);
    assert_int_equal(slot_shape_add_lengths(&shape, &e), 0);
    return shape;
}

static void prepare(struct slot *s, const uint64_t *room, uint32_t count)
{
    slot_prepare(s, count);
    memcpy(s->room, room, count * sizeof(*room));
    assert_true(slot_prepare_rows(s, count, slot_rows_bytes(s, count)));
}

/* Row r of place p becomes 100 p + r everywhere. */
static void fill(struct slot *s, uint32_t place, uint64_t rows)
{
    float *x = slot_at(s, 0, place);
    int16_t *y = slot_at(s, 1, place);
    for (uint64_t r = 0; r < rows; r++) {
        x[r * WIDTH] = x[r * WIDTH + 1] = (float)(100 * place + r);
        y[r] = (int16_t)(100 * place + r);
    }
    slot_set_rows(s, place, rows);
}

static void check_padded(const struct slot *s, const uint64_t *rows, uint64_t longest)
{
    const float *x = s->array[0].data;
    const int16_t *y = s->array[1].data;
    const int64_t *lengths = s->array[3].data;
    assert_int_equal(s->array[0].shape[1], longest);
    for (uint32_t p = 0; p < s->count; p++) {
        assert_int_equal(lengths[p], rows[p]);
        for (uint64_t r = 0; r < longest; r++) {
            float want = r < rows[p] ? (float)(100 * p + r) : 0;
            assert_true(x[(p * longest + r) * WIDTH] == want && x[(p * longest + r) * WIDTH + 1] == want);
            assert_int_equal(y[p * longest + r], want);
        }
    }
}

static void check_ragged(const struct slot *s, const uint64_t *rows)
{
    const float *x = s->array[0].data;
    const int16_t *y = s->array[1].data;
    const int64_t *offsets = s->array[3].data;
    uint64_t at = 0;
    for (uint32_t p = 0; p < s->count; p++) {
        assert_int_equal(offsets[p], at);
        for (uint64_t r = 0; r < rows[p]; r++, at++) {
            assert_true(x[at * WIDTH] == (float)(100 * p + r));
            assert_int_equal(y[at], 100 * p + r);
        }
    }
    assert_int_equal(offsets[s->count], at);
    assert_int_equal(s->array[0].shape[0], at);
    assert_int_equal(s->array[0].bytes, at * WIDTH * sizeof(float));
    assert_int_equal(s->array[3].shape[0], s->count + 1);
}

static void padded_places_are_zero_behind_their_rows_also_in_used_memory(void **state)
{
    (void)state;
    struct slot_shape shape = make_shape(SLOT_PADDED);
    struct slot *s = slot_new(&shape, NULL, 8);
    assert_non_null(s);
    static const uint64_t batches[][PLACES] = {{5, 2, 9}, {9, 9, 9}, {1, 0, 3}, {0, 0, 0}};
    for (int b = 0; b < 4; b++) {
        uint64_t longest = 0;
        prepare(s, batches[b], PLACES);
        for (uint32_t p = 0; p < PLACES; p++) {
            fill(s, p, batches[b][p]);
            longest = batches[b][p] > longest ? batches[b][p] : longest;
        }
        slot_finish_rows(s);
        check_padded(s, batches[b], longest);
    }
    slot_free(s);
}

static void a_shorter_stand_in_leaves_no_gap(void **state)
{
    (void)state;
    struct slot_shape shape = make_shape(SLOT_RAGGED);
    struct slot *s = slot_new(&shape, NULL, 8);
    static const uint64_t room[] = {5, 4, 6}, rows[] = {3, 0, 6};
    prepare(s, room, PLACES);
    for (uint32_t p = PLACES; p-- > 0;)
        fill(s, p, rows[p]);
    slot_finish_rows(s);
    check_ragged(s, rows);
    slot_free(s);
}

static void a_shorter_stand_in_is_padded(void **state)
{
    (void)state;
    struct slot_shape shape = make_shape(SLOT_PADDED);
    struct slot *s = slot_new(&shape, NULL, 8);
    static const uint64_t room[] = {5, 4, 6}, rows[] = {3, 0, 6};
    prepare(s, room, PLACES);
    fill(s, 0, 5); /* a first try that was thrown away */
    for (uint32_t p = 0; p < PLACES; p++)
        fill(s, p, rows[p]);
    slot_finish_rows(s);
    check_padded(s, rows, 6);
    slot_free(s);
}

static void fewer_places_take_less(void **state)
{
    (void)state;
    struct slot_shape shape = make_shape(SLOT_RAGGED);
    struct slot *s = slot_new(&shape, NULL, 8);
    static const uint64_t room[] = {2, 3, 0};
    prepare(s, room, 2);
    fill(s, 0, 2);
    fill(s, 1, 3);
    slot_finish_rows(s);
    check_ragged(s, room);
    slot_free(s);
}

static void lengths_beyond_all_memory_are_counted_without_wrapping_around(void **state)
{
    (void)state;
    for (int packing = SLOT_PADDED; packing <= SLOT_RAGGED; packing++) {
        struct slot_shape shape = make_shape((enum slot_packing)packing);
        struct slot *s = slot_new(&shape, NULL, 8);
        static const uint64_t room[] = {UINT64_C(1) << 60, 1, UINT64_C(1) << 60};
        slot_prepare(s, PLACES);
        memcpy(s->room, room, sizeof(room));
        assert_true(slot_rows_bytes(s, PLACES) >= SIZE_MAX / 8);
        assert_false(slot_prepare_rows(s, PLACES, slot_rows_bytes(s, PLACES)));
        slot_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padded_places_are_zero_behind_their_rows_also_in_used_memory),
        cmocka_unit_test(a_shorter_stand_in_leaves_no_gap),
        cmocka_unit_test(a_shorter_stand_in_is_padded),
        cmocka_unit_test(fewer_places_take_less),
        cmocka_unit_test(lengths_beyond_all_memory_are_counted_without_wrapping_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
