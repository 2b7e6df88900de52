/* What functions and files say about what the main thread does, and how its times are split by that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "host/proc/proc_activity.h"
#include "host/python/py_activity.h"

#define SITE "/venv/lib/python3.11/site-packages/"
#define LIB "/usr/lib/python3.11/"
#define MINE "/home/me/project/train.py"

struct call {
    const char *function, *file;
};

/* Frames from the outermost inward, as a traceback shows them. */
static struct stack_meaning meaning(const struct call *call, int calls)
{
    struct stack_meaning m = {0};
    for (int i = calls - 1; i >= 0; i--)
        stack_add_frame(&m, frame_meaning_of(call[i].function, call[i].file, false));
    return m;
}

#define MEANING(...) meaning((const struct call[]){__VA_ARGS__}, sizeof((const struct call[]){__VA_ARGS__}) / sizeof(struct call))
#define IS(activity_, ...) assert_int_equal(MEANING({"<module>", MINE}, __VA_ARGS__).activity, activity_)

static void a_data_loader_s_next_is_loading_whatever_runs_inside(void **state)
{
    (void)state;
    IS(ACTIVITY_LOADING, {"__next__", SITE "torch/utils/data/dataloader.py"});
    IS(ACTIVITY_LOADING, {"__next__", SITE "torch/utils/data/dataloader.py"}, {"_call_impl", SITE "torch/nn/modules/module.py"});
    IS(ACTIVITY_LOADING, {"__next__", SITE "fullbore/loader.py"}, {"wait", LIB "threading.py"});
    IS(ACTIVITY_LOADING, {"fetch", SITE "torch/utils/data/_utils/fetch.py"}, {"open", SITE "PIL/Image.py"});
    IS(ACTIVITY_LOADING, {"__getitem__", MINE}, {"relu", SITE "torch/nn/functional.py"});
    IS(ACTIVITY_LOADING, {"my_collate", MINE}, {"pad", SITE "torch/nn/functional.py"});
}

static void forward_backward_and_optimizer_are_the_step(void **state)
{
    (void)state;
    IS(ACTIVITY_STEP, {"_call_impl", SITE "torch/nn/modules/module.py"}, {"forward", MINE});
    IS(ACTIVITY_STEP, {"backward", SITE "torch/_tensor.py"}, {"backward", SITE "torch/autograd/__init__.py"});
    IS(ACTIVITY_STEP, {"wrapper", SITE "torch/optim/optimizer.py"});
    IS(ACTIVITY_STEP, {"train_step", MINE});
    IS(ACTIVITY_STEP, {"_call_impl", SITE "torch/nn/modules/module.py"}, {"get", LIB "queue.py"}); /* a hint inside the step */
}

static void saving_is_saving_and_not_the_step_around_it(void **state)
{
    (void)state;
    IS(ACTIVITY_SAVING, {"save", SITE "torch/serialization.py"}, {"_save", SITE "torch/serialization.py"});
    IS(ACTIVITY_SAVING, {"save_checkpoint", MINE});
    IS(ACTIVITY_SAVING, {"save", SITE "numpy/lib/npyio.py"});
    IS(ACTIVITY_LOADING, {"load", SITE "torch/serialization.py"});
}

static void readers_and_queues_of_the_main_thread_are_loading(void **state)
{
    (void)state;
    IS(ACTIVITY_LOADING, {"get", LIB "queue.py"}, {"wait", LIB "threading.py"});
    IS(ACTIVITY_LOADING, {"next", LIB "multiprocessing/pool.py"});
    IS(ACTIVITY_LOADING, {"result", LIB "concurrent/futures/_base.py"});
    IS(ACTIVITY_LOADING, {"open", SITE "PIL/Image.py"});
    IS(ACTIVITY_LOADING, {"load", SITE "numpy/lib/npyio.py"});
    IS(ACTIVITY_LOADING, {"get_batch", MINE});
    IS(ACTIVITY_LOADING, {"__getitem__", SITE "h5py/_hl/dataset.py"});
}

static void what_nothing_decides_stays_open(void **state)
{
    (void)state;
    IS(ACTIVITY_OTHER, {"main", MINE});
    IS(ACTIVITY_OTHER, {"mean", SITE "numpy/_core/_methods.py"});
    IS(ACTIVITY_OTHER, {"_find_and_load", "<frozen importlib._bootstrap>"});
    IS(ACTIVITY_OTHER, {"__getitem__", SITE "omegaconf/dictconfig.py"});
    assert_int_equal(MEANING({"<module>", MINE}).weight, FRAME_NOTHING);
}

/* A project called like a package is not that package. */
static void folders_of_the_program_are_not_packages(void **state)
{
    (void)state;
    IS(ACTIVITY_OTHER, {"main", "/home/me/webdataset/train.py"});
    IS(ACTIVITY_OTHER, {"main", "/home/me/PIL/train.py"});
    IS(ACTIVITY_OTHER, {"main", "/home/me/mytorch/nn/net.py"});
}

static void generators_of_the_program_are_hints_and_expressions_are_not(void **state)
{
    (void)state;
    assert_int_equal(frame_meaning_of("batches", MINE, true).activity, ACTIVITY_LOADING);
    assert_int_equal(frame_meaning_of("batches", MINE, true).weight, FRAME_HINT);
    assert_int_equal(frame_meaning_of("<genexpr>", MINE, true).weight, FRAME_NOTHING);
    assert_int_equal(frame_meaning_of("parameters", SITE "torch/nn/modules/module.py", true).activity, ACTIVITY_STEP);
    assert_int_equal(frame_meaning_of("walk", LIB "os.py", true).weight, FRAME_NOTHING);
}

