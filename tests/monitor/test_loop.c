/* A loop's own figures, its marks, and traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "monitor/loop_marks.h"
#include "meter/loop.h"
#include "meter/meter.h"
#include "meter/metrics.h"
#include "meter/trace.h"

enum { MS = 1000000 };

static void near(double value, double wanted, double share)
{
    if (!(fabs(value - wanted) <= share * fabs(wanted)))
        fail_msg("%g is not %g", value, wanted);
}

/* Two epochs of four batches: 10 ms of step after 5 ms of waiting, 100 ms between them. */
static void run_two_epochs(struct loop *l)
{
    uint64_t now = (uint64_t)1000 * MS;
    for (int epoch = 0; epoch < 2; epoch++) {
        loop_begin_epoch(l, now, 4);
        for (int i = 0; i < 4; i++) {
            now += (i ? 15 : 5) * MS;
            loop_take(l, now, 5 * MS, 2 * MS, 32);
        }
        loop_end_epoch(l, now);
        now += 95 * MS;
    }
}

static void waits_and_steps_are_exact(void **state)
{
    (void)state;
    struct loop *l = calloc(1, sizeof(*l));
    loop_open(l);
    run_two_epochs(l);
    struct loop_figures all = loop_read(&l->all), epoch = loop_read(&l->epoch);
    assert_true(all.batches == 8 && all.samples == 256 && epoch.batches == 4);
    assert_true(all.wait_ns == 40 * MS && all.wait_cpu_ns == 16 * MS && all.wall_ns == 100 * MS && epoch.wait_most_ns == 5 * MS);
    assert_true(l->gap_most_ns == 100 * MS && l->first_wait_ns == 5 * MS);
    near((double)fine_quantile(&l->steps, 0.5), 15 * MS, 0.09);
    loop_close(l);
    free(l);
}

static double figure(const struct loop *l, const char *path)
{
    struct metrics m;
    metrics_clear(&m);
    loop_metrics(l, &m);
    return metrics_get(&m, path);
}

/* Few batches, long steps: had the first wait counted as a step, 110.6 ms would be shown as 90 or so. */
static void rates_are_intervals_over_the_time_of_these_intervals(void **state)
{
    (void)state;
    struct loop *l = calloc(1, sizeof(*l));
    loop_open(l);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        uint64_t now = (1 + epoch) * 1000 * MS;
        loop_begin_epoch(l, now, 5);
        assert_true(figure(l, "loop.epoch_batches_per_second") == 0);
        for (int i = 0; i < 5; i++) {
            now += i ? 110600000 : 10 * MS;
            loop_take(l, now, 10 * MS, 0, i < 4 ? 32 : 8);
        }
        loop_end_epoch(l, now + 100 * MS);
        assert_true(l->all.steps == 4 * (epoch + 1) && l->epoch.steps == 4);
    }
    static const char *const prefixes[] = {"loop.", "loop.epoch_"};
    for (int i = 0; i < 2; i++) {
        char path[3][64];
        static const char *const names[] = {"step_mean_seconds", "batches_per_second", "samples_per_second"};
        for (int k = 0; k < 3; k++)
            snprintf(path[k], sizeof(path[k]), "%s%s", prefixes[i], names[k]);
        near(figure(l, path[0]), 0.1106, 1e-9);
        near(figure(l, path[1]), 1 / 0.1106, 1e-9);
        near(figure(l, path[2]), (3 * 32 + 8) / (4 * 0.1106), 1e-9);
    }
    loop_close(l);
    free(l);
}

/* The time from the beginning of an epoch to asking for its first batch belongs to the program. */
static void what_the_program_does_before_its_first_batch_is_neither_wait_nor_step(void **state)
{
    (void)state;
    struct loop *l = calloc(1, sizeof(*l));
    loop_open(l);
    loop_begin_epoch(l, 1000 * MS, 2);
    loop_take(l, UINT64_C(9000) * MS, 20 * MS, 0, 1);
    loop_take(l, UINT64_C(9080) * MS, 20 * MS, 0, 1);
    near(figure(l, "loop.wall_seconds"), 0.1, 1e-9);
    near(figure(l, "loop.exposed_wait_ratio"), 0.4, 1e-9);
    loop_close(l);
    free(l);
}

