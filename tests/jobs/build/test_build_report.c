/* What a build says about itself, from made-up figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "jobs/build_report.h"

static const struct build_request plain = {.output = "a.h5", .dtype = FB_FLOAT32};

/* Ten seconds on all cores in which threads did nothing but these, each share alone, and an end. */
static struct build_result result(double read, double compute, double compress, double write, double end)
{
    const double part[BUILD_STAGES] = {read, compute, compress, write};
    struct build_result r = {.files = 1000, .rows = 1000, .threads = (uint32_t)host_cores(), .seconds = 10 + end, .finish_seconds = end};
    r.split[0] = (struct build_figures){.files = 1000, .rows = 1000, .batches = 10, .batch_seconds = 10, .batch_most = 2};
    r.depth_mean = 100;
    for (int i = 0; i < BUILD_STAGES; i++) {
        r.split[0].seconds[i] = 10 * part[i] * r.threads;
        r.wall_of[1 << i] = 10 * part[i];
        r.wall_of[0] += part[i];
    }
    r.wall_of[0] = 10 * (1 - r.wall_of[0]);
    return r;
}

/* The report, until the next one is asked for. */
static const char *words(const struct build_result *r, const struct build_request *q)
{
    static struct text t;
    text_free(&t);
    t = (struct text){.limit = 1 << 20};
    build_report_text(r, q, &t);
    assert_non_null(t.data);
    return t.data;
}

static const char *line_of(const char *report, const char *begin)
{
    static char line[400];
    for (const char *at = report; at && *at; at = strchr(at, '\n'), at += at ? 1 : 0)
        if (strncmp(at, begin, strlen(begin)) == 0) {
            snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
            return line;
        }
    fail_msg("no line '%s' in:\n%s", begin, report);
    return NULL;
}

static void no_share_is_over_a_hundred(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 300; round++) {
        struct build_result r = {.files = 10,
                                 .rows = 10,
                                 .threads = 1 + (uint32_t)rand() % 9,
                                 .writers = (uint32_t)rand() % 3,
                                 .finish_seconds = rand() % 3,
                                 .splits = 3};
        double now = 0;
        for (int i = 0; i < 1 << BUILD_STAGES; i++)
            now += r.wall_of[i] = rand() % 5;
        for (int i = 0; i < BUILD_STAGES; i++) { /* threads can be in it whenever it goes on; those who only write are in nothing else */
            double lanes = i == BUILD_WRITE && r.writers ? r.writers : r.threads / 4.0;
            for (int m = 0; m < 1 << BUILD_STAGES; m++)
                r.split[rand() % 3].seconds[i] += (m >> i & 1) ? r.wall_of[m] * lanes : 0;
        }
        for (int s = 0; s < 3; s++)
            r.split[s].batches = r.split[s].files = 3;
        r.seconds = now + r.finish_seconds;
        const char *report = words(&r, &plain);
        for (const char *at = strchr(report, '%'); at; at = strchr(at + 1, '%')) {
            const char *begin = at - 1;
            while (begin > report && strchr(" 0123456789.-", begin[-1]))
                begin--;
            while (*begin == ' ')
                begin++;
            double share = atof(begin);
            if (!(share >= 0 && share <= 100.05))
                fail_msg("%.*s in:\n%s", (int)(at - begin), begin, report);
        }
    }
}

static void the_end_is_a_stage_like_others(void **state)
{
    (void)state;
    struct build_result r = result(0.1, 0.7, 0, 0.2, 1);
    assert_int_equal(build_verdict(&r), BUILD_COMPUTE);
    r = result(0.1, 0.7, 0, 0.2, 30);
    assert_int_equal(build_verdict(&r), BUILD_FINISH);
    const char *report = words(&r, &plain);
    assert_non_null(strstr(line_of(report, "finish"), "75.0 %"));
    assert_non_null(strstr(line_of(report, "compute"), "17.5 %"));
    assert_non_null(strstr(line_of(report, "verdict"), "finish"));
    assert_non_null(strstr(line_of(report, "remedy"), "faster disk"));
    assert_non_null(strstr(line_of(report, "built in"), "40.00 s"));
    assert_non_null(strstr(line_of(report, "built in"), " 25 files/s"));
}

static void few_reads_under_way_are_said(void **state)
{
    (void)state;
    struct build_result r = result(0.8, 0.1, 0, 0.1, 0);
    assert_null(strstr(words(&r, &plain), "LOW QUEUE DEPTH"));
    r.depth_mean = 2;
    assert_non_null(strstr(words(&r, &plain), "LOW QUEUE DEPTH"));
    r = result(0.1, 0.8, 0, 0.1, 0); /* nobody waits for storage */
    r.depth_mean = 2;
    assert_null(strstr(words(&r, &plain), "LOW QUEUE DEPTH"));
}

