/* Where the time of a build goes, while it goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "jobs/build/build_internal.h"

#define SECOND UINT64_C(1000000000)

static void spend(struct build_meter *m, int split, enum build_stage stage, double seconds)
{
    struct build_figures f = {0};
    f.seconds[stage] = seconds;
    build_meter_add(m, split, &f);
}

static void the_bottleneck_is_that_of_the_last_seconds(void **state)
{
    (void)state;
    struct build_meter m;
    build_meter_open(&m);
    uint64_t now = m.past_ns;
    spend(&m, 0, BUILD_READ, 1000); /* a cold disk, for long */
    assert_int_equal(build_meter_bottleneck(&m, now += SECOND), BUILD_READ);
    for (int i = 0; i < 8; i++) {
        spend(&m, i % 2, BUILD_COMPUTE, 0.8);
        spend(&m, i % 2, BUILD_READ, 0.1);
        assert_int_equal(build_meter_bottleneck(&m, now += SECOND), i < 2 ? BUILD_READ : BUILD_COMPUTE);
    }
    build_meter_bottleneck(&m, now += 3 * SECOND);
    assert_int_equal(build_meter_bottleneck(&m, now += 3 * SECOND), BUILD_READ); /* nothing ended: that of all */
    build_meter_close(&m);
}

/* Two that wait for the disk all the time, beside eight that compute half of it, and then more. */
static void time_of_those_who_only_write_is_shared_by_them_alone(void **state)
{
    (void)state;
    struct build_meter m;
    build_meter_open(&m);
    uint64_t now = m.past_ns;
    m.threads = 8;
    m.writers = 2;
    spend(&m, 0, BUILD_COMPUTE, 8 * 3);
    spend(&m, 0, BUILD_WRITE, 2 * 6);
    assert_int_equal(build_meter_bottleneck(&m, now += SECOND), BUILD_WRITE);
    spend(&m, 0, BUILD_COMPUTE, 8 * 4);
    assert_int_equal(build_meter_bottleneck(&m, now += SECOND), BUILD_COMPUTE);
    build_meter_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bottleneck_is_that_of_the_last_seconds),
        cmocka_unit_test(time_of_those_who_only_write_is_shared_by_them_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
