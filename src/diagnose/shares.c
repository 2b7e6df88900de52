/* Where the consumer's time went.
 *
 * A consumer that sleeps waits for the clock, not for data; one that waits for a lock while its compute threads run, computes. A lock or a
 * pipe counts as waiting for data only when there is somebody who loads. Reading data on its own CPU counts as loading only when nobody
 * else loads, because only then is it known that the loop itself decodes. An io_uring wait is never taken for storage: an idle ring looks
 * the same. Reading and computing on one thread without any sign of a step (no accelerator, no sleep, no compute threads) stays ambiguous.
 *
 * A loop that tells its own waits (meter/marks.h) settles all of that: time inside next() is waiting for data, time outside is not, and
 * CPU inside next() is loading. What was seen from outside then only says what the waits inside were for.
 */
#include "diagnose/findings.h"

#include <string.h>

static double sum_of(const struct role_figures *f)
{
    double all = f->cpu_ns + f->delay_ns;
    for (int k = 0; k < WAIT_KINDS; k++)
        all += f->off_ns[k];
    return all;
}

/* Threads that load: worker processes, or threads of the trainer with work to show. */
static bool has_loaders(const struct snapshot *s)
{
    return s->role[ROLE_LOADER].wall_ns > 0.2 * s->wall_s * 1e9;
}

/* Under memory pressure the kernel's own work (finding pages to drop, reading them back) is waiting for memory, not computing. */
static double pressed_ns(const struct snapshot *s, double system_ns, double cpu_ns)
{
    bool is_pressed = memory_is_tight(s) && s->major_faults > 20 * s->wall_s;
    return is_pressed ? fmin(system_ns, cpu_ns) : 0;
}

static void split_consumer(const struct snapshot *s, struct shares *h)
{
    const struct role_figures *c = &s->role[ROLE_CONSUMER];
    double all = sum_of(c), pause = fmin(s->pause_ns, all);
    if (all <= 0)
        return;
    h->has_consumer = true;
    const double *off = c->off_ns;
    double pressed = pressed_ns(s, s->consumer_system_ns, c->cpu_ns);
    double inline_cpu = h->has_loaders ? 0 : fmin(c->read_cpu_ns, c->cpu_ns - pressed);
    double inline_delay = c->cpu_ns > 0 ? c->delay_ns * inline_cpu / c->cpu_ns : 0;
    double pressed_delay = c->cpu_ns > 0 ? c->delay_ns * pressed / c->cpu_ns : 0; /* it wanted the core for that work */
    h->cpu = (c->cpu_ns - inline_cpu - pressed) / all;
    h->own_loading = (inline_cpu + inline_delay) / all;
    h->delay = (c->delay_ns - inline_delay - pressed_delay) / all;
    h->own_storage = off[WAIT_FILE] / all;
    h->own_network = (off[WAIT_NETWORK] + off[WAIT_REMOTE_FILE]) / all;
    h->own_fault = (off[WAIT_FAULT] + pressed + pressed_delay) / all;
    h->queue = (off[WAIT_PIPE] + (h->has_loaders ? off[WAIT_LOCK] : 0)) / all;
    h->step = (off[WAIT_SLEEP] + off[WAIT_COMPUTE] + off[WAIT_DEVICE]) / all;
    h->write = off[WAIT_WRITE] / all;
    h->unexplained = (off[WAIT_UNKNOWN] + off[WAIT_URING] + off[WAIT_CHILD] + (h->has_loaders ? 0 : off[WAIT_LOCK])) / all;
    h->pause = pause / all;
    bool has_step = !isnan(h->gpu_ratio) || h->step > 0.01; /* imports and parsers do not sleep */
    if (!has_step) { /* loading and computing in one thread, no sign of where one ends: not ours to claim */
        h->ambiguous = h->own_loading;
        h->cpu += h->own_loading;
        h->own_loading = 0;
    }
}

/* Looks miss some of the waits, not most of them: what is beyond this is of another kind (a sleep, say). */
static const double most_scale = 1.5;

