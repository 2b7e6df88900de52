/* From made-up snapshots to a verdict: what the rules promise. Times are shares of a second per second of wall time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/verdict.h"

static const struct run_facts facts = {.program = "python", .script = "train.py", .machine_cores = 8, .exit_code = NAN};

/* A row of one second in which nothing is known and nothing happened. */
static struct snapshot empty_row(double at_s)
{
    struct snapshot s;
    for (size_t i = 0; i < sizeof(s) / sizeof(double); i++)
        ((double *)&s)[i] = NAN;
    memset(s.role, 0, sizeof(s.role));
    s.at_s = at_s, s.wall_s = 1, s.ticks = 20, s.calls_known = 1, s.cores = 8, s.cpu_ratio = 0.2, s.code_bytes = 1e8, s.rss_bytes = 1e9;
    s.startup_ns = s.pause_ns = s.loader_births = s.loader_deaths = 0;
    s.read_chars = s.read_calls = s.read_bytes = s.write_bytes = s.major_faults = s.minor_faults = 0;
    s.file_kind = FILE_SSD, s.memory_total_bytes = 64e9, s.memory_used_bytes = 8e9;
    return s;
}

static void spend(struct role_figures *f, double cpu, enum wait_kind a, double share_a, enum wait_kind b, double share_b, double threads)
{
    f->threads = threads;
    f->wall_ns = threads * 1e9;
    f->cpu_ns = cpu * threads * 1e9;
    f->off_ns[a] += share_a * threads * 1e9;
    f->off_ns[b] += share_b * threads * 1e9;
    f->active_ns = fmin(1, cpu * threads) * 1e9;
}

/* The consumer waits `starved` of the time at a pipe and else sleeps in its step; workers do what `cpu` and `kind` say. */
static struct snapshot loader_row(double at_s, double starved, double cpu, enum wait_kind kind, double workers)
{
    struct snapshot s = empty_row(at_s);
    spend(&s.role[ROLE_CONSUMER], 0.02, WAIT_PIPE, starved, WAIT_SLEEP, 0.98 - starved, 1);
    spend(&s.role[ROLE_LOADER], cpu, kind, 0.98 - cpu, WAIT_PIPE, 0.02, workers);
    s.role[ROLE_LOADER].processes = workers;
    s.role[ROLE_CONSUMER].processes = 1;
    return s;
}

static struct series ten(struct snapshot row)
{
    struct series s = {0};
    for (int i = 0; i < 10; i++) {
        row.at_s = i + 1;
        assert_int_equal(series_add(&s, &row), 0);
    }
    return s;
}

static struct verdict judge(struct snapshot row)
{
    struct series s = ten(row);
    struct verdict v;
    diagnose(&s, &facts, &v);
    series_free(&s);
    return v;
}

static void assert_kind(const struct verdict *v, enum verdict_kind kind)
{
    if (v->kind != kind)
        fail_msg("the verdict is '%s' and should be '%s' (%s)", verdict_name(v->kind), verdict_name(kind),
                 v->evidences ? v->evidence[0] : "");
}

static void near(double value, double wanted)
{
    if (!(fabs(value - wanted) < 0.03 * fmax(1, fabs(wanted))))
        fail_msg("%g is not near %g", value, wanted);
}

static void busy_workers_are_a_matter_of_cpu_and_more_of_them_help(void **state)
{
    (void)state;
    struct verdict v = judge(loader_row(0, 0.6, 0.96, WAIT_FILE, 2));
    assert_kind(&v, VERDICT_CPU);
    near(v.starved_ratio, 0.6);
    near(v.gain_bound, 2.5);
    assert_true(v.remedies > 0);
    assert_non_null(strstr(v.remedy[0].change, "(now 2)"));
    near(v.remedy[0].predicted_gain, 2.5);
}

static void workers_that_wait_for_small_reads_are_disk_latency(void **state)
{
    (void)state;
    struct snapshot row = loader_row(0, 0.75, 0.05, WAIT_FILE, 2);
    row.disk_reads = 150, row.disk_read_bytes = 150 * 12e3, row.disk_read_s = 1.5, row.disk_queue_s = 1.5, row.disk_busy_s = 1;
    row.read_bytes = 150 * 12e3;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_DISK_LATENCY);
    near(v.gain_bound, 4);
}

