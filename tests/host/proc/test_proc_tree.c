/* Processes and roles, over a folder that stands for /proc. */
#include "../fake_tree.h"

#include <unistd.h>

#include "host/proc/proc_sample.h"

static void write_task(const struct tree *where, int pid, int tid, const char *comm)
{
    char name[128], text[128];
    snprintf(name, sizeof(name), "proc/%d/task/%d/comm", pid, tid);
    snprintf(text, sizeof(text), "%s\n", comm);
    tree_write(where, name, text);
    snprintf(name, sizeof(name), "proc/%d/task/%d/schedstat", pid, tid);
    tree_write(where, name, "1000 0 1\n");
    snprintf(name, sizeof(name), "proc/%d/task/%d/syscall", pid, tid);
    tree_write(where, name, "running\n");
}

static void write_process(const struct tree *where, int pid, int parent, const char *comm, unsigned start, const char *command)
{
    char name[64], text[512];
    snprintf(name, sizeof(name), "proc/%d/stat", pid);
    snprintf(text, sizeof(text), "%d (%s) S %d 1 1 0 -1 0 10 0 3 0 5 5 0 0 20 0 1 0 %u 0 0\n", pid, comm, parent, start);
    tree_write(where, name, text);
    snprintf(name, sizeof(name), "proc/%d/cmdline", pid);
    tree_write(where, name, command);
    snprintf(name, sizeof(name), "proc/%d/exe", pid);
    char program[128], link_path[160];
    snprintf(program, sizeof(program), "%s/python", where->root);
    tree_write(where, "python", "");
    snprintf(link_path, sizeof(link_path), "%s/%s", where->root, name);
    unlink(link_path);
    assert_int_equal(symlink(program, link_path), 0);
    write_task(where, pid, pid, comm);
}

static struct sampler *open_at(const struct tree *where, int root)
{
    struct sampler *s = malloc(sizeof(*s));
    struct fb_error e = {0};
    assert_non_null(s);
    assert_int_equal(sampler_open(s, where->proc, where->root, root, &e), 0);
    sampler_discover(s, 1000000000);
    return s;
}

static void close_at(struct sampler *s, const struct tree *where)
{
    sampler_close(s);
    free(s);
    tree_close(where);
}

static const struct process *find(const struct sampler *s, int pid)
{
    for (int i = 0; i < s->tree.processes; i++)
        if (s->tree.process[i].pid == pid)
            return &s->tree.process[i];
    return NULL;
}

static void a_name_with_brackets_and_blanks_is_parsed(void **state)
{
    (void)state;
    struct proc_stat s;
    assert_true(proc_parse_stat("7 (a) S (b)) R 3 1 1 0 -1 0 10 0 4 0 5 5 0 0 20 0 1 0 99 0 0\n", &s));
    assert_string_equal(s.comm, "a) S (b)");
    assert_int_equal(s.state, 'R');
    assert_int_equal(s.parent, 3);
    assert_int_equal(s.major_faults, 4);
    assert_int_equal(s.start_ticks, 99);
    assert_false(proc_parse_stat("7 (cut", &s));
    assert_false(proc_parse_stat("", &s));
}

static void children_and_their_children_are_followed_and_strangers_are_not(void **state)
{
    (void)state;
    struct tree where = tree_open();
    write_process(&where, 100, 1, "bash", 5, "bash");
    write_process(&where, 90, 200, "python", 8, "python\0train.py"); /* listed before its parent */
    write_process(&where, 200, 100, "python", 7, "python");
    write_process(&where, 300, 1, "stranger", 3, "stranger");
    struct sampler *s = open_at(&where, 100);
    assert_non_null(find(s, 90));
    assert_non_null(find(s, 200));
    assert_null(find(s, 300));
    close_at(s, &where);
}

static void workers_are_known_by_their_name(void **state)
{
    (void)state;
    struct tree where = tree_open();
    write_process(&where, 100, 1, "python", 5, "python");
    write_process(&where, 101, 100, "pt_data_worker", 6, "other");
    write_task(&where, 100, 110, "pt_data_pin");
    write_task(&where, 100, 111, "fb-w0");
    struct sampler *s = open_at(&where, 100);
    assert_int_equal(find(s, 101)->kind, PROCESS_WORKER);
    assert_int_equal(find(s, 100)->kind, PROCESS_TRAINER);
    for (int i = 0; i < find(s, 100)->threads; i++) {
        const struct proc_thread *th = &find(s, 100)->thread[i];
        assert_int_equal(th->role, th->tid == 100 ? ROLE_CONSUMER : th->tid == 110 ? ROLE_PIN : ROLE_LOADER);
    }
    assert_int_equal(s->tree.births, 1);
    close_at(s, &where);
}

