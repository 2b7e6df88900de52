/* Limits of control groups, on made-up trees. */
#include "fake_tree.h"

#include "host/cgroup.h"

#define MIB (UINT64_C(1) << 20)

static double quota(const struct tree *t)
{
    return cgroup_cpu_quota(t->proc, t->cgroup);
}

static uint64_t room(const struct tree *t)
{
    return cgroup_memory_room(t->proc, t->cgroup);
}

static void a_machine_without_groups_has_no_limit(void **state)
{
    (void)state;
    struct tree t = tree_open();
    assert_true(quota(&t) == 0);
    assert_true(room(&t) == UINT64_MAX);
    tree_write(&t, "proc/self/cgroup", "0::/\n");
    assert_true(quota(&t) == 0);
    assert_true(room(&t) == UINT64_MAX);
    tree_write(&t, "proc/self/cgroup", "");
    assert_true(quota(&t) == 0);
    assert_true(cgroup_cpu_quota("/nonexistent", "/nonexistent") == 0);
    assert_true(cgroup_memory_room("/nonexistent", "/nonexistent") == UINT64_MAX);
    tree_close(&t);
}

static void version_2_reads_quota_and_memory(void **state)
{
    (void)state;
    struct tree t = tree_open();
    tree_write(&t, "proc/self/cgroup", "0::/job\n");
    tree_write(&t, "cgroup/job/cpu.max", "150000 100000\n");
    tree_write(&t, "cgroup/job/memory.max", "1073741824\n");
    tree_write(&t, "cgroup/job/memory.high", "max\n");
    tree_write(&t, "cgroup/job/memory.current", "536870912\n");
    tree_write(&t, "cgroup/job/memory.stat", "anon 1\nactive_file 99\ninactive_file 104857600\nslab 5\n");
    assert_true(quota(&t) == 1.5);
    assert_int_equal(room(&t), (1024 - 512 + 100) * MIB);
    tree_write(&t, "cgroup/job/memory.high", "838860800\n"); /* throttles before the limit does */
    assert_int_equal(room(&t), (800 - 512 + 100) * MIB);
    tree_write(&t, "cgroup/job/cpu.max", "max 100000\n");
    tree_write(&t, "cgroup/job/memory.high", "max\n");
    tree_write(&t, "cgroup/job/memory.max", "max\n");
    assert_true(quota(&t) == 0);
    assert_true(room(&t) == UINT64_MAX);
    tree_close(&t);
}

