#include "monitor/observer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/text/text.h"
#include "host/host.h"
#include "host/proc/proc_file.h"

static const uint64_t tick_least_ns = 50000000, tick_most_ns = 2000000000, discover_ns = 250000000;
static const double own_share = 0.006;

/* ---- what is watched ---- */

/* A script's name, and not code (-c) nor an assignment (env NAME=...). */
static bool is_script(const char *arg)
{
    const char *dot = strrchr(arg, '.');
    return arg[0] != '-' && !strpbrk(arg, "= \t\n;") && dot && (strcmp(dot, ".py") == 0 || strcmp(dot, ".sh") == 0);
}

/* argv[0] and the first argument that looks like a script: nothing else leaves this function. A program that has written a title over its
 * arguments has them all in argv[0]: what follows the first blank is left out. */
static void keep_name(struct run_facts *f, const char *cmdline, size_t n)
{
    const char *end = cmdline + n;
    char first[256];
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(cmdline, " \t\n"), cmdline);
    snprintf(f->program, sizeof(f->program), "%.100s", text_last_part(first));
    for (const char *arg = cmdline + strlen(cmdline) + 1; arg < end; arg += strlen(arg) + 1) {
        if (is_script(arg)) {
            snprintf(f->script, sizeof(f->script), "%s", text_last_part(arg));
            return;
        }
    }
}

static void look_at_name(struct observer *o)
{
    char path[64], text[4096] = "";
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)o->pid);
    ssize_t n = proc_read(AT_FDCWD, path, text, sizeof(text));
    if (n > 0) { /* one that has ended has no name any more */
        o->facts.program[0] = o->facts.script[0] = 0;
        keep_name(&o->facts, text, (size_t)n);
    }
    explicit_bzero(text, sizeof(text));
}

static void keep_facts(struct observer *o)
{
    struct run_facts *f = &o->facts;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    f->started_unix = (double)t.tv_sec;
    f->machine_cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    f->exit_code = NAN;
    snprintf(f->gpu_name, sizeof(f->gpu_name), "%s", o->gpu.name);
    look_at_name(o);
}

/* Is Pillow in one of the programs that load? Their maps are long, so they are read twice in a run, not in every interval. */
static void look_for_pillow(struct observer *o)
{
    enum { MAPS_MOST = 1 << 20 };
    char path[64], *text = malloc(MAPS_MOST);
    for (int i = 0; text && i < o->sampler.tree.processes; i++) {
        const struct process *p = &o->sampler.tree.process[i];
        snprintf(path, sizeof(path), "/proc/%d/maps", (int)p->pid);
        if (p->kind == PROCESS_OTHER || p->is_gone || proc_read(AT_FDCWD, path, text, MAPS_MOST) <= 0)
            continue;
        if (strstr(text, "/_imaging.")) {
            o->facts.uses_pillow = 1;
            break;
        }
    }
    free(text);
}

/* Which right is missing and what is lost by it. */
static void note_losses(struct observer *o)
{
    struct run_facts *f = &o->facts;
    bool io_denied = false;
    for (int i = 0; i < o->sampler.tree.processes; i++) {
        const struct process *p = &o->sampler.tree.process[i];
        io_denied |= p->io_denied;
        for (int t = 0; t < p->threads; t++)
            f->uses_fullbore = strncmp(p->thread[t].comm, "fb-w", 4) == 0 ? 1 : f->uses_fullbore;
    }
    f->lost[0] = 0;
    if (o->sampler.denied == EACCES || o->sampler.denied == EPERM)
        snprintf(f->lost, sizeof(f->lost),
                 "system calls (ptrace read access to the process is missing: run as its user, or start it with "
                 "'fullbore watch --'); so what it waits for is unknown");
    else if (py_processes_denied(o->sampler.stacks))
        snprintf(f->lost, sizeof(f->lost),
                 "Python stacks (the program's memory may not be read: it is another user's, or kernel.yama.ptrace_scope or a container's "
                 "profile forbids it; run as its user, and start it with 'fullbore watch --')");
    else if (io_denied)
        snprintf(f->lost, sizeof(f->lost), "bytes read (access to /proc/PID/io is missing: run as the same user)");
    else if (o->sampler.tree.is_cut)
        snprintf(f->lost, sizeof(f->lost), "some threads: there are more than %d", TREE_THREADS_MOST);
    const struct mount_entry *m = mounts_find(&o->sampler.fds.mounts, o->sampler.data_device);
    snprintf(f->data_mount, sizeof(f->data_mount), "%s", m ? m->point : "");
    snprintf(f->data_device, sizeof(f->data_device), "%s", m ? m->source : "");
    snprintf(f->gpu_reason, sizeof(f->gpu_reason), "%s", o->gpu.reason);
}

/* ---- looking ---- */

static void look_at_gpu(struct observer *o)
{
    gpu_read(&o->gpu, &o->gpu_now);
    double x = o->gpu_now.busy_ratio;
    if (isnan(x))
        return;
    o->gpu_low = o->gpu_looks ? fmin(o->gpu_low, x) : x;
    o->gpu_high = o->gpu_looks ? fmax(o->gpu_high, x) : x;
    o->gpu_sum += x;
    o->gpu_looks++;
}

