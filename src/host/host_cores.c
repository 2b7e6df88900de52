/* Cores: what the affinity mask allows (cpusets are in it), cut by the CPU quota of control groups. */
#include "host/host.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/cgroup.h"
#include "host/local_world.h"
#include "host/proc/proc_file.h"

/* The kernel refuses masks smaller than its own, so the mask grows until it fits. */
static int affinity_cores(void)
{
    for (int cpus = CPU_SETSIZE; cpus <= CPU_SETSIZE * 64; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            break;
        int rc = sched_getaffinity(0, CPU_ALLOC_SIZE((size_t)cpus), set);
        int count = rc == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE((size_t)cpus), set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

int host_cores_at(const char *proc, const char *cgroup)
{
    int cores = affinity_cores();
    double quota = cgroup_cpu_quota(proc, cgroup);
    if (quota > 0 && ceil(quota) < cores)
        cores = (int)ceil(quota);
    return cores > 0 ? cores : 1;
}

int host_cores(void)
{
    return host_cores_at("/proc", "/sys/fs/cgroup");
}

int host_default_threads(void)
{
    int cores = host_cores() / host_local_world(getenv("LOCAL_WORLD_SIZE"));
    return cores > 2 ? cores - 1 : cores > 0 ? cores : 1;
}

uint64_t host_no_core_ns(void)
{
    char text[96];
    uint64_t now[2];
    bool is_known = proc_read(AT_FDCWD, "/proc/thread-self/schedstat", text, sizeof(text)) > 0 && proc_numbers(text, now, 2) == 2;
    return is_known ? now[1] : HOST_UNKNOWN;
}
