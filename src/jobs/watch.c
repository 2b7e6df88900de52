/* The loop: looks at the threads about 20 times a second, a snapshot twice a second, new processes four times a second.
 *
 * It measures its own CPU time and looks less often when there is much to look at, so that it stays under 0.6 % of one core whatever it
 * watches. Time is monotonic; a jump of the wall clock changes nothing.
 */
#include "jobs/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/gpu.h"
#include "host/host.h"
#include "host/machine_sample.h"
#include "host/proc_file.h"
#include "host/proc_sample.h"
#include "jobs/watch_child.h"
#include "jobs/watch_line.h"
#include "meter/recording.h"

static const uint64_t tick_least_ns = 50000000, tick_most_ns = 2000000000, discover_ns = 250000000;
static const double own_share = 0.006;

struct watch {
    struct watch_child child;
    struct sampler sampler;
    struct machine_sampler machine;
    struct gpu gpu;
    struct series series;
    struct run_facts facts;
    struct watch_line line;
    struct recording_writer *recording;
    uint64_t started_ns, tick_at, discover_at, snapshot_at, tick_ns, interval_ns;
    double gpu_sum, gpu_low, gpu_high;
    int gpu_looks;
    struct gpu_figures gpu_now;
    bool line_is_on;
};

/* ---- what is watched ---- */

/* argv[0] and the first argument that looks like a script or module: nothing else leaves this function. */
static void keep_name(struct run_facts *f, const char *cmdline, size_t n)
{
    const char *end = cmdline + n, *slash = strrchr(cmdline, '/');
    snprintf(f->program, sizeof(f->program), "%s", slash ? slash + 1 : cmdline);
    for (const char *arg = cmdline + strlen(cmdline) + 1; arg < end; arg += strlen(arg) + 1) {
        const char *dot = strrchr(arg, '.'), *base = strrchr(arg, '/');
        if (arg[0] != '-' && dot && (strcmp(dot, ".py") == 0 || strcmp(dot, ".sh") == 0)) {
            snprintf(f->script, sizeof(f->script), "%s", base ? base + 1 : arg);
            return;
        }
    }
}

static void look_at_name(struct watch *w)
{
    char path[64], text[4096] = "";
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)w->child.pid);
    ssize_t n = proc_read(AT_FDCWD, path, text, sizeof(text));
    if (n > 0) { /* one that has ended has no name any more */
        w->facts.program[0] = w->facts.script[0] = 0;
        keep_name(&w->facts, text, (size_t)n);
    }
    explicit_bzero(text, sizeof(text));
}

static void keep_facts(struct watch *w)
{
    struct run_facts *f = &w->facts;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    f->started_unix = (double)t.tv_sec;
    f->machine_cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    f->exit_code = NAN;
    snprintf(f->gpu_name, sizeof(f->gpu_name), "%s", w->gpu.name);
    look_at_name(w);
}

/* Which right is missing and what is lost by it. */
static void note_losses(struct watch *w)
{
    struct run_facts *f = &w->facts;
    bool io_denied = false;
    for (int i = 0; i < w->sampler.tree.processes; i++) {
        const struct process *p = &w->sampler.tree.process[i];
        io_denied |= p->io_denied;
        for (int k = 0; k < p->threads; k++)
            f->uses_fullbore = strncmp(p->thread[k].comm, "fb-w", 4) == 0 ? 1 : f->uses_fullbore;
    }
    f->lost[0] = 0;
    if (w->sampler.denied == EACCES || w->sampler.denied == EPERM)
        snprintf(f->lost, sizeof(f->lost),
                 "system calls (ptrace read access to the process is missing: run as its user, or start it with "
                 "'fullbore watch --'); so what it waits for is unknown");
    else if (io_denied)
        snprintf(f->lost, sizeof(f->lost), "bytes read (access to /proc/PID/io is missing: run as the same user)");
    else if (w->sampler.tree.is_cut)
        snprintf(f->lost, sizeof(f->lost), "some threads: there are more than %d", TREE_THREADS_MOST);
    const struct mount_entry *m = mounts_find(&w->sampler.fds.mounts, w->sampler.data_device);
    snprintf(f->data_mount, sizeof(f->data_mount), "%s", m ? m->point : "");
    snprintf(f->data_device, sizeof(f->data_device), "%s", m ? m->source : "");
    snprintf(f->gpu_reason, sizeof(f->gpu_reason), "%s", w->gpu.reason);
}

