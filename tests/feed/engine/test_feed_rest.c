/* While batches are ample one worker rests (crew.h). Here the workers' waits never end by themselves, so that a wake-up that is lost is
 * a batch that never comes, not one that comes a second later. FB_SOAK runs it for longer. */
#include "../tally.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/thread.h"
#include "host/host.h"

enum { USERS = 3, LONG_ENOUGH_S = 60 };

bool __real_thread_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t deadline_ns);
bool __wrap_thread_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t deadline_ns);

/* Workers: "fb-w0", "fb-w1"; not "fb-plan", "fb-help" and so on. */
static bool is_worker(void)
{
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof(name));
    return strncmp(name, "fb-w", 4) == 0 && name[4] >= '0' && name[4] <= '9';
}

bool __wrap_thread_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t deadline_ns)
{
    return __real_thread_cond_wait_until(c, m, is_worker() ? deadline_ns + 1000000000ull * 4 * LONG_ENOUGH_S : deadline_ns);
}

/* ---- one batch whose samples are done only when every worker is at one of them ---- */

static struct {
    _Atomic uint64_t calls;
    uint64_t from; /* the position of its first sample */
    int workers;
    _Atomic int inside;
} meeting;

static int meet(void *ctx, struct fb_map *m, struct fb_error *e)
{
    (void)ctx, (void)e;
    atomic_fetch_add(&meeting.calls, 1);
    if (m->position < meeting.from)
        return 0;
    atomic_fetch_add(&meeting.inside, 1);
    while (atomic_load(&meeting.inside) < meeting.workers)
        usleep(500);
    return 0;
}

static uint64_t stat_of(fb_loader *l, const char *name)
{
    static char json[1 << 16];
    fb_get_stats(l, json, sizeof(json));
    return number_after(json, name);
}

static void push(fb_loader *l, uint64_t count)
{
    struct fb_error e = {0};
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(fb_push_order(l, &(uint64_t){i % PHOTOS}, 1, 0, &e), 0);
}

static void wait_for_calls(uint64_t calls)
{
    while (atomic_load(&meeting.calls) < calls)
        usleep(1000);
    usleep(10000); /* published, too; if not, the test finds nothing */
}

/* ---- many loaders, consumers of every pace ---- */

static int be_slow(void *ctx, struct fb_map *m, struct fb_error *e)
{
    (void)ctx, (void)e;
    uint64_t x = m->random[0];
    usleep((useconds_t)(x % 64 == 0 ? 30000 : x % 4 == 0 ? 1500 : 50));
    return 0;
}

static fb_options options_by(struct rng *r)
{
    static const char *const io[] = {"pread", "auto", "slow:iops=4000,over=pread", "slow:latency_us=300,jitter_us=900"};
    static const int threads[] = {1, 2, 3, 16};
    fb_options o = photo_options(&photos);
    o.batch_size = 1 + (int)(rng_u64(r) % 9);
    o.seed = rng_u64(r);
    o.threads = threads[rng_u64(r) % 4];
    o.io = io[rng_u64(r) % 4];
    o.memory = rng_u64(r) % 3 == 0 ? 112 << 20 : 256 << 20;
    o.transforms = "resize size=16,16";
    o.takes_order = rng_u64(r) % 3 == 0;
    if (o.takes_order)
        o.shuffle = 0;
    if (rng_u64(r) % 3) {
        o.transforms = "resize size=16,16; map";
        o.map = be_slow;
    }
    if (rng_u64(r) % 5 == 0)
        o.device = "emulated:8GB/s,20us";
    return o;
}

static int push_any(fb_loader *l, struct rng *r, struct fb_error *e)
{
    uint64_t samples[PHOTOS];
    for (int i = 0; i < PHOTOS; i++)
        samples[i] = rng_u64(r) % PHOTOS;
    return fb_push_order(l, samples, PHOTOS, 1, e);
}

static int use(fb_loader *l, const fb_options *o, struct rng *r, struct fb_error *e)
{
    int rc = 0;
    for (int epoch = 0; epoch < 3 && rc >= 0; epoch++) {
        uint64_t stop = rng_u64(r) % 4 ? UINT64_MAX : rng_u64(r) % 20, pace_us = rng_u64(r) % 3 * 3000;
        if (fb_start_epoch(l, FB_NEXT_EPOCH, e) < 0 || (o->takes_order && push_any(l, r, e) < 0))
            return -1;
        fb_batch *b;
        for (uint64_t n = 0; n < stop && (rc = fb_next_batch(l, &b, e)) == 1; n++) {
            usleep((useconds_t)(rng_u64(r) % 8 == 0 ? 4 * pace_us : pace_us));
            fb_release_batch(b);
        }
    }
    return rc;
}

