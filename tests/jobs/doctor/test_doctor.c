/* The doctor's predictions, from made-up measurements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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
    near(r.row[0].accelerator_first, 300 / 2560.0);
    near(r.row[0].accelerator_later, 1);
    near(r.row[0].accelerator_ratio, 10 * 100000 / 2560.0 / (100000 / 300.0 + 9 * 100000 / 2560.0)); /* of all ten */
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
    near(r.row[0].accelerator_later, 4000 / 12800.0);
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
    r.known_warm = (struct doctor_run){.rate = 4000, .cpu_s = 0.001, .read_bytes = 100e3};
    r.known_cold = (struct doctor_run){.rate = 300, .cpu_s = 0.00105, .read_bytes = 100e3}; /* but the engine paid half a ns per byte */
    doctor_predict(&q, &r);
    near(row_of(&r, REMEDY_DECODED)->first_rate, 4 / (0.00011 + 0.00005 * 256 * 256 * 3 / 100e3));
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

/* ---- what no figure may exceed ---- */

static double random_between(double least, double most)
{
    return least * pow(most / least, rand() / (double)RAND_MAX);
}

static struct doctor_run random_run(const struct doctor_result *r, double bytes)
{
    struct doctor_run run = {.cpu_s = random_between(1e-6, 1e-1), .read_bytes = bytes};
    double used = random_between(0.05, 1) * r->machine.cores;
    run.rate = used / run.cpu_s;
    run.cores = (struct core_use){used, random_between(0.01, 4), random_between(0.01, 4)};
    return run;
}

/* What a machine might show: anything, but nothing that contradicts itself. Samples made smaller or decoded may be told too quick, as short
 * measurements are. */
static struct doctor_result anything(void)
{
    struct doctor_result r = photos(0);
    r.machine.cores = 1 + rand() % 32;
    r.machine.online_cores = r.machine.cores * (1 + rand() % 3);
    r.machine.threads = 1 + rand() % r.machine.cores;
    r.machine.memory_available_bytes = random_between(1e9, 1e12);
    r.machine.shm_free_bytes = random_between(1e8, 1e12);
    r.machine.copy_bytes_per_s = random_between(1e9, 2e10);
    r.machine.copies_bytes_per_s = r.machine.copy_bytes_per_s * random_between(1, r.machine.cores + 0.1);
    r.machine.is_remote = rand() % 4 == 0;
    r.samples = r.data.samples = 1 + (uint64_t)random_between(1, 1e7);
    r.sample_bytes = random_between(100, 1e7);
    r.data.bytes = (uint64_t)(r.sample_bytes * (double)r.samples);
    r.output_bytes = random_between(100, 1e7);
    r.storage =
        (struct storage_probe){.points = 1 + rand() % 4, .open_s = random_between(1e-7, 1e-2), .cold_cpu_s = random_between(1e-11, 1e-8)};
    for (int i = 0; i < r.storage.points; i++)
        r.storage.point[i] = (struct storage_point){1 << 2 * i, random_between(10, 1e6), random_between(1e6, 1e10), 1e-3};
    r.first_bytes = r.sample_bytes;
    r.known_bytes = r.sample_bytes * random_between(0.3, 1);
    r.fresh_cold = random_run(&r, r.first_bytes), r.known_cold = r.fresh_cold;
    r.known_warm = random_run(&r, r.known_bytes), r.fresh_warm = r.known_warm;
    r.cold_rate = rand() % 8 ? r.fresh_cold.rate : NAN;
    r.alone_cold = rand() % 2 ? doctor_alone(&r.fresh_cold, r.machine.cores) : 0;
    r.warm_rate = r.known_warm.rate;
    r.alone_warm = doctor_alone(&r.known_warm, r.machine.cores);
    r.first_warm_rate = r.warm_rate * random_between(0.2, 1);
    r.first_cpu_s = r.fresh_cold.cpu_s;
    r.known_cpu_s = r.known_warm.cpu_s;
    r.others_cores = r.known_warm.cores.others;
    r.smaller_side = rand() % 2 ? 256 : 0;
    r.smaller_cpu_s = random_between(1e-7, 1e-1), r.smaller_first_cpu_s = r.smaller_cpu_s, r.smaller_share = random_between(0.01, 1);
    r.decoded_side = rand() % 2 ? 256 : 0;
    r.decoded_cpu_s = random_between(1e-7, 1e-1), r.decoded_first_cpu_s = r.decoded_cpu_s;
    return r;
}

