#include "host/machine_sample.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "host/proc/proc_file.h"

enum { MACHINE_TEXT = 1 << 16 };

static bool read_proc(const struct machine_sampler *m, const char *name, char *out)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", m->proc, name);
    return proc_read(AT_FDCWD, path, out, MACHINE_TEXT) > 0;
}

static double step(uint64_t now, uint64_t *before)
{
    double d = now >= *before ? (double)(now - *before) : 0;
    *before = now;
    return d;
}

/* ---- cores and pressure ---- */

/* user nice system idle iowait irq softirq steal: idle and iowait are the time in which nothing ran. iowait says no more than that. */
static void take_cpu(struct machine_sampler *m, char *text, struct snapshot *out)
{
    uint64_t n[8] = {0}, all = 0;
    out->cpu_ratio = NAN;
    if (!read_proc(m, "stat", text) || strncmp(text, "cpu ", 4) != 0 || proc_numbers(text + 4, n, 8) < 5)
        return;
    for (int i = 0; i < 8; i++)
        all += n[i];
    double all_more = step(all, &m->all_jiffies), busy_more = step(all - n[3] - n[4], &m->busy_jiffies);
    if (m->has_before && all_more > 0)
        out->cpu_ratio = busy_more / all_more;
}

/* Totals in microseconds, not the kernel's averages: those lag behind. */
static void take_pressure(struct machine_sampler *m, char *text, double wall_s, struct snapshot *out)
{
    static const char *const files[4] = {"pressure/cpu", "pressure/io", "pressure/memory", "pressure/memory"};
    double *slot[4] = {&out->psi_cpu, &out->psi_io, &out->psi_memory, &out->psi_memory_full};
    for (int i = 0; i < 4; i++) {
        *slot[i] = NAN;
        const char *line = read_proc(m, files[i], text) ? strstr(text, i == 3 ? "full" : "some") : NULL;
        const char *total = line ? strstr(line, "total=") : NULL;
        uint64_t us;
        if (!total || proc_numbers(total + 6, &us, 1) != 1)
            continue;
        double more = step(us, &m->psi_us[i]);
        if (m->has_before && wall_s > 0)
            *slot[i] = fmin(1, more / 1e6 / wall_s);
    }
}

static void take_memory(struct machine_sampler *m, char *text, struct snapshot *out)
{
    uint64_t total, available;
    out->memory_total_bytes = out->memory_used_bytes = NAN;
    if (!read_proc(m, "meminfo", text) || !proc_value(text, "MemTotal", &total) || !proc_value(text, "MemAvailable", &available))
        return;
    out->memory_total_bytes = (double)total * 1024;
    out->memory_used_bytes = (double)(total - (available < total ? available : total)) * 1024;
}

static void take_group(struct machine_sampler *m, dev_t device, struct snapshot *out)
{
    struct group_figures g;
    group_read(m->proc, m->cgroup, m->pid, device, &g);
    double throttled = step(g.throttled_us, &m->throttled_us), refaults = step(g.refaults, &m->refaults);
    out->quota_cores = g.quota_cores;
    out->throttled_s = g.has_throttled && m->has_before ? throttled / 1e6 : NAN;
    out->refaults = g.has_refaults && m->has_before ? refaults : NAN;
    out->memory_limit_bytes = g.memory_limit_bytes;
    out->memory_group_bytes = g.memory_bytes;
    out->disk_cap_bytes = g.cap_read_bytes;
    out->disk_cap_reads = g.cap_reads;
}

/* ---- network ---- */

static double link_bytes(const struct machine_sampler *m, const char *name)
{
    char path[PATH_MAX], text[64];
    uint64_t mbit;
    snprintf(path, sizeof(path), "%s/class/net/%s/speed", m->sys, name);
    if (proc_read(AT_FDCWD, path, text, sizeof(text)) <= 0 || proc_numbers(text, &mbit, 1) != 1 || mbit == 0 || mbit > 10000000)
        return NAN;
    return (double)mbit * 1e6 / 8;
}