static void large_reads_at_the_limit_of_the_group_are_disk_bandwidth(void **state)
{
    (void)state;
    struct snapshot row = loader_row(0, 0.9, 0.05, WAIT_FILE, 2);
    row.read_bytes = 24e6, row.disk_cap_bytes = 25e6;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_DISK_BANDWIDTH);
    row.disk_cap_bytes = NAN, row.read_bytes = 400e6, row.disk_reads = 800, row.disk_read_bytes = 400e6, row.disk_read_s = 8,
    row.disk_queue_s = 8;
    v = judge(row);
    assert_kind(&v, VERDICT_DISK_BANDWIDTH);
}

static void a_disk_that_is_always_busy_is_no_evidence_by_itself(void **state)
{
    (void)state;
    struct snapshot row = loader_row(0, 0.01, 0.3, WAIT_PIPE, 2);
    row.disk_busy_s = 1, row.disk_reads = 100, row.disk_read_bytes = 1e6, row.disk_read_s = 1, row.disk_queue_s = 1, row.psi_io = 0.9;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_COMPUTE);
    assert_int_equal(v.remedies, 0);
    near(v.gain_bound, 1);
}

static void an_idle_io_uring_thread_accuses_nobody(void **state)
{
    (void)state;
    struct snapshot row = empty_row(0);
    spend(&row.role[ROLE_CONSUMER], 0.97, WAIT_SLEEP, 0.03, WAIT_SLEEP, 0, 1);
    spend(&row.role[ROLE_COMPUTE], 0, WAIT_URING, 1, WAIT_SLEEP, 0, 1);
    row.psi_io = 0.99;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_COMPUTE);
}

static void a_quota_that_stops_the_program_is_named(void **state)
{
    (void)state;
    struct snapshot row = loader_row(0, 0.7, 0.24, WAIT_PIPE, 2);
    row.role[ROLE_LOADER].delay_ns = 1e9;
    row.quota_cores = 0.5, row.throttled_s = 0.5;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_CPU_QUOTA);
    row.throttled_s = 0;
    v = judge(row);
    assert_kind(&v, VERDICT_CPU);
}

static void sockets_and_remote_files_are_network(void **state)
{
    (void)state;
    struct verdict v = judge(loader_row(0, 0.9, 0.02, WAIT_NETWORK, 2));
    assert_kind(&v, VERDICT_NETWORK_LATENCY);
    v = judge(loader_row(0, 0.9, 0.02, WAIT_REMOTE_FILE, 2));
    assert_kind(&v, VERDICT_NETWORK_LATENCY);
    struct snapshot row = loader_row(0, 0.9, 0.02, WAIT_NETWORK, 2);
    row.net_in_bytes = 110e6, row.net_cap_bytes = 125e6;
    v = judge(row);
    assert_kind(&v, VERDICT_NETWORK_BANDWIDTH);
}

static void page_faults_are_thrash_only_when_memory_is_tight(void **state)
{
    (void)state;
    struct snapshot row = loader_row(0, 0.8, 0.05, WAIT_FAULT, 2);
    row.major_faults = 500;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_DISK_LATENCY);
    row.memory_limit_bytes = 1e9, row.memory_group_bytes = 0.99e9, row.refaults = 5000;
    v = judge(row);
    assert_kind(&v, VERDICT_MEMORY_THRASH);
    row = empty_row(0); /* pages come back quickly, but the kernel is busy with them */
    spend(&row.role[ROLE_CONSUMER], 0.9, WAIT_FAULT, 0.02, WAIT_SLEEP, 0.08, 1);
    row.consumer_system_ns = 0.8e9, row.loader_system_ns = 0, row.major_faults = 500;
    row.memory_limit_bytes = 1e9, row.memory_group_bytes = 0.99e9, row.refaults = 5000;
    v = judge(row);
    assert_kind(&v, VERDICT_MEMORY_THRASH);
    near(v.starved_ratio, 0.82);
}

static void threads_that_take_turns_are_a_serial_section(void **state)
{
    (void)state;
    struct snapshot row = empty_row(0);
    spend(&row.role[ROLE_CONSUMER], 0.02, WAIT_LOCK, 0.6, WAIT_SLEEP, 0.38, 1);
    spend(&row.role[ROLE_LOADER], 0.25, WAIT_LOCK, 0.75, WAIT_PIPE, 0, 4);
    row.role[ROLE_LOADER].lock_ns = row.role[ROLE_LOADER].off_ns[WAIT_LOCK];
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_SERIAL);
    row.role[ROLE_LOADER].lock_ns = 0; /* only idle helpers waited */
    v = judge(row);
    assert_kind(&v, VERDICT_CPU);
}

