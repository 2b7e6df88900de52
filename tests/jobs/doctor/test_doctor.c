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
    r.samples = r.data.samples = 100000;
    r.sample_bytes = 100e3;
    r.output_bytes = 150e3;
    r.window = r.preload = (struct doctor_trial){NAN, NAN};
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
    near(pack->first_rate, 900);        /* no longer one open after the other */
    near(pack->later_rate, 4 / 0.0008); /* 0.2 ms of CPU less */
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

static void decoded_pictures_need_their_room_and_are_fed_at_the_pace_of_storage_at_first(void **state)
{
    (void)state;
    struct doctor_result r = photos(300);
    struct doctor_request q = step(0.1);
    r.storage = (struct storage_probe){.points = 1, .open_s = NAN, .point = {{64, 900, 196608000, 0.07}}};
    r.decoded_side = 256, r.decoded_cpu_s = 0.0001, r.decoded_first_cpu_s = 0.00011;
    doctor_predict(&q, &r);
    const struct doctor_row *row = row_of(&r, REMEDY_DECODED);
    assert_non_null(row);
    near(row->disk_bytes, 100000.0 * 256 * 256 * 3);
    near(row->first_rate, 1000); /* 196.6 MB/s by 196.6 KB */
    near(row->later_rate, 40000);
    assert_non_null(strstr(row->command, "--decode 256x256"));
    r.storage.point[0].bytes_per_s *= 100; /* now the kernel's work for bytes that were not in memory counts: 1 ms each */
    r.storage.cold_cpu_s = 1e-3 / (256 * 256 * 3);
    doctor_predict(&q, &r);
    near(row_of(&r, REMEDY_DECODED)->first_rate, 4 / 0.00111);
    r.storage.point[0].bytes_per_s /= 100;
    r.machine.memory_available_bytes = 10e9;
    doctor_predict(&q, &r);
    near(row_of(&r, REMEDY_DECODED)->later_rate, 1000); /* 19.7 GB do not stay in memory */
}

/* ---- arrays ---- */

/* 1,000,000 rows of 1,000 float32 (4 KB). */
static struct doctor_result features(uint64_t chunk_rows, uint64_t chunk_columns, const char *filters)
{
    struct doctor_result r = photos(20000);
    r.samples = 1000000;
    r.data.samples = r.data.examined = 1;
    r.data.has_rows = true;
    r.output_bytes = 4000;
    r.warm_rate = 40000, r.first_cpu_s = 1e-4, r.known_cpu_s = 1e-4;
    r.machine.copy_bytes_per_s = 8e9;
    snprintf(r.data.kind, sizeof(r.data.kind), "file");
    snprintf(r.data.family, sizeof(r.data.family), "array");
    r.data.array_count = 1;
    r.data.array[0] = (struct info_array){.name = "features",
                                          .ndim = 2,
                                          .shape = {1000000, 1000},
                                          .bytes = 4000000000u,
                                          .chunk_shape = {chunk_rows, chunk_columns},
                                          .storage = "chunked"};
    snprintf(r.data.array[0].filters, sizeof(r.data.array[0].filters), "%s", filters);
    return r;
}

static void chunks_of_whole_rows_that_can_be_kept_are_not_blamed(void **state)
{
    (void)state;
    struct doctor_result r = features(64, 1000, "gzip");
    struct doctor_request q = step(0.1);
    doctor_judge_chunks(&r, 24e9);
    doctor_predict(&q, &r);
    assert_true(r.chunks.now_rows == 0);
    assert_null(row_of(&r, REMEDY_RECHUNK));
}

static void filtered_chunks_that_cannot_be_kept_are_too_large_for_single_rows(void **state)
{
    (void)state;
    struct doctor_result r = features(256, 1000, "gzip");
    struct doctor_request q = step(0.1);
    doctor_judge_chunks(&r, 2e9);
    doctor_predict(&q, &r);
    const struct doctor_row *row = row_of(&r, REMEDY_RECHUNK);
    assert_non_null(row);
    assert_true(r.chunks.wanted_rows == 4 && r.chunks.chunks_of_row == 1); /* 16 KiB */
    near(r.chunks.work_ratio, 4 / 256.0);
    near(row->later_rate, 4 / (1e-6 + 99e-6 * 4 / 256)); /* the copy stays */
    assert_non_null(strstr(row->command, "--rechunk 4 -o"));
}

