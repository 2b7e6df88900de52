/* Staging into memory leaves the training program some: what the machine or the control group has left counts, not only the file system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/statvfs.h>
#include <unistd.h>

#include "jobs/stage/stage_internal.h"

#define MIB (UINT64_C(1) << 20)

static const struct stage_request into_memory = {.source = "/", .target = "/dev/shm/fullbore-not-there/copy"};

/* A tmpfs with more room than the tests ask for, so that it is not the one that refuses. */
static void needs_room_in_shm(void)
{
    char device[64];
    bool is_memory, is_ssd;
    struct statvfs v;
    stage_device("/dev/shm", device, sizeof(device), &is_memory, &is_ssd);
    if (!is_memory || statvfs("/dev/shm", &v) < 0 || (uint64_t)v.f_bavail * v.f_frsize < 32 * MIB)
        skip();
}

static void memory_that_is_left_decides_where_the_file_system_has_more(void **state)
{
    (void)state;
    struct stage_result out = {0};
    needs_room_in_shm();
    stage_fit(&into_memory, 7 * MIB, 8 * MIB, &out);
    assert_true(out.is_memory);
    assert_false(out.fits); /* a quarter of 8 MiB stays */
    assert_int_equal(out.free_bytes, 8 * MIB);
    assert_int_equal(out.keep_bytes, 2 * MIB);
    assert_true(out.fits_share > 0.85 && out.fits_share < 0.86);
    stage_fit(&into_memory, 6 * MIB, 8 * MIB, &out);
    assert_true(out.fits);
    stage_fit(&into_memory, 1, 0, &out);
    assert_false(out.fits);
}

static void the_file_system_decides_where_it_has_less_than_the_machine(void **state)
{
    (void)state;
    struct stage_result out = {0};
    needs_room_in_shm();
    stage_fit(&into_memory, 8 * MIB, UINT64_MAX, &out);
    assert_true(out.fits);
    assert_true(out.free_bytes < UINT64_MAX / 2);
    stage_fit(&into_memory, out.free_bytes + 1, UINT64_MAX, &out);
    assert_false(out.fits);
}

static void a_disk_does_not_ask_for_memory(void **state)
{
    (void)state;
    char device[64], here[4096];
    bool is_memory, is_ssd;
    struct stage_result out = {0};
    assert_non_null(getcwd(here, sizeof(here)));
    stage_device(here, device, sizeof(device), &is_memory, &is_ssd);
    if (is_memory)
        skip();
    stage_fit(&(struct stage_request){.source = "/", .target = here}, 1, 0, &out);
    assert_true(out.fits);
    assert_false(out.is_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_is_left_decides_where_the_file_system_has_more),
        cmocka_unit_test(the_file_system_decides_where_it_has_less_than_the_machine),
        cmocka_unit_test(a_disk_does_not_ask_for_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