static void restarts_of_workers_are_a_pause(void **state)
{
    (void)state;
    struct snapshot row = loader_row(0, 0.5, 0.05, WAIT_PIPE, 2);
    row.pause_ns = 0.5e9, row.loader_births = 1;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_PAUSE);
    assert_non_null(strstr(v.remedy[0].change, "persistent_workers=True"));
    near(v.remedy[0].predicted_gain, 2);
}

static void writing_checkpoints_is_a_pause(void **state)
{
    (void)state;
    struct snapshot row = loader_row(0, 0.02, 0.3, WAIT_PIPE, 2);
    row.role[ROLE_CONSUMER].off_ns[WAIT_SLEEP] -= 0.25e9;
    row.role[ROLE_CONSUMER].off_ns[WAIT_WRITE] += 0.25e9;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_PAUSE);
    assert_non_null(strstr(v.remedy[0].change, "checkpoints"));
    near(v.remedy[0].predicted_gain, 1.33);
}

static void the_accelerators_figures_come_first(void **state)
{
    (void)state;
    struct snapshot row = loader_row(0, 0.6, 0.9, WAIT_FILE, 2);
    row.gpu_ratio = 0.97, row.gpu_low_ratio = 0.95, row.gpu_high_ratio = 1;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_COMPUTE); /* the consumer waits for the device, whatever lock it sits in */
    row.gpu_ratio = 0.28, row.gpu_low_ratio = 0, row.gpu_high_ratio = 1;
    v = judge(row);
    assert_kind(&v, VERDICT_CPU);
    assert_true(v.has_swings);
    near(v.gpu_p50, 0.28);
}

static void a_busy_host_with_an_idle_device_is_host_bound_and_a_full_link_is_transfer(void **state)
{
    (void)state;
    struct snapshot row = empty_row(0);
    spend(&row.role[ROLE_CONSUMER], 0.97, WAIT_SLEEP, 0.03, WAIT_SLEEP, 0, 1);
    row.gpu_ratio = 0.12, row.gpu_low_ratio = 0.1, row.gpu_high_ratio = 0.15;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_HOST);
    row.pcie_in_bytes = 25e9, row.pcie_cap_bytes = 31.5e9;
    v = judge(row);
    assert_kind(&v, VERDICT_TRANSFER);
}

static void without_figures_of_a_device_nothing_is_said_about_it(void **state)
{
    (void)state;
    struct verdict v = judge(loader_row(0, 0.6, 0.96, WAIT_FILE, 2));
    assert_true(isnan(v.gpu_p50));
    for (int i = 0; i < v.evidences; i++)
        assert_null(strstr(v.evidence[i], "accelerator"));
}

static void system_calls_that_cannot_be_read_make_it_unknown(void **state)
{
    (void)state;
    struct snapshot row = empty_row(0);
    spend(&row.role[ROLE_CONSUMER], 0.1, WAIT_UNKNOWN, 0.9, WAIT_SLEEP, 0, 1);
    row.calls_known = 0;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_UNKNOWN);
    assert_true(isnan(v.starved_ratio) && isnan(v.gain_bound));
}

static void reading_and_computing_in_one_thread_is_not_judged_without_a_sign_of_a_step(void **state)
{
    (void)state;
    struct snapshot row = empty_row(0);
    spend(&row.role[ROLE_CONSUMER], 1, WAIT_SLEEP, 0, WAIT_SLEEP, 0, 1);
    row.role[ROLE_CONSUMER].read_cpu_ns = 1e9;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_UNKNOWN);
    memset(&row.role[ROLE_CONSUMER], 0, sizeof(row.role[ROLE_CONSUMER]));
    spend(&row.role[ROLE_CONSUMER], 0.6, WAIT_SLEEP, 0.4, WAIT_SLEEP, 0, 1);
    row.role[ROLE_CONSUMER].read_cpu_ns = 0.6e9;
    v = judge(row);
    assert_kind(&v, VERDICT_CPU);
    near(v.starved_ratio, 0.6);
}

static void warm_up_is_left_out(void **state)
{
    (void)state;
    struct series s = {0};
    struct verdict v;
    for (int i = 0; i < 20; i++) {
        struct snapshot row = i < 8 ? empty_row(i + 1) : loader_row(i + 1, 0.02, 0.3, WAIT_PIPE, 2);
        if (i < 8) { /* imports: reads and computes, libraries still come */
            spend(&row.role[ROLE_CONSUMER], 0.5, WAIT_FILE, 0.5, WAIT_SLEEP, 0, 1);
            row.code_bytes = 1e7 * i;
        }
        assert_int_equal(series_add(&s, &row), 0);
    }
    diagnose(&s, &facts, &v);
    assert_kind(&v, VERDICT_COMPUTE);
    assert_true(v.warmup_s >= 8);
    series_free(&s);
}

