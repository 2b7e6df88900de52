/* The doctor's predictions, from made-up measurements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/doctor.h"

/* 100,000 samples of 100 KB; 4 workers; 2 ms of CPU at first, 1 ms later, used fully. */
static struct doctor_result photos(double cold_rate)
{
    struct doctor_result r = {.cold_rate = cold_rate, .warm_rate = 4000, .first_cpu_s = 0.002, .known_cpu_s = 0.001};
    r.machine = (struct doctor_machine){.cores = 4, .threads = 4, .memory_available_bytes = 64e9, .shm_free_bytes = 32e9};
    r.data.samples = 100000;
    r.data.bytes = 10000000000u;
    r.storage.open_s = NAN;
    snprintf(r.data.kind, sizeof(r.data.kind), "folder");
    return r;
}

static struct doctor_request step(double seconds)
{
    struct doctor_request q = {.step_seconds = seconds, .epochs = 10};
    q.options.batch_size = 256;
    return q;
}

static void near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 0.01 * fabs(wanted)))
        fail_msg("%g is not %g", value, wanted);
}

static void slow_storage_limits_the_first_epoch_only(void **state)
{
    (void)state;
    struct doctor_result r = photos(300);
    struct doctor_request q = step(0.1);
    doctor_predict(&q, &r);
    assert_true(r.storage_limits);
    near(r.row[0].first_rate, 300);
    near(r.row[0].later_rate, 4000);
    near(r.wanted_rate, 2560);
    near(r.row[0].accelerator_ratio, 1);
    near(r.row[0].batch_seconds, 0.1);
    near(r.row[0].run_seconds, 100000 / 300.0 + 9 * 100000 / 2560.0);
    assert_non_null(strstr(r.row[1].change, "RAM disk"));
    near(r.row[1].first_rate, 2000); /* the CPU's rate for unknown files */
}

static void data_larger_than_memory_stays_at_the_pace_of_storage(void **state)
{
    (void)state;
    struct doctor_result r = photos(300);
    struct doctor_request q = step(0.1);
    r.machine.memory_available_bytes = 8e9;
    r.machine.shm_free_bytes = 4e9;
    doctor_predict(&q, &r);
    near(r.row[0].later_rate, 300);
    near(r.row[0].accelerator_ratio, 300 / 2560.0);
    for (int i = 0; i < r.rows; i++)
        assert_null(strstr(r.row[i].change, "RAM disk"));
}

static void fast_storage_is_not_blamed_and_more_cores_help(void **state)
{
    (void)state;
    struct doctor_result r = photos(1900);
    struct doctor_request q = step(0.02);
    doctor_predict(&q, &r);
    assert_false(r.storage_limits);
    near(r.row[0].accelerator_ratio, 4000 / 12800.0);
    near(r.row[r.rows - 1].later_rate, 8000);
}

static void measured_efficiency_goes_into_predictions(void **state)
{
    (void)state;
    struct doctor_result r = photos(1500);
    struct doctor_request q = step(0);
    r.warm_rate = 3000; /* of 4000 */
    doctor_predict(&q, &r);
    near(r.row[r.rows - 1].later_rate, 6000);
    assert_true(isnan(r.row[0].accelerator_ratio) && isnan(r.wanted_rate));
}

static const struct doctor_row *row_of(const struct doctor_result *r, enum remedy_kind kind)
{
    for (int i = 0; i < r->rows; i++)
        if (r->row[i].kind == kind)
            return &r->row[i];
    return NULL;
}

static void a_pack_saves_the_opens_and_reads_as_deep_as_storage_goes(void **state)
{
    (void)state;
    struct doctor_result r = photos(300);
    struct doctor_request q = step(0.01);
    r.storage = (struct storage_probe){.points = 2, .open_s = 0.0002, .point = {{1, 150, 15e6, 0.006}, {64, 900, 90e6, 0.07}}};
    doctor_predict(&q, &r);
    const struct doctor_row *pack = row_of(&r, REMEDY_PACK);
    assert_non_null(pack);
    near(pack->first_rate, 900);          /* no longer one open after the other */
    near(pack->later_rate, 4 / 0.0008);   /* 0.2 ms of CPU less */
    assert_true(pack->disk_bytes == 10e9);
    assert_non_null(strstr(pack->command, "fullbore pack"));
    snprintf(r.data.kind, sizeof(r.data.kind), "tar");
    doctor_predict(&q, &r);
    assert_null(row_of(&r, REMEDY_PACK)); /* it is one */
}

static void smaller_pictures_are_listed_when_they_were_tried(void **state)
{
    (void)state;
    struct doctor_result r = photos(1900);
    struct doctor_request q = step(0.02);
    doctor_predict(&q, &r);
    assert_null(row_of(&r, REMEDY_SMALLER));
    r.smaller_side = 256, r.smaller_cpu_s = 0.0004, r.smaller_first_cpu_s = 0.0005, r.smaller_share = 0.25;
    doctor_predict(&q, &r);
    const struct doctor_row *small = row_of(&r, REMEDY_SMALLER);
    assert_non_null(small);
    near(small->later_rate, 10000);
    near(small->first_rate, 8000);
    near(small->disk_bytes, 2.5e9);
    assert_non_null(strstr(small->command, "--resize-shorter 256"));
}

static void remote_data_may_be_cached_and_local_data_need_not(void **state)
{
    (void)state;
    struct doctor_result r = photos(300);
    struct doctor_request q = step(0.1);
    doctor_predict(&q, &r);
    assert_null(row_of(&r, REMEDY_CACHE));
    r.machine.is_remote = true;
    doctor_predict(&q, &r);
    assert_non_null(row_of(&r, REMEDY_CACHE));
    assert_non_null(strstr(row_of(&r, REMEDY_CACHE)->command, "cache_dir"));
}

static void an_unmeasured_first_epoch_stays_unknown(void **state)
{
    (void)state;
    struct doctor_result r = photos(NAN);
    struct doctor_request q = step(0.1);
    doctor_predict(&q, &r);
    assert_true(isnan(r.row[0].first_rate) && !r.storage_limits);
    assert_true(isfinite(r.row[0].run_seconds));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_storage_limits_the_first_epoch_only),
        cmocka_unit_test(data_larger_than_memory_stays_at_the_pace_of_storage),
        cmocka_unit_test(fast_storage_is_not_blamed_and_more_cores_help),
        cmocka_unit_test(measured_efficiency_goes_into_predictions),
        cmocka_unit_test(a_pack_saves_the_opens_and_reads_as_deep_as_storage_goes),
        cmocka_unit_test(smaller_pictures_are_listed_when_they_were_tried),
        cmocka_unit_test(remote_data_may_be_cached_and_local_data_need_not),
        cmocka_unit_test(an_unmeasured_first_epoch_stays_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