static void quantiles_are_right_to_nine_percent_at_any_size(void **state)
{
    (void)state;
    for (uint64_t ns = 20000; ns < UINT64_C(1) << 42; ns = ns * 7 / 3) {
        struct fine_histogram *h = calloc(1, sizeof(*h));
        for (int i = 0; i < 100; i++)
            fine_add(h, ns);
        near((double)fine_quantile(h, 0.99), (double)ns, 0.09);
        free(h);
    }
    struct fine_histogram *h = calloc(1, sizeof(*h));
    assert_true(fine_quantile(h, 0.5) == 0);
    fine_add(h, UINT64_MAX);
    assert_true(fine_quantile(h, 0.5) > 0);
    free(h);
}

static void clocks_that_disagree_never_make_a_wait_longer_than_its_step(void **state)
{
    (void)state;
    struct loop *l = calloc(1, sizeof(*l));
    loop_open(l);
    loop_begin_epoch(l, 100 * MS, 0);
    loop_take(l, 90 * MS, 50 * MS, 60 * MS, 1); /* back in time */
    loop_take(l, 120 * MS, 500 * MS, 600 * MS, 1);
    struct loop_figures all = loop_read(&l->all);
    assert_true(all.wait_ns <= all.wall_ns && all.wait_cpu_ns <= all.wait_ns);
    loop_close(l);
    free(l);
}

/* ---- marks ---- */

static void a_loop_tells_its_batches_to_whoever_watches(void **state)
{
    (void)state;
    struct marks_reader r;
    struct mark m[64];
    assert_true(marks_reader_open(&r));
    setenv("FULLBORE_MARKS", r.path, 1);
    struct loop *l = calloc(1, sizeof(*l));
    loop_open(l);
    run_two_epochs(l);
    loop_close(l);
    free(l);
    unsetenv("FULLBORE_MARKS");
    int n = marks_take(&r, m, 64);
    assert_int_equal(n, 12);
    struct loop_marks told = {0};
    struct snapshot row = {.loop_wall_ns = NAN};
    loop_marks_take(&told, &row);
    assert_true(isnan(row.loop_wall_ns)); /* nothing was told yet */
    loop_marks_add(&told, m, n);
    loop_marks_take(&told, &row);
    near(row.loop_wall_ns, 100.0 * MS, 1e-9);
    near(row.loop_wait_ns, 40.0 * MS, 1e-9);
    near(row.loop_step_ns, 90.0 * MS, 1e-9);
    assert_true(row.loop_steps == 6);
    assert_true(row.loop_batches == 8 && row.loop_epochs == 2);
    struct loop_summary s;
    assert_true(loop_summarise(m, (uint64_t)n, &s));
    assert_true(s.batches == 8 && s.epochs == 2);
    near(s.step_p50_s, 0.015, 1e-9);
    near(s.step_mean_s, 0.015, 1e-9);
    near(s.gap_most_s, 0.1, 1e-9);
    near(s.rate[1], 1 / 0.015, 1e-9); /* three intervals, not four batches, in their 45 ms */
    near(s.wait_ratio, 0.4, 1e-9);
    marks_reader_close(&r);
    assert_int_equal(access(r.path, F_OK), -1);
}

static void a_variable_left_over_creates_nothing_and_other_files_are_left_alone(void **state)
{
    (void)state;
    static const char *const places[] = {"/tmp/fullbore-no-such-marks", "/tmp", "/dev/null", "", "/nowhere/x"};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        struct marks m = {0};
        setenv("FULLBORE_MARKS", places[i], 1);
        marks_open(&m);
        assert_int_equal(m.fd, -1);
        marks_add(&m, MARK_EPOCH, 1, 0, 0);
        marks_close(&m);
    }
    unsetenv("FULLBORE_MARKS");
    assert_int_equal(access(places[0], F_OK), -1);
}

static void nonsense_in_the_file_is_left_out(void **state)
{
    (void)state;
    struct marks_reader r;
    struct mark m[64], good = {.at_ns = 5, .kind = MARK_BATCH};
    assert_true(marks_reader_open(&r));
    int fd = open(r.path, O_WRONLY | O_APPEND);
    char noise[64];
    memset(noise, 0xff, sizeof(noise));
    assert_true(write(fd, noise, 64) == 64 && write(fd, &good, sizeof(good)) == sizeof(good) && write(fd, noise, 7) == 7);
    close(fd);
    assert_int_equal(marks_take(&r, m, 64), 1);
    assert_true(m[0].at_ns == 5);
    assert_int_equal(marks_take(&r, m, 64), 0); /* what is not whole yet waits */
    marks_reader_close(&r);
}