static void a_run_that_never_got_going_is_start_up(void **state)
{
    (void)state;
    struct series s = {0};
    struct verdict v;
    diagnose(&s, &facts, &v);
    assert_kind(&v, VERDICT_STARTUP);
    struct snapshot row = loader_row(1, 0.9, 0.1, WAIT_FILE, 2);
    row.startup_ns = 1e9;
    for (int i = 0; i < 5; i++)
        series_add(&s, &row);
    diagnose(&s, &facts, &v);
    assert_kind(&v, VERDICT_STARTUP);
    series_free(&s);
}

static void remedies_are_ranked_and_never_promise_more_than_the_bound(void **state)
{
    (void)state;
    struct snapshot row = loader_row(0, 0.3, 0.05, WAIT_FILE, 2);
    row.disk_reads = 150, row.disk_read_bytes = 150 * 12e3, row.disk_read_s = 1, row.disk_queue_s = 1;
    struct verdict v = judge(row);
    assert_true(v.remedies >= 2);
    for (int i = 0; i < v.remedies; i++)
        assert_true(isnan(v.remedy[i].predicted_gain) || v.remedy[i].predicted_gain <= v.gain_bound + 1e-9);
    for (int i = 1; i < v.remedies; i++)
        assert_true(!(v.remedy[i].predicted_gain > v.remedy[i - 1].predicted_gain));
}

static void bands_are_those_of_the_analyser_people_know(void **state)
{
    (void)state;
    assert_string_equal(verdict_band(0.049), "none");
    assert_string_equal(verdict_band(0.05), "moderate");
    assert_string_equal(verdict_band(0.2), "high");
}

static void a_series_never_grows_beyond_its_size_and_keeps_its_sums(void **state)
{
    (void)state;
    struct series s = {0};
    double cpu = 0, wall = 0;
    for (int i = 0; i < 3 * SERIES_MOST; i++) {
        struct snapshot row = loader_row(i + 1, 0.5, 0.5, WAIT_FILE, 2);
        assert_int_equal(series_add(&s, &row), 0);
    }
    assert_true(s.count <= SERIES_MOST);
    for (int i = 0; i < s.count; i++)
        cpu += s.row[i].role[ROLE_LOADER].cpu_ns, wall += s.row[i].wall_s;
    near(cpu / 1e9 / wall, 1);
    near(wall / (3.0 * SERIES_MOST), 1);
    series_free(&s);
}

/* A loop without loaders whose thread only sleeps and computes, as far as can be seen. */
static struct snapshot telling_row(double wait, double wait_cpu)
{
    struct snapshot s = empty_row(0);
    spend(&s.role[ROLE_CONSUMER], wait_cpu + 0.1, WAIT_SLEEP, 0.9 - wait_cpu, WAIT_LOCK, 0, 1);
    s.role[ROLE_CONSUMER].processes = 1;
    s.loop_wall_ns = 1e9, s.loop_wait_ns = wait * 1e9, s.loop_wait_cpu_ns = wait_cpu * 1e9, s.loop_batches = 20, s.loop_epochs = 0;
    return s;
}

static void a_loop_that_tells_is_believed(void **state)
{
    (void)state;
    struct verdict v = judge(telling_row(0.5, 0.48)); /* its CPU inside next() is loading, whatever it looks like from outside */
    assert_kind(&v, VERDICT_CPU);
    near(v.starved_ratio, 0.5);
    v = judge(telling_row(0.01, 0.005));
    assert_kind(&v, VERDICT_COMPUTE);
    v = judge(telling_row(0.6, 0.01)); /* sleeps inside next(): starved, and nobody can see why */
    assert_kind(&v, VERDICT_UNKNOWN);
    near(v.starved_ratio, 0.6);
    near(v.gain_bound, 2.5);
    assert_non_null(strstr(v.evidence[v.evidences - 1], "inside next()"));
}

