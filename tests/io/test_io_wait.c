/* Reads that are waited for: they all come, some fail, somebody interrupts, the time is over, and what comes later harms nobody. */
#include "io/io_wait.h"

#include "io_fixture.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "io/wrap/io_null.h"

#define MS UINT64_C(1000000)
enum { READS = 40, BYTES = 3000 };

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

static struct io *open_io(const char *spec)
{
    struct io *io = open_or_skip(spec, 16);
    if (!io)
        skip();
    return io;
}

static void submit(struct io_wait *w, uint32_t i, bool more)
{
    io_wait_submit(w, i, &(struct io_request){.dir_fd = folder.fd, .path = "f", .offset = i * 7, .length = BYTES, .expected_size = BYTES},
                   more);
}

static struct io_wait *submit_all(struct io *io, uint32_t count)
{
    struct io_wait *w = io_wait_new(io, count, BYTES);
    assert_non_null(w);
    for (uint32_t i = 0; i < count; i++)
        submit(w, i, i + 1 < count);
    return w;
}

static void assert_read(const struct io_wait *w, uint32_t i)
{
    struct fb_error e = {0};
    const struct io_request *r = io_wait_result(w, i);
    assert_int_equal(io_wait_status(w, i, &e), 0);
    assert_int_equal(e.code, 0);
    assert_int_equal(r->got, BYTES);
    for (uint64_t k = 0; k < BYTES; k++)
        assert_int_equal(r->buffer[k], file_byte("f", i * 7 + k));
}