/* ---- looking ---- */

static void look_at_gpu(struct watch *w)
{
    gpu_read(&w->gpu, &w->gpu_now);
    double x = w->gpu_now.busy_ratio;
    if (isnan(x))
        return;
    w->gpu_low = w->gpu_looks ? fmin(w->gpu_low, x) : x;
    w->gpu_high = w->gpu_looks ? fmax(w->gpu_high, x) : x;
    w->gpu_sum += x;
    w->gpu_looks++;
}

static void fill_gpu(struct watch *w, struct snapshot *s)
{
    if (!w->gpu_looks)
        look_at_gpu(w);
    bool has = w->gpu_looks > 0;
    s->gpu_count = w->gpu_now.count;
    s->gpu_ratio = has ? w->gpu_sum / w->gpu_looks : NAN;
    s->gpu_low_ratio = has ? w->gpu_low : NAN;
    s->gpu_high_ratio = has ? w->gpu_high : NAN;
    s->gpu_memory_bytes = w->gpu_now.memory_bytes;
    s->gpu_memory_total_bytes = w->gpu_now.memory_total_bytes;
    s->gpu_power_w = w->gpu_now.power_w;
    s->pcie_in_bytes = w->gpu_now.pcie_in_bytes;
    s->pcie_cap_bytes = w->gpu_now.pcie_cap_bytes;
    w->gpu_looks = 0;
    w->gpu_sum = 0;
}

static void take_snapshot(struct watch *w, uint64_t now)
{
    struct snapshot s;
    sampler_take(&w->sampler, now, &s);
    s.at_s = (double)(now - w->started_ns) / 1e9;
    s.cores = host_cores();
    machine_take(&w->machine, w->sampler.data_device, s.wall_s, &s);
    fill_gpu(w, &s);
    series_add(&w->series, &s);
    if (w->series.count <= 4)
        look_at_name(w); /* a launcher may become another program */
    note_losses(w);
    if (w->recording && w->series.count == 4)
        recording_note(w->recording, &w->facts);
    if (w->recording)
        recording_add(w->recording, &s);
    if (w->line_is_on)
        watch_line_show(&w->line, s.at_s, &w->series, &w->facts);
}

static void step(struct watch *w)
{
    uint64_t now = clock_now_ns(), cpu = clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID),
             spacing = w->tick_ns > discover_ns ? w->tick_ns : discover_ns;
    if (now >= w->discover_at) {
        sampler_discover(&w->sampler, now);
        look_at_gpu(w);
        w->discover_at = now + spacing;
    }
    sampler_tick(&w->sampler, now);
    if (now >= w->snapshot_at) {
        take_snapshot(w, now);
        w->snapshot_at = now + (w->tick_ns > w->interval_ns ? w->tick_ns : w->interval_ns);
    }
    double cost = (double)(clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / own_share;
    double smooth = 0.9 * (double)w->tick_ns + 0.1 * cost; /* one dear look (a snapshot) is no reason to slow down */
    w->tick_ns = smooth < (double)tick_least_ns ? tick_least_ns : smooth > (double)tick_most_ns ? tick_most_ns : (uint64_t)smooth;
    w->tick_at = now + w->tick_ns;
}

/* ---- what comes out ---- */

static void print_verdict(struct watch *w)
{
    struct verdict v;
    struct text t = {.limit = 1 << 16};
    diagnose(&w->series, &w->facts, &v);
    verdict_print(&v, &w->facts, &t);
    if (t.data)
        fprintf(stderr, "fullbore: %s", t.data);
    text_free(&t);
}