static void the_steps_of_a_loop_are_its_intervals_in_words_and_in_json(void **state)
{
    (void)state;
    struct snapshot s = telling_row(0.1, 0);
    s.loop_batches = 10, s.loop_steps = 9, s.loop_step_ns = 9 * 110.6e6, s.loop_wall_ns = s.loop_step_ns + 17e6;
    struct verdict v = judge(s);
    assert_non_null(strstr(v.evidence[0], " batches, 110.60 ms from one to the next"));
    struct text t = {.limit = 1 << 16};
    verdict_json(&v, &facts, &(struct series){.row = &s, .count = 1}, &(struct json_writer){.out = &t});
    assert_non_null(strstr(t.data, "\"loop\":{\"epochs\":0,\"batches\":10,"));
    assert_non_null(strstr(t.data, "\"step_mean_seconds\":0.1106,"));
    text_free(&t);
    s = empty_row(0);
    verdict_json(&v, &facts, &(struct series){.row = &s, .count = 1}, &(struct json_writer){.out = &t});
    assert_non_null(strstr(t.data, "\"loop\":null"));
    text_free(&t);
}

static void a_loop_that_tells_splits_its_waits_as_they_were_seen(void **state)
{
    (void)state;
    struct snapshot s = loader_row(0, 0.5, 0.05, WAIT_FILE, 2);
    s.disk_reads = 100, s.disk_read_bytes = 100 * 8192;
    s.loop_wall_ns = 1e9, s.loop_wait_ns = 0.3e9, s.loop_wait_cpu_ns = 0, s.loop_batches = 20;
    struct verdict v = judge(s); /* pipes were seen half of the time, but only 0.3 of it inside next() */
    assert_kind(&v, VERDICT_DISK_LATENCY);
    near(v.starved_ratio, 0.3);
}

static void a_loaders_own_figures_are_judged_as_a_whole(void **state)
{
    (void)state;
    struct snapshot s = empty_row(10);
    struct run_facts own = facts;
    struct verdict v;
    own.is_engine = own.uses_fullbore = 1;
    s.wall_s = 10;
    s.role[ROLE_CONSUMER].wall_ns = 10e9, s.role[ROLE_CONSUMER].off_ns[WAIT_LOCK] = 6e9, s.role[ROLE_CONSUMER].off_ns[WAIT_SLEEP] = 4e9;
    s.role[ROLE_LOADER].wall_ns = 20e9, s.role[ROLE_LOADER].cpu_ns = 19e9, s.role[ROLE_LOADER].off_ns[WAIT_FILE] = 1e9;
    diagnose_whole(&s, &own, &v);
    assert_kind(&v, VERDICT_CPU);
    near(v.starved_ratio, 0.6);
    assert_non_null(strstr(v.remedy[0].change, "threads="));
    for (int i = 0; i < v.remedies; i++)
        assert_null(strstr(v.remedy[i].change, "num_workers"));
}

/* A loader whose batch_map= takes 6 s of 10: more threads would change nothing. */
static void what_next_does_by_itself_is_no_lack_of_threads(void **state)
{
    (void)state;
    struct snapshot s = empty_row(10);
    struct run_facts own = facts;
    struct verdict v;
    own.is_engine = own.uses_fullbore = 1;
    s.wall_s = 10;
    s.role[ROLE_CONSUMER].wall_ns = 10e9, s.role[ROLE_CONSUMER].cpu_ns = 6e9, s.role[ROLE_CONSUMER].off_ns[WAIT_SLEEP] = 4e9;
    s.role[ROLE_LOADER].wall_ns = 20e9, s.role[ROLE_LOADER].cpu_ns = 1e9, s.role[ROLE_LOADER].off_ns[WAIT_SLEEP] = 19e9;
    s.loop_wall_ns = 10e9, s.loop_wait_ns = s.loop_wait_cpu_ns = 6e9, s.loop_batches = 100;
    diagnose_whole(&s, &own, &v);
    assert_kind(&v, VERDICT_CPU);
    near(v.starved_ratio, 0.6);
    assert_int_equal(v.remedies, 1);
    assert_non_null(strstr(v.remedy[0].change, "batch_map="));
    near(v.remedy[0].predicted_gain, 1 / 0.6);
}

static void what_pillow_costs_is_claimed_only_where_pillow_is(void **state)
{
    (void)state;
    struct series s = ten(loader_row(0, 0.5, 0.95, WAIT_FILE, 2));
    struct run_facts with = facts;
    struct verdict v;
    diagnose(&s, &facts, &v);
    for (int i = 0; i < v.remedies; i++)
        assert_null(strstr(v.remedy[i].change, "Pillow"));
    with.uses_pillow = 1;
    diagnose(&s, &with, &v);
    bool is_named = false;
    for (int i = 0; i < v.remedies; i++)
        is_named |= strstr(v.remedy[i].change, "Pillow") != NULL;
    assert_true(is_named);
    series_free(&s);
}

