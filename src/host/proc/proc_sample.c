/* The time of a thread is split exactly by schedstat into running, wanting to run, and neither; what it waited for in the last part is
 * told by its system call at the moment of a look. A thread that has not run since the last look still waits for the same thing, so most
 * looks cost one read of one line. Ticks that end with the thread on the CPU are split like the others of its role.
 */
#include "host/proc/proc_sample.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/proc/proc_file.h"

/* ---- one thread ---- */

static ssize_t read_of(const struct sampler *s, const struct process *p, const struct proc_thread *th, int fd, const char *name, char *out,
                       size_t out_size)
{
    if (fd >= 0)
        return proc_read_fd(fd, out, out_size);
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%d/task/%d/%s", s->tree.proc, (int)p->pid, (int)th->tid, name);
    return proc_read(AT_FDCWD, path, out, out_size);
}

struct lookup_of {
    struct sampler *sampler;
    pid_t pid;
};

static enum fd_kind ask_kind(void *ctx, int fd)
{
    struct lookup_of *l = ctx;
    return fd_kind_of(&l->sampler->fds, l->pid, fd);
}

static int ask_polled(void *ctx, uint64_t address, uint64_t count)
{
    struct lookup_of *l = ctx;
    return fd_first_polled(l->pid, address, count);
}

static int ask_epolled(void *ctx, int fd)
{
    struct lookup_of *l = ctx;
    return fd_first_epolled(l->sampler->tree.proc, l->pid, fd);
}

static enum file_kind data_kind(const struct sampler *s)
{
    int best = FILE_NONE;
    for (int k = 1; k < FILE_KINDS; k++)
        if (s->file_looks[k] > s->file_looks[best])
            best = k;
    return best;
}

static void note_data_file(struct sampler *s, double weight)
{
    const struct mount_entry *m = s->fds.last_device ? mounts_find(&s->fds.mounts, s->fds.last_device) : NULL;
    if (!m)
        return;
    double before = s->file_looks[m->kind];
    s->file_looks[m->kind] += weight;
    if (before + weight >= s->file_looks[data_kind(s)])
        s->data_device = m->device;
}

/* A thread's system call now. */
static void look_at_call(struct sampler *s, const struct process *p, struct proc_thread *th)
{
    char line[256];
    struct call c;
    struct lookup_of who = {s, p->pid};
    struct fd_lookup ask = {ask_kind, ask_polled, ask_epolled, &who};
    ssize_t got = read_of(s, p, th, th->call_fd, "syscall", line, sizeof(line));
    if (got <= 0 || !proc_parse_call(line, &c)) {
        if (got != -ESRCH && got != -ENOENT && !s->denied)
            s->denied = got < 0 ? (int)-got : EIO;
        th->is_blocked = got <= 0 && got != -ESRCH; /* not known: counts as waiting for something unknown */
        th->wait = WAIT_UNKNOWN;
        return;
    }
    th->is_blocked = c.state == CALL_BLOCKED;
    if (!th->is_blocked)
        return;
    s->fds.last_device = 0;
    th->wait = proc_wait_kind(&c, &ask);
    if (th->wait == WAIT_FILE && !s->fds.last_device && mounts_is_remote(data_kind(s)))
        th->wait = WAIT_REMOTE_FILE; /* a path, not a descriptor: it is where the data is */
    if (th->wait == WAIT_FILE || th->wait == WAIT_REMOTE_FILE)
        note_data_file(s, 4);
}

static void look_at_reads(struct sampler *s, const struct process *p, struct proc_thread *th)
{
    char text[512];
    uint64_t chars = 0;
    th->read_now = false;
    bool matters = th->role == ROLE_CONSUMER || th->role == ROLE_LOADER || th->role == ROLE_COMPUTE;
    if (!matters || th->io_fd < 0 || read_of(s, p, th, th->io_fd, "io", text, sizeof(text)) <= 0 || !proc_value(text, "rchar", &chars))
        return;
    uint64_t more = th->is_known && chars >= th->read_chars ? chars - th->read_chars : 0;
    th->read_chars = chars;
    th->read_sum += more;
    th->read_now = more > 512; /* below: a few bytes from a pipe */
    if (th->role == ROLE_CONSUMER)
        s->sum.consumer_read_chars += (double)more;
    else
        s->sum.loader_read_chars += (double)more;
}

/* A main thread that has not run since the last look is still where it was. */
static void look_at_stack(struct sampler *s, const struct process *p, struct proc_thread *th, uint64_t now_ns)
{
    struct stack_meaning m;
    th->stack_known = py_processes_look(s->stacks, p->pid, p->start_ticks, now_ns, &m);
    if (!th->stack_known)
        return;
    th->stack_empty = m.is_empty;
    th->activity = m.activity;
    th->is_validating = m.is_validation;
}

