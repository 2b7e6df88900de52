/* What close leaves behind: a thread that is stuck (in a function of the caller's, in the planner, under a lock, in the log) does not
 * hold up close, finds everything it needs when it comes back, and then frees it. Threads are stuck at a barrier that each test lifts,
 * so nothing here depends on time; the sanitizers see what is used too late and what is never freed. */
#include "../tally.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "feed/crew.h"

static const uint64_t second_ns = 1500000000u; /* and some for a loaded machine */

/* ---- a barrier ---- */

enum where { NOWHERE, IN_MAP, IN_PLANNER, UNDER_LOCK, IN_LOG };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum where stuck_where;
static int stuck, stuck_most;

/* At most so many threads are held there. */
static void lower_for(enum where w, int most)
{
    pthread_mutex_lock(&lock);
    stuck_where = w;
    stuck_most = most;
    pthread_mutex_unlock(&lock);
}

static void lower(enum where w)
{
    lower_for(w, 1000);
}

static void lift(void)
{
    pthread_mutex_lock(&lock);
    stuck_where = NOWHERE;
    pthread_cond_broadcast(&changed);
    while (stuck > 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void pass(enum where w)
{
    pthread_mutex_lock(&lock);
    bool is_held = stuck_where == w && stuck < stuck_most;
    stuck += is_held;
    pthread_cond_broadcast(&changed);
    while (is_held && stuck_where == w)
        pthread_cond_wait(&changed, &lock);
    stuck -= is_held;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_until_stuck(int threads)
{
    pthread_mutex_lock(&lock);
    while (stuck < threads)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* ---- the engine, slowed down ---- */

struct batch_span __real_ranks_batch_left(const struct rank_layout *l, const struct skips *s, uint64_t start, uint64_t g);
struct batch_span __wrap_ranks_batch_left(const struct rank_layout *l, const struct skips *s, uint64_t start, uint64_t g);
struct slot *__real_device_copy_slot_new(struct feed *f);
struct slot *__wrap_device_copy_slot_new(struct feed *f);

struct batch_span __wrap_ranks_batch_left(const struct rank_layout *l, const struct skips *s, uint64_t start, uint64_t g)
{
    pass(IN_PLANNER);
    return __real_ranks_batch_left(l, s, start, g);
}

/* The planner calls it with the loader's lock held. */
struct slot *__wrap_device_copy_slot_new(struct feed *f)
{
    pass(UNDER_LOCK);
    return __real_device_copy_slot_new(f);
}

/* What the caller may free when close has returned. */
struct program {
    atomic_int calls, done, lines;
    atomic_bool has_closed, is_late; /* a callback came when it must not */
    char said[4096];
};

static int map(void *ctx, struct fb_map *m, struct fb_error *e)
{
    struct program *p = ctx;
    (void)m, (void)e;
    atomic_fetch_add(&p->calls, 1);
    pass(IN_MAP);
    return 0;
}

static void done(void *ctx)
{
    atomic_fetch_add(&((struct program *)ctx)->done, 1);
}

static void say(void *ctx, int level, const char *line)
{
    struct program *p = ctx;
    if (atomic_load(&p->has_closed))
        atomic_store(&p->is_late, true);
    if (level <= 1)
        strncat(p->said, line, sizeof(p->said) - strlen(p->said) - 1);
    if (level <= 1 && strstr(line, "for the next batch"))
        pass(IN_LOG);
}

static fb_options options_of(struct program *p, int threads)
{
    fb_options o = photo_options(&photos);
    o.threads = threads;
    o.batch_size = 4;
    o.transforms = "resize size=16,16; map name=slow size=16,16";
    o.map = map;
    o.map_done = done;
    o.map_ctx = p;
    o.log = say;
    o.ctx = p;
    return o;
}

static fb_loader *start(const fb_options *o)
{
    struct fb_error e = {0};
    fb_loader *l = open_or_fail(o);
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    return l;
}

static void close_in_time(fb_loader *l, struct program *p)
{
    uint64_t since = clock_now_ns();
    fb_close(l);
    assert_true(clock_now_ns() - since < second_ns);
    atomic_store(&p->has_closed, true);
}

/* Until the engine has let go of the context: it is the last thing that a loader does. */
static void wait_for_the_end(const struct program *p)
{
    for (int i = 0; atomic_load(&p->done) == 0 && i < 2000; i++)
        usleep(10000);
    assert_int_equal(atomic_load(&p->done), 1);
}

/* A loader of its own, whole. */
static void a_whole_epoch_comes(int threads)
{
    fb_options o = photo_options(&photos);
    o.threads = threads;
    fb_loader *l = open_or_fail(&o);
    struct tally t = run_epoch(l, 0);
    assert_each_once(&t, PHOTOS);
    fb_close(l);
}

static uint64_t left_behind(void)
{
    static char json[1 << 16];
    fb_options o = photo_options(&photos);
    fb_loader *l = open_or_fail(&o);
    fb_get_stats(l, json, sizeof(json));
    fb_close(l);
    return number_after(json, "\"left_behind_threads\":");
}

/* A thread that has let go of everything still has a few steps to its end. */
static void assert_none_is_left(void)
{
    for (int i = 0; left_behind() > 0 && i < 2000; i++)
        usleep(10000);
    assert_int_equal(left_behind(), 0);
}

/* ---- tests ---- */

static const char *const devices[] = {"pread", "slow:iops=300,over=pread", "slow:latency_us=900000,over=pread", "auto"};

static void a_function_that_comes_back_after_close_finds_all_it_needs(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct program p = {0};
        int threads = i % 2 ? 4 : 1;
        fb_options o = options_of(&p, threads);
        o.io = devices[i];
        lower(IN_MAP);
        fb_loader *l = start(&o);
        wait_until_stuck(1);
        close_in_time(l, &p);
        assert_int_equal(atomic_load(&p.done), 0);
        assert_non_null(strstr(p.said, "left behind"));
        assert_true(left_behind() >= 1);
        lift();
        wait_for_the_end(&p);
        assert_false(atomic_load(&p.is_late));
        a_whole_epoch_comes(threads);
    }
    assert_none_is_left();
}

static void a_planner_that_comes_back_after_close_finds_all_it_needs(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct program p = {0};
        fb_options o = options_of(&p, 2);
        o.io = devices[i / 2];
        lower(i % 2 ? UNDER_LOCK : IN_PLANNER);
        fb_loader *l = start(&o);
        wait_until_stuck(1);
        close_in_time(l, &p);
        assert_non_null(strstr(p.said, "left behind"));
        lift();
        wait_for_the_end(&p);
        assert_false(atomic_load(&p.is_late));
        a_whole_epoch_comes(2);
    }
    assert_none_is_left();
}

static int stop_asking(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&lock);
    bool is_stuck = stuck > 0;
    pthread_mutex_unlock(&lock);
    return is_stuck;
}

static void a_log_that_blocks_does_not_hold_up_close(void **state)
{
    (void)state;
    struct program p = {0};
    struct fb_error e = {0};
    fb_options o = options_of(&p, 2);
    fb_batch *b;
    setenv("FULLBORE_WATCHDOG", "1", 1);
    o.io = "slow:latency_us=20000000,over=pread";
    o.interrupted = stop_asking;
    lower(IN_LOG);
    fb_loader *l = start(&o);
    assert_int_equal(fb_next_batch(l, &b, &e), FB_E_INTERRUPTED);
    wait_until_stuck(1);
    close_in_time(l, &p);
    lift();
    wait_for_the_end(&p);
    unsetenv("FULLBORE_WATCHDOG");
    a_whole_epoch_comes(2);
    assert_none_is_left();
}

static void others_go_on_while_one_is_stuck(void **state)
{
    (void)state;
    struct program p = {0};
    struct fb_error e = {0};
    struct tally t = {0};
    fb_options o = options_of(&p, 3), free_one = photo_options(&photos);
    free_one.threads = 0;
    free_one.batch_size = 1;
    fb_loader *other = start(&free_one);
    assert_int_equal(take(other, 3, &t, &e), 1);
    lower_for(IN_MAP, 1);
    o.batch_size = 1;
    o.memory = 0;
    fb_loader *l = start(&o);
    wait_until_stuck(1);
    close_in_time(l, &p);
    assert_int_equal(take(other, PHOTOS - 3, &t, &e), 1);
    lift();
    wait_for_the_end(&p);
    fb_close(other);
    assert_each_once(&t, PHOTOS);
}

static void a_batch_outlives_close_and_the_stuck_thread(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        struct program p = {0};
        struct fb_error e = {0};
        fb_options o = options_of(&p, 1);
        fb_batch *b;
        fb_loader *l = start(&o);
        assert_int_equal(fb_next_batch(l, &b, &e), 1);
        uint64_t sum = 0, again = 0;
        const struct fb_array *a = fb_batch_array(b, 0);
        for (size_t i = 0; i < a->bytes; i++)
            sum += ((const uint8_t *)a->data)[i];
        lower(IN_MAP);
        assert_true(fb_start_epoch(l, 5, &e) == 5);
        wait_until_stuck(1);
        close_in_time(l, &p);
        for (size_t i = 0; i < a->bytes; i++)
            again += ((const uint8_t *)a->data)[i];
        assert_true(sum == again);
        if (first)
            fb_release_batch(b);
        lift();
        wait_for_the_end(&p);
        if (!first)
            fb_release_batch(b);
    }
}