static void halving_the_work_of_a_loop_that_loads_by_itself_leaves_it_in_the_loop(void **state)
{
    (void)state;
    struct verdict v = judge(telling_row(0.6, 0.6)); /* 0.4 of step, 0.6 of loading, one after the other */
    assert_kind(&v, VERDICT_CPU);
    for (int i = 0; i < v.remedies; i++)
        if (strstr(v.remedy[i].change, "halve"))
            near(v.remedy[i].predicted_gain, 1 / 0.7);
        else if (strstr(v.remedy[i].change, "num_workers"))
            near(v.remedy[i].predicted_gain, 1 / 0.4); /* seven cores: beside the step, and faster than it */
}

static void a_quota_stops_the_loop_itself_too(void **state)
{
    (void)state;
    struct snapshot s = loader_row(0, 0.5, 0.2, WAIT_SLEEP, 2);
    s.role[ROLE_CONSUMER].off_ns[WAIT_SLEEP] = 0.08e9;
    s.role[ROLE_CONSUMER].delay_ns = 0.4e9;
    s.quota_cores = 0.5, s.throttled_s = 0.5;
    struct verdict v = judge(s);
    assert_kind(&v, VERDICT_CPU_QUOTA);
    near(v.lost_ratio, 0.9);
    assert_true(v.remedy[0].predicted_gain > 5);
}

static void the_end_of_the_loaders_is_no_pause(void **state)
{
    (void)state;
    struct series s = ten(loader_row(0, 0.5, 0.05, WAIT_FILE, 2));
    struct snapshot end = loader_row(11, 0.5, 0.05, WAIT_FILE, 2), gone = empty_row(12);
    struct verdict v;
    end.loader_deaths = 1, end.pause_ns = 0.9e9;
    spend(&gone.role[ROLE_CONSUMER], 0.5, WAIT_SLEEP, 0.5, WAIT_LOCK, 0, 1);
    gone.loader_deaths = 1, gone.pause_ns = 1e9;
    assert_int_equal(series_add(&s, &end) + series_add(&s, &gone), 0);
    diagnose(&s, &facts, &v);
    near(v.lost_ratio, v.starved_ratio);
    series_free(&s);
}

static void more_loaders_never_promise_more_than_the_cores_give(void **state)
{
    (void)state;
    struct snapshot s = loader_row(0, 0.7, 0.95, WAIT_FILE, 1);
    s.cores = 2;
    s.role[ROLE_CONSUMER].cpu_ns = 0.3e9; /* unpacks what came: that doubles, too */
    struct verdict v = judge(s);
    assert_kind(&v, VERDICT_CPU);
    for (int i = 0; i < v.remedies; i++)
        if (strstr(v.remedy[i].change, "num_workers"))
            near(v.remedy[i].predicted_gain, 2 / 1.25);
}

/* ---- the sampled Python stack ---- */

/* A main thread without loaders that reads and computes, all of it on the CPU: from outside it cannot be told what is what. */
static struct snapshot lonely_row(void)
{
    struct snapshot s = empty_row(0);
    spend(&s.role[ROLE_CONSUMER], 1, WAIT_FILE, 0, WAIT_FILE, 0, 1);
    s.role[ROLE_CONSUMER].processes = 1;
    s.role[ROLE_CONSUMER].read_cpu_ns = 0.9e9;
    return s;
}

static void see(struct snapshot *s, enum activity a, double cpu, enum wait_kind kind, double off)
{
    if (isnan(s->stack_known))
        memset(s->doing, 0, sizeof(s->doing));
    s->stack_known = 1;
    s->validation_ns = 0;
    s->doing[a].cpu_ns += cpu * 1e9;
    s->doing[a].delay_ns = 0;
    s->doing[a].off_ns[kind] += off * 1e9;
}

static void a_stack_tells_loading_from_the_step_in_one_thread(void **state)
{
    (void)state;
    struct snapshot row = lonely_row();
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_UNKNOWN);
    see(&row, ACTIVITY_LOADING, 0.6, WAIT_FILE, 0);
    see(&row, ACTIVITY_STEP, 0.3, WAIT_FILE, 0);
    see(&row, ACTIVITY_OTHER, 0.1, WAIT_FILE, 0);
    v = judge(row);
    assert_kind(&v, VERDICT_CPU);
    near(v.starved_ratio, 0.6);
    near(v.loading_ratio, 0.6);
    near(v.step_ratio, 0.3);
    assert_true(v.remedies > 0);
}

