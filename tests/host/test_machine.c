/* Figures of the machine, its control groups and its file systems, over made-up folders. */
#include "fake_tree.h"

#include <math.h>
#include <sys/sysmacros.h>

#include "host/machine_sample.h"
#include "host/proc/proc_mounts.h"

static void a_line_of_diskstats_is_parsed_and_a_short_one_refused(void **state)
{
    (void)state;
    struct disk_line d;
    assert_true(disk_parse_line(" 254 0 vda 400 2 8000 700 120 17 1300 100 0 60 830 5 4 3 2 1 0", &d));
    assert_string_equal(d.name, "vda");
    assert_int_equal(d.reads, 400);
    assert_int_equal(d.read_sectors, 8000);
    assert_int_equal(d.read_ms, 700);
    assert_int_equal(d.queue_ms, 830);
    assert_false(disk_parse_line("254 0 vda 1 2 3", &d));
    assert_false(disk_parse_line("", &d));
}

static void what_is_not_there_is_unknown_and_never_zero(void **state)
{
    (void)state;
    struct tree t = tree_open();
    struct machine_sampler m;
    struct snapshot s = {0};
    machine_open(&m, t.proc, t.root, t.cgroup, 7);
    machine_take(&m, 0, 1, &s);
    machine_take(&m, 0, 1, &s);
    assert_true(isnan(s.cpu_ratio) && isnan(s.psi_io) && isnan(s.psi_memory) && isnan(s.memory_used_bytes) && isnan(s.disk_reads));
    assert_true(isnan(s.net_in_bytes) && isnan(s.throttled_s) && isnan(s.quota_cores) && isnan(s.memory_limit_bytes));
    tree_close(&t);
}

static void the_second_look_gives_differences(void **state)
{
    (void)state;
    struct tree t = tree_open();
    struct machine_sampler m;
    struct snapshot s = {0};
    tree_write(&t, "proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\n");
    tree_write(&t, "proc/diskstats", "254 0 vda 10 0 80 5 0 0 0 0 0 1 2\n7 0 loop0 9 0 9 9 0 0 0 0 0 9 9\n");
    tree_write(&t, "proc/pressure/io", "some avg10=0 avg60=0 avg300=0 total=1000000\n");
    machine_open(&m, t.proc, t.root, t.cgroup, 7);
    machine_take(&m, 0, 1, &s);
    assert_true(isnan(s.cpu_ratio));
    s = (struct snapshot){0};
    tree_write(&t, "proc/stat", "cpu  150 0 100 725 125 0 0 0 0 0\n");
    tree_write(&t, "proc/diskstats", "254 0 vda 30 0 240 45 0 0 0 0 0 21 42\n7 0 loop0 99 0 99 99 0 0 0 0 0 99 99\n");
    tree_write(&t, "proc/pressure/io", "some avg10=0 avg60=0 avg300=0 total=1500000\n");
    machine_take(&m, 0, 1, &s);
    assert_true(fabs(s.cpu_ratio - 0.5) < 1e-9); /* iowait is not busy */
    assert_true(fabs(s.psi_io - 0.5) < 1e-9);
    assert_true(s.disk_reads == 20 && s.disk_read_bytes == 160 * 512);
    assert_true(fabs(s.disk_read_s - 0.040) < 1e-9);
    tree_close(&t);
}

static void limits_of_a_group_are_read_in_both_versions(void **state)
{
    (void)state;
    struct tree t = tree_open();
    struct group_figures g;
    tree_write(&t, "proc/7/cgroup", "0::/job\n");
    tree_write(&t, "cgroup/job/cpu.max", "150000 100000\n");
    tree_write(&t, "cgroup/job/cpu.stat", "usage_usec 9\nthrottled_usec 2500000\n");
    tree_write(&t, "cgroup/job/memory.max", "1000\n");
    tree_write(&t, "cgroup/job/memory.current", "990\n");
    tree_write(&t, "cgroup/job/memory.stat", "anon 1\nworkingset_refault_file 77\n");
    tree_write(&t, "cgroup/job/io.max", "254:0 rbps=1000000 wbps=max riops=50 wiops=max\n");
    group_read(t.proc, t.cgroup, 7, makedev(254, 0), &g);
    assert_true(g.quota_cores == 1.5 && g.throttled_us == 2500000 && g.memory_limit_bytes == 1000 && g.memory_bytes == 990);
    assert_true(g.refaults == 77 && g.cap_read_bytes == 1e6 && g.cap_reads == 50);
    tree_write(&t, "proc/8/cgroup", "3:cpu,cpuacct:/a/b\n2:blkio:/a\n");
    tree_write(&t, "cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
    tree_write(&t, "cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    tree_write(&t, "cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
    tree_write(&t, "cgroup/cpu/a/b/cpu.stat", "nr_throttled 3\nthrottled_time 7000000\n");
    tree_write(&t, "cgroup/blkio/a/blkio.throttle.read_iops_device", "254:0 120\n");
    group_read(t.proc, t.cgroup, 8, makedev(254, 0), &g);
    assert_true(g.quota_cores == 0.5 && g.throttled_us == 7000 && g.cap_reads == 120 && isnan(g.cap_read_bytes));
    tree_close(&t);
}

static void file_systems_are_told_apart(void **state)
{
    (void)state;
    assert_int_equal(mounts_kind("tmpfs", "tmpfs"), FILE_MEMORY);
    assert_int_equal(mounts_kind("nfs4", "server:/x"), FILE_NFS);
    assert_int_equal(mounts_kind("9p", "share"), FILE_9P);
    assert_int_equal(mounts_kind("fuse", "mountpoint-s3"), FILE_S3);
    assert_int_equal(mounts_kind("fuse.mountpoint-s3", "x"), FILE_S3);
    assert_int_equal(mounts_kind("fuse.sshfs", "x"), FILE_FUSE);
    assert_int_equal(mounts_kind("ext4", "/dev/sda1"), FILE_NONE);
}

static void a_disk_is_rotating_solid_or_nvme(void **state)
{
    (void)state;
    struct tree t = tree_open();
    struct mounts *m = malloc(sizeof(*m));
    assert_non_null(m);
    tree_write(&t, "proc/7/mountinfo",
               "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:17 / /data rw shared:1 - ext4 /dev/sdb1 rw\n"
               "3 1 259:0 / /fast rw - xfs /dev/nvme0n1 rw\n4 1 0:40 / /s3 rw - fuse mountpoint-s3 rw\nnonsense\n");
    tree_write(&t, "dev/block/8:1/queue/rotational", "1\n");
    tree_write(&t, "dev/block/8:17/queue/rotational", "0\n");
    assert_true(mounts_read(m, t.proc, 7, t.root));
    assert_int_equal(m->count, 4);
    assert_int_equal(mounts_find(m, makedev(8, 1))->kind, FILE_ROTATING);
    assert_int_equal(mounts_find(m, makedev(8, 17))->kind, FILE_SSD);
    assert_int_equal(mounts_find(m, makedev(259, 0))->kind, FILE_NVME);
    assert_true(mounts_is_remote(mounts_find(m, makedev(0, 40))->kind));
    assert_null(mounts_find(m, makedev(1, 1)));
    free(m);
    tree_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_of_diskstats_is_parsed_and_a_short_one_refused),
        cmocka_unit_test(what_is_not_there_is_unknown_and_never_zero),
        cmocka_unit_test(the_second_look_gives_differences),
        cmocka_unit_test(limits_of_a_group_are_read_in_both_versions),
        cmocka_unit_test(file_systems_are_told_apart),
        cmocka_unit_test(a_disk_is_rotating_solid_or_nvme),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
