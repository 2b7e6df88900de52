/* Rank and world size as launchers tell them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "order/ranks/ranks.h"

/* An environment: "NAME=value" words separated by spaces. */
static const char *environment;

static const char *get(const char *name)
{
    static char values[16][128];
    static int turn;
    size_t length = strlen(name);
    for (const char *p = environment; p && *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (n > length && strncmp(p, name, length) == 0 && p[length] == '=') {
            char *value = values[turn = (turn + 1) % 16];
            memcpy(value, p + length + 1, n - length - 1);
            value[n - length - 1] = 0;
            return value;
        }
        p += n;
    }
    return NULL;
}

static void expect(const char *variables, int rank, int world)
{
    struct fb_error e = {0};
    int r = -7, w = -7;
    environment = variables;
    if (ranks_from_environment(get, &r, &w, &e) != 0)
        fail_msg("%s: %s", variables, e.cause);
    if (r != rank || w != world)
        fail_msg("%s: %d of %d, expected %d of %d", variables, r, w, rank, world);
}

/* `words`: what the cause must name, separated by spaces. */
static void expect_refusal(const char *variables, const char *words)
{
    struct fb_error e = {0};
    int r = -7, w = -7;
    char list[256];
    environment = variables;
    if (ranks_from_environment(get, &r, &w, &e) != FB_E_USAGE)
        fail_msg("%s was taken as %d of %d", variables, r, w);
    assert_int_equal(e.code, FB_E_USAGE);
    assert_true(r == -7 && w == -7);
    strcpy(list, words);
    for (char *save = NULL, *word = strtok_r(list, " ", &save); word; word = strtok_r(NULL, " ", &save))
        if (!strstr(e.cause, word))
            fail_msg("%s: '%s' does not name %s", variables, e.cause, word);
    assert_true(e.remedy[0] != 0);
}

static void without_a_launcher_the_process_is_alone(void **state)
{
    (void)state;
    expect("", 0, 1);
    expect("HOME=/root PATH=/bin", 0, 1);
    expect("RANK= WORLD_SIZE=", 0, 1);
}

static void each_launcher_is_understood(void **state)
{
    (void)state;
    expect("RANK=3 WORLD_SIZE=8", 3, 8);
    expect("RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 MASTER_ADDR=a", 3, 8);
    expect("SLURM_PROCID=5 SLURM_NTASKS=16 SLURM_LOCALID=1 SLURM_JOB_ID=9", 5, 16);
    expect("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", 1, 2);
    expect("PMI_RANK=0 PMI_SIZE=4", 0, 4);
    expect("RANK=0 WORLD_SIZE=1", 0, 1);
}

static void launchers_that_agree_are_fine(void **state)
{
    (void)state;
    expect("SLURM_PROCID=2 SLURM_NTASKS=4 PMI_RANK=2 PMI_SIZE=4", 2, 4);
    expect("SLURM_PROCID=2 SLURM_NTASKS=4 RANK=2 WORLD_SIZE=4 LOCAL_RANK=2", 2, 4);
    expect("SLURM_PROCID=2 SLURM_NTASKS=4 LOCAL_RANK=2", 2, 4);
}

static void torchrun_inside_another_launcher_is_believed(void **state)
{
    (void)state;
    expect("SLURM_PROCID=1 SLURM_NTASKS=2 TORCHELASTIC_RUN_ID=7 RANK=13 WORLD_SIZE=16 LOCAL_RANK=5", 13, 16);
    expect("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none RANK=0 WORLD_SIZE=16 LOCAL_RANK=0", 0, 16);
    expect_refusal("TORCHELASTIC_RUN_ID=7 RANK=13", "RANK WORLD_SIZE");
}

static void a_worker_of_ray_believes_ray_and_not_the_launcher_of_its_raylet(void **state)
{
    (void)state;
    expect("RAY_RAYLET_PID=77 RAY_JOB_ID=01000000 RANK=5 WORLD_SIZE=16 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 NODE_RANK=1", 5, 16);
    expect("SLURM_PROCID=1 SLURM_NTASKS=4 RAY_RAYLET_PID=77 RANK=5 WORLD_SIZE=16 LOCAL_RANK=1", 5, 16);
    expect("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 RAY_RAYLET_PID=77 RANK=5 WORLD_SIZE=16", 5, 16);
    expect("RAY_RAYLET_PID=77 RAY_JOB_ID=01000000", 0, 1); /* a task by itself */
    expect("RAY_RAYLET_PID=77 SLURM_PROCID=0 SLURM_NTASKS=1", 0, 1);
    expect_refusal("RAY_RAYLET_PID=77 SLURM_PROCID=1 SLURM_NTASKS=4", "Ray SLURM_PROCID=1 SLURM_NTASKS=4");
    expect_refusal("RAY_RAYLET_PID=77 PMI_RANK=0 PMI_SIZE=2", "Ray PMI_RANK=0 PMI_SIZE=2");
    expect_refusal("RAY_RAYLET_PID=77 LOCAL_RANK=1", "LOCAL_RANK=1");
    expect_refusal("RAY_RAYLET_PID=77 RANK=1", "RANK WORLD_SIZE");
    expect_refusal("RAY_RAYLET_PID=77 RANK=4 WORLD_SIZE=4", "RANK=4 WORLD_SIZE=4");
}

