/* The limits that control groups put on this process, version 1 and 2, nested ones included. */
#ifndef FB_HOST_CGROUP_H
#define FB_HOST_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `proc` and `cgroup` stand for /proc and /sys/fs/cgroup. */

/* The smallest CPU quota of the groups above us, in cores (1.5); 0: none. */
double cgroup_cpu_quota(const char *proc, const char *cgroup);
/* The smallest room for memory of the groups above us: limit - usage + inactive file cache; UINT64_MAX: no limit. */
uint64_t cgroup_memory_room(const char *proc, const char *cgroup);

/* The number after `name` in a file of "name value" lines (also "name: value kB", as /proc/meminfo has them); false: not there. */
bool host_read_line_value(const char *path, const char *name, uint64_t *value);

#endif
