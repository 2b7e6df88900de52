/* The table of figures: each has a place, what is not there is not shown, and text comes out as JSON. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "meter/loop.h"
#include "meter/metrics.h"

static void what_is_set_by_its_path_is_found_there_and_nowhere_else(void **state)
{
    (void)state;
    struct metrics m;
    for (int i = metric_count - 1; i >= 0; i--) {
        metrics_clear(&m);
        metrics_set(&m, metric_table[i].path, 7);
        for (int j = 0; j < metric_count; j++)
            assert_true(j == i ? m.value[j] == 7 : isnan(m.value[j]));
        assert_true(metrics_get(&m, metric_table[i].path) == 7);
    }
}

static void a_path_that_there_is_not_changes_nothing(void **state)
{
    (void)state;
    struct metrics m;
    metrics_clear(&m);
#ifdef NDEBUG /* else it is an assertion */
    metrics_set(&m, "io", 1);
    metrics_set(&m, "io.reads.", 1);
#endif
    for (int i = 0; i < metric_count; i++)
        assert_true(isnan(m.value[i]));
    assert_true(isnan(metrics_get(&m, "nothing")));
}

static void an_object_has_its_own_figures_by_unit_and_no_others(void **state)
{
    (void)state;
    struct metrics m;
    struct text t = {.limit = 1 << 16};
    struct json_writer w = {.out = &t};
    metrics_clear(&m);
    metrics_set(&m, "chunks.bytes", 9007199254740991.0);
    metrics_set(&m, "chunks.hits", 3);
    metrics_set_ns(&m, "map_seconds", 1500000001);
    json_begin_object(&w, NULL);
    metrics_put_object(&w, &m, "chunks");
    metrics_put_object(&w, &m, "regions");
    json_end(&w);
    assert_string_equal(t.data,
                        "{\"chunks\":{\"bytes\":9007199254740991,\"limit\":null,\"hits\":3,\"unfiltered\":null,\"evictions\":null}}");
    text_free(&t);
    assert_true(metrics_get(&m, "map_seconds") == 1.500000001);
}

static void a_loop_fills_every_figure_of_its_own(void **state)
{
    (void)state;
    static struct loop l;
    struct metrics m;
    loop_open(&l);
    loop_begin_epoch(&l, 1000000000, 2);
    loop_take(&l, 3000000000, 500000000, 0, 4);
    loop_take(&l, 4500000000, 500000000, 0, 3);
    metrics_clear(&m);
    loop_metrics(&l, &m);
    loop_close(&l);
    for (int i = 0; i < metric_count; i++)
        assert_int_equal(isnan(m.value[i]) == 0, strncmp(metric_table[i].path, "loop.", 5) == 0);
    assert_true(metrics_get(&m, "loop.epochs") == 1 && metrics_get(&m, "loop.epoch_length_batches") == 2);
    assert_true(metrics_get(&m, "loop.samples") == 7 && metrics_get(&m, "loop.wall_seconds") == 2);
    assert_true(metrics_get(&m, "loop.exposed_wait_ratio") == 0.5 && metrics_get(&m, "loop.epoch_samples_per_second") == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_set_by_its_path_is_found_there_and_nowhere_else),
        cmocka_unit_test(a_path_that_there_is_not_changes_nothing),
        cmocka_unit_test(an_object_has_its_own_figures_by_unit_and_no_others),
        cmocka_unit_test(a_loop_fills_every_figure_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
