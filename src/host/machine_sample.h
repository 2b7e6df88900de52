/* What the machine around a program does: cores, memory, pressure, disks, network, its control group. */
#ifndef FB_HOST_MACHINE_SAMPLE_H
#define FB_HOST_MACHINE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/snapshot.h"

enum { DISKS_MOST = 64 };

/* One line of diskstats. */
struct disk_line {
    dev_t device;
    char name[32];
    uint64_t reads, read_sectors, read_ms, write_sectors, busy_ms, queue_ms;
};
bool disk_parse_line(const char *line, struct disk_line *d);

/* Differences of one device over an interval added to a snapshot. A device number above `most` digits wraps: counters that went back count
 * 0. */
struct machine_sampler {
    const char *proc, *sys, *cgroup; /* "/proc", "/sys", "/sys/fs/cgroup" */
    pid_t pid;                       /* whose control group counts */
    bool has_before;
    uint64_t busy_jiffies, all_jiffies;
    uint64_t psi_us[4];
    uint64_t net_in, net_out, loopback;
    uint64_t throttled_us, refaults;
    struct disk_line disk[DISKS_MOST];
    int disks;
};

void machine_open(struct machine_sampler *m, const char *proc, const char *sys, const char *cgroup, pid_t pid);
/* Fills the members about the machine; the sums are since the last call, so the first one has none. data_device 0: all disks. */
void machine_take(struct machine_sampler *m, dev_t data_device, double wall_s, struct snapshot *out);

/* The control group of another process (v1 and v2). */
struct group_figures {
    double quota_cores, memory_limit_bytes, memory_bytes, cap_read_bytes, cap_reads; /* NAN: none */
    uint64_t throttled_us, refaults;
    bool has_throttled, has_refaults;
};
void group_read(const char *proc, const char *cgroup, pid_t pid, dev_t data_device, struct group_figures *g);

#endif