/* The loop told: time inside next() and the CPU in it are exact; the kinds of waits are scaled to what is left of it. */
static void take_told(const struct snapshot *s, struct shares *h)
{
    double all = sum_of(&s->role[ROLE_CONSUMER]);
    h->is_told = all > 0 && s->loop_wall_ns > 0.7 * all && s->loop_batches > 0;
    if (!h->is_told)
        return;
    double inside = fmin(1, s->loop_wait_ns / all), on_cpu = fmin(inside, s->loop_wait_cpu_ns / all), off = inside - on_cpu;
    double running = h->cpu + h->own_loading, waits = h->own_storage + h->own_network + h->own_fault + h->queue;
    double faults_on_cpu = fmin(h->own_fault, on_cpu); /* pages under pressure: CPU time that was counted as a wait */
    double loading = fmin(on_cpu - faults_on_cpu, running), delayed = running > 0 ? fmin(off, h->delay * loading / running) : 0;
    h->own_loading = loading + delayed;
    h->cpu = running - loading;
    h->delay -= delayed;
    off -= delayed;
    double scale = waits > 0 ? fmin(most_scale, (off + faults_on_cpu) / waits) : 0;
    h->own_storage *= scale, h->own_network *= scale, h->own_fault *= scale, h->queue *= scale;
    h->own_other = fmax(0, off + faults_on_cpu - scale * waits);
    h->ambiguous = h->unexplained = 0;
    h->step = fmax(0, 1 - inside - h->cpu - h->delay - h->write);
}

/* Waiting inside a restart is counted there. */
static void take_pause_out(struct shares *h)
{
    double waits = h->queue + h->unexplained, inside = fmin(h->pause, waits);
    if (waits <= 0)
        return;
    h->queue -= inside * h->queue / waits;
    h->unexplained -= inside * h->unexplained / waits;
}

/* Several threads that together do no more than one could, while the others wait for a lock: how much of the others' time that takes. A
 * thread that waits for an interpreter's lock wakes up now and then to look, so its delay proves nothing. */
static double serial_share(const struct snapshot *s, const struct shares *h)
{
    const struct role_figures *l = &s->role[ROLE_LOADER];
    double wall = s->wall_s * 1e9;
    double doing = l->cpu_ns + l->off_ns[WAIT_FILE] + l->off_ns[WAIT_NETWORK] + l->off_ns[WAIT_REMOTE_FILE] + l->off_ns[WAIT_FAULT];
    if (h->loaders < 1.5 || doing > 1.25 * wall || l->active_ns < 0.4 * wall)
        return 0;
    return fmin(1, l->lock_ns / ((h->loaders - 1) * wall));
}

static void split_loaders(const struct snapshot *s, struct shares *h)
{
    const struct role_figures *l = &s->role[ROLE_LOADER], *p = &s->role[ROLE_PIN];
    double all = sum_of(l);
    h->loaders = s->wall_s > 0 ? l->wall_ns / 1e9 / s->wall_s : 0;
    h->loader_processes = l->processes;
    h->loader_cores = s->wall_s > 0 ? (l->cpu_ns + p->cpu_ns) / 1e9 / s->wall_s : 0;
    for (int r = 0; r < ROLE_COUNT; r++)
        h->tree_cores += s->wall_s > 0 ? s->role[r].cpu_ns / 1e9 / s->wall_s : 0;
    if (all <= 0)
        return;
    double pressed = pressed_ns(s, s->loader_system_ns, l->cpu_ns);
    h->work_cpu = (l->cpu_ns - pressed) / all;
    h->work_delay = l->delay_ns / all;
    h->work_storage = (l->off_ns[WAIT_FILE] + l->off_ns[WAIT_URING] * (s->read_bytes > 1e6 * s->wall_s)) / all;
    h->work_network = (l->off_ns[WAIT_NETWORK] + l->off_ns[WAIT_REMOTE_FILE]) / all;
    h->work_fault = (l->off_ns[WAIT_FAULT] + pressed) / all;
    h->work_serial = serial_share(s, h);
    h->work_idle = 1 - h->work_cpu - h->work_delay - h->work_storage - h->work_network - h->work_fault;
}

static double starved_of(const struct shares *h)
{
    double starved = h->own_storage + h->own_network + h->own_fault + h->own_loading + h->own_other + h->queue;
    if (!isnan(h->gpu_ratio))
        starved = fmin(starved, 1 - h->gpu_ratio); /* while the accelerator works, a wait costs nothing */
    return fmax(0, fmin(1, starved));
}

static void fill(const struct snapshot *s, bool loaders, struct shares *h)
{
    memset(h, 0, sizeof(*h));
    h->wall_s = s->wall_s;
    h->gpu_ratio = s->gpu_ratio;
    h->has_loaders = loaders;
    split_consumer(s, h);
    take_told(s, h);
    take_pause_out(h);
    split_loaders(s, h);
    h->is_blind = !isnan(s->calls_known) && s->calls_known < 0.3 && h->unexplained > 0.1;
    h->starved = starved_of(h);
}

void shares_of(const struct window *w, struct shares *h)
{
    fill(&w->sum, has_loaders(&w->sum), h);
}

double shares_starved(const struct snapshot *row, bool loaders)
{
    struct shares h;
    fill(row, loaders, &h);
    return h.starved;
}