/* Returns false when the thread is gone. */
static bool look_at(struct sampler *s, const struct process *p, struct proc_thread *th, uint64_t wall_ns)
{
    char text[96];
    uint64_t now[3] = {0};
    ssize_t got = read_of(s, p, th, th->schedstat_fd, "schedstat", text, sizeof(text));
    if (got <= 0 || proc_numbers(text, now, 3) < 3) {
        th->is_gone |= got == -ESRCH || got == -ENOENT;
        return false;
    }
    uint64_t cpu = now[0] - th->cpu_ns, delay = now[1] - th->delay_ns, slices = now[2] - th->slices;
    bool is_first = !th->is_known, is_idle = !is_first && cpu == 0 && slices == 0 && delay == 0 && th->is_blocked;
    th->cpu_ns = now[0];
    th->delay_ns = now[1];
    th->slices = now[2];
    s->has_delay |= now[1] > 0;
    if (!is_idle) {
        look_at_call(s, p, th);
        look_at_reads(s, p, th);
    } else {
        th->read_now = false;
    }
    if (s->stacks && th->role == ROLE_CONSUMER && !(is_idle && th->stack_known))
        look_at_stack(s, p, th, s->tick_ns);
    th->is_known = true;
    if (is_first)
        return false;
    th->cpu_tick_ns = cpu < wall_ns ? cpu : wall_ns;
    th->delay_tick_ns = delay < wall_ns - th->cpu_tick_ns ? delay : wall_ns - th->cpu_tick_ns;
    th->off_tick_ns = wall_ns - th->cpu_tick_ns - th->delay_tick_ns;
    th->cpu_sum_ns += cpu;
    if (th->role == ROLE_LOADER && th->cpu_sum_ns > s->loader_top_ns)
        s->loader_top_ns = th->cpu_sum_ns;
    s->looks += th->is_blocked;
    s->looks_known += th->is_blocked && th->wait != WAIT_UNKNOWN;
    if (th->is_blocked)
        th->waited[th->wait]++;
    return true;
}

/* ---- all of them ---- */

static bool is_data_wait(enum wait_kind k)
{
    return k == WAIT_FILE || k == WAIT_REMOTE_FILE || k == WAIT_NETWORK || k == WAIT_FAULT || k == WAIT_PIPE || k == WAIT_LOCK;
}

static bool is_loading_wait(enum wait_kind k)
{
    return k == WAIT_FILE || k == WAIT_REMOTE_FILE || k == WAIT_NETWORK || k == WAIT_FAULT;
}

struct tick {
    double wall_ns, compute_cpu_ns, loader_active_ns, consumer_wait_ns, consumer_ns;
};

static void gather(struct tick *g, const struct proc_thread *th)
{
    double on = (double)th->cpu_tick_ns, off = th->is_blocked ? (double)th->off_tick_ns : 0;
    if (th->role == ROLE_COMPUTE)
        g->compute_cpu_ns += (double)th->cpu_tick_ns;
    if (th->role == ROLE_LOADER) {
        g->loader_active_ns += on + (double)th->delay_tick_ns + (is_loading_wait(th->wait) ? off : 0);
    }
}

static void add_up(struct sampler *s, struct tick *g, struct proc_thread *th)
{
    struct role_figures *f = &s->sum.role[th->role];
    enum wait_kind kind = th->wait;
    if (th->role == ROLE_CONSUMER && kind == WAIT_LOCK && g->compute_cpu_ns > 0.3 * g->wall_ns)
        kind = WAIT_COMPUTE;
    f->wall_ns += g->wall_ns;
    f->cpu_ns += (double)th->cpu_tick_ns;
    f->delay_ns += (double)th->delay_tick_ns;
    f->read_cpu_ns += th->read_now ? (double)th->cpu_tick_ns : 0;
    if (th->is_blocked && kind == WAIT_LOCK && th->cpu_sum_ns * 10 > s->loader_top_ns)
        f->lock_ns += (double)th->off_tick_ns; /* an idle helper waits for a lock all day */
    if (th->is_blocked)
        f->off_ns[kind] += (double)th->off_tick_ns;
    else
        s->unsplit_ns[th->role] += (double)th->off_tick_ns;
    if (th->role == ROLE_CONSUMER && s->stacks)
        activity_add(&s->doing, th, kind, g->wall_ns);
    if (th->role == ROLE_CONSUMER) {
        g->consumer_ns += g->wall_ns;
        g->consumer_wait_ns += th->is_blocked && is_data_wait(kind) ? (double)th->off_tick_ns : 0;
    }
}