static void fill_gpu(struct observer *o, struct snapshot *s)
{
    if (!o->gpu_looks)
        look_at_gpu(o);
    bool has = o->gpu_looks > 0;
    s->gpu_count = o->gpu_now.count;
    s->gpu_ratio = has ? o->gpu_sum / o->gpu_looks : NAN;
    s->gpu_low_ratio = has ? o->gpu_low : NAN;
    s->gpu_high_ratio = has ? o->gpu_high : NAN;
    s->gpu_memory_bytes = o->gpu_now.memory_bytes;
    s->gpu_memory_total_bytes = o->gpu_now.memory_total_bytes;
    s->gpu_power_w = o->gpu_now.power_w;
    s->pcie_in_bytes = o->gpu_now.pcie_in_bytes;
    s->pcie_cap_bytes = o->gpu_now.pcie_cap_bytes;
    o->gpu_looks = 0;
    o->gpu_sum = 0;
}

void observer_take(struct observer *o, uint64_t now)
{
    struct snapshot *s = &o->row;
    if (o->is_machine_only) {
        *s = (struct snapshot){.wall_s = (double)(now - o->sampler.interval_ns) / 1e9};
        snapshot_forget_stacks(s);
        o->sampler.interval_ns = now;
    } else {
        sampler_take(&o->sampler, now, s);
    }
    s->at_s = (double)(now - o->started_ns) / 1e9;
    s->cores = host_cores();
    machine_take(&o->machine, o->sampler.data_device, s->wall_s, s);
    fill_gpu(o, s);
    s->loop_wall_ns = s->loop_wait_ns = s->loop_wait_cpu_ns = s->loop_batches = s->loop_epochs = s->loop_steps = s->loop_step_ns = NAN;
    if (o->tell)
        o->tell(o->ctx, s);
    series_add(&o->series, s);
    if (o->series.count <= 4)
        look_at_name(o); /* a launcher may become another program */
    if (o->is_machine_only)
        return;
    note_losses(o);
    if (o->series.count == 8 || o->series.count == 40)
        look_for_pillow(o);
}

/* Looks at even distances would see a loop of that length at the same point again and again. */
static double jitter(uint64_t now)
{
    return 0.75 + 0.5 * (double)(rng_mix(now, 1) >> 11) / 9007199254740992.0;
}

bool observer_step(struct observer *o)
{
    uint64_t now = clock_now_ns(), cpu = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID),
             spacing = o->tick_ns > discover_ns ? o->tick_ns : discover_ns;
    if (now >= o->discover_at) {
        if (!o->is_machine_only)
            sampler_discover(&o->sampler, now);
        look_at_gpu(o);
        o->discover_at = now + spacing;
    }
    if (!o->is_machine_only)
        sampler_tick(&o->sampler, now);
    bool is_due = now >= o->snapshot_at;
    if (is_due) {
        observer_take(o, now);
        o->snapshot_at = now + (o->tick_ns > o->interval_ns ? o->tick_ns : o->interval_ns);
    }
    double cost = (double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - cpu) / own_share;
    double smooth = 0.9 * (double)o->tick_ns + 0.1 * cost; /* one dear look (a snapshot) is no reason to slow down */
    uint64_t least = o->is_machine_only ? discover_ns : tick_least_ns;
    o->tick_ns = smooth<(double)least ? least : smooth>(double) tick_most_ns ? tick_most_ns : (uint64_t)smooth;
    o->tick_at = now + (uint64_t)((double)o->tick_ns * jitter(now));
    return is_due;
}

/* ---- beginning and end ---- */

static void begin(struct observer *o, pid_t pid, double interval_s)
{
    struct snapshot ignored = {0};
    o->pid = pid;
    machine_open(&o->machine, "/proc", "/sys", "/sys/fs/cgroup", pid);
    gpu_open(&o->gpu, NULL, "/sys");
    o->started_ns = o->sampler.interval_ns = clock_now_ns();
    machine_take(&o->machine, 0, 0, &ignored);
    o->interval_ns = (uint64_t)((interval_s > 0 ? interval_s : 0.5) * 1e9);
    o->tick_ns = tick_least_ns;
    o->tick_at = o->discover_at = o->started_ns;
    o->snapshot_at = o->started_ns + o->interval_ns;
    keep_facts(o);
}

int observer_open(struct observer *o, pid_t pid, bool is_child, double interval_s, struct fb_error *e)
{
    memset(o, 0, sizeof(*o));
    FB_TRY(sampler_open(&o->sampler, "/proc", "/sys", pid, e));
    o->sampler.tree.adopts = is_child;
    o->sampler.tree.process[0].born_ns = is_child;
    begin(o, pid, interval_s);
    return 0;
}

void observer_open_machine(struct observer *o, double interval_s)
{
    memset(o, 0, sizeof(*o));
    o->is_machine_only = true;
    begin(o, getpid(), interval_s);
}

void observer_close(struct observer *o)
{
    gpu_close(&o->gpu);
    if (!o->is_machine_only)
        sampler_close(&o->sampler);
    series_free(&o->series);
}