static void a_row_in_many_chunks_is_named_whatever_its_filters(void **state)
{
    (void)state;
    struct doctor_result r = features(64, 100, "");
    struct doctor_request q = step(0.1);
    doctor_judge_chunks(&r, 24e9);
    doctor_predict(&q, &r);
    assert_true(r.chunks.chunks_of_row == 10 && r.chunks.wanted_rows == 65);
    near(r.chunks.work_ratio, 0.1);
    near(r.chunks.first_ratio, 0.1);
    assert_non_null(row_of(&r, REMEDY_RECHUNK));
    assert_null(row_of(&r, REMEDY_PACK));
}

static void other_chunks_that_can_be_kept_are_unfiltered_once_all_the_same(void **state)
{
    (void)state;
    struct doctor_result r = features(64, 100, "gzip");
    struct doctor_request q = step(0.1);
    r.cold_rate = 39000;
    doctor_judge_chunks(&r, 24e9);
    doctor_predict(&q, &r);
    const struct doctor_row *row = row_of(&r, REMEDY_RECHUNK);
    near(row->first_rate, 40000); /* as the CPU does it now */
    near(row->later_rate, 4 / (1e-6 + 99e-6 * 0.1));
}

static void what_was_measured_of_rows_stands_even_if_it_is_slower(void **state)
{
    (void)state;
    struct doctor_result r = features(64, 1000, "");
    struct doctor_request q = step(0.1);
    r.window = (struct doctor_trial){30000, 35000};
    r.preload = (struct doctor_trial){10000, 90000};
    r.preload_bytes = 4e9;
    doctor_predict(&q, &r);
    near(row_of(&r, REMEDY_WINDOW)->later_rate, 35000);
    near(row_of(&r, REMEDY_PRELOAD)->first_rate, 10000);
    near(row_of(&r, REMEDY_PRELOAD)->ram_bytes, 4e9);
}

/* ---- buckets ---- */

static void a_bucket_has_a_budget_by_littles_law(void **state)
{
    (void)state;
    struct doctor_result r = photos(500);
    struct doctor_request q = step(0.1); /* 2560 samples/s of 100 KB */
    r.machine.is_bucket = true;
    r.warm_rate = 520;
    r.storage = (struct storage_probe){.points = 2, .point = {{1, 30, 3e6, 0.033}, {64, 3000, 300e6, 0.05}}};
    doctor_predict(&q, &r);
    const struct doctor_budget *b = &r.budget;
    near(b->bytes_per_s, 256e6);
    near(b->requests_per_s, 2560);
    near(b->in_flight, 128);   /* 2560/s x 50 ms */
    near(b->batches_ahead, 2); /* half a batch on its way, one in use */
    near(b->ram_bytes, 2 * 256 * 250e3);
    near(b->cache_bytes, 10e9);
    near(b->given_bytes_per_s, 50e6);
    assert_true(r.storage_limits);
    near(r.row[0].later_rate, 520); /* nothing stays in memory by itself */
    near(row_of(&r, REMEDY_CACHE)->first_rate, 500);
    near(row_of(&r, REMEDY_CACHE)->later_rate, 0.95 * 4000);
    near(row_of(&r, REMEDY_STAGE)->first_rate, 0.95 * 2000);
    assert_non_null(strstr(row_of(&r, REMEDY_CACHE)->command, "cache_limit=\"10GiB\""));
    assert_non_null(strstr(row_of(&r, REMEDY_STAGE)->command, "fullbore stage"));
    assert_null(row_of(&r, REMEDY_PACK));
}

static void large_objects_count_as_the_ranges_they_come_in(void **state)
{
    (void)state;
    struct doctor_result r = photos(5);
    struct doctor_request q = step(1);
    q.options.batch_size = 8;
    r.machine.is_bucket = true;
    r.sample_bytes = 20 << 20;
    r.storage = (struct storage_probe){.points = 1, .point = {{64, 100, 100e6, 0.3}}};
    doctor_predict(&q, &r);
    near(r.budget.requests_per_s, 24);
    near(r.budget.in_flight, 7.2);
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
        cmocka_unit_test(decoded_pictures_need_their_room_and_are_fed_at_the_pace_of_storage_at_first),
        cmocka_unit_test(chunks_of_whole_rows_that_can_be_kept_are_not_blamed),
        cmocka_unit_test(filtered_chunks_that_cannot_be_kept_are_too_large_for_single_rows),
        cmocka_unit_test(a_row_in_many_chunks_is_named_whatever_its_filters),
        cmocka_unit_test(other_chunks_that_can_be_kept_are_unfiltered_once_all_the_same),
        cmocka_unit_test(what_was_measured_of_rows_stands_even_if_it_is_slower),
        cmocka_unit_test(a_bucket_has_a_budget_by_littles_law),
        cmocka_unit_test(large_objects_count_as_the_ranges_they_come_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
