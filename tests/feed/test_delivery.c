/* What the statistics say of waits and steps, beside a clock around the calls. A thread may lose its core between the two clocks, so a
 * comparison that fails is made again; the limits stay. */
#include "tally.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000, ATTEMPTS = 5, EPOCHS = 3 };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double figure(fb_loader *l, const char *group, const char *name)
{
    static char json[1 << 16];
    char key[80];
    fb_get_stats(l, json, sizeof(json));
    const char *at = strstr(json, group);
    assert_non_null(at);
    snprintf(key, sizeof(key), "\"%s\":", name);
    at = strstr(at, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

struct stopwatch {
    double wait_s, step_s, first_wait_s, release_s;
    uint64_t batches, steps, last_ns, asked_ns;
};

static void got(struct stopwatch *w, bool is_first)
{
    uint64_t now = now_ns();
    w->wait_s += (double)(now - w->asked_ns) / 1e9;
    w->batches++;
    w->steps += !is_first;
    *(is_first ? &w->first_wait_s : &w->step_s) += (double)(now - (is_first ? w->asked_ns : w->last_ns)) / 1e9;
    w->last_ns = now;
}

static void release(struct stopwatch *w, fb_batch *b)
{
    uint64_t since = now_ns();
    fb_release_batch(b);
    w->release_s += (double)(now_ns() - since) / 1e9;
}

static void step(uint64_t ns)
{
    uint64_t end = now_ns() + ns;
    while (now_ns() < end)
        ;
}

/* Three epochs with slow reads and 3 ms steps. is_binding: 2 ms pass between the engine's answer and the program's having the batch. */
static void run(fb_loader *l, bool is_binding, struct stopwatch *w)
{
    struct fb_error e = {0};
    fb_batch *b;
    *w = (struct stopwatch){0};
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        bool is_first = true;
        w->asked_ns = now_ns();
        assert_true(fb_start_epoch(l, FB_NEXT_EPOCH, &e) >= 0);
        for (int rc; (rc = is_binding ? fb_next_batch_since(l, w->asked_ns, &b, &e) : fb_next_batch(l, &b, &e)) != 0;) {
            assert_int_equal(rc, 1);
            if (is_binding) {
                step(2 * MS);
                fb_deliver_batch(b);
            }
            got(w, is_first);
            is_first = false;
            step(3 * MS);
            release(w, b);
            w->asked_ns = now_ns();
        }
    }
}

static bool is_near(double a, double b, double share)
{
    return fabs(a - b) <= share * fabs(b);
}

/* Within half a point of the wall time, and one percent. */
static bool agrees(fb_loader *l, const struct stopwatch *w)
{
    double wait = figure(l, "\"loop\"", "exposed_wait_seconds"), ratio = w->wait_s / (w->first_wait_s + w->step_s);
    return fabs(figure(l, "\"loop\"", "exposed_wait_ratio") - ratio) <= 0.005 && is_near(wait, w->wait_s, 0.01) &&
           is_near(figure(l, "\"loop\"", "wall_seconds"), w->first_wait_s + w->step_s, 0.01) &&
           is_near(figure(l, "\"loop\"", "step_mean_seconds"), w->step_s / (double)w->steps, 0.01) &&
           is_near(figure(l, "\"loop\"", "batches_per_second"), (double)w->steps / w->step_s, 0.01) &&
           figure(l, "\"samples\"", "exposed_wait_seconds") == wait;
}

static void compare(bool is_binding)
{
    struct stopwatch w;
    bool is_right = false;
    for (int i = 0; i < ATTEMPTS && !is_right; i++) {
        fb_options o = photo_options(&photos);
        o.batch_size = 4;
        o.shuffle = 1;
        o.io = "slow:latency_us=4000";
        fb_loader *l = open_or_fail(&o);
        run(l, is_binding, &w);
        assert_true(figure(l, "\"loop\"", "batches") == (double)w.batches && w.steps == w.batches - EPOCHS);
        is_right = agrees(l, &w);
        if (!is_right)
            print_message("clock: %.6f s of waiting, %.6f s a step; statistics: %.6f and %.6f\n", w.wait_s, w.step_s / (double)w.steps,
                          figure(l, "\"loop\"", "exposed_wait_seconds"), figure(l, "\"loop\"", "step_mean_seconds"));
        fb_close(l);
    }
    assert_true(is_right);
}

static void waits_and_steps_are_those_of_a_clock_around_next(void **state)
{
    (void)state;
    compare(false);
}

static void what_a_binding_does_with_a_batch_belongs_to_the_wait_for_it(void **state)
{
    (void)state;
    compare(true);
}

static void a_batch_counts_once_whether_it_is_delivered_twice_or_never(void **state)
{
    (void)state;
    struct fb_error e = {0};
    fb_batch *b;
    fb_options o = photo_options(&photos);
    o.batch_size = 25;
    fb_loader *l = open_or_fail(&o);
    assert_int_equal(fb_start_epoch(l, 0, &e), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(fb_next_batch_since(l, 0, &b, &e), 1);
        assert_true(figure(l, "\"loop\"", "batches") == i); /* it is on its way */
        if (i == 1 || i == 2) {
            fb_deliver_batch(b);
            fb_deliver_batch(b);
            assert_true(figure(l, "\"loop\"", "batches") == i + 1);
        }
        fb_release_batch(b);
    }
    assert_int_equal(fb_next_batch_since(l, 0, &b, &e), 0);
    assert_true(figure(l, "\"loop\"", "batches") == 4 && figure(l, "\"loop\"", "samples") == PHOTOS);
    fb_close(l);
}

/* A step that is long and a batch that nobody delivers: the step is none of the wait. */
static void a_wait_ends_when_the_engine_gives_the_batch_away_if_nobody_delivers_it(void **state)
{
    (void)state;
    struct fb_error e = {0};
    fb_batch *b;
    fb_options o = photo_options(&photos);
    o.batch_size = 50;
    fb_loader *l = open_or_fail(&o);
    assert_int_equal(fb_start_epoch(l, 0, &e), 0);
    assert_int_equal(fb_next_batch_since(l, 0, &b, &e), 1);
    fb_release_batch(b);
    usleep(300000);
    assert_int_equal(fb_next_batch_since(l, 0, &b, &e), 1);
    fb_deliver_batch(b);
    fb_release_batch(b);
    assert_true(figure(l, "\"loop\"", "wait_max_seconds") < figure(l, "\"loop\"", "step_mean_seconds"));
    fb_close(l);
}

static void taking_batches_back_has_a_figure_of_its_own(void **state)
{
    (void)state;
    struct stopwatch w;
    fb_options o = photo_options(&photos);
    o.batch_size = 4;
    fb_loader *l = open_or_fail(&o);
    run(l, false, &w);
    double released = figure(l, "\"samples\"", "release_seconds");
    assert_true(released > 0 && released <= w.release_s);
    fb_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_and_steps_are_those_of_a_clock_around_next),
        cmocka_unit_test(what_a_binding_does_with_a_batch_belongs_to_the_wait_for_it),
        cmocka_unit_test(a_batch_counts_once_whether_it_is_delivered_twice_or_never),
        cmocka_unit_test(a_wait_ends_when_the_engine_gives_the_batch_away_if_nobody_delivers_it),
        cmocka_unit_test(taking_batches_back_has_a_figure_of_its_own),
    };
    return run_photo_tests(tests);
}