static void keeps(double rate, double most, const struct doctor_row *row, const char *what)
{
    if (rate > most * 1.0001)
        fail_msg("%s: %g samples/s, and %s allows %g", row->change, rate, what, most);
}

static void keeps_all(const struct doctor_result *r, const struct doctor_row *row, double rate, bool is_first)
{
    double cpu = is_first ? row->first_cpu_s : row->later_cpu_s, bytes = is_first ? row->first_bytes : row->later_bytes;
    double largest = r->storage.point[0].bytes_per_s;
    for (int i = 0; i < r->storage.points; i++)
        largest = fmax(largest, r->storage.point[i].bytes_per_s);
    largest = fmax(largest, isfinite(r->cold_rate) ? r->cold_rate * r->first_bytes : 0);
    largest = fmax(largest, r->fresh_cold.rate * r->first_bytes);
    if (cpu > 0)
        keeps(rate, (row->kind == REMEDY_CORES ? fmax(2 * r->machine.cores, r->machine.online_cores) : r->machine.cores) / cpu, row,
              "the CPU");
    if (r->data.samples >= 64 && (is_first ? row->first_from_storage : row->later_from_storage))
        keeps(rate, largest / bytes, row, "storage");
    double seen =
        fmax(r->known_warm.rate * fmax(r->known_bytes, r->output_bytes), r->fresh_cold.rate * fmax(r->first_bytes, r->output_bytes));
    keeps(rate, fmax(seen, r->machine.copies_bytes_per_s) / fmax(bytes, r->output_bytes), row, "memory");
}

static void no_rate_is_above_a_limit_that_was_measured(void **state)
{
    (void)state;
    srand(11);
    for (int round = 0; round < 20000; round++) {
        struct doctor_result r = anything();
        struct doctor_request q = step(random_between(1e-4, 1));
        q.options.batch_size = 1 + (uint64_t)rand() % 2000;
        q.epochs = 1 + rand() % 50;
        doctor_predict(&q, &r);
        for (int i = 0; i < r.rows; i++) {
            const struct doctor_row *row = &r.row[i];
            keeps_all(&r, row, row->first_rate, true);
            keeps_all(&r, row, row->alone_first, true);
            keeps_all(&r, row, row->later_rate, false);
            keeps_all(&r, row, row->alone_later, false);
            assert_true(row->accelerator_ratio <= 1.0001 && row->accelerator_first <= 1 && row->accelerator_later <= 1);
            assert_true(!(row->alone_later < row->later_rate * 0.9999)); /* others do not help */
            assert_true(row->batch_seconds * 1.0001 >= fmin(q.step_seconds, row->batch_seconds));
        }
    }
}

/* The row of a decoded picture that a hasty measurement says costs nothing. */
static void a_demand_that_was_measured_as_nothing_does_not_make_a_rate_without_limit(void **state)
{
    (void)state;
    struct doctor_result r = photos(1500);
    struct doctor_request q = step(0.01);
    r.machine.copy_bytes_per_s = 8e9, r.machine.copies_bytes_per_s = 12e9;
    r.decoded_side = 256, r.decoded_cpu_s = r.decoded_first_cpu_s = 1e-9;
    doctor_predict(&q, &r);
    near(row_of(&r, REMEDY_DECODED)->later_rate, 12e9 / (256 * 256 * 3)); /* each has to be copied */
}

static void a_handful_of_files_says_nothing_about_bandwidth(void **state)
{
    (void)state;
    struct doctor_result r = photos(300);
    struct doctor_request q = step(0.01);
    r.samples = r.data.samples = 3;
    r.storage = (struct storage_probe){.points = 1, .open_s = NAN, .point = {{64, 15, 1.5e6, 0.07}}}; /* threads were only beginning */
    r.decoded_side = 256, r.decoded_cpu_s = r.decoded_first_cpu_s = 1e-4;
    doctor_predict(&q, &r);
    near(row_of(&r, REMEDY_DECODED)->first_rate, 40000);
    r.samples = r.data.samples = 1000;
    doctor_predict(&q, &r);
    near(row_of(&r, REMEDY_DECODED)->first_rate, 300 * 100e3 / (256 * 256 * 3)); /* the feeding itself had more than the probe */
}