static int write_summary(struct watch *w, const struct watch_request *r, struct fb_error *e)
{
    struct verdict v;
    struct text t = {.limit = 1 << 24};
    diagnose(&w->series, &w->facts, &v);
    verdict_json(&v, &w->facts, &w->series, &t);
    int rc = t.failed || !t.data ? error_set(e, FB_E_NOMEM, "watch", "no memory for the summary") : 0;
    if (rc == 0 && r->json)
        fputs(t.data, stdout);
    FILE *f = rc == 0 && r->summary ? fopen(r->summary, "we") : NULL;
    if (rc == 0 && r->summary && (!f || fputs(t.data, f) < 0))
        rc = error_set_errno(e, "watch", errno, "write %s", r->summary);
    if (f && fclose(f) != 0 && rc == 0)
        rc = error_set_errno(e, "watch", errno, "write %s", r->summary);
    text_free(&t);
    return rc;
}

static void run(struct watch *w)
{
    bool wants_end = false;
    while (!w->child.has_ended && !wants_end) {
        bool wants_verdict = false, is_resized = false;
        watch_child_wait(&w->child, w->tick_at, &wants_verdict, &wants_end, &is_resized);
        if (is_resized && w->line_is_on)
            watch_line_resize(&w->line);
        if (wants_verdict)
            print_verdict(w);
        if (clock_now_ns() >= w->tick_at)
            step(w);
    }
    uint64_t now = clock_now_ns();
    if (now - w->sampler.interval_ns > w->interval_ns / 4)
        take_snapshot(w, now);
    w->facts.exit_code = w->child.is_child ? w->child.exit_code : NAN;
}

static int open_all(struct watch *w, const struct watch_request *r, struct fb_error *e)
{
    FB_TRY(watch_child_open(&w->child, r->command, r->pid, e));
    FB_TRY(sampler_open(&w->sampler, "/proc", "/sys", w->child.pid, e));
    w->sampler.tree.adopts = w->child.is_child;
    w->sampler.tree.process[0].born_ns = w->child.is_child;
    machine_open(&w->machine, "/proc", "/sys", "/sys/fs/cgroup", w->child.pid);
    gpu_open(&w->gpu, NULL, "/sys");
    w->started_ns = w->sampler.interval_ns = clock_now_ns();
    struct snapshot ignored = {0};
    machine_take(&w->machine, 0, 0, &ignored);
    w->interval_ns = (uint64_t)((r->interval_s > 0 ? r->interval_s : 0.5) * 1e9);
    w->tick_ns = tick_least_ns;
    w->tick_at = w->discover_at = w->started_ns;
    w->snapshot_at = w->started_ns + w->interval_ns;
    keep_facts(w);
    w->line_is_on = !r->quiet;
    if (w->line_is_on)
        watch_line_open(&w->line, r->line_s);
    return 0;
}

int watch_run(const struct watch_request *r, int *exit_code, struct fb_error *e)
{
    struct watch *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(e, FB_E_NOMEM, "watch", "no memory");
    w->child.signal_fd = w->child.pid_fd = -1;
    int rc = 0;
    if (r->recording)
        rc = recording_create(&w->recording, r->recording, e); /* before the child: a path that cannot be written stops nothing halfway */
    if (rc == 0)
        rc = open_all(w, r, e);
    if (rc == 0) {
        run(w);
        watch_line_close(&w->line);
        print_verdict(w);
        *exit_code = w->child.is_child ? w->child.exit_code : 0;
        if (r->summary || r->json)
            rc = write_summary(w, r, e);
    }
    if (w->recording) {
        int closed = recording_close(w->recording, &w->facts, e);
        rc = rc < 0 ? rc : closed;
    }
    gpu_close(&w->gpu);
    sampler_close(&w->sampler);
    watch_child_close(&w->child);
    series_free(&w->series);
    free(w);
    return rc;
}