static void follow_restart(struct sampler *s, const struct tick *g, uint64_t now_ns)
{
    const struct proc_tree *t = &s->tree;
    bool is_waiting = g->consumer_wait_ns > 0.5 * g->consumer_ns;
    if (t->births != s->births_seen && s->restart != RESTART_FIRST)
        s->restart = RESTART_STARTING, s->has_waited = false, s->restart_ns = now_ns;
    else if (t->births != s->births_seen)
        s->has_waited = false, s->restart_ns = now_ns;
    else if (t->deaths != s->deaths_seen && s->restart == RESTART_NONE)
        s->restart = RESTART_ENDING, s->restart_ns = now_ns;
    s->births_seen = t->births;
    s->deaths_seen = t->deaths;
    bool is_starting = s->restart == RESTART_STARTING || (s->restart == RESTART_FIRST && t->births);
    if (is_starting && (s->has_waited ? !is_waiting : now_ns - s->restart_ns > 2000000000u))
        s->restart = RESTART_NONE;
    s->has_waited |= is_starting && is_waiting;
    if (s->restart == RESTART_FIRST && t->births)
        s->sum.startup_ns += g->consumer_ns;
    else if (s->restart == RESTART_ENDING || s->restart == RESTART_STARTING)
        s->sum.pause_ns += g->consumer_ns;
}

void sampler_tick(struct sampler *s, uint64_t now_ns)
{
    uint64_t wall_ns = s->tick_ns && now_ns > s->tick_ns ? now_ns - s->tick_ns : 0;
    struct tick g = {.wall_ns = (double)wall_ns};
    s->tick_ns = now_ns;
    struct proc_tree *t = &s->tree;
    for (int i = 0; i < t->processes; i++)
        for (int k = 0; k < t->process[i].threads; k++) {
            struct proc_thread *th = &t->process[i].thread[k];
            th->cpu_tick_ns = th->delay_tick_ns = th->off_tick_ns = 0;
            if (!th->is_gone && look_at(s, &t->process[i], th, wall_ns))
                gather(&g, th);
        }
    for (int i = 0; i < t->processes; i++)
        for (int k = 0; k < t->process[i].threads; k++) {
            struct proc_thread *th = &t->process[i].thread[k];
            if (th->cpu_tick_ns + th->delay_tick_ns + th->off_tick_ns)
                add_up(s, &g, th);
        }
    struct role_figures *loader = &s->sum.role[ROLE_LOADER];
    double active = g.wall_ns > 0 ? g.loader_active_ns / g.wall_ns : 0;
    loader->active_ns += (active < 1 ? active : 1) * g.wall_ns;
    follow_restart(s, &g, now_ns);
    s->sum.ticks++;
}

void sampler_discover(struct sampler *s, uint64_t now_ns)
{
    proc_tree_update(&s->tree, now_ns);
    proc_tree_forget_gone(&s->tree);
}

/* ---- the interval's end ---- */

static void split_rest(struct sampler *s)
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        struct role_figures *f = &s->sum.role[r];
        double known = 0;
        for (int k = 0; k < WAIT_KINDS; k++)
            known += f->off_ns[k];
        f->lock_ns += known > 0 ? s->unsplit_ns[r] * f->lock_ns / known : 0;
        for (int k = 0; k < WAIT_KINDS && known > 0; k++)
            f->off_ns[k] += s->unsplit_ns[r] * f->off_ns[k] / known;
        if (known <= 0)
            f->off_ns[WAIT_UNKNOWN] += s->unsplit_ns[r];
        s->unsplit_ns[r] = 0;
    }
}

static double more(uint64_t now, uint64_t before)
{
    return now > before ? (double)(now - before) : 0;
}

static void take_io(struct sampler *s, struct process *p)
{
    char path[PATH_MAX], text[1024];
    uint64_t chars = 0, calls = 0, bytes = 0, written = 0;
    snprintf(path, sizeof(path), "%s/%d/io", s->tree.proc, (int)p->pid);
    ssize_t got = proc_read(AT_FDCWD, path, text, sizeof(text));
    if (got <= 0 || !proc_value(text, "rchar", &chars) || !proc_value(text, "syscr", &calls) || !proc_value(text, "read_bytes", &bytes) ||
        !proc_value(text, "write_bytes", &written)) {
        p->io_denied |= got == -EACCES || got == -EPERM;
        return;
    }
    if (p->has_io || p->born_ns) { /* a process that was born under our eyes counts from 0 */
        s->sum.read_chars += more(chars, p->read_chars);
        s->sum.read_calls += more(calls, p->read_calls);
        s->sum.read_bytes += more(bytes, p->read_bytes);
        s->sum.write_bytes += more(written, p->write_bytes);
    }
    p->read_chars = chars;
    p->read_calls = calls;
    p->read_bytes = bytes;
    p->write_bytes = written;
    p->has_io = true;
}