/* ---- traces ---- */

static char trace_path[64];
static struct meter meter;
static _Atomic bool stops;

static void *work(void *unused)
{
    (void)unused;
    while (!atomic_load(&stops))
        meter_work(&meter, 1, STAGE_DECODE, 1000, 1, 7);
    return NULL;
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 64 << 20);
    assert_true(f && text && fread(text, 1, (64 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static void a_trace_has_every_threads_work_and_ends_under_load(void **state)
{
    (void)state;
    struct fb_error e = {0};
    pthread_t thread[2];
    snprintf(trace_path, sizeof(trace_path), "/tmp/fullbore-trace-%d.json", (int)getpid());
    atomic_store(&stops, false);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    for (int round = 0; round < 20; round++) {
        assert_int_equal(trace_start(&meter, trace_path, 3, &e), 0);
        for (int i = 0; i < 3; i++) {
            assert_false(trace_is_over(&meter));
            uint64_t now = clock_now_ns();
            usleep(500);
            meter_work(&meter, 0, STAGE_DECODE, 1000, 1, 7); /* the others may not have got a core */
            trace_deliver(&meter, now, now + 10, now + 20);
        }
        assert_true(trace_is_over(&meter));
        assert_int_equal(trace_finish(&meter, &e), 0);
        assert_false(trace_is_on());
    }
    atomic_store(&stops, true);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    char *text = read_all(trace_path);
    assert_non_null(strstr(text, "\"traceEvents\":["));
    assert_non_null(strstr(text, "\"name\":\"decode\",\"ph\":\"X\""));
    assert_non_null(strstr(text, "\"name\":\"wait\""));
    assert_non_null(strstr(text, "thread_name"));
    assert_string_equal(text + strlen(text) - 4, "\n]}\n");
    free(text);
    unlink(trace_path);
}

static void one_trace_at_a_time_and_strangers_are_left_out(void **state)
{
    (void)state;
    struct fb_error e = {0};
    struct meter other = {0};
    char second[80];
    snprintf(second, sizeof(second), "%s.other", trace_path);
    assert_int_equal(trace_start(&meter, trace_path, 1, &e), 0);
    assert_int_equal(trace_start(&other, second, 1, &e), FB_E_STATE);
    meter_work(&other, 0, STAGE_TRANSFORM, 10, 1, 1);
    assert_int_equal(trace_finish(&other, &e), 0); /* not its own: nothing happens */
    assert_true(trace_is_on());
    assert_int_equal(trace_finish(&meter, &(struct fb_error){0}), 0);
    char *text = read_all(trace_path);
    assert_null(strstr(text, "transform"));
    free(text);
    unlink(trace_path);
    unlink(second);
}

static void a_file_that_cannot_be_written_is_said_at_once(void **state)
{
    (void)state;
    struct fb_error e = {0};
    assert_true(trace_start(&meter, "/nowhere/trace.json", 1, &e) < 0);
    assert_non_null(strstr(e.cause, "/nowhere/trace.json"));
    assert_false(trace_is_on());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_and_steps_are_exact),
        cmocka_unit_test(rates_are_intervals_over_the_time_of_these_intervals),
        cmocka_unit_test(what_the_program_does_before_its_first_batch_is_neither_wait_nor_step),
        cmocka_unit_test(quantiles_are_right_to_nine_percent_at_any_size),
        cmocka_unit_test(clocks_that_disagree_never_make_a_wait_longer_than_its_step),
        cmocka_unit_test(a_loop_tells_its_batches_to_whoever_watches),
        cmocka_unit_test(a_variable_left_over_creates_nothing_and_other_files_are_left_alone),
        cmocka_unit_test(nonsense_in_the_file_is_left_out),
        cmocka_unit_test(a_trace_has_every_threads_work_and_ends_under_load),
        cmocka_unit_test(one_trace_at_a_time_and_strangers_are_left_out),
        cmocka_unit_test(a_file_that_cannot_be_written_is_said_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