/* Fewer threads, more threads, fewer: workers that do not come in time are replaced, and neither they nor the others lose anything. */
static void the_number_of_threads_may_change_around_a_stuck_worker(void **state)
{
    (void)state;
    struct program p = {0};
    fb_options o = options_of(&p, 4);
    lower_for(IN_MAP, 3);
    fb_loader *a = start(&o);
    wait_until_stuck(3);
    fb_loader *other[6];
    for (int i = 0; i < 6; i++) {
        fb_options next = photo_options(&photos);
        next.threads = i % 2 ? 4 : 1;
        other[i] = open_or_fail(&next);
    }
    struct tally t = run_epoch(other[5], 0);
    assert_each_once(&t, PHOTOS);
    close_in_time(a, &p);
    for (int i = 0; i < 6; i++)
        fb_close(other[i]);
    lift();
    wait_for_the_end(&p);
    a_whole_epoch_comes(2);
    assert_none_is_left();
}

static fb_loader *closed_by_map;

static int close_inside(void *ctx, struct fb_map *m, struct fb_error *e)
{
    struct program *p = ctx;
    (void)m, (void)e;
    if (atomic_fetch_add(&p->calls, 1) == 0) {
        pass(IN_MAP);
        fb_close(closed_by_map);
        atomic_store(&p->has_closed, true);
    }
    return 0;
}

static void a_function_may_close_its_own_loader(void **state)
{
    (void)state;
    struct program p = {0};
    fb_options o = options_of(&p, 2);
    o.map = close_inside;
    lower(IN_MAP);
    closed_by_map = start(&o);
    lift();
    wait_for_the_end(&p);
    assert_true(atomic_load(&p.has_closed));
    a_whole_epoch_comes(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_that_comes_back_after_close_finds_all_it_needs),
        cmocka_unit_test(a_planner_that_comes_back_after_close_finds_all_it_needs),
        cmocka_unit_test(a_log_that_blocks_does_not_hold_up_close),
        cmocka_unit_test(others_go_on_while_one_is_stuck),
        cmocka_unit_test(a_batch_outlives_close_and_the_stuck_thread),
        cmocka_unit_test(the_number_of_threads_may_change_around_a_stuck_worker),
        cmocka_unit_test(a_function_may_close_its_own_loader),
    };
    return run_photo_tests(tests);
}