static void validation_is_a_label_beside_the_activity(void **state)
{
    (void)state;
    struct stack_meaning m = MEANING({"<module>", MINE}, {"validate", MINE}, {"__next__", SITE "torch/utils/data/dataloader.py"});
    assert_true(m.is_validation);
    assert_int_equal(m.activity, ACTIVITY_LOADING);
    assert_true(MEANING({"evaluate", MINE}).is_validation);
    assert_true(MEANING({"test", MINE}).is_validation);
    assert_true(MEANING({"evaluation_loop", SITE "transformers/trainer.py"}).is_validation);
    assert_false(MEANING({"eval", SITE "torch/nn/modules/module.py"}).is_validation);
    assert_false(MEANING({"train", MINE}).is_validation);
    assert_false(MEANING({"latest", MINE}).is_validation);
}

static void the_longest_names_and_empty_ones_do_no_harm(void **state)
{
    (void)state;
    char long_name[2000];
    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = 0;
    assert_int_equal(frame_meaning_of(long_name, long_name, false).weight, FRAME_NOTHING);
    assert_int_equal(frame_meaning_of("", "", false).weight, FRAME_NOTHING);
}

/* ---- times ---- */

static void look(struct activity_looks *l, bool is_blocked, enum activity a, int times)
{
    struct proc_thread th = {.stack_known = true, .is_blocked = is_blocked, .activity = a};
    for (int i = 0; i < times; i++)
        activity_add(l, &th, WAIT_SLEEP, 1);
}

/* A loop that only waits in its loading and only computes in its step, however the looks fall. */
static void running_and_waiting_are_split_by_their_own_looks(void **state)
{
    (void)state;
    struct activity_looks now = {0}, before = {0};
    struct snapshot s = {0};
    s.role[ROLE_CONSUMER].cpu_ns = 6e8;
    s.role[ROLE_CONSUMER].off_ns[WAIT_SLEEP] = 4e8;
    look(&now, true, ACTIVITY_LOADING, 7); /* more often than its time says: chance */
    look(&now, false, ACTIVITY_STEP, 3);
    activity_split(&now, &before, &s);
    assert_true(s.stack_known == 1);
    assert_true(s.doing[ACTIVITY_LOADING].cpu_ns == 0 && s.doing[ACTIVITY_LOADING].off_ns[WAIT_SLEEP] > 3.99e8);
    assert_true(s.doing[ACTIVITY_STEP].cpu_ns > 5.99e8 && s.doing[ACTIVITY_STEP].off_ns[WAIT_SLEEP] == 0);
}

static void a_time_without_a_look_is_split_as_before(void **state)
{
    (void)state;
    struct activity_looks now = {0}, before = {0};
    struct snapshot s = {0};
    look(&now, false, ACTIVITY_STEP, 8);
    look(&now, true, ACTIVITY_LOADING, 1);
    activity_split(&now, &before, &s);
    s.role[ROLE_CONSUMER].cpu_ns = 1e8;
    look(&now, true, ACTIVITY_LOADING, 9);
    activity_split(&now, &before, &s);
    assert_true(s.doing[ACTIVITY_STEP].cpu_ns == 1e8);
}

/* An interpreter that takes its time to end was neither loading nor in the step. */
static void time_without_a_function_belongs_to_nothing(void **state)
{
    (void)state;
    struct activity_looks now = {0}, before = {0};
    struct snapshot s = {0};
    struct proc_thread ending = {.stack_known = true, .stack_empty = true};
    s.role[ROLE_CONSUMER].cpu_ns = 1e9;
    look(&now, false, ACTIVITY_STEP, 1);
    for (int i = 0; i < 3; i++)
        activity_add(&now, &ending, WAIT_UNKNOWN, 1);
    activity_split(&now, &before, &s);
    assert_true(s.stack_known == 1 && s.doing[ACTIVITY_STEP].cpu_ns == 0.25e9 && s.doing[ACTIVITY_OTHER].cpu_ns == 0);
}

static void looks_that_failed_are_told(void **state)
{
    (void)state;
    struct activity_looks now = {0}, before = {0};
    struct snapshot s = {0};
    struct proc_thread blind = {0};
    s.role[ROLE_CONSUMER].cpu_ns = 1e9;
    look(&now, false, ACTIVITY_STEP, 1);
    for (int i = 0; i < 3; i++)
        activity_add(&now, &blind, WAIT_UNKNOWN, 1);
    activity_split(&now, &before, &s);
    assert_true(s.stack_known == 0.25);
    activity_split(&now, &before, &s); /* nobody looked */
    assert_true(s.stack_known == 0 && s.doing[ACTIVITY_STEP].cpu_ns == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_data_loader_s_next_is_loading_whatever_runs_inside),
        cmocka_unit_test(forward_backward_and_optimizer_are_the_step),
        cmocka_unit_test(saving_is_saving_and_not_the_step_around_it),
        cmocka_unit_test(readers_and_queues_of_the_main_thread_are_loading),
        cmocka_unit_test(what_nothing_decides_stays_open),
        cmocka_unit_test(folders_of_the_program_are_not_packages),
        cmocka_unit_test(generators_of_the_program_are_hints_and_expressions_are_not),
        cmocka_unit_test(validation_is_a_label_beside_the_activity),
        cmocka_unit_test(the_longest_names_and_empty_ones_do_no_harm),
        cmocka_unit_test(running_and_waiting_are_split_by_their_own_looks),
        cmocka_unit_test(a_time_without_a_look_is_split_as_before),
        cmocka_unit_test(time_without_a_function_belongs_to_nothing),
        cmocka_unit_test(looks_that_failed_are_told),
    };
    return cmocka_run_group_tests_name("py_activity", tests, NULL, NULL);
}
