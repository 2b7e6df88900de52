/* Quota, throttling, memory and I/O limits of the group that another process is in, and of the groups above it: the tightest counts. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "host/machine_sample.h"
#include "host/proc/proc_file.h"

enum { GROUP_TEXT = 16384, GROUP_DEPTH = 32 };

static bool read_in(const char *dir, const char *name, char *out)
{
    char path[PATH_MAX];
    return (size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) < sizeof(path) && proc_read(AT_FDCWD, path, out, GROUP_TEXT) > 0;
}

static bool read_number(const char *dir, const char *name, uint64_t *value)
{
    char text[GROUP_TEXT];
    return read_in(dir, name, text) && proc_numbers(text, value, 1) == 1;
}

static void least(double *slot, double value)
{
    if (isnan(*slot) || value < *slot)
        *slot = value;
}

static void look_at_cpu(const char *dir, struct group_figures *g)
{
    char text[GROUP_TEXT];
    uint64_t n[2], value;
    if (read_in(dir, "cpu.max", text) && proc_numbers(text, n, 2) == 2 && n[1])
        least(&g->quota_cores, (double)n[0] / (double)n[1]);
    else if (read_number(dir, "cpu.cfs_quota_us", &n[0]) && read_number(dir, "cpu.cfs_period_us", &n[1]) && n[1] && n[0] < 1ull << 60)
        least(&g->quota_cores, (double)n[0] / (double)n[1]);
    if (!read_in(dir, "cpu.stat", text))
        return;
    if (proc_value(text, "throttled_usec", &value))
        g->throttled_us += value, g->has_throttled = true;
    else if (proc_value(text, "throttled_time", &value))
        g->throttled_us += value / 1000, g->has_throttled = true;
}

static void look_at_memory(const char *dir, struct group_figures *g)
{
    char text[GROUP_TEXT];
    uint64_t limit, used, value;
    static const char *const names[2][2] = {{"memory.max", "memory.current"}, {"memory.limit_in_bytes", "memory.usage_in_bytes"}};
    for (int v1 = 0; v1 < 2; v1++)
        if (read_number(dir, names[v1][0], &limit) && limit < 1ull << 62 && read_number(dir, names[v1][1], &used) &&
            (isnan(g->memory_limit_bytes) || (double)limit < g->memory_limit_bytes)) {
            g->memory_limit_bytes = (double)limit;
            g->memory_bytes = (double)used;
        }
    if (g->has_refaults || !read_in(dir, "memory.stat", text))
        return;
    if (proc_value(text, "workingset_refault_file", &value) || proc_value(text, "workingset_refault", &value))
        g->refaults = value, g->has_refaults = true;
}

/* "254:0 1048576" per line (v1), "254:0 rbps=1048576 riops=max" (v2). */
static void look_at_io(const char *dir, dev_t device, struct group_figures *g)
{
    char text[GROUP_TEXT], key[32];
    uint64_t value;
    snprintf(key, sizeof(key), "%u:%u", major(device), minor(device));
    if (read_in(dir, "blkio.throttle.read_bps_device", text) && proc_value(text, key, &value))
        least(&g->cap_read_bytes, (double)value);
    if (read_in(dir, "blkio.throttle.read_iops_device", text) && proc_value(text, key, &value))
        least(&g->cap_reads, (double)value);
    const char *line = read_in(dir, "io.max", text) ? strstr(text, key) : NULL;
    const char *bytes = line ? strstr(line, "rbps=") : NULL, *reads = line ? strstr(line, "riops=") : NULL;
    if (bytes && proc_numbers(bytes + 5, &value, 1))
        least(&g->cap_read_bytes, (double)value);
    if (reads && proc_numbers(reads + 6, &value, 1))
        least(&g->cap_reads, (double)value);
}

static bool is_dir(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* The group itself and those above it, up to the hierarchy's root. */
static void climb(const char *root, const char *group, dev_t device, struct group_figures *g)
{
    char dir[PATH_MAX];
    if (strstr(group, "/..") || (size_t)snprintf(dir, sizeof(dir), "%s%s", root, strcmp(group, "/") == 0 ? "" : group) >= sizeof(dir) ||
        !is_dir(dir))
        snprintf(dir, sizeof(dir), "%.4000s", root); /* another namespace's name: what is mounted here is what holds */
    for (int depth = 0; depth < GROUP_DEPTH; depth++) {
        look_at_cpu(dir, g);
        look_at_memory(dir, g);
        look_at_io(dir, device, g);
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= strlen(root) || !slash)
            return;
        *slash = 0;
    }
}

/* One line "id:controllers:path" of /proc/PID/cgroup. */
static void follow_line(char *line, const char *cgroup, dev_t device, struct group_figures *g)
{
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL, root[PATH_MAX];
    if (!path)
        return;
    list++;
    *path++ = 0;
    if (!*list) {
        snprintf(root, sizeof(root), "%s/unified", cgroup);
        climb(is_dir(root) ? root : cgroup, path, device, g);
        return;
    }
    static const char *const wanted[] = {"cpu", "memory", "blkio"};
    for (int i = 0; i < 3; i++) {
        char *at = strstr(list, wanted[i]);
        size_t length = strlen(wanted[i]);
        if (!at || (at != list && at[-1] != ',') || (at[length] && at[length] != ','))
            continue;
        snprintf(root, sizeof(root), "%s/%s", cgroup, wanted[i]);
        if (!is_dir(root))
            snprintf(root, sizeof(root), "%s/%s", cgroup, list);
        climb(root, path, device, g);
        return;
    }
}

void group_read(const char *proc, const char *cgroup, pid_t pid, dev_t data_device, struct group_figures *g)
{
    *g =
        (struct group_figures){.quota_cores = NAN, .memory_limit_bytes = NAN, .memory_bytes = NAN, .cap_read_bytes = NAN, .cap_reads = NAN};
    char path[PATH_MAX], text[GROUP_TEXT], *save = NULL;
    snprintf(path, sizeof(path), "%s/%d/cgroup", proc, (int)pid);
    if (proc_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        follow_line(line, cgroup, data_device, g);
}
