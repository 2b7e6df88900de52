/* Control groups: /proc/self/cgroup names our group in each hierarchy; its limits and those of every group above it hold at once.
 *
 * Version 2 has one hierarchy, mounted at the root (or at unified/ beside version 1); version 1 has one per controller, under the
 * controller's name or the list of those that share it ("cpu,cpuacct"). What the kernel calls our group need not be visible under that
 * name: a container without a cgroup namespace sees "/docker/ID/sub" but finds its own group mounted as the root, so the longest tail of
 * the path that exists is taken ("/sub", else the root itself); a group outside our namespace starts with "/..", which is never followed.
 * A file that is missing or makes no sense means no limit: better one thread too many than none.
 */
#include "host/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"

enum { TEXT_BYTES = 16384 }; /* of a file that is read whole; memory.stat of today has under 2 KB */

struct group {
    char root[PATH_MAX]; /* the hierarchy's mount point */
    char path[PATH_MAX]; /* our group, beneath or equal to root */
    bool is_v2;
};

/* The beginning of a file as text; false: not readable. */
static bool read_text(const char *path, char out[TEXT_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    out[file_read_all(fd, out, TEXT_BYTES - 1)] = 0;
    close(fd);
    return true;
}

static bool read_in(const char *dir, const char *name, char out[TEXT_BYTES])
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return read_text(path, out);
}

/* A whole number at the start of `text`; "max", negative numbers and nonsense are refused. */
static bool parse_whole(const char *text, uint64_t *value, char **end)
{
    while (*text == ' ' || *text == '\t')
        text++;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *value = strtoull(text, end, 10);
    return errno == 0;
}

static bool read_number(const char *dir, const char *name, uint64_t *value)
{
    char text[TEXT_BYTES], *end;
    return read_in(dir, name, text) && parse_whole(text, value, &end);
}

bool host_read_line_value(const char *path, const char *name, uint64_t *value)
{
    char text[TEXT_BYTES], *end;
    if (!read_text(path, text))
        return false;
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && (line[length] == ' ' || line[length] == ':'))
            return parse_whole(line + length + 1, value, &end);
    }
    return false;
}

static bool is_dir(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool has_word(const char *list, size_t list_length, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = list, *stop = list + list_length; p < stop;) {
        const char *comma = memchr(p, ',', (size_t)(stop - p));
        const char *end = comma ? comma : stop;
        if ((size_t)(end - p) == length && memcmp(p, word, length) == 0)
            return true;
        p = end + 1;
    }
    return false;
}

/* The longest tail of `path` that exists under the root and climbs nowhere. */
static void place_group(struct group *g, const char *path)
{
    for (const char *tail = path; tail && *tail == '/' && tail[1]; tail = strchr(tail + 1, '/')) {
        if (strstr(tail, "/..") || (size_t)snprintf(g->path, sizeof(g->path), "%s%s", g->root, tail) >= sizeof(g->path))
            continue;
        if (is_dir(g->path))
            return;
    }
    memcpy(g->path, g->root, sizeof(g->path));
}

static bool try_root(struct group *g, const char *cgroup, const char *folder, size_t folder_length, const char *path)
{
    int n = snprintf(g->root, sizeof(g->root), "%s%s%.*s", cgroup, folder_length ? "/" : "", (int)folder_length, folder);
    if (n < 0 || (size_t)n >= sizeof(g->root) || !is_dir(g->root))
        return false;
    place_group(g, path);
    return true;
}

/* One line "id:controllers:path" of /proc/self/cgroup (changed in place): does it tell where `controller` is for us? */
static bool parse_line(struct group *g, char *line, const char *cgroup, const char *controller, bool want_v2)
{
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return false;
    list++;
    size_t list_length = (size_t)(path++ - list);
    g->is_v2 = want_v2;
    if (want_v2)
        return list_length == 0 && (try_root(g, cgroup, "unified", 7, path) || try_root(g, cgroup, "", 0, path));
    return has_word(list, list_length, controller) &&
           (try_root(g, cgroup, controller, strlen(controller), path) || try_root(g, cgroup, list, list_length, path));
}

static bool find_group(struct group *g, const char *proc, const char *cgroup, const char *controller, bool want_v2)
{
    char text[TEXT_BYTES], *save = NULL;
    if (!read_in(proc, "self/cgroup", text))
        return false;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (parse_line(g, line, cgroup, controller, want_v2))
            return true;
    return false;
}

/* Goes to the group above; false: that was the root. */
static bool climb(struct group *g)
{
    char *slash = strrchr(g->path, '/');
    if (strlen(g->path) <= strlen(g->root) || !slash)
        return false;
    *slash = 0;
    return true;
}

static double cpu_quota_of(const struct group *g)
{
    char text[TEXT_BYTES], *end;
    uint64_t quota, period;
    if (g->is_v2) {
        if (!read_in(g->path, "cpu.max", text) || !parse_whole(text, &quota, &end) || !parse_whole(end, &period, &end))
            return 0;
    } else if (!read_number(g->path, "cpu.cfs_quota_us", &quota) || !read_number(g->path, "cpu.cfs_period_us", &period)) {
        return 0;
    }
    return period ? (double)quota / (double)period : 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The kernel drops inactive file pages before it lets an allocation fail, so they count as free. */
static uint64_t memory_room_of(const struct group *g)
{
    uint64_t limit = UINT64_MAX, high, used, inactive = 0;
    if (!read_number(g->path, g->is_v2 ? "memory.max" : "memory.limit_in_bytes", &limit))
        limit = UINT64_MAX;
    if (g->is_v2 && read_number(g->path, "memory.high", &high))
        limit = less(limit, high);
    if (limit == UINT64_MAX || !read_number(g->path, g->is_v2 ? "memory.current" : "memory.usage_in_bytes", &used))
        return limit;
    char stat_path[PATH_MAX + 64];
    snprintf(stat_path, sizeof(stat_path), "%s/memory.stat", g->path);
    if (!host_read_line_value(stat_path, g->is_v2 ? "inactive_file" : "total_inactive_file", &inactive))
        inactive = 0;
    used -= less(used, inactive);
    return limit - less(limit, used);
}

double cgroup_cpu_quota(const char *proc, const char *cgroup)
{
    double best = 0;
    for (int v2 = 0; v2 < 2; v2++) {
        struct group g;
        bool is_there = find_group(&g, proc, cgroup, "cpu", v2);
        for (; is_there; is_there = climb(&g)) {
            double quota = cpu_quota_of(&g);
            if (quota > 0 && (best == 0 || quota < best))
                best = quota;
        }
    }
    return best;
}

uint64_t cgroup_memory_room(const char *proc, const char *cgroup)
{
    uint64_t best = UINT64_MAX;
    for (int v2 = 0; v2 < 2; v2++) {
        struct group g;
        bool is_there = find_group(&g, proc, cgroup, "memory", v2);
        for (; is_there; is_there = climb(&g))
            best = less(best, memory_room_of(&g));
    }
    return best;
}
