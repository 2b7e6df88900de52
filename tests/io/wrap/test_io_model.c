/* null, slow and fault do what their specs say, the same each time. */
#include "../io_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "io/wrap/io_null.h"

#define CLOSE_NS UINT64_C(5000000000)
#define MS UINT64_C(1000000)

static struct folder folder;

static int set_up(void **state)
{
    (void)state;
    folder_make(&folder, NULL);
    file_write(&folder, "f", 60000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove(&folder);
    return 0;
}

/* ---- null ---- */

static void null_hands_out_known_bytes_at_once(void **state)
{
    (void)state;
    struct io *io = open_or_skip("null", 4);
    struct call c;
    call_init(&c, &folder, "anything", 150000);
    io->ops->submit(io, &c.r, false);
    assert_int_equal(c.done_count, 1);
    assert_int_equal(c.r.got, 150000);
    for (uint64_t i = 0; i < 150000; i++)
        assert_int_equal(c.r.buffer[i], io_null_byte(i));
    c.r.offset = 65000;
    c.r.length = 3000;
    assert_int_equal(io->ops->try_now(io, &c.r), 0);
    for (uint64_t i = 0; i < 3000; i++)
        assert_int_equal(c.r.buffer[i], io_null_byte(65000 + i));
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void null_with_a_size_has_objects_of_that_size(void **state)
{
    (void)state;
    struct io *io = open_or_skip("null:size=5K,now=0", 4);
    struct call c;
    call_init(&c, &folder, "x", 100);
    assert_int_equal(io->ops->try_now(io, &c.r), IO_BLOCKED);
    assert_int_equal(call_run(io, &c), IO_GREW);
    assert_int_equal(c.r.object_size, 5120);
    call_free(&c);
    call_init(&c, &folder, "x", 5120);
    assert_int_equal(call_run(io, &c), 0);
    assert_int_equal(c.r.got, 5120);
    c.r.offset = 5000;
    c.r.length = 4000;
    assert_int_equal(call_run(io, &c), 0);
    assert_int_equal(c.r.got, 120);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void null_with_a_file_hands_out_that_file(void **state)
{
    (void)state;
    char spec[128];
    snprintf(spec, sizeof(spec), "null:file=%s/f", folder.path);
    struct io *io = open_or_skip(spec, 4);
    struct call c;
    call_init(&c, &folder, "some other name", 60000);
    assert_int_equal(io->ops->try_now(io, &c.r), 0);
    call_assert_bytes(&c, "f", 0, 60000);
    assert_int_equal(call_run(io, &c), 0);
    call_assert_bytes(&c, "f", 0, 60000);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static struct io *eager_io;
static int eager_left;

static void submit_again(struct io_request *r)
{
    struct call *c = r->owner;
    if (--eager_left > 0)
        eager_io->ops->submit(eager_io, r, false);
    else
        c->done_count++;
}

/* done from submit, submit from done: a million times must not be a million frames. */
static void answers_from_inside_submit_do_not_pile_up(void **state)
{
    eager_io = open_or_skip(*state, 4);
    eager_left = 300000;
    struct call c;
    call_init(&c, &folder, "x", 16);
    c.r.done = submit_again;
    c.r.error = NULL;
    eager_io->ops->submit(eager_io, &c.r, false);
    call_wait(&c);
    call_free(&c);
    assert_int_equal(eager_io->ops->close(eager_io, CLOSE_NS), 0);
}

/* ---- slow ---- */

/* Submits n reads of 60000 bytes at once; the time until all are done. */
static uint64_t time_reads(const char *spec, uint32_t depth, int n)
{
    struct io *io = open_or_skip(spec, depth);
    struct call *calls = calloc((size_t)n, sizeof(*calls));
    for (int i = 0; i < n; i++)
        call_init(&calls[i], &folder, "f", 60000);
    uint64_t before = clock_now_ns();
    for (int i = 0; i < n; i++)
        io->ops->submit(io, &calls[i].r, i + 1 < n);
    uint64_t last = 0;
    for (int i = 0; i < n; i++) {
        call_wait(&calls[i]);
        assert_int_equal(calls[i].r.status, 0);
        last = calls[i].r.done_ns > last ? calls[i].r.done_ns : last;
        call_free(&calls[i]);
    }
    free(calls);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
    return last - before;
}

/* Lower bounds only: a busy machine may add to them, never take away. */
static void slow_is_never_faster_than_it_says(void **state)
{
    (void)state;
    assert_true(time_reads("slow:latency_us=20000,over=null", 8, 8) >= 20 * MS);     /* side by side */
    assert_true(time_reads("slow:latency_us=20000,over=null", 2, 8) >= 4 * 20 * MS); /* two at a time */
    assert_true(time_reads("slow:iops=500,over=null", 64, 26) >= 25 * 2 * MS);
    assert_true(time_reads("slow:bandwidth=12000000,over=null", 64, 10) >= 10 * 5 * MS);
    assert_true(time_reads("slow:latency_us=5000,iops=500,over=pread", 64, 26) >= 25 * 2 * MS + 5 * MS);
}

static void latency_of_reads_in_flight_overlaps(void **state)
{
    (void)state;
    uint64_t one_by_one = time_reads("slow:latency_us=10000,over=null", 1, 16);
    uint64_t at_once = time_reads("slow:latency_us=10000,over=null", 16, 16);
    assert_true(one_by_one > 2 * at_once);
}

static uint64_t delay_of(const char *spec, const char *path)
{
    struct io *io = open_or_skip(spec, 1);
    struct call c;
    call_init(&c, &folder, path, 1000);
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(call_run(io, &c), 0);
        uint64_t took = c.r.done_ns - c.r.submitted_ns;
        least = took < least ? took : least;
    }
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
    return least;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static void jitter_belongs_to_the_path_and_the_seed(void **state)
{
    (void)state;
    uint64_t longest = 0, shortest = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        char spec[80], path[16];
        snprintf(spec, sizeof(spec), "slow:jitter_us=40000,seed=%d,over=null", i % 2);
        snprintf(path, sizeof(path), "p%d", i);
        uint64_t a = delay_of(spec, path), b = delay_of(spec, path);
        for (int again = 0; again < 10 && apart(a, b) >= 15 * MS; again++) { /* a busy machine only ever adds to a delay */
            uint64_t *longer = a > b ? &a : &b;
            uint64_t now = delay_of(spec, path);
            *longer = now < *longer ? now : *longer;
        }
        assert_true(apart(a, b) < 15 * MS); /* of up to 40: the same again */
        longest = a > longest ? a : longest;
        shortest = a < shortest ? a : shortest;
    }
    assert_true(longest > shortest + 15 * MS);
}

/* ---- fault ---- */

/* Reads "f" n times, one after the other; status of each into `status`. */
static void read_n(const char *spec, int n, int *status, struct call *last)
{
    struct io *io = open_or_skip(spec, 4);
    for (int i = 0; i < n; i++) {
        struct call c;
        call_init(&c, &folder, "f", 60000);
        status[i] = call_run(io, &c);
        call_free(&c);
        if (last)
            *last = c;
    }
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void faults_strike_when_their_rule_says(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *pattern; /* x: failed */
    } cases[] = {
        {"fault:", "........"},
        {"fault:error=EIO", "xxxxxxxx"},
        {"fault:error=EIO,nth=3", "..x....."},
        {"fault:error=EIO,nth=3,forever", "..xxxxxx"},
        {"fault:error=EIO,every=3", "..x..x.."},
        {"fault:error=EIO,every=2,times=2", ".x.x...."},
        {"fault:error=EIO,times=1", "x......."},
        {"fault:error=EIO,path=g", "........"},
        {"fault:error=EIO,path=f,nth=1", "x......."},
        {"fault:error=EIO,p=0", "........"},
        {"fault:error=EIO,p=1", "xxxxxxxx"},
        {"fault:error=EIO,nth=1;error=EMFILE,nth=1", "xx......"},
        {"fault:error=EIO,nth=2;over=fault:error=EIO,nth=4;over=null", ".x..x..."},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status[8];
        char seen[9] = {0};
        read_n(cases[i].spec, 8, status, NULL);
        for (int k = 0; k < 8; k++)
            seen[k] = status[k] == 0 ? '.' : 'x';
        if (strcmp(seen, cases[i].pattern) != 0)
            fail_msg("%s: %s instead of %s", cases[i].spec, seen, cases[i].pattern);
    }
}

static void injected_errors_look_like_real_ones(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int sys_errno, code;
        const char *at, *words;
    } cases[] = {{"EIO", EIO, FB_E_IO, "read", "cannot read"},
                 {"EMFILE", EMFILE, FB_E_IO, "open", "cannot open"},
                 {"ENOMEM", ENOMEM, FB_E_NOMEM, "read", "cannot read"},
                 {"ENOENT", ENOENT, FB_E_NOT_FOUND, "open", "vanished"},
                 {"EACCES", EACCES, FB_E_IO, "open", "cannot open"},
                 {"ESTALE", ESTALE, FB_E_IO, "read", "replaced or removed"},
                 {"5", EIO, FB_E_IO, "read", "cannot read"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char spec[64];
        int status;
        struct call c;
        snprintf(spec, sizeof(spec), "fault:error=%s,at=%s", cases[i].name, cases[i].at);
        read_n(spec, 1, &status, &c);
        assert_int_equal(status, cases[i].code);
        assert_int_equal(c.error.code, cases[i].code);
        assert_int_equal(c.error.sys_errno, cases[i].sys_errno);
        assert_string_equal(c.error.path, "f");
        assert_string_equal(c.error.stage, "read");
        if (!strstr(c.error.cause, cases[i].words))
            fail_msg("%s: '%s'", cases[i].name, c.error.cause);
    }
}

static void a_short_file_a_shrinking_one_and_a_growing_one(void **state)
{
    (void)state;
    int status[2];
    struct call c;
    read_n("fault:short=1000", 1, status, &c);
    assert_int_equal(status[0], 0);
    assert_int_equal(c.r.got, 1000);
    assert_int_equal(c.r.object_size, 1000);
    read_n("fault:shrink=1000", 1, status, &c);
    assert_int_equal(status[0], FB_E_IO);
    assert_int_equal(c.error.offset, 1000);
    assert_non_null(strstr(c.error.cause, "shrinks"));
    read_n("fault:grow=1000,times=1", 2, status, &c);
    assert_int_equal(status[0], IO_GREW);
    assert_int_equal(status[1], 0);
    struct io *io = open_or_skip("fault:grow=1000", 4);
    call_init(&c, &folder, "f", 61000);
    assert_int_equal(call_run(io, &c), 0);
    assert_int_equal(c.r.got, 61000);
    assert_int_equal(c.r.buffer[60999], 0);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

/* The same files fail in whatever order and however often they are read. */
static void chance_belongs_to_the_path_and_the_seed(void **state)
{
    (void)state;
    enum { PATHS = 400 };
    int failed[3] = {0}, differ = 0, changed = 0;
    bool first[PATHS];
    static const char *const specs[] = {"fault:error=EIO,p=0.25,seed=1;over=null", "fault:error=EIO,p=0.25,seed=1;over=null",
                                        "fault:error=EIO,p=0.25,seed=2;over=null"};
    for (int k = 0; k < 3; k++) {
        struct io *io = open_or_skip(specs[k], 4);
        for (int n = 0; n < PATHS; n++) {
            int i = k == 1 ? PATHS - 1 - n : n;
            char path[16];
            struct call c;
            snprintf(path, sizeof(path), "p%d", i);
            call_init(&c, &folder, path, 10);
            bool is_failed = call_run(io, &c) == FB_E_IO;
            call_free(&c);
            failed[k] += is_failed;
            if (k == 0)
                first[i] = is_failed;
            else if (k == 1)
                differ += first[i] != is_failed;
            else
                changed += first[i] != is_failed;
        }
        assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
    }
    assert_int_equal(differ, 0);
    assert_true(changed > 50);
    assert_true(failed[0] > 60 && failed[0] < 140);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_hands_out_known_bytes_at_once),
        cmocka_unit_test(null_with_a_size_has_objects_of_that_size),
        cmocka_unit_test(null_with_a_file_hands_out_that_file),
        {"answers_from_inside_submit_do_not_pile_up [null]", answers_from_inside_submit_do_not_pile_up, NULL, NULL, (void *)"null"},
        {"answers_from_inside_submit_do_not_pile_up [fault]", answers_from_inside_submit_do_not_pile_up, NULL, NULL,
         (void *)"fault:error=EIO,every=2;over=null"},
        cmocka_unit_test(slow_is_never_faster_than_it_says),
        cmocka_unit_test(latency_of_reads_in_flight_overlaps),
        cmocka_unit_test(jitter_belongs_to_the_path_and_the_seed),
        cmocka_unit_test(faults_strike_when_their_rule_says),
        cmocka_unit_test(injected_errors_look_like_real_ones),
        cmocka_unit_test(a_short_file_a_shrinking_one_and_a_growing_one),
        cmocka_unit_test(chance_belongs_to_the_path_and_the_seed),
    };
    return cmocka_run_group_tests_name("io_model", tests, set_up, tear_down);
}