static void *be_a_user(void *arg)
{
    struct rng r = rng_stream(RNG_TRANSFORM, 29, (uint64_t)(uintptr_t)arg, 0, 0);
    intptr_t wrong = 0;
    int loaders = getenv("FB_SOAK") ? 300 : 5;
    for (int i = 0; i < loaders; i++) {
        fb_options o = options_by(&r);
        struct fb_error e = {0};
        fb_loader *l = NULL;
        bool is_wrong = fb_open(&o, &l, &e) < 0 || use(l, &o, &r, &e) < 0;
        if (is_wrong)
            show(&e);
        wrong += is_wrong;
        fb_close(l);
    }
    return (void *)wrong;
}

/* ---- tests ---- */

static fb_options meeting_options(void)
{
    fb_options o = photo_options(&photos);
    o.threads = host_cores() > 1 ? host_cores() : 2;
    o.takes_order = 1;
    o.shuffle = 0;
    o.batch_size = 4 * o.threads;
    o.io = "pread";
    o.transforms = "resize size=16,16; map";
    o.map = meet;
    return o;
}

static void take_one(fb_loader *l)
{
    struct fb_error e = {0};
    fb_batch *b;
    assert_int_equal(fb_next_batch(l, &b, &e), 1);
    fb_release_batch(b);
}

/* A full look-ahead, of which `taken` batches are taken; the next one to be planned is the meeting. Returns how many batches are ahead. */
static uint64_t fill_and_take(fb_loader *l, const fb_options *o, uint64_t taken)
{
    struct fb_error e = {0};
    alarm(LONG_ENOUGH_S); /* for a batch that never comes */
    meeting.workers = o->threads;
    meeting.from = UINT64_MAX;
    meeting.calls = 0;
    meeting.inside = 0;
    assert_true(fb_start_epoch(l, 0, &e) >= 0);
    uint64_t ahead = stat_of(l, "\"look_ahead_batches\":"), batch = (uint64_t)o->batch_size;
    assert_true(ahead > taken);
    meeting.from = ahead * batch;
    push(l, ahead * batch);
    wait_for_calls(ahead * batch);
    for (uint64_t i = 0; i < taken; i++)
        take_one(l);
    push(l, batch);
    return ahead - taken;
}

/* All workers but one begin with the last batch. Nothing is planned after it that would wake the one that rests. */
static void a_worker_that_rests_comes_back_when_the_consumer_waits(void **state)
{
    (void)state;
    fb_options o = meeting_options();
    fb_loader *l = open_or_fail(&o);
    uint64_t ahead = fill_and_take(l, &o, 1);
    wait_for_calls((ahead + 1) * (uint64_t)o.batch_size + (uint64_t)o.threads - 1);
    for (uint64_t i = 0; i <= ahead; i++)
        take_one(l);
    alarm(0);
    fb_close(l);
}

static void nobody_rests_when_the_store_goes_down(void **state)
{
    (void)state;
    fb_options o = meeting_options();
    fb_loader *l = open_or_fail(&o);
    uint64_t ahead = fill_and_take(l, &o, 3);
    assert_true(ahead > 0);
    while (atomic_load(&meeting.inside) < meeting.workers) /* although batches are ready */
        usleep(500);
    alarm(0);
    fb_close(l);
}

static void no_wake_up_is_lost_whatever_the_pace(void **state)
{
    (void)state;
    pthread_t t[USERS];
    alarm(getenv("FB_SOAK") ? 3000 : 4 * LONG_ENOUGH_S);
    for (uintptr_t i = 0; i < USERS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, be_a_user, (void *)i), 0);
    for (int i = 0; i < USERS; i++) {
        void *wrong;
        pthread_join(t[i], &wrong);
        assert_int_equal((intptr_t)wrong, 0);
    }
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_worker_that_rests_comes_back_when_the_consumer_waits),
                                       cmocka_unit_test(nobody_rests_when_the_store_goes_down),
                                       cmocka_unit_test(no_wake_up_is_lost_whatever_the_pace)};
    return run_photo_tests(tests);
}