static void all_of_them_come(void **state)
{
    struct io *io = open_io(*state);
    struct io_wait *w = submit_all(io, READS);
    assert_int_equal(io_wait_all(w, NULL), 0);
    for (uint32_t i = 0; i < READS; i++)
        assert_read(w, i);
    io_wait_end(w);
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

/* The null back-end calls done inside of submit. */
static void reads_that_are_done_inside_of_submit_come_too(void **state)
{
    (void)state;
    struct io *io = open_io("null");
    struct io_wait *w = submit_all(io, READS);
    assert_int_equal(io_wait_all(w, NULL), 0);
    for (uint32_t i = 0; i < READS; i++) {
        assert_int_equal(io_wait_status(w, i, NULL), 0);
        assert_int_equal(io_wait_result(w, i)->got, BYTES);
        assert_int_equal(io_wait_result(w, i)->buffer[5], io_null_byte(i * 7 + 5));
    }
    io_wait_end(w);
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

static void nothing_to_wait_for_is_no_wait(void **state)
{
    (void)state;
    struct io *io = open_io("null");
    struct io_wait *w = io_wait_new(io, 0, 0);
    uint32_t i = 7;
    assert_non_null(w);
    assert_int_equal(io_wait_all(w, NULL), 0);
    assert_int_equal(io_wait_next(w, NULL, &i), 0);
    assert_int_equal(i, 7);
    io_wait_end(w);
    io_wait_end(NULL);
    assert_null(io_wait_new(io, 1, SIZE_MAX - 10));
    assert_null(io_wait_new(io, UINT32_MAX, SIZE_MAX / 1000));
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

static void the_next_one_is_each_once_and_may_be_sent_again(void **state)
{
    struct io *io = open_io(*state);
    struct io_wait *w = submit_all(io, 8);
    int came[8] = {0}, left = 100;
    for (uint32_t i; io_wait_next(w, NULL, &i) == 1; left--) {
        assert_true(i < 8);
        assert_read(w, i);
        came[i]++;
        if (left > 0)
            submit(w, i, false);
    }
    int all = 0;
    for (int i = 0; i < 8; i++)
        all += came[i];
    assert_int_equal(all, 108);
    io_wait_end(w);
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

static void one_that_fails_says_why_and_the_others_come(void **state)
{
    (void)state;
    struct io *io = open_io("fault:error=EIO,nth=3;over=pread");
    struct io_wait *w = submit_all(io, 8);
    int failed = 0;
    assert_int_equal(io_wait_all(w, NULL), 0);
    for (uint32_t i = 0; i < 8; i++) {
        struct fb_error e, earlier = {.code = FB_E_DATA};
        error_clear(&e);
        if (io_wait_result(w, i)->status == 0) {
            assert_read(w, i);
            continue;
        }
        failed++;
        assert_int_equal(io_wait_status(w, i, &e), FB_E_IO);
        assert_int_equal(e.code, FB_E_IO);
        assert_int_equal(e.sys_errno, EIO);
        assert_string_equal(e.path, "f");
        assert_int_equal(io_wait_status(w, i, &earlier), FB_E_IO);
        assert_int_equal(earlier.code, FB_E_DATA);
        assert_int_equal(io_wait_status(w, i, NULL), FB_E_IO);
    }
    assert_int_equal(failed, 1);
    io_wait_end(w);
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

/* ---- stopping ---- */

struct asked {
    int times, stop_at;
};

static int ask(void *ctx)
{
    struct asked *a = ctx;
    return ++a->times >= a->stop_at;
}

static void who_is_interrupted_may_leave_and_the_reads_end_without_him(void **state)
{
    (void)state;
    struct io *io = open_io("fault:hang,nth=2;over=pread");
    struct io_wait *w = submit_all(io, 8);
    struct asked a = {.stop_at = 2};
    assert_int_equal(io_wait_all(w, &(struct io_wait_stop){.interrupted = ask, .ctx = &a}), FB_E_INTERRUPTED);
    assert_int_equal(a.times, 2);
    io_wait_end(w);
    assert_int_equal(io->ops->close(io, 5000 * MS), 0); /* which ends the last one, and that one frees the memory */
}

static void reads_that_trickle_in_do_not_keep_the_question_away(void **state)
{
    (void)state;
    struct io *io = open_io("slow:iops=100,over=pread");
    struct io_wait *w = submit_all(io, READS);
    struct asked a = {.stop_at = 1};
    assert_int_equal(io_wait_all(w, &(struct io_wait_stop){.interrupted = ask, .ctx = &a}), FB_E_INTERRUPTED);
    io_wait_end(w);
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

static void reads_that_come_at_once_ask_nobody(void **state)
{
    (void)state;
    struct io *io = open_io("null");
    struct io_wait *w = submit_all(io, READS);
    struct asked a = {.stop_at = 1};
    assert_int_equal(io_wait_all(w, &(struct io_wait_stop){.interrupted = ask, .ctx = &a, .deadline_ns = 1}), 0);
    assert_int_equal(a.times, 0);
    io_wait_end(w);
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

static void after_the_deadline_a_late_read_can_still_be_had(void **state)
{
    (void)state;
    struct io *io = open_io("slow:latency_us=200000,over=pread");
    struct io_wait *w = submit_all(io, 8);
    assert_int_equal(io_wait_all(w, &(struct io_wait_stop){.deadline_ns = clock_now_ns() + 5 * MS}), FB_E_TIMEOUT);
    assert_int_equal(io_wait_all(w, NULL), 0);
    for (uint32_t i = 0; i < 8; i++)
        assert_read(w, i);
    io_wait_end(w);
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

static void a_read_that_never_comes_ends_when_the_back_end_is_closed(void **state)
{
    (void)state;
    struct io *io = open_io("fault:hang,nth=4;over=pread");
    struct io_wait *w = submit_all(io, 8);
    int hung = 0;
    assert_int_equal(io_wait_all(w, &(struct io_wait_stop){.deadline_ns = clock_now_ns() + 20 * MS}), FB_E_TIMEOUT);
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
    assert_int_equal(io_wait_all(w, NULL), 0);
    for (uint32_t i = 0; i < 8; i++)
        hung += io_wait_status(w, i, NULL) == FB_E_STATE;
    assert_true(hung >= 1);
    io_wait_end(w);
}

/* The last thing that a done handler does may come after the wait is over: nobody may free anything under it. */
static void waits_that_end_as_reads_come_free_their_memory_once(void **state)
{
    struct io *io = open_io(*state);
    for (int round = 0; round < 300; round++) {
        struct io_wait *w = submit_all(io, 1 + (uint32_t)round % 5);
        uint32_t i;
        for (int takes = round % 4; takes > 0; takes--)
            io_wait_next(w, NULL, &i);
        io_wait_end(w);
    }
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOR_EACH_READER(all_of_them_come),
        FOR_EACH_READER(the_next_one_is_each_once_and_may_be_sent_again),
        FOR_EACH_READER(waits_that_end_as_reads_come_free_their_memory_once),
        cmocka_unit_test(reads_that_are_done_inside_of_submit_come_too),
        cmocka_unit_test(nothing_to_wait_for_is_no_wait),
        cmocka_unit_test(one_that_fails_says_why_and_the_others_come),
        cmocka_unit_test(who_is_interrupted_may_leave_and_the_reads_end_without_him),
        cmocka_unit_test(reads_that_trickle_in_do_not_keep_the_question_away),
        cmocka_unit_test(reads_that_come_at_once_ask_nobody),
        cmocka_unit_test(after_the_deadline_a_late_read_can_still_be_had),
        cmocka_unit_test(a_read_that_never_comes_ends_when_the_back_end_is_closed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