static void what_a_step_waits_for_is_no_data(void **state)
{
    (void)state;
    struct snapshot row = loader_row(0, 0.4, 0.3, WAIT_FILE, 2);
    struct verdict v = judge(row);
    near(v.starved_ratio, 0.4);
    see(&row, ACTIVITY_STEP, 0.02, WAIT_PIPE, 0.4); /* a collective over a local socket */
    see(&row, ACTIVITY_STEP, 0, WAIT_SLEEP, 0.58);
    v = judge(row);
    assert_kind(&v, VERDICT_COMPUTE);
    assert_true(v.starved_ratio < 0.01);
}

static void waits_inside_loading_keep_their_kinds(void **state)
{
    (void)state;
    struct snapshot row = lonely_row();
    see(&row, ACTIVITY_LOADING, 0.1, WAIT_FILE, 0.5);
    see(&row, ACTIVITY_STEP, 0.4, WAIT_FILE, 0);
    row.disk_reads = 150, row.disk_read_bytes = 150 * 12e3, row.disk_read_s = 0.5, row.disk_queue_s = 0.5, row.read_bytes = 150 * 12e3;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_DISK_LATENCY);
    near(v.starved_ratio, 0.6);
}

static void a_hidden_wait_inside_loading_is_counted_and_can_be_taken_away(void **state)
{
    (void)state;
    struct snapshot row = lonely_row();
    see(&row, ACTIVITY_LOADING, 0, WAIT_SLEEP, 0.6);
    see(&row, ACTIVITY_STEP, 0.4, WAIT_FILE, 0);
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_UNKNOWN);
    near(v.starved_ratio, 0.6);
    near(v.remedy[0].predicted_gain, 2.5);
    assert_non_null(strstr(v.remedy[0].change, "num_workers=2"));
}

static void saving_counts_with_its_cpu_time(void **state)
{
    (void)state;
    struct snapshot row = lonely_row();
    row.write_bytes = 3e8;
    see(&row, ACTIVITY_SAVING, 0.2, WAIT_WRITE, 0.1);
    see(&row, ACTIVITY_STEP, 0.7, WAIT_FILE, 0);
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_PAUSE);
    near(v.lost_ratio, 0.3);
    near(v.saving_ratio, 0.3);
}

/* Six of a hundred looks may be chance, six hundred of ten thousand are not. */
static void a_small_share_of_few_looks_accuses_nobody(void **state)
{
    (void)state;
    struct snapshot row = lonely_row();
    see(&row, ACTIVITY_LOADING, 0.06, WAIT_FILE, 0);
    see(&row, ACTIVITY_STEP, 0.94, WAIT_FILE, 0);
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_COMPUTE);
    near(v.starved_ratio, 0.06);
    row.ticks = 2000;
    v = judge(row);
    assert_kind(&v, VERDICT_CPU);
}

static void a_loop_that_tells_comes_before_its_stack(void **state)
{
    (void)state;
    struct snapshot row = lonely_row();
    row.loop_wall_ns = 1e9, row.loop_wait_ns = 0.2e9, row.loop_wait_cpu_ns = 0.2e9, row.loop_batches = 10, row.loop_epochs = 0;
    see(&row, ACTIVITY_LOADING, 0.6, WAIT_FILE, 0);
    see(&row, ACTIVITY_STEP, 0.4, WAIT_FILE, 0);
    near(judge(row).starved_ratio, 0.2);
}

static void too_few_known_looks_prove_nothing(void **state)
{
    (void)state;
    struct snapshot row = lonely_row();
    see(&row, ACTIVITY_LOADING, 0.9, WAIT_FILE, 0);
    see(&row, ACTIVITY_STEP, 0.1, WAIT_FILE, 0);
    row.stack_known = 0.5;
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_UNKNOWN);
    assert_true(isnan(v.loading_ratio));
}

/* Nothing on the stack says loading or step: then the rules from outside hold, and what they cannot tell stays open. */
static void a_stack_that_says_nothing_changes_nothing(void **state)
{
    (void)state;
    struct snapshot row = lonely_row();
    see(&row, ACTIVITY_OTHER, 1, WAIT_FILE, 0);
    struct verdict v = judge(row);
    assert_kind(&v, VERDICT_UNKNOWN);
    row = loader_row(0, 0.6, 0.96, WAIT_FILE, 2);
    see(&row, ACTIVITY_OTHER, 0.02, WAIT_PIPE, 0.6);
    see(&row, ACTIVITY_OTHER, 0, WAIT_SLEEP, 0.38);
    v = judge(row);
    assert_kind(&v, VERDICT_CPU);
    near(v.starved_ratio, 0.6);
}