static double later_of(struct doctor_result r, const struct doctor_request *q, enum remedy_kind kind, bool is_first)
{
    doctor_predict(q, &r);
    const struct doctor_row *row = row_of(&r, kind);
    return !row ? NAN : is_first ? row->first_rate : row->later_rate;
}

static void grows(double before, double after, const char *what, enum remedy_kind kind)
{
    if (before > after * 1.0001)
        fail_msg("remedy %d: %g samples/s, with more %s %g", (int)kind, before, what, after);
}

static void more_of_anything_is_never_slower(void **state)
{
    (void)state;
    static const enum remedy_kind kinds[] = {REMEDY_NONE, REMEDY_MEMORY, REMEDY_PACK, REMEDY_SMALLER, REMEDY_DECODED};
    srand(12);
    for (int round = 0; round < 5000; round++) {
        struct doctor_result r = anything(), deep = r, wide = r, quick = r;
        struct doctor_request q = step(0.1);
        for (int i = 0; i < deep.storage.points; i++)
            deep.storage.point[i].bytes_per_s *= 2, deep.storage.point[i].reads_per_s *= 2;
        wide.machine.copy_bytes_per_s *= 2, wide.machine.copies_bytes_per_s *= 2;
        quick.decoded_cpu_s /= 2, quick.decoded_first_cpu_s /= 2, quick.smaller_cpu_s /= 2, quick.smaller_first_cpu_s /= 2;
        for (int k = 0; k < 5; k++)
            for (int is_first = 0; is_first < 2; is_first++) {
                double now = later_of(r, &q, kinds[k], is_first);
                grows(now, later_of(deep, &q, kinds[k], is_first), "bandwidth of storage", kinds[k]);
                grows(now, later_of(wide, &q, kinds[k], is_first), "bandwidth of memory", kinds[k]);
                grows(now, later_of(quick, &q, kinds[k], is_first), "CPU to spare", kinds[k]);
            }
    }
}

static void a_longer_step_keeps_the_accelerator_busier(void **state)
{
    (void)state;
    srand(13);
    for (int round = 0; round < 2000; round++) {
        struct doctor_result r = anything(), other = r;
        struct doctor_request q = step(random_between(1e-4, 1)), longer = q;
        longer.step_seconds *= 1 + rand() / (double)RAND_MAX;
        doctor_predict(&q, &r);
        doctor_predict(&longer, &other);
        for (int i = 0; i < r.rows; i++)
            assert_true(other.row[i].accelerator_ratio >= r.row[i].accelerator_ratio * 0.9999 &&
                        other.row[i].run_seconds >= r.row[i].run_seconds * 0.9999);
    }
}

static void a_batch_larger_than_the_data_is_the_data(void **state)
{
    (void)state;
    struct doctor_result r = photos(1500);
    struct doctor_request q = step(0.01);
    r.samples = r.data.samples = 500;
    q.options.batch_size = 1024;
    doctor_predict(&q, &r);
    near(r.row[0].batch_seconds, 500 / 4000.0);
    near(r.row[0].epoch_seconds, 500 / 4000.0);
}

/* ---- cores ---- */

static void without_others_threads_have_the_cores_that_they_wanted(void **state)
{
    (void)state;
    struct doctor_run r = {.rate = 1000, .cpu_s = 1e-3, .cores = {1, 0.8, 0.9}};
    near(doctor_alone(&r, 4), 1800);
    r.cores.others = 0.5; /* they took no more than that: the rest is ourselves in our own way */
    near(doctor_alone(&r, 4), 1500);
    r.cores = (struct core_use){1, 3, 3};
    near(doctor_alone(&r, 2), 2000); /* there are no more */
    r.cores = (struct core_use){1, 0, 3};
    near(doctor_alone(&r, 4), 1000); /* storage was in the way, not they */
    r.cores = (struct core_use){0.5, 0.3, NAN};
    near(doctor_alone(&r, 4), 1000);
}

