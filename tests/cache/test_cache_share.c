/* Several processes on one cache; processes that are killed; requests that meet. */
#include "cache_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"

/* Reads through the cache without cmocka's asserts, for children. False: wrong bytes. */
static bool is_right(struct source *s, uint64_t index)
{
    struct call c;
    call_init(&c, &s->folder, s->name[index], s->file_bytes);
    s->io->ops->submit(s->io, &c.r, false);
    while (!c.done_count)
        pause_1ms();
    bool right = c.r.status == 0 && c.r.got == s->file_bytes;
    for (uint64_t i = 0; right && i < c.r.got; i += 97)
        right = c.r.buffer[i] == file_byte(s->name[index], i);
    call_free(&c);
    return right;
}

/* ---- two processes ---- */

struct child {
    struct source *s;
    struct choice choice;
    uint64_t seed, reads;
};

static int read_at_random(void *arg)
{
    struct child *c = arg;
    struct rng rng = rng_stream(RNG_ORDER, c->seed, 0, 0, 0);
    source_open(c->s, &c->choice);
    for (uint64_t i = 0; i < c->reads; i++)
        if (!is_right(c->s, rng_below(&rng, c->s->count)))
            return 1;
    return c->s->io->ops->close(c->s->io, 2000000000) == 0 && c->s->warnings == 0 ? 0 : 2;
}

static pid_t start(int (*body)(void *), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit(body(arg));
    }
    return pid;
}

static int end_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void processes_share_a_cache_that_is_too_small(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 60, FILE_BYTES);
    struct child c[4];
    pid_t pid[4];
    for (int i = 0; i < 4; i++) {
        c[i] = (struct child){&s, {.is_unknown = i % 2, .disk_limit = 20 * 20480}, (uint64_t)i, 300};
        pid[i] = start(read_at_random, &c[i]);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(end_of(pid[i]), 0);
    struct stock k = take_stock(s.dir);
    assert_true(k.bytes <= 20 * 20480);
    assert_int_equal(k.counted, k.bytes);
    assert_int_equal(k.parts, 0);
    source_remove(&s);
}

/* What one process fetches at the moment, another one waits for instead of fetching it, too. */
static int fetch_slowly(void *arg)
{
    struct source *s = arg;
    source_open(s, &(struct choice){.inner = "slow:latency_us=100000", .is_unknown = true});
    bool right = is_right(s, 0);
    struct cache_figures f = figures(s);
    return s->io->ops->close(s->io, 2000000000) == 0 && right ? 10 + (int)f.misses : 1;
}

static void a_unit_that_another_process_fetches_is_waited_for(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 1, FILE_BYTES);
    source_open(&s, &(struct choice){.is_unknown = true}); /* so that both find it open, whatever the timing */
    pid_t a = start(fetch_slowly, &s);
    usleep(40000);
    pid_t b = start(fetch_slowly, &s);
    int misses = end_of(a) - 10 + end_of(b) - 10;
    source_close(&s);
    assert_int_equal(misses, 1);
    source_remove(&s);
}

static int hold_claim_for_ever(void *arg)
{
    struct source *s = arg;
    source_open(s, &(struct choice){.inner = "fault:hang", .is_unknown = true});
    struct call c;
    call_init(&c, &s->folder, s->name[0], s->file_bytes);
    s->io->ops->submit(s->io, &c.r, false);
    sleep(60);
    return 1;
}

static void a_claim_dies_with_its_holder_and_never_holds_up_a_reader(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 1, FILE_BYTES);
    source_open(&s, &(struct choice){.is_unknown = true}); /* first: who is alone claims when it stores */
    pid_t pid = start(hold_claim_for_ever, &s);
    WAIT_FOR(take_stock(s.dir).parts == 1);
    read_file(&s, 0); /* waits a little, then reads by itself */
    assert_int_equal(figures(&s).misses, 1);
    assert_int_equal(figures(&s).stored, 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(take_stock(s.dir).parts, 1); /* it is still there, but nobody's */
    read_file(&s, 0);
    WAIT_FOR(figures(&s).stored == 1);
    assert_int_equal(take_stock(s.dir).parts, 0);
    source_close(&s);
    source_remove(&s);
}

/* ---- kill -9 ---- */

