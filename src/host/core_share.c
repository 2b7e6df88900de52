#include "host/core_share.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/proc/proc_file.h"

enum { CORES_MOST = CPU_SETSIZE, STAT_TEXT = 1 << 18, IDLE = 3, IOWAIT = 4, COLUMNS = 8 };

uint64_t core_share_busy_ns(const char *stat, const unsigned char *is_ours, int cores)
{
    long hz = sysconf(_SC_CLK_TCK);
    uint64_t ticks = 0;
    for (const char *line = stat; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0) {
        uint64_t n[COLUMNS] = {0};
        if (strncmp(line, "cpu", 3) != 0 || !isdigit((unsigned char)line[3]))
            continue;
        char *rest;
        long core = strtol(line + 3, &rest, 10);
        if (core >= cores || !is_ours[core] || proc_numbers(rest, n, COLUMNS) <= IDLE)
            continue;
        for (int i = 0; i < COLUMNS; i++)
            ticks += i == IDLE || i == IOWAIT ? 0 : n[i];
    }
    return hz > 0 ? ticks * (1000000000u / (uint64_t)hz) : 0;
}

/* UINT64_MAX: not known. */
static uint64_t busy_ns(void)
{
    unsigned char is_ours[CORES_MOST] = {0};
    cpu_set_t set;
    char *text = malloc(STAT_TEXT);
    uint64_t busy = UINT64_MAX;
    if (text && sched_getaffinity(0, sizeof(set), &set) == 0 && proc_read(AT_FDCWD, "/proc/stat", text, STAT_TEXT) > 0) {
        for (int i = 0; i < CORES_MOST; i++)
            is_ours[i] = CPU_ISSET(i, &set) != 0;
        busy = core_share_busy_ns(text, is_ours, CORES_MOST);
    }
    free(text);
    return busy;
}

/* What all threads of this process waited for a core. */
static uint64_t no_core_ns(void)
{
    DIR *tasks = opendir("/proc/self/task");
    uint64_t sum = 0;
    for (const struct dirent *d; tasks && (d = readdir(tasks)) != NULL;) {
        char path[300], text[96];
        uint64_t now[2];
        snprintf(path, sizeof(path), "%.255s/schedstat", d->d_name);
        if (isdigit((unsigned char)d->d_name[0]) && proc_read(dirfd(tasks), path, text, sizeof(text)) > 0 &&
            proc_numbers(text, now, 2) == 2)
            sum += now[1];
    }
    if (tasks)
        closedir(tasks);
    return sum;
}

void core_share_begin(struct core_share *s)
{
    *s = (struct core_share){clock_now_ns(), clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID), no_core_ns(), busy_ns()};
}

struct core_use core_share_end(const struct core_share *s)
{
    struct core_share now;
    core_share_begin(&now);
    double wall = (double)(now.since_ns - s->since_ns);
    if (!(wall > 0))
        return (struct core_use){NAN, NAN, NAN};
    struct core_use u = {.used = (double)(now.cpu_ns - s->cpu_ns) / wall, .others = NAN};
    u.delayed = now.no_core_ns > s->no_core_ns ? (double)(now.no_core_ns - s->no_core_ns) / wall : 0;
    if (now.busy_ns != UINT64_MAX && s->busy_ns != UINT64_MAX)
        u.others = fmax(0, (double)(now.busy_ns - s->busy_ns) / wall - u.used);
    return u;
}