static void version_1_reads_quota_and_memory(void **state)
{
    (void)state;
    struct tree t = tree_open();
    tree_write(&t, "proc/self/cgroup", "12:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/job\n");
    tree_write(&t, "cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
    tree_write(&t, "cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    tree_write(&t, "cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
    tree_write(&t, "cgroup/memory/job/memory.usage_in_bytes", "1073741824\n");
    tree_write(&t, "cgroup/memory/job/memory.stat", "inactive_file 7\ntotal_inactive_file 209715200\n");
    assert_true(quota(&t) == 2.5);
    assert_int_equal(room(&t), 200 * MIB);
    tree_write(&t, "cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    tree_write(&t, "cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(quota(&t) == 0);
    assert_true(room(&t) > UINT64_C(1) << 62);
    tree_close(&t);
}

static void the_smallest_limit_above_us_counts(void **state)
{
    (void)state;
    struct tree t = tree_open();
    tree_write(&t, "proc/self/cgroup", "0::/outer/middle/inner\n");
    tree_write(&t, "cgroup/cpu.max", "max 100000\n");
    tree_write(&t, "cgroup/outer/cpu.max", "200000 100000\n");
    tree_write(&t, "cgroup/outer/middle/cpu.max", "50000 50000\n");
    tree_write(&t, "cgroup/outer/middle/inner/cpu.max", "800000 100000\n");
    tree_write(&t, "cgroup/outer/memory.max", "1048576000\n"); /* 1000 MiB, of which siblings use most */
    tree_write(&t, "cgroup/outer/memory.current", "943718400\n");
    tree_write(&t, "cgroup/outer/middle/inner/memory.max", "524288000\n");
    tree_write(&t, "cgroup/outer/middle/inner/memory.current", "1048576\n");
    assert_true(quota(&t) == 1);
    assert_int_equal(room(&t), 100 * MIB);
    tree_close(&t);
}

static void the_root_of_a_namespace_is_read(void **state)
{
    (void)state;
    struct tree t = tree_open();
    tree_write(&t, "proc/self/cgroup", "0::/\n");
    tree_write(&t, "cgroup/cpu.max", "300000 100000\n");
    tree_write(&t, "cgroup/memory.max", "104857600\n");
    tree_write(&t, "cgroup/memory.current", "0\n");
    assert_true(quota(&t) == 3);
    assert_int_equal(room(&t), 100 * MIB);
    tree_close(&t);
}

static void a_path_that_is_not_visible_falls_back_to_what_is(void **state)
{
    (void)state;
    struct tree t = tree_open(); /* a container of version 1 without a cgroup namespace: its own group is mounted as the root */
    tree_write(&t, "proc/self/cgroup", "5:memory:/docker/0123abcd/sub\n3:cpu:/docker/0123abcd/sub\n");
    tree_write(&t, "cgroup/memory/memory.limit_in_bytes", "104857600\n");
    tree_write(&t, "cgroup/memory/memory.usage_in_bytes", "1048576\n");
    tree_write(&t, "cgroup/cpu/cpu.cfs_quota_us", "400000\n");
    tree_write(&t, "cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(room(&t), 99 * MIB);
    assert_true(quota(&t) == 4);
    tree_write(&t, "cgroup/memory/sub/memory.limit_in_bytes", "52428800\n");
    tree_write(&t, "cgroup/memory/sub/memory.usage_in_bytes", "1048576\n");
    tree_write(&t, "cgroup/cpu/sub/cpu.cfs_quota_us", "50000\n");
    tree_write(&t, "cgroup/cpu/sub/cpu.cfs_period_us", "100000\n");
    assert_int_equal(room(&t), 49 * MIB);
    assert_true(quota(&t) == 0.5);
    tree_close(&t);
}

static void a_path_outside_the_namespace_is_not_followed(void **state)
{
    (void)state;
    struct tree t = tree_open();
    tree_write(&t, "proc/self/cgroup", "0::/../../other\n");
    tree_write(&t, "cgroup/cpu.max", "300000 100000\n");
    tree_write(&t, "other/cpu.max", "100000 100000\n");
    assert_true(quota(&t) == 3);
    tree_write(&t, "proc/self/cgroup", "0::/job/../../other\n");
    tree_write(&t, "cgroup/job/cpu.max", "100000 100000\n");
    assert_true(quota(&t) == 3);
    tree_close(&t);
}

static void both_versions_side_by_side_count(void **state)
{
    (void)state;
    struct tree t = tree_open();
    tree_write(&t, "proc/self/cgroup", "9:name=systemd:/\n4:memory:/a\n1:cpu:/\n0::/b\n");
    tree_write(&t, "cgroup/memory/a/memory.limit_in_bytes", "104857600\n");
    tree_write(&t, "cgroup/memory/a/memory.usage_in_bytes", "0\n");
    tree_write(&t, "cgroup/unified/b/cpu.max", "120000 100000\n");
    assert_int_equal(room(&t), 100 * MIB);
    assert_true(quota(&t) == 1.2);
    tree_close(&t);
}

static void usage_above_the_limit_leaves_no_room(void **state)
{
    (void)state;
    struct tree t = tree_open();
    tree_write(&t, "proc/self/cgroup", "0::/j\n");
    tree_write(&t, "cgroup/j/memory.max", "1000\n");
    tree_write(&t, "cgroup/j/memory.current", "5000\n");
    assert_int_equal(room(&t), 0);
    tree_write(&t, "cgroup/j/memory.stat", "inactive_file 999999\n"); /* more than is used: read at another moment */
    assert_int_equal(room(&t), 1000);
    tree_close(&t);
}

static void missing_files_mean_no_limit_and_nonsense_too(void **state)
{
    (void)state;
    struct tree t = tree_open();
    static const char *const nonsense[] = {"", "\n", "x", "-5", "0", "0 0", "100000", "1e9 100000", "99999999999999999999 1", "100000 0"};
    tree_write(&t, "proc/self/cgroup", "0::/j\n");
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        tree_write(&t, "cgroup/j/cpu.max", nonsense[i]);
        assert_true(quota(&t) == 0);
    }
    tree_write(&t, "cgroup/j/memory.max", "nonsense");
    assert_true(room(&t) == UINT64_MAX);
    tree_write(&t, "cgroup/j/memory.max", "104857600"); /* usage unknown: the limit itself */
    assert_int_equal(room(&t), 100 * MIB);
    tree_close(&t);
}

static void a_hostile_group_list_is_survived(void **state)
{
    (void)state;
    struct tree t = tree_open();
    static char text[40000];
    static const char *const lines[] = {":::::\n", "0:\n", "\n\n\n", "0::\n", "::\n0::relative\n", "4:memory\n", "4:,,,:/a\n4:memory:\n"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        tree_write(&t, "proc/self/cgroup", lines[i]);
        assert_true(quota(&t) == 0 && room(&t) == UINT64_MAX);
    }
    memset(text, 'a', sizeof(text) - 1);
    memcpy(text, "0::/", 4);
    tree_write(&t, "proc/self/cgroup", text);
    assert_true(quota(&t) == 0 && room(&t) == UINT64_MAX);
    for (size_t i = 4; i < sizeof(text) - 1; i += 2)
        text[i] = '/';
    tree_write(&t, "proc/self/cgroup", text);
    assert_true(quota(&t) == 0 && room(&t) == UINT64_MAX);
    tree_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_without_groups_has_no_limit),
        cmocka_unit_test(version_2_reads_quota_and_memory),
        cmocka_unit_test(version_1_reads_quota_and_memory),
        cmocka_unit_test(the_smallest_limit_above_us_counts),
        cmocka_unit_test(the_root_of_a_namespace_is_read),
        cmocka_unit_test(a_path_that_is_not_visible_falls_back_to_what_is),
        cmocka_unit_test(a_path_outside_the_namespace_is_not_followed),
        cmocka_unit_test(both_versions_side_by_side_count),
        cmocka_unit_test(usage_above_the_limit_leaves_no_room),
        cmocka_unit_test(missing_files_mean_no_limit_and_nonsense_too),
        cmocka_unit_test(a_hostile_group_list_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