static void both_predictions_are_there_when_others_are_at_work(void **state)
{
    (void)state;
    struct doctor_result r = photos(1900);
    struct doctor_request q = step(0.02);
    r.warm_rate = 2000, r.alone_warm = 3800, r.others_cores = 2;
    doctor_predict(&q, &r);
    near(r.row[0].later_rate, 2000);
    near(r.row[0].alone_later, 3800);
    const struct doctor_row *pack = row_of(&r, REMEDY_PACK);
    near(pack->alone_later / pack->later_rate, 1.9);
    near(r.row[0].accelerator_later, 2000 / 12800.0); /* as the machine is now */
}

static void every_remedy_is_foretold_for_both_machines(void **state)
{
    (void)state;
    struct doctor_result r = photos(300);
    struct doctor_request q = step(0.02);
    r.warm_rate = 1000, r.alone_warm = 4000, r.alone_cold = 1990, r.others_cores = 3; /* alone, storage would not be in the way */
    doctor_predict(&q, &r);
    near(row_of(&r, REMEDY_MEMORY)->alone_first, 2000);
    near(row_of(&r, REMEDY_MEMORY)->alone_later, 4000);
    r.storage.cold_cpu_s = 0.0005 / 100e3; /* a quarter of what a sample costs at first: fetching its bytes */
    r.first_bytes = 100e3;
    doctor_predict(&q, &r);
    near(row_of(&r, REMEDY_MEMORY)->alone_first, 4 / 0.0015);
}

static const char *cores_wanted(int cores, int online, int threads, double others)
{
    static struct doctor_result r;
    struct doctor_request q = step(0.02);
    r = photos(1900);
    r.machine.cores = cores, r.machine.online_cores = online, r.machine.threads = threads, r.others_cores = others;
    doctor_predict(&q, &r);
    return row_of(&r, REMEDY_CORES)->change;
}

static void more_threads_are_for_cores_that_are_free_and_allowed(void **state)
{
    (void)state;
    assert_string_equal(cores_wanted(8, 8, 2, 0), "7 worker threads (now 2)"); /* one is left for the trainer */
    assert_string_equal(cores_wanted(8, 8, 2, 4.2), "4 worker threads (now 2)");
    assert_string_equal(cores_wanted(2, 2, 1, 0), "2 worker threads (now 1)");
    assert_string_equal(cores_wanted(2, 2, 1, 1.2), "a machine with 4 cores (now 2)"); /* taken */
    assert_string_equal(cores_wanted(2, 16, 2, 0), "all 16 cores of this machine (2 allowed)");
    assert_string_equal(cores_wanted(2, 2, 2, NAN), "a machine with 4 cores (now 2)");
    for (int cores = 1; cores < 40; cores++)
        for (int threads = 1; threads <= cores; threads++)
            for (double others = 0; others <= cores; others += 0.7) {
                const char *change = cores_wanted(cores, 40, threads, others);
                int wanted = strstr(change, "worker threads") ? atoi(change) : 0;
                assert_true(wanted <= cores && (!wanted || wanted <= fmax(1, cores - others + 0.51)));
            }
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
        cmocka_unit_test(no_rate_is_above_a_limit_that_was_measured),
        cmocka_unit_test(a_demand_that_was_measured_as_nothing_does_not_make_a_rate_without_limit),
        cmocka_unit_test(a_handful_of_files_says_nothing_about_bandwidth),
        cmocka_unit_test(more_of_anything_is_never_slower),
        cmocka_unit_test(a_longer_step_keeps_the_accelerator_busier),
        cmocka_unit_test(a_batch_larger_than_the_data_is_the_data),
        cmocka_unit_test(without_others_threads_have_the_cores_that_they_wanted),
        cmocka_unit_test(both_predictions_are_there_when_others_are_at_work),
        cmocka_unit_test(every_remedy_is_foretold_for_both_machines),
        cmocka_unit_test(more_threads_are_for_cores_that_are_free_and_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
