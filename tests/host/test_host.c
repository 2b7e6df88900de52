/* Cores and memory this process may use. */
#include "fake_tree.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "host/host.h"
#include "host/local_world.h"

#define MIB (UINT64_C(1) << 20)

static int affinity(void)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    return CPU_COUNT(&set);
}

static void cores_are_those_of_the_affinity_mask(void **state)
{
    (void)state;
    struct tree t = tree_open();
    assert_int_equal(host_cores_at(t.proc, t.cgroup), affinity());
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(host_cores_at(t.proc, t.cgroup), 1);
    assert_int_equal(host_default_threads(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    tree_close(&t);
}

static void a_quota_is_rounded_up_to_whole_cores(void **state)
{
    (void)state;
    struct tree t = tree_open();
    tree_write(&t, "proc/self/cgroup", "0::/j\n");
    tree_write(&t, "cgroup/j/cpu.max", "1000 100000\n");
    assert_int_equal(host_cores_at(t.proc, t.cgroup), 1);
    tree_write(&t, "cgroup/j/cpu.max", "100000 100000\n");
    assert_int_equal(host_cores_at(t.proc, t.cgroup), 1);
    tree_write(&t, "cgroup/j/cpu.max", "110000 100000\n");
    assert_int_equal(host_cores_at(t.proc, t.cgroup), affinity() < 2 ? affinity() : 2);
    tree_write(&t, "cgroup/j/cpu.max", "18000000000000000000 1\n");
    assert_int_equal(host_cores_at(t.proc, t.cgroup), affinity());
    tree_close(&t);
}

static void memory_is_what_the_machine_and_the_group_leave(void **state)
{
    (void)state;
    struct tree t = tree_open();
    tree_write(&t, "proc/meminfo", "MemTotal:       16000000 kB\nMemFree:         1024000 kB\nMemAvailable:    2048000 kB\n");
    assert_int_equal(host_memory_available_at(t.proc, t.cgroup), 2000 * MIB);
    tree_write(&t, "proc/self/cgroup", "0::/j\n");
    tree_write(&t, "cgroup/j/memory.max", "1073741824\n");
    tree_write(&t, "cgroup/j/memory.current", "0\n");
    assert_int_equal(host_memory_available_at(t.proc, t.cgroup), 1024 * MIB);
    tree_write(&t, "cgroup/j/memory.max", "107374182400\n");
    assert_int_equal(host_memory_available_at(t.proc, t.cgroup), 2000 * MIB);
    tree_close(&t);
}

static void an_old_kernel_tells_free_memory_only(void **state)
{
    (void)state;
    struct tree t = tree_open();
    tree_write(&t, "proc/meminfo", "MemTotal:       16000000 kB\nMemFree:         1024000 kB\nBuffers: 1 kB\n");
    assert_int_equal(host_memory_available_at(t.proc, t.cgroup), 1000 * MIB);
    tree_write(&t, "proc/meminfo", "MemAvailable:    99999999999999999999999999 kB\nMemFree: 1024 kB\n");
    assert_int_equal(host_memory_available_at(t.proc, t.cgroup), MIB);
    tree_write(&t, "proc/meminfo", "MemAvailable:    18446744073709551615 kB\n");
    assert_true(host_memory_available_at(t.proc, t.cgroup) == UINT64_MAX);
    tree_close(&t);
}

static void without_proc_the_c_library_is_asked(void **state)
{
    (void)state;
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_in_range(host_memory_available_at("/nonexistent", "/nonexistent"), 1, total);
}

static void this_machine_has_something_to_offer(void **state)
{
    (void)state;
    unsetenv("LOCAL_WORLD_SIZE");
    int cores = host_cores();
    assert_in_range(cores, 1, 1 << 16);
    assert_int_equal(host_default_threads(), cores > 2 ? cores - 1 : cores);
    assert_true(host_memory_available() > 0);
    assert_true(host_default_memory() >= 64 * MIB);
    assert_true(host_default_memory() <= host_memory_available() || host_memory_available() < 64 * MIB);
}

static void ranks_on_one_machine_share_it(void **state)
{
    (void)state;
    unsetenv("LOCAL_WORLD_SIZE");
    uint64_t alone = host_default_memory();
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    uint64_t shared = host_default_memory();
    assert_true(shared == 64 * MIB || (shared > alone / 4 && shared < alone * 3 / 4)); /* others use memory meanwhile */
    setenv("LOCAL_WORLD_SIZE", "65536", 1);
    assert_int_equal(host_default_memory(), 64 * MIB);
    assert_int_equal(host_default_threads(), 1);
    unsetenv("LOCAL_WORLD_SIZE");
}

static void a_local_world_that_makes_no_sense_is_one(void **state)
{
    (void)state;
    static const char *const nonsense[] = {"", "0", "-1", "x", "8x", "65537", "99999999999999999999"};
    assert_int_equal(host_local_world(NULL), 1);
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
        assert_int_equal(host_local_world(nonsense[i]), 1);
    assert_int_equal(host_local_world("8"), 8);
}

/* ---- cores that others have ---- */

static void *spin(void *is_over)
{
    while (!atomic_load((_Atomic bool *)is_over))
        ;
    return NULL;
}

static void having_no_core_is_counted(void **state)
{
    (void)state;
    _Atomic bool is_over = false;
    pthread_t other;
    cpu_set_t all, one;
    uint64_t before = host_no_core_ns(), turns = 0;
    if (before == HOST_UNKNOWN)
        skip();
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0); /* which the other one inherits */
    assert_int_equal(pthread_create(&other, NULL, spin, &is_over), 0);
    while (host_no_core_ns() == before && turns < 100000000)
        turns++;
    atomic_store(&is_over, true);
    pthread_join(other, NULL);
    sched_setaffinity(0, sizeof(all), &all);
    assert_true(host_no_core_ns() > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_those_of_the_affinity_mask),
        cmocka_unit_test(a_quota_is_rounded_up_to_whole_cores),
        cmocka_unit_test(memory_is_what_the_machine_and_the_group_leave),
        cmocka_unit_test(an_old_kernel_tells_free_memory_only),
        cmocka_unit_test(without_proc_the_c_library_is_asked),
        cmocka_unit_test(this_machine_has_something_to_offer),
        cmocka_unit_test(ranks_on_one_machine_share_it),
        cmocka_unit_test(a_local_world_that_makes_no_sense_is_one),
        cmocka_unit_test(having_no_core_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