static int run_for_ever(void *arg)
{
    struct child *c = arg;
    struct rng rng = rng_stream(RNG_ORDER, c->seed, 0, 0, 0);
    source_open(c->s, &c->choice);
    for (uint64_t i = 0;; i++) {
        uint64_t epoch = i / c->s->count, position = i % c->s->count;
        move_to(c->s, epoch, position + 1);
        if (!is_right(c->s, rng_below(&rng, 2) ? index_at(c->s, epoch, position) : rng_below(&rng, c->s->count)))
            return 1;
    }
}

/* Killed at a random moment, with another process reading on, the cache holds nothing but right bytes, its limit, and no litter. */
static void a_killed_process_leaves_a_cache_that_is_right(void **state)
{
    (void)state;
    struct source s;
    int kills = getenv("FB_SOAK") ? 200 : 20;
    struct rng rng = rng_stream(RNG_ORDER, (uint64_t)clock_now_ns(), 1, 0, 0);
    uint64_t limit = 20 * 20480;
    source_make(&s, 40, FILE_BYTES);
    for (int i = 0; i < kills; i++) {
        struct child c = {&s, {.disk_limit = limit, .inner = i % 2 ? "slow:latency_us=300" : NULL}, (uint64_t)i, 0};
        pid_t pid = start(run_for_ever, &c), other = i % 4 == 0 ? start(run_for_ever, &c) : 0;
        usleep((useconds_t)rng_below(&rng, 60000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        if (other) {
            kill(other, SIGKILL);
            waitpid(other, NULL, 0);
        }
        source_open(&s, &(struct choice){.is_unknown = true, .disk_limit = limit}); /* alone: counts anew */
        struct stock k = take_stock(s.dir);
        if (k.counted != k.bytes || k.parts != 0 || k.bytes > limit)
            fail_msg("after kill %d: %llu bytes, %llu counted, %llu parts", i, (unsigned long long)k.bytes, (unsigned long long)k.counted,
                     (unsigned long long)k.parts);
        read_all(&s);
        assert_int_equal(figures(&s).damaged, 0); /* half an entry never has a name */
        assert_int_equal(figures(&s).disk_hits >= k.entries, true);
        source_close(&s);
    }
    assert_int_equal(s.warnings, 0);
    source_remove(&s);
}

/* A rank that dies, again and again, at any moment: the others read right bytes, are not warned, and wait for nobody. */
static void a_reader_goes_on_while_another_one_is_killed_again_and_again(void **state)
{
    (void)state;
    struct source s;
    int kills = 0, status = 0;
    struct rng rng = rng_stream(RNG_ORDER, (uint64_t)clock_now_ns(), 2, 0, 0);
    source_make(&s, 40, FILE_BYTES);
    struct child reader = {&s, {.disk_limit = 20 * 20480}, 1, 6000}, dies = {&s, {.disk_limit = 20 * 20480}, 2, 0};
    pid_t pid = start(read_at_random, &reader);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        pid_t other = start(run_for_ever, &dies);
        usleep((useconds_t)rng_below(&rng, 30000));
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
        kills++;
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(kills > 3);
    source_open(&s,
                &(struct choice){
                    .is_unknown = true}); /* what the killed ones had counted is not counted any more, though the last one left in order */
    struct stock k = take_stock(s.dir);
    assert_int_equal(k.counted, k.bytes);
    assert_int_equal(k.parts, 0);
    source_close(&s);
    source_remove(&s);
}

/* ---- requests that meet ---- */

static void requests_for_one_unit_share_one_fetch(void **state)
{
    (void)state;
    struct source s;
    struct call c[20];
    source_make(&s, 1, FILE_BYTES);
    source_open(&s, &(struct choice){.inner = "slow:latency_us=50000", .is_unknown = true});
    for (int i = 0; i < 20; i++) {
        call_init(&c[i], &s.folder, s.name[0], FILE_BYTES);
        s.io->ops->submit(s.io, &c[i].r, i < 19);
    }
    for (int i = 0; i < 20; i++) {
        call_wait(&c[i]);
        call_assert_bytes(&c[i], s.name[0], 0, FILE_BYTES);
        call_free(&c[i]);
    }
    assert_int_equal(figures(&s).misses, 1);
    assert_int_equal(figures(&s).joined + figures(&s).disk_hits, 19); /* who came at the wrong moment finds it on disk */
    source_close(&s);
    source_remove(&s);
}

/* A slow disk: the flock on usage stands for it. */
static void what_waits_to_be_kept_is_not_fetched_again(void **state)
{
    (void)state;
    struct source s;
    char usage[128];
    source_make(&s, 2, FILE_BYTES);
    source_open(&s, &(struct choice){.is_unknown = true});
    snprintf(usage, sizeof(usage), "%s/usage", s.dir);
    int fd = open(usage, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    for (int i = 0; i < 5; i++)
        read_all(&s);
    assert_int_equal(figures(&s).misses, 2);
    assert_int_equal(figures(&s).joined, 8);
    assert_int_equal(figures(&s).stored, 0);
    rewrite(&s, 0, "other", 1000000500); /* but of another version it is */
    struct call c;
    call_init(&c, &s.folder, s.name[0], FILE_BYTES);
    assert_int_equal(call_run(s.io, &c), 0);
    call_assert_bytes(&c, "other", 0, FILE_BYTES);
    call_free(&c);
    assert_int_equal(figures(&s).misses, 3);
    close(fd);
    WAIT_FOR(figures(&s).stored >= 1);
    source_close(&s);
    assert_int_equal(take_stock(s.dir).parts, 0);
    source_remove(&s);
}

static void those_who_wait_for_a_fetch_that_fails_are_told_themselves(void **state)
{
    (void)state;
    struct source s;
    struct call c[5];
    source_make(&s, 1, FILE_BYTES);
    source_open(&s, &(struct choice){.inner = "fault:error=EIO,nth=1;over=slow:latency_us=30000", .is_unknown = true});
    int failures = 0;
    for (int i = 0; i < 5; i++) {
        call_init(&c[i], &s.folder, s.name[0], FILE_BYTES);
        s.io->ops->submit(s.io, &c[i].r, false);
    }
    for (int i = 0; i < 5; i++) {
        call_wait(&c[i]);
        failures += c[i].r.status == FB_E_IO && c[i].error.sys_errno == 5;
        if (c[i].r.status == 0)
            call_assert_bytes(&c[i], s.name[0], 0, FILE_BYTES);
        call_free(&c[i]);
    }
    assert_int_equal(failures, 1);
    source_close(&s);
    source_remove(&s);
}

static void closing_ends_what_is_under_way(void **state)
{
    (void)state;
    struct source s;
    struct call c[30];
    source_make(&s, 30, FILE_BYTES);
    int files = count_open_files();
    for (int round = 0; round < 10; round++) {
        source_open(&s, &(struct choice){.inner = round % 2 ? "fault:hang" : "slow:latency_us=20000", .ram_limit = 1 << 20});
        move_to(&s, 0, 3);
        for (int i = 0; i < 30; i++) {
            call_init(&c[i], &s.folder, s.name[i], FILE_BYTES);
            s.io->ops->submit(s.io, &c[i].r, false);
        }
        usleep((useconds_t)round * 3000);
        source_close(&s);
        for (int i = 0; i < 30; i++) {
            assert_int_equal(c[i].done_count, 1);
            assert_true(c[i].r.status == 0 || c[i].r.status == FB_E_STATE);
            call_free(&c[i]);
        }
    }
    assert_int_equal(count_open_files(), files);
    assert_int_equal(take_stock(s.dir).parts, 0);
    source_remove(&s);
}

/* Storers that hang in a call to the disk, and more that waits for them: the flock on usage stands for it. */
static int close_on_a_disk_that_hangs(void *arg)
{
    struct source *s = arg;
    char usage[128];
    source_open(s, &(struct choice){.is_unknown = true});
    snprintf(usage, sizeof(usage), "%s/usage", s->dir);
    int fd = open(usage, O_RDWR);
    if (flock(fd, LOCK_EX) < 0)
        return 1;
    for (uint64_t i = 0; i < s->count; i++)
        if (!is_right(s, i))
            return 2;
    uint64_t since = clock_now_ns();
    uint32_t left = s->io->ops->close(s->io, 500000000);
    return left > 0 && clock_now_ns() - since < UINT64_C(10000000000) ? 0 : 3; /* left to themselves, and told */
}

static void closing_does_not_wait_for_a_disk_that_hangs(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 12, FILE_BYTES);
    assert_int_equal(in_child(close_on_a_disk_that_hangs, &s), 0);
    source_open(&s, &(struct choice){.is_unknown = true}); /* and the next one is not blocked by what it left */
    read_all(&s);
    source_close(&s);
    assert_int_equal(take_stock(s.dir).parts, 0);
    source_remove(&s);
}

static int use_after_fork(void *arg)
{
    struct source *s = arg;
    struct call c;
    call_init(&c, &s->folder, s->name[0], s->file_bytes);
    s->io->ops->submit(s->io, &c.r, false);
    bool refused = c.done_count == 1 && c.r.status == FB_E_FORKED && s->io->ops->try_now(s->io, &c.r) == FB_E_FORKED;
    return refused && s->io->ops->close(s->io, 1000) == 0 ? 0 : 1;
}

static void a_forked_child_is_refused(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 2, FILE_BYTES);
    source_open(&s, &(struct choice){0});
    read_all(&s);
    assert_int_equal(in_child(use_after_fork, &s), 0);
    read_all(&s);
    source_close(&s);
    source_remove(&s);
}

/* Everything at once: many in flight, RAM and disk too small for all, the order moving on, sources changing. */
static void a_storm_of_requests_gets_right_bytes(void **state)
{
    (void)state;
    struct source s;
    enum { N = 50, FLIGHT = 40 };
    struct call c[FLIGHT];
    uint64_t which[FLIGHT];
    struct rng rng = rng_stream(RNG_ORDER, 3, 0, 0, 0);
    source_make(&s, N, FILE_BYTES);
    source_open(&s, &(struct choice){.inner = "slow:latency_us=200,jitter_us=500", .disk_limit = 20 * 20480, .ram_limit = 15 * 20480});
    for (uint64_t round = 0; round < 40; round++) {
        move_to(&s, round / 4, round % 4 * 12);
        for (int i = 0; i < FLIGHT; i++) {
            which[i] = rng_below(&rng, N);
            call_init(&c[i], &s.folder, s.name[which[i]], FILE_BYTES);
            if (rng_below(&rng, 4) == 0) {
                c[i].r.offset = rng_below(&rng, FILE_BYTES - 100);
                c[i].r.length = 1 + rng_below(&rng, 99);
            }
            if (rng_below(&rng, 2) == 0 || s.io->ops->try_now(s.io, &c[i].r) == IO_BLOCKED)
                s.io->ops->submit(s.io, &c[i].r, false);
            else
                c[i].done_count = 1;
        }
        for (int i = 0; i < FLIGHT; i++) {
            call_wait(&c[i]);
            bool is_whole = c[i].r.length == IO_WHOLE;
            call_assert_bytes(&c[i], s.name[which[i]], is_whole ? 0 : c[i].r.offset, is_whole ? FILE_BYTES : c[i].r.length);
            call_free(&c[i]);
        }
    }
    source_close(&s);
    assert_true(take_stock(s.dir).bytes <= 20 * 20480);
    assert_int_equal(take_stock(s.dir).counted, take_stock(s.dir).bytes);
    assert_int_equal(s.warnings, 0);
    source_remove(&s);
}

int main(int argc, char **argv)
{
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_share_a_cache_that_is_too_small),
        cmocka_unit_test(a_unit_that_another_process_fetches_is_waited_for),
        cmocka_unit_test(a_claim_dies_with_its_holder_and_never_holds_up_a_reader),
        cmocka_unit_test(a_killed_process_leaves_a_cache_that_is_right),
        cmocka_unit_test(a_reader_goes_on_while_another_one_is_killed_again_and_again),
        cmocka_unit_test(requests_for_one_unit_share_one_fetch),
        cmocka_unit_test(what_waits_to_be_kept_is_not_fetched_again),
        cmocka_unit_test(those_who_wait_for_a_fetch_that_fails_are_told_themselves),
        cmocka_unit_test(closing_ends_what_is_under_way),
        cmocka_unit_test(closing_does_not_wait_for_a_disk_that_hangs),
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(a_storm_of_requests_gets_right_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