static void take_memory(struct sampler *s, struct process *p)
{
    char path[PATH_MAX], text[4096];
    struct proc_stat st;
    uint64_t kib;
    snprintf(path, sizeof(path), "%s/%d/stat", s->tree.proc, (int)p->pid);
    if (proc_read(AT_FDCWD, path, text, sizeof(text)) > 0 && proc_parse_stat(text, &st)) {
        if (p->major_faults || p->minor_faults || p->born_ns) {
            s->sum.major_faults += more(st.major_faults, p->major_faults);
            s->sum.minor_faults += more(st.minor_faults, p->minor_faults);
            double system_ns = more(st.system_ticks, p->system_ticks) * 1e9 / (double)sysconf(_SC_CLK_TCK);
            s->sum.consumer_system_ns += p->kind == PROCESS_TRAINER ? system_ns : 0;
            s->sum.loader_system_ns += p->kind == PROCESS_WORKER ? system_ns : 0;
        }
        p->system_ticks = st.system_ticks;
        p->major_faults = st.major_faults;
        p->minor_faults = st.minor_faults;
    }
    snprintf(path, sizeof(path), "%s/%d/status", s->tree.proc, (int)p->pid);
    if (proc_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return;
    if (proc_value(text, "RssAnon", &kib))
        s->sum.rss_bytes += (double)kib * 1024;
    if (p->kind == PROCESS_TRAINER && proc_value(text, "VmLib", &kib))
        s->sum.code_bytes += (double)kib * 1024;
}

/* The files that loaders and consumers hold open tell where the data lies, even when every read is too quick to be seen. */
static void look_at_files(struct sampler *s, const struct process *p)
{
    for (int fd = 3; fd < 16; fd++) {
        s->fds.last_device = 0;
        if (fd_kind_of(&s->fds, p->pid, fd) == FD_FILE || s->fds.last_device)
            note_data_file(s, 1);
    }
}

static void count_role(struct snapshot *out, const struct process *p)
{
    if (p->is_gone)
        return;
    for (int k = 0; k < p->threads; k++)
        out->role[p->thread[k].role].threads++;
    out->role[p->kind == PROCESS_TRAINER ? ROLE_CONSUMER : p->kind == PROCESS_WORKER ? ROLE_LOADER : ROLE_OTHER].processes++;
}

void sampler_take(struct sampler *s, uint64_t now_ns, struct snapshot *out)
{
    split_rest(s);
    s->sum.rss_bytes = s->sum.code_bytes = 0;
    int looked = 0;
    for (int i = 0; i < s->tree.processes; i++) {
        struct process *p = &s->tree.process[i];
        take_io(s, p);
        take_memory(s, p);
        count_role(&s->sum, p);
        if (p->kind != PROCESS_OTHER && looked++ < 4)
            look_at_files(s, p);
    }
    s->sum.loader_births = (double)(s->tree.births - s->births_taken);
    s->sum.loader_deaths = (double)(s->tree.deaths - s->deaths_taken);
    s->births_taken = s->tree.births;
    s->deaths_taken = s->tree.deaths;
    s->sum.wall_s = (double)(now_ns - s->interval_ns) / 1e9;
    s->sum.calls_known = s->looks ? (double)s->looks_known / (double)s->looks : NAN;
    s->sum.file_kind = (double)data_kind(s);
    if (s->stacks)
        activity_split(&s->doing, &s->doing_before, &s->sum);
    else
        snapshot_forget_stacks(&s->sum);
    *out = s->sum;
    s->sum = (struct snapshot){0};
    s->looks = s->looks_known = 0;
    s->interval_ns = now_ns;
}

int sampler_open(struct sampler *s, const char *proc, const char *sys, pid_t root, struct fb_error *e)
{
    memset(s, 0, sizeof(*s));
    FB_TRY(proc_tree_open(&s->tree, proc, root, e));
    s->fds.proc = proc;
    mounts_read(&s->fds.mounts, proc, root, sys);
    return 0;
}

void sampler_read_stacks(struct sampler *s)
{
    s->stacks = s->stacks ? s->stacks : py_processes_open(s->tree.proc);
}

void sampler_close(struct sampler *s)
{
    py_processes_close(s->stacks);
    proc_tree_close(&s->tree);
}