static void take_network(struct machine_sampler *m, char *text, struct snapshot *out)
{
    uint64_t in = 0, sent = 0, loopback = 0, n[9];
    double cap = 0;
    char *save = NULL;
    out->net_in_bytes = out->net_out_bytes = out->net_cap_bytes = out->loopback_bytes = NAN;
    if (!read_proc(m, "net/dev", text))
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *colon = strchr(line, ':'), *name = line + strspn(line, " ");
        if (!colon || proc_numbers(colon + 1, n, 9) < 9)
            continue;
        *colon = 0;
        if (strcmp(name, "lo") == 0) {
            loopback += n[0];
            continue;
        }
        in += n[0];
        sent += n[8];
        double link = link_bytes(m, name);
        cap += isnan(link) ? 0 : link;
    }
    double in_more = step(in, &m->net_in), out_more = step(sent, &m->net_out), loop_more = step(loopback, &m->loopback);
    if (m->has_before) {
        out->net_in_bytes = in_more;
        out->net_out_bytes = out_more;
        out->loopback_bytes = loop_more;
    }
    out->net_cap_bytes = cap > 0 ? cap : NAN;
}

/* ---- disks ---- */

bool disk_parse_line(const char *line, struct disk_line *d)
{
    unsigned a, b;
    unsigned long long n[11];
    *d = (struct disk_line){0};
    if (sscanf(line, "%u %u %31s %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu", &a, &b, d->name, &n[0], &n[1], &n[2], &n[3],
               &n[4], &n[5], &n[6], &n[7], &n[8], &n[9], &n[10]) != 14)
        return false;
    d->device = makedev(a, b);
    d->reads = n[0];
    d->read_sectors = n[2];
    d->read_ms = n[3];
    d->write_sectors = n[6];
    d->busy_ms = n[9];
    d->queue_ms = n[10];
    return true;
}

static bool is_counted(const struct disk_line *d, dev_t data_device)
{
    if (data_device)
        return d->device == data_device;
    return strncmp(d->name, "loop", 4) != 0 && strncmp(d->name, "ram", 3) != 0 && strncmp(d->name, "zram", 4) != 0;
}

static struct disk_line *find_disk(struct machine_sampler *m, dev_t device)
{
    for (int i = 0; i < m->disks; i++)
        if (m->disk[i].device == device)
            return &m->disk[i];
    return NULL;
}

static void take_disk(struct machine_sampler *m, const struct disk_line *now, bool counts, struct snapshot *out)
{
    struct disk_line *before = find_disk(m, now->device);
    if (!before && m->disks < DISKS_MOST) {
        m->disk[m->disks++] = *now;
        return;
    }
    if (!before)
        return;
    if (counts && now->reads >= before->reads && now->queue_ms >= before->queue_ms) {
        out->disk_reads += (double)(now->reads - before->reads);
        out->disk_read_bytes += (double)(now->read_sectors - before->read_sectors) * 512;
        out->disk_read_s += (double)(now->read_ms - before->read_ms) / 1e3;
        out->disk_queue_s += (double)(now->queue_ms - before->queue_ms) / 1e3;
        out->disk_busy_s += (double)(now->busy_ms - before->busy_ms) / 1e3;
        out->disk_write_bytes += (double)(now->write_sectors - before->write_sectors) * 512;
    }
    *before = *now;
}

static void take_disks(struct machine_sampler *m, char *text, dev_t data_device, struct snapshot *out)
{
    char *save = NULL;
    struct disk_line d;
    bool is_read = read_proc(m, "diskstats", text), has_data_device = false;
    char *copy = is_read ? strdup(text) : NULL;
    for (char *line = copy ? strtok_r(copy, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
        has_data_device |= disk_parse_line(line, &d) && d.device == data_device;
    free(copy);
    for (char *line = is_read ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
        if (disk_parse_line(line, &d))
            take_disk(m, &d, is_counted(&d, has_data_device ? data_device : 0), out);
    if (!is_read || !m->has_before)
        out->disk_reads = out->disk_read_bytes = out->disk_read_s = out->disk_queue_s = out->disk_busy_s = out->disk_write_bytes = NAN;
}

/* ---- all ---- */

void machine_open(struct machine_sampler *m, const char *proc, const char *sys, const char *cgroup, pid_t pid)
{
    *m = (struct machine_sampler){.proc = proc, .sys = sys, .cgroup = cgroup, .pid = pid};
}

void machine_take(struct machine_sampler *m, dev_t data_device, double wall_s, struct snapshot *out)
{
    char *text = malloc(MACHINE_TEXT);
    if (!text)
        return;
    take_cpu(m, text, out);
    take_pressure(m, text, wall_s, out);
    take_memory(m, text, out);
    take_group(m, data_device, out);
    take_network(m, text, out);
    take_disks(m, text, data_device, out);
    m->has_before = true;
    free(text);
}
