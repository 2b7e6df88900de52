/* What this process may use: cores and memory by affinity and cgroup (v1, v2). */
#ifndef FB_HOST_HOST_H
#define FB_HOST_HOST_H

#include <stdint.h>

/* Whole cores: min(affinity, ceil(cgroup quota)), at least 1. */
int host_cores(void);
/* The default number of CPU workers: host_cores divided by LOCAL_WORLD_SIZE, less one for the trainer when there are more than two. */
int host_default_threads(void);
/* Bytes that can still be used: min(MemAvailable, limit - usage of each cgroup above us; inactive file cache counts as free). */
uint64_t host_memory_available(void);
/* The default budget: a quarter of host_memory_available divided by LOCAL_WORLD_SIZE (torchrun; 1 if unset), at least 64 MiB. */
uint64_t host_default_memory(void);

/* Nanoseconds that the calling thread could have run and had no core, since it began. HOST_UNKNOWN: the kernel does not tell. */
#define HOST_UNKNOWN UINT64_MAX
uint64_t host_no_core_ns(void);

/* For tests: the roots that stand for /proc and /sys/fs/cgroup. */
int host_cores_at(const char *proc, const char *cgroup);
uint64_t host_memory_available_at(const char *proc, const char *cgroup);

#endif