static void a_slurm_job_of_one_task_is_alone_or_leaves_the_say_to_others(void **state)
{
    (void)state;
    expect("SLURM_PROCID=0 SLURM_NTASKS=1", 0, 1);
    expect("SLURM_PROCID=0 SLURM_JOB_ID=12", 0, 1);
    expect("SLURM_NTASKS=1 SLURM_JOB_ID=12", 0, 1);
    expect("SLURM_PROCID=0 SLURM_NTASKS=1 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4", 3, 4);
    expect("SLURM_PROCID=0 RANK=3 WORLD_SIZE=4", 3, 4);
}

static void a_batch_script_of_several_tasks_is_rank_0_as_its_variables_say(void **state)
{
    (void)state;
    expect("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=12", 0, 4);
}

static void half_of_a_pair_is_refused(void **state)
{
    (void)state;
    expect_refusal("RANK=3", "RANK WORLD_SIZE");
    expect_refusal("WORLD_SIZE=3", "RANK WORLD_SIZE");
    expect_refusal("WORLD_SIZE=3 RANK=", "RANK WORLD_SIZE");
    expect_refusal("OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE");
    expect_refusal("PMI_RANK=2", "PMI_RANK PMI_SIZE");
    expect_refusal("SLURM_PROCID=2", "SLURM_PROCID SLURM_NTASKS");
    expect_refusal("SLURM_NTASKS=8", "SLURM_PROCID SLURM_NTASKS");
}

static void contradictions_are_refused_and_all_variables_named(void **state)
{
    (void)state;
    expect_refusal("RANK=0 WORLD_SIZE=1 SLURM_PROCID=3 SLURM_NTASKS=8", "RANK=0 WORLD_SIZE=1 SLURM_PROCID=3 SLURM_NTASKS=8");
    expect_refusal("RANK=1 WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", "RANK=1 OMPI_COMM_WORLD_RANK=2");
    expect_refusal("PMI_RANK=1 PMI_SIZE=4 SLURM_PROCID=1 SLURM_NTASKS=8", "PMI_SIZE=4 SLURM_NTASKS=8");
}

static void local_rank_without_a_rank_is_refused(void **state)
{
    (void)state;
    expect_refusal("LOCAL_RANK=0", "LOCAL_RANK=0");
    expect_refusal("LOCAL_RANK=2", "LOCAL_RANK=2");
    expect_refusal("LOCAL_RANK=2 SLURM_PROCID=0 SLURM_NTASKS=1", "LOCAL_RANK=2 SLURM_NTASKS");
    expect_refusal("LOCAL_RANK=4 RANK=1 WORLD_SIZE=4", "LOCAL_RANK=4 WORLD_SIZE");
}

static void what_is_not_a_rank_is_refused(void **state)
{
    (void)state;
    expect_refusal("RANK=4 WORLD_SIZE=4", "RANK=4 WORLD_SIZE=4");
    expect_refusal("RANK=0 WORLD_SIZE=0", "WORLD_SIZE=0");
    expect_refusal("RANK=one WORLD_SIZE=4", "RANK=one");
    expect_refusal("RANK=-1 WORLD_SIZE=4", "RANK=-1");
    expect_refusal("RANK=+1 WORLD_SIZE=4", "RANK=+1");
    expect_refusal("RANK=1x WORLD_SIZE=4", "RANK=1x");
    expect_refusal("RANK=1 WORLD_SIZE=99999999999999999999", "WORLD_SIZE=99999999999999999999");
    expect_refusal("RANK=1 WORLD_SIZE=2147483648", "WORLD_SIZE=2147483648");
    expect_refusal("RANK=\033[31m WORLD_SIZE=2", "RANK=\\x1b[31m");
    expect_refusal("LOCAL_RANK=x RANK=1 WORLD_SIZE=2", "LOCAL_RANK=x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_launcher_the_process_is_alone),
        cmocka_unit_test(each_launcher_is_understood),
        cmocka_unit_test(launchers_that_agree_are_fine),
        cmocka_unit_test(torchrun_inside_another_launcher_is_believed),
        cmocka_unit_test(a_worker_of_ray_believes_ray_and_not_the_launcher_of_its_raylet),
        cmocka_unit_test(a_slurm_job_of_one_task_is_alone_or_leaves_the_say_to_others),
        cmocka_unit_test(a_batch_script_of_several_tasks_is_rank_0_as_its_variables_say),
        cmocka_unit_test(half_of_a_pair_is_refused),
        cmocka_unit_test(contradictions_are_refused_and_all_variables_named),
        cmocka_unit_test(local_rank_without_a_rank_is_refused),
        cmocka_unit_test(what_is_not_a_rank_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