static void the_json_has_its_keys_and_null_for_what_is_unknown(void **state)
{
    (void)state;
    struct series s = ten(loader_row(0, 0.6, 0.96, WAIT_FILE, 2));
    struct verdict v;
    struct text t = {.limit = 1 << 20};
    diagnose(&s, &facts, &v);
    verdict_json(&v, &facts, &s, &(struct json_writer){.out = &t});
    static const char *const keys[] = {
        "\"verdict\":\"data-bound: cpu\"", "\"starved_ratio\":",  "\"gain_bound\":", "\"evidence\":[",
        "\"remedies\":[{\"change\":",      "\"predicted_gain\":", "\"series\":{",    "\"gpu_ratio_p50\":null",
        "\"script\":\"train.py\""};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (!strstr(t.data, keys[i]))
            fail_msg("%s is missing in %s", keys[i], t.data);
    assert_null(strstr(t.data, "nan"));
    text_free(&t);
    series_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_workers_are_a_matter_of_cpu_and_more_of_them_help),
        cmocka_unit_test(workers_that_wait_for_small_reads_are_disk_latency),
        cmocka_unit_test(large_reads_at_the_limit_of_the_group_are_disk_bandwidth),
        cmocka_unit_test(a_disk_that_is_always_busy_is_no_evidence_by_itself),
        cmocka_unit_test(an_idle_io_uring_thread_accuses_nobody),
        cmocka_unit_test(a_quota_that_stops_the_program_is_named),
        cmocka_unit_test(sockets_and_remote_files_are_network),
        cmocka_unit_test(page_faults_are_thrash_only_when_memory_is_tight),
        cmocka_unit_test(threads_that_take_turns_are_a_serial_section),
        cmocka_unit_test(restarts_of_workers_are_a_pause),
        cmocka_unit_test(writing_checkpoints_is_a_pause),
        cmocka_unit_test(the_accelerators_figures_come_first),
        cmocka_unit_test(a_busy_host_with_an_idle_device_is_host_bound_and_a_full_link_is_transfer),
        cmocka_unit_test(without_figures_of_a_device_nothing_is_said_about_it),
        cmocka_unit_test(system_calls_that_cannot_be_read_make_it_unknown),
        cmocka_unit_test(reading_and_computing_in_one_thread_is_not_judged_without_a_sign_of_a_step),
        cmocka_unit_test(warm_up_is_left_out),
        cmocka_unit_test(a_run_that_never_got_going_is_start_up),
        cmocka_unit_test(remedies_are_ranked_and_never_promise_more_than_the_bound),
        cmocka_unit_test(bands_are_those_of_the_analyser_people_know),
        cmocka_unit_test(a_series_never_grows_beyond_its_size_and_keeps_its_sums),
        cmocka_unit_test(a_loop_that_tells_is_believed),
        cmocka_unit_test(the_steps_of_a_loop_are_its_intervals_in_words_and_in_json),
        cmocka_unit_test(a_loop_that_tells_splits_its_waits_as_they_were_seen),
        cmocka_unit_test(a_loaders_own_figures_are_judged_as_a_whole),
        cmocka_unit_test(what_next_does_by_itself_is_no_lack_of_threads),
        cmocka_unit_test(what_pillow_costs_is_claimed_only_where_pillow_is),
        cmocka_unit_test(halving_the_work_of_a_loop_that_loads_by_itself_leaves_it_in_the_loop),
        cmocka_unit_test(a_quota_stops_the_loop_itself_too),
        cmocka_unit_test(the_end_of_the_loaders_is_no_pause),
        cmocka_unit_test(more_loaders_never_promise_more_than_the_cores_give),
        cmocka_unit_test(a_stack_tells_loading_from_the_step_in_one_thread),
        cmocka_unit_test(what_a_step_waits_for_is_no_data),
        cmocka_unit_test(waits_inside_loading_keep_their_kinds),
        cmocka_unit_test(a_hidden_wait_inside_loading_is_counted_and_can_be_taken_away),
        cmocka_unit_test(saving_counts_with_its_cpu_time),
        cmocka_unit_test(a_small_share_of_few_looks_accuses_nobody),
        cmocka_unit_test(a_loop_that_tells_comes_before_its_stack),
        cmocka_unit_test(too_few_known_looks_prove_nothing),
        cmocka_unit_test(a_stack_that_says_nothing_changes_nothing),
        cmocka_unit_test(the_json_has_its_keys_and_null_for_what_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
