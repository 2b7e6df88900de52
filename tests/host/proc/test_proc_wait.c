/* What a system call says about a wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/syscall.h>

#include "host/proc/proc_wait.h"

/* Descriptors of a made-up process: 3 a file, 4 a remote file, 5 a pipe, 6 a network socket, 7 a device. */
static enum fd_kind kind_of(void *ctx, int fd)
{
    (void)ctx;
    static const enum fd_kind kinds[] = {FD_UNKNOWN, FD_UNKNOWN, FD_UNKNOWN, FD_FILE, FD_REMOTE_FILE, FD_PIPE, FD_NETWORK, FD_DEVICE};
    return fd >= 0 && fd < 8 ? kinds[fd] : FD_UNKNOWN;
}

static int polled(void *ctx, uint64_t address, uint64_t count)
{
    (void)ctx, (void)count;
    return (int)address; /* the address stands for the descriptor */
}

static int epolled(void *ctx, int fd)
{
    (void)ctx;
    return fd - 100;
}

static const struct fd_lookup ask = {kind_of, polled, epolled, NULL};

static enum wait_kind wait_at(long number, uint64_t a, uint64_t b)
{
    struct call c = {CALL_BLOCKED, number, {a, b}};
    return proc_wait_kind(&c, &ask);
}

static void a_line_is_running_blocked_or_nothing(void **state)
{
    (void)state;
    struct call c;
    assert_true(proc_parse_call("running\n", &c));
    assert_int_equal(c.state, CALL_RUNNING);
    assert_true(proc_parse_call("0 0x5 0x7f00 0x1000 0x0 0x0 0x0 0x7ffe 0x7f0e\n", &c));
    assert_int_equal(c.state, CALL_BLOCKED);
    assert_int_equal(c.number, 0);
    assert_int_equal(c.arg[0], 5);
    assert_true(proc_parse_call("-1 0x7ffe 0x7f0e\n", &c));
    assert_int_equal(c.number, -1);
    assert_false(proc_parse_call("", &c));
    assert_int_equal(c.state, CALL_UNREADABLE);
    assert_false(proc_parse_call("nonsense", &c));
}

static void a_read_waits_for_what_its_descriptor_is(void **state)
{
    (void)state;
    assert_int_equal(wait_at(SYS_read, 3, 0), WAIT_FILE);
    assert_int_equal(wait_at(SYS_pread64, 4, 0), WAIT_REMOTE_FILE);
    assert_int_equal(wait_at(SYS_read, 5, 0), WAIT_PIPE);
    assert_int_equal(wait_at(SYS_recvfrom, 6, 0), WAIT_NETWORK);
    assert_int_equal(wait_at(SYS_read, 7, 0), WAIT_DEVICE);
    assert_int_equal(wait_at(SYS_read, 99, 0), WAIT_UNKNOWN);
}

static void a_poll_waits_for_its_first_descriptor_and_without_one_it_sleeps(void **state)
{
    (void)state;
    assert_int_equal(wait_at(SYS_ppoll, 5, 1), WAIT_PIPE);
    assert_int_equal(wait_at(SYS_ppoll, 6, 1), WAIT_NETWORK);
    assert_int_equal(wait_at(SYS_ppoll, 0, 0), WAIT_SLEEP);
    assert_int_equal(wait_at(SYS_epoll_pwait, 106, 0), WAIT_NETWORK);
}

static void a_block_outside_a_call_is_a_page_fault(void **state)
{
    (void)state;
    assert_int_equal(wait_at(-1, 0, 0), WAIT_FAULT);
}

static void an_io_uring_wait_is_never_taken_for_a_file(void **state)
{
    (void)state;
    assert_int_equal(wait_at(SYS_io_uring_enter, 3, 0), WAIT_URING);
}

static void writing_and_sleeping_and_locks_have_their_own_kinds(void **state)
{
    (void)state;
    assert_int_equal(wait_at(SYS_write, 3, 0), WAIT_WRITE);
    assert_int_equal(wait_at(SYS_write, 5, 0), WAIT_PIPE);
    assert_int_equal(wait_at(SYS_clock_nanosleep, 0, 0), WAIT_SLEEP);
    assert_int_equal(wait_at(SYS_futex, 3, 0), WAIT_LOCK);
    assert_int_equal(wait_at(SYS_wait4, 0, 0), WAIT_CHILD);
    assert_int_equal(wait_at(SYS_openat, 0, 0), WAIT_FILE);
    assert_int_equal(wait_at(99999, 3, 0), WAIT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_running_blocked_or_nothing),
        cmocka_unit_test(a_read_waits_for_what_its_descriptor_is),
        cmocka_unit_test(a_poll_waits_for_its_first_descriptor_and_without_one_it_sleeps),
        cmocka_unit_test(a_block_outside_a_call_is_a_page_fault),
        cmocka_unit_test(an_io_uring_wait_is_never_taken_for_a_file),
        cmocka_unit_test(writing_and_sleeping_and_locks_have_their_own_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