static void a_nameless_child_with_its_parents_command_is_a_worker(void **state)
{
    (void)state;
    struct tree where = tree_open();
    write_process(&where, 100, 1, "python", 5, "python train.py");
    write_process(&where, 101, 100, "python", 6, "python train.py");
    write_process(&where, 102, 100, "python", 6, "python -c from multiprocessing.resource_tracker import main");
    struct sampler *s = open_at(&where, 100);
    assert_int_equal(find(s, 101)->kind, PROCESS_WORKER);
    assert_int_not_equal(find(s, 102)->kind, PROCESS_WORKER);
    close_at(s, &where);
}

static void a_reused_number_is_another_process(void **state)
{
    (void)state;
    struct tree where = tree_open();
    write_process(&where, 100, 1, "python", 5, "python");
    write_process(&where, 101, 100, "pt_data_worker", 6, "x");
    struct sampler *s = open_at(&where, 100);
    write_process(&where, 101, 1, "stranger", 999, "y");
    sampler_discover(s, 2000000000);
    assert_null(find(s, 101));
    assert_int_equal(s->tree.deaths, 1);
    close_at(s, &where);
}

static void the_number_of_the_watched_program_may_be_reused_too(void **state)
{
    (void)state;
    struct tree where = tree_open();
    write_process(&where, 100, 1, "python", 5, "python");
    struct sampler *s = open_at(&where, 100);
    assert_non_null(find(s, 100));
    write_process(&where, 100, 1, "stranger", 999, "y"); /* it ended, and somebody else got its number */
    write_process(&where, 102, 100, "strangers_child", 1000, "z");
    for (uint64_t i = 2; i < 6; i++)
        sampler_discover(s, i * 1000000000);
    assert_null(find(s, 100));
    assert_null(find(s, 102));
    for (int i = 0; i < s->tree.processes; i++)
        assert_true(s->tree.process[i].is_gone);
    close_at(s, &where);
}

static void a_process_that_is_not_there_is_said(void **state)
{
    (void)state;
    struct tree where = tree_open();
    struct sampler *s = malloc(sizeof(*s));
    struct fb_error e = {0};
    assert_non_null(s);
    assert_int_equal(sampler_open(s, where.proc, where.root, 4711, &e), FB_E_NOT_FOUND);
    assert_non_null(strstr(e.cause, "4711"));
    assert_true(e.remedy[0]);
    free(s);
    tree_close(&where);
}

static void time_is_split_by_schedstat_and_the_system_call(void **state)
{
    (void)state;
    struct tree where = tree_open();
    struct snapshot out;
    write_process(&where, 100, 1, "python", 5, "python");
    struct sampler *s = open_at(&where, 100);
    s->interval_ns = 1000000000;
    sampler_tick(s, 1000000000);
    tree_write(&where, "proc/100/task/100/schedstat", "300001000 100000000 7\n"); /* ran 0.3 s, wanted to for 0.1 s */
    tree_write(&where, "proc/100/task/100/syscall", "230 0x1 0x1 0x0 0x0 0x0 0x0 0x0 0x0\n");
    sampler_tick(s, 2000000000);
    sampler_take(s, 2000000000, &out);
    const struct role_figures *c = &out.role[ROLE_CONSUMER];
    assert_true(fabs(c->cpu_ns - 300e6) < 1 && fabs(c->delay_ns - 100e6) < 1);
#ifdef __x86_64__
    assert_true(fabs(c->off_ns[WAIT_SLEEP] - 600e6) < 1);
#endif
    assert_true(fabs(out.wall_s - 1) < 1e-9);
    close_at(s, &where);
}

static void a_system_call_that_may_not_be_read_is_remembered(void **state)
{
    (void)state;
    struct tree where = tree_open();
    write_process(&where, 100, 1, "python", 5, "python");
    struct sampler *s = open_at(&where, 100);
    sampler_tick(s, 1000000000);
    tree_write(&where, "proc/100/task/100/syscall", "");
    tree_write(&where, "proc/100/task/100/schedstat", "2000 0 3\n");
    sampler_tick(s, 2000000000);
    assert_int_not_equal(s->denied, 0);
    close_at(s, &where);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_with_brackets_and_blanks_is_parsed),
        cmocka_unit_test(children_and_their_children_are_followed_and_strangers_are_not),
        cmocka_unit_test(workers_are_known_by_their_name),
        cmocka_unit_test(a_nameless_child_with_its_parents_command_is_a_worker),
        cmocka_unit_test(a_reused_number_is_another_process),
        cmocka_unit_test(the_number_of_the_watched_program_may_be_reused_too),
        cmocka_unit_test(a_process_that_is_not_there_is_said),
        cmocka_unit_test(time_is_split_by_schedstat_and_the_system_call),
        cmocka_unit_test(a_system_call_that_may_not_be_read_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
