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
    for (const char *line = stat, *end; line && *line; end = strchr(line, '\n'), line = end ? end + 1 : NULL) {
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

/* What each thread of this process has waited for a core so far. */
static void read_threads(struct core_share *s)
{
    DIR *tasks = opendir("/proc/self/task");
    s->threads = 0;
    for (const struct dirent *d; tasks && s->threads < CORE_SHARE_THREADS && (d = readdir(tasks)) != NULL;) {
        char path[300], text[96];
        uint64_t now[2];
        snprintf(path, sizeof(path), "%.255s/schedstat", d->d_name);
        if (!isdigit((unsigned char)d->d_name[0]) || proc_read(dirfd(tasks), path, text, sizeof(text)) <= 0 ||
            proc_numbers(text, now, 2) != 2)
            continue;
        s->thread[s->threads].id = strtoull(d->d_name, NULL, 10);
        s->thread[s->threads++].no_core_ns = now[1];
    }
    if (tasks)
        closedir(tasks);
}

void core_share_begin(struct core_share *s)
{
    s->since_ns = clock_now_ns();
    s->cpu_ns = clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    s->busy_ns = busy_ns();
    read_threads(s);
}

/* A thread that was not there had not waited; one that did not fit into the list is not known, and a number may come again. */
static uint64_t waited_between(const struct core_share *a, uint64_t id, uint64_t now_ns)
{
    for (int i = 0; i < a->threads; i++)
        if (a->thread[i].id == id)
            return now_ns > a->thread[i].no_core_ns ? now_ns - a->thread[i].no_core_ns : 0;
    return a->threads < CORE_SHARE_THREADS ? now_ns : 0;
}

struct core_use core_share_between(const struct core_share *a, const struct core_share *z)
{
    double wall = (double)(z->since_ns - a->since_ns), delayed = 0;
    if (!(wall > 0))
        return (struct core_use){NAN, NAN, NAN};
    for (int i = 0; i < z->threads; i++)
        delayed += (double)waited_between(a, z->thread[i].id, z->thread[i].no_core_ns);
    struct core_use u = {.used = (double)(z->cpu_ns - a->cpu_ns) / wall, .delayed = delayed / wall, .others = NAN};
    if (z->busy_ns != UINT64_MAX && a->busy_ns != UINT64_MAX)
        u.others = fmax(0, (double)(z->busy_ns - a->busy_ns) / wall - u.used);
    return u;
}
