/* Memory: what the machine has left, cut by what control groups leave. */
#include "host/host.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/cgroup.h"
#include "host/local_world.h"

#define LEAST_MEMORY ((uint64_t)64 << 20)

/* MemAvailable exists since Linux 3.14; before, and where /proc is hidden, free pages are the honest lower bound. */
static uint64_t machine_available(const char *proc)
{
    char path[PATH_MAX];
    uint64_t kib;
    snprintf(path, sizeof(path), "%s/meminfo", proc);
    if (host_read_line_value(path, "MemAvailable", &kib) || host_read_line_value(path, "MemFree", &kib))
        return kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024;
    long pages = sysconf(_SC_AVPHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}

uint64_t host_memory_available_at(const char *proc, const char *cgroup)
{
    uint64_t machine = machine_available(proc), room = cgroup_memory_room(proc, cgroup);
    return machine < room ? machine : room;
}

uint64_t host_memory_available(void)
{
    return host_memory_available_at("/proc", "/sys/fs/cgroup");
}

int host_local_world(const char *text)
{
    if (!text)
        return 1;
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    return end != text && !*end && !errno && n >= 1 && n <= 65536 ? (int)n : 1;
}

uint64_t host_default_memory(void)
{
    uint64_t share = host_memory_available() / 4 / (uint64_t)host_local_world(getenv("LOCAL_WORLD_SIZE"));
    return share > LEAST_MEMORY ? share : LEAST_MEMORY;
}
