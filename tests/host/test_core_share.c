/* Cores used, wanted in vain, and taken by others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <unistd.h>

#include "base/clock.h"
#include "host/core_share.h"

static void only_cores_that_are_ours_count_and_neither_idle_time_nor_waits(void **state)
{
    (void)state;
    const char *stat = "cpu  9 9 9 9 9 9 9 9 9 9\n"
                       "cpu0 1 2 4 1000 1000 8 16 32 5 5\n"
                       "cpu1 100 0 0 0 0 0 0 0 0 0\n"
                       "cpu12 1000 0 0 7 0 0 0 0 0 0\n"
                       "intr 5 5\n";
    const unsigned char first[16] = {[0] = 1}, last[16] = {[12] = 1}, both[16] = {[0] = 1, [1] = 1};
    const uint64_t tick = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
    assert_true(core_share_busy_ns(stat, first, 16) == 63 * tick);
    assert_true(core_share_busy_ns(stat, last, 16) == 1000 * tick);
    assert_true(core_share_busy_ns(stat, both, 16) == 163 * tick);
    assert_true(core_share_busy_ns(stat, last, 12) == 0); /* more cores than there is room for */
    assert_true(core_share_busy_ns("", both, 16) == 0 && core_share_busy_ns("cpu0 1 2\ncpu", both, 16) == 0);
}

static void a_thread_at_work_is_seen_as_our_own(void **state)
{
    (void)state;
    struct core_share s, end;
    core_share_begin(&s);
    uint64_t cpu = clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID), since = clock_now_ns();
    while (clock_now_ns() - since < 300000000)
        ;
    double used = (double)(clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)(clock_now_ns() - since);
    core_share_begin(&end);
    struct core_use u = core_share_between(&s, &end);
    assert_true(u.used > 0.8 * used && u.used < 1.2 * used + 0.05);
    assert_true(u.used + u.delayed <= 1.1 && u.delayed >= 0); /* one thread wants one core */
    assert_true(u.others >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_cores_that_are_ours_count_and_neither_idle_time_nor_waits),
        cmocka_unit_test(a_thread_at_work_is_seen_as_our_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