static void the_remedy_is_the_one_that_gains_most(void **state)
{
    (void)state;
    char said[160];
    struct build_request q = plain;
    q.deflate = 6;
    q.is_exact = true;
    struct build_result r = result(0.6, 0.2, 0.1, 0.1, 0);
    double gain = build_remedy(&r, &q, said, sizeof(said));
    assert_non_null(strstr(said, "faster storage"));
    assert_true(gain > 2.3 && gain < 2.6);
    r = result(0.1, 0.2, 0.6, 0.1, 0);
    gain = build_remedy(&r, &q, said, sizeof(said));
    assert_string_equal(said, "--compress none");
    assert_true(gain > 2.3 && gain < 2.6);
    r = result(0.05, 0.75, 0.1, 0.1, 0);
    gain = build_remedy(&r, &q, said, sizeof(said));
    assert_non_null(strstr(said, "twice the cores"));
    assert_true(gain > 1.6 && gain < 1.9);
    r = result(0, 0, 0, 0.8, 0);
    gain = build_remedy(&r, &plain, said, sizeof(said));
    assert_non_null(strstr(said, "float16"));
    assert_true(gain > 1.6 && gain < 1.7);
    r = result(0, 0.04, 0, 0, 0);
    assert_true(build_remedy(&r, &plain, said, sizeof(said)) == 1 && !said[0]);
}

/* Ten seconds, of which threads computed for so many and two others wrote for so many, at the same time as far as that goes. */
static struct build_result with_writers(uint32_t threads, double compute, double write)
{
    struct build_result r = {.files = 1000, .rows = 1000, .threads = threads, .writers = 2, .seconds = 10, .depth_mean = 100};
    double both = compute < write ? compute : write;
    r.split[0] = (struct build_figures){.files = 1000, .rows = 1000, .batches = 10, .batch_seconds = 10, .batch_most = 2};
    r.split[0].seconds[BUILD_COMPUTE] = compute * threads;
    r.split[0].seconds[BUILD_WRITE] = write * 2;
    r.wall_of[1 << BUILD_COMPUTE | 1 << BUILD_WRITE] = both;
    r.wall_of[1 << BUILD_COMPUTE] = compute - both;
    r.wall_of[1 << BUILD_WRITE] = write - both;
    r.wall_of[0] = 10 - (compute > write ? compute : write);
    return r;
}

static void those_who_only_write_have_a_time_of_their_own(void **state)
{
    (void)state;
    struct build_result r = with_writers(1, 6, 9);
    const char *report = words(&r, &plain);
    assert_non_null(strstr(line_of(report, "compute"), "60.0 %"));
    double of_threads = 0;
    assert_int_equal(sscanf(line_of(report, "write"), "write %lf", &of_threads), 1);
    assert_true(of_threads > 89.9 && of_threads < 90.1);
    assert_non_null(strstr(line_of(report, "write"), " 111 ")); /* 1000 files in 9 seconds */
    assert_non_null(strstr(line_of(report, "built in"), "on 1 threads and 2 that write,"));
    assert_int_equal(build_verdict(&r), BUILD_WRITE);
    r = with_writers(1, 9, 6); /* 12 seconds of threads in writing, and yet */
    assert_int_equal(build_verdict(&r), BUILD_COMPUTE);
    r = with_writers(16, 6, 9); /* 96 seconds of threads in computing, and yet */
    assert_int_equal(build_verdict(&r), BUILD_WRITE);
}

static void what_is_saved_beside_other_work_gains_nothing(void **state)
{
    (void)state;
    char said[160];
    struct build_result r = with_writers((uint32_t)host_cores(), 6, 9); /* half the bytes: computing is what is left */
    double gain = build_remedy(&r, &plain, said, sizeof(said));
    assert_non_null(strstr(said, "float16"));
    assert_true(gain > 1.4 && gain < 1.45);
    r = with_writers((uint32_t)host_cores(), 9, 9); /* neither gains without the other */
    assert_true(build_remedy(&r, &plain, said, sizeof(said)) == 1 && !said[0]);
    r = with_writers((uint32_t)host_cores(), 9, 6);
    gain = build_remedy(&r, &plain, said, sizeof(said));
    assert_non_null(strstr(said, "twice the cores"));
    assert_true(gain > 1.4 && gain < 1.45);
}

static void the_slowest_are_named(void **state)
{
    (void)state;
    struct build_result r = result(0.2, 0.6, 0, 0.2, 0);
    r.slow[0] = (struct build_slow){"owl/long.wav", 123.4};
    r.slow[1] = (struct build_slow){"cat\n.wav", 50};
    const char *report = words(&r, &plain);
    assert_non_null(strstr(line_of(report, "slowest"), "123.40 ms owl/long.wav"));
    assert_non_null(strstr(report, "50.00 ms cat\\")); /* names are shown, not obeyed */
}

static void each_split_has_its_total_and_its_shares(void **state)
{
    (void)state;
    struct build_result r = result(0.25, 0.5, 0, 0.25, 0);
    r.splits = 2;
    r.split[1] = (struct build_figures){.files = 5, .rows = 5, .batches = 1, .seconds = {3, 1, 0, 0}};
    const char *report = words(&r, &plain), *val = strstr(report, "\nval ");
    assert_non_null(strstr(report, "\ntrain "));
    assert_non_null(val);
    assert_non_null(strstr(val, "4.00 s of threads in total: read 75.0 %, compute 25.0 %\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_share_is_over_a_hundred),
        cmocka_unit_test(the_end_is_a_stage_like_others),
        cmocka_unit_test(few_reads_under_way_are_said),
        cmocka_unit_test(the_remedy_is_the_one_that_gains_most),
        cmocka_unit_test(those_who_only_write_have_a_time_of_their_own),
        cmocka_unit_test(what_is_saved_beside_other_work_gains_nothing),
        cmocka_unit_test(the_slowest_are_named),
        cmocka_unit_test(each_split_has_its_total_and_its_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
