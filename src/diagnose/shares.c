/* Where the consumer's time went.
 *
 * A consumer that sleeps waits for the clock, not for data; one that waits for a lock while its compute threads run, computes. A lock or a
 * pipe counts as waiting for data only when there is somebody who loads. Reading data on its own CPU counts as loading only when nobody
 * else loads, because only then is it known that the loop itself decodes. An io_uring wait is never taken for storage: an idle ring looks
 * the same. Reading and computing on one thread without any sign of a step (no accelerator, no sleep, no compute threads) stays ambiguous.
 *
 * A loop that tells its own waits (meter/marks.h) settles all of that: time inside next() is waiting for data, time outside is not, and
 * CPU inside next() is loading. What was seen from outside then only says what the waits inside were for. Where the loop does not tell, the
 * sampled Python stack does (host/python/): the time of looks that met the loader is waiting for data, that of the others is not.
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

/* From outside: `c` is what the consumer did, or the part of it that its stack does not explain; `all` is its whole time. */
static void split_from_outside(const struct snapshot *s, const struct role_figures *c, double all, struct shares *h)
{
    const double *off = c->off_ns;
    double pressed = pressed_ns(s, s->consumer_system_ns, c->cpu_ns);
    double inline_cpu = h->has_loaders ? 0 : fmin(c->read_cpu_ns, c->cpu_ns - pressed);
    double inline_delay = c->cpu_ns > 0 ? c->delay_ns * inline_cpu / c->cpu_ns : 0;
    double pressed_delay = c->cpu_ns > 0 ? c->delay_ns * pressed / c->cpu_ns : 0; /* it wanted the core for that work */
    h->cpu += (c->cpu_ns - inline_cpu - pressed) / all;
    h->delay += (c->delay_ns - inline_delay - pressed_delay) / all;
    h->own_storage += off[WAIT_FILE] / all;
    h->own_network += (off[WAIT_NETWORK] + off[WAIT_REMOTE_FILE]) / all;
    h->own_fault += (off[WAIT_FAULT] + pressed + pressed_delay) / all;
    h->queue += (off[WAIT_PIPE] + (h->has_loaders ? off[WAIT_LOCK] : 0)) / all;
    h->step += (off[WAIT_SLEEP] + off[WAIT_COMPUTE] + off[WAIT_DEVICE]) / all;
    h->write += off[WAIT_WRITE] / all;
    h->unexplained += (off[WAIT_UNKNOWN] + off[WAIT_URING] + off[WAIT_CHILD] + (h->has_loaders ? 0 : off[WAIT_LOCK])) / all;
    double loading = (inline_cpu + inline_delay) / all;
    bool has_step = !isnan(h->gpu_ratio) || h->step > 0.01; /* imports and parsers do not sleep */
    if (has_step) {
        h->own_loading += loading;
    } else { /* loading and computing in one thread, no sign of where one ends: not ours to claim */
        h->ambiguous = loading;
        h->cpu += loading;
    }
}

/* ---- by the sampled stack ---- */

/* Looks that failed are spread like the others; with more of them than that, what is outside the others may be anything. The time in which
 * no Python function runs (the interpreter starts or ends) is left out, but a program that is hardly ever in Python is not judged
 * by that. */
static const double stack_least = 0.7, python_least = 0.3;

static double time_of(const struct activity_figures *a)
{
    double all = a->cpu_ns + a->delay_ns;
    for (int k = 0; k < WAIT_KINDS; k++)
        all += a->off_ns[k];
    return all;
}

/* Of the CPU time that went to pages under pressure, this activity's part. */
static double pressed_in(const struct snapshot *s, const struct activity_figures *a)
{
    double cpu = s->role[ROLE_CONSUMER].cpu_ns;
    return cpu > 0 ? pressed_ns(s, s->consumer_system_ns * fmin(1, a->cpu_ns / cpu), a->cpu_ns) : 0;
}

/* All of it is waiting for data. A lock while compute threads run is work that they do for the loader, if nobody else loads. */
static void add_loading(const struct snapshot *s, const struct activity_figures *a, double all, struct shares *h)
{
    const double *off = a->off_ns;
    double pressed = pressed_in(s, a), lock = h->has_loaders ? off[WAIT_LOCK] + off[WAIT_COMPUTE] : 0;
    double loading = a->cpu_ns - pressed + a->delay_ns + (h->has_loaders ? 0 : off[WAIT_COMPUTE]),
           network = off[WAIT_NETWORK] + off[WAIT_REMOTE_FILE];
    double fault = off[WAIT_FAULT] + pressed, queue = off[WAIT_PIPE] + lock;
    h->own_loading += loading / all;
    h->own_storage += off[WAIT_FILE] / all;
    h->own_network += network / all;
    h->own_fault += fault / all;
    h->queue += queue / all;
    h->own_other += fmax(0, time_of(a) - loading - off[WAIT_FILE] - network - fault - queue) / all;
}

/* None of it is, but for pages that memory pressure has taken away. */
static void add_step(const struct snapshot *s, const struct activity_figures *a, double all, struct shares *h)
{
    double pressed = pressed_in(s, a), fault = memory_is_tight(s) ? a->off_ns[WAIT_FAULT] : 0;
    h->cpu += (a->cpu_ns - pressed) / all;
    h->delay += a->delay_ns / all;
    h->own_fault += (fault + pressed) / all;
    h->write += a->off_ns[WAIT_WRITE] / all;
    h->step += (time_of(a) - a->cpu_ns - a->delay_ns - fault - a->off_ns[WAIT_WRITE]) / all;
}

/* Where nothing on the stack decides. In a loop whose loading is seen it is the rest of the loop, but for what is read in C without a frame
 * of Python's that says so; else the rules from outside hold. */
static void add_other(const struct snapshot *s, const struct activity_figures *a, double all, struct shares *h)
{
    const struct role_figures *c = &s->role[ROLE_CONSUMER];
    if (time_of(&s->doing[ACTIVITY_LOADING]) > 0.01 * all) {
        double file = a->off_ns[WAIT_FILE] / all, network = (a->off_ns[WAIT_NETWORK] + a->off_ns[WAIT_REMOTE_FILE]) / all;
        add_step(s, a, all, h);
        h->step -= file + network;
        h->own_storage += file;
        h->own_network += network;
        return;
    }
    struct role_figures rest = {.cpu_ns = a->cpu_ns, .delay_ns = a->delay_ns};
    memcpy(rest.off_ns, a->off_ns, sizeof(rest.off_ns));
    rest.read_cpu_ns = c->cpu_ns > 0 ? c->read_cpu_ns * a->cpu_ns / c->cpu_ns : 0;
    split_from_outside(s, &rest, all, h);
}

static bool split_by_stack(const struct snapshot *s, struct shares *h)
{
    double all = 0;
    for (int a = 0; a < ACTIVITIES; a++)
        all += h->doing[a] = time_of(&s->doing[a]);
    if (!(s->stack_known >= stack_least) || !(all > python_least * sum_of(&s->role[ROLE_CONSUMER])))
        return false;
    for (int a = 0; a < ACTIVITIES; a++)
        h->doing[a] /= all;
    h->validation = fmin(1, s->validation_ns / all);
    add_loading(s, &s->doing[ACTIVITY_LOADING], all, h);
    add_step(s, &s->doing[ACTIVITY_STEP], all, h);
    h->write += h->doing[ACTIVITY_SAVING];
    add_other(s, &s->doing[ACTIVITY_OTHER], all, h);
    return true;
}

static void split_consumer(const struct snapshot *s, struct shares *h)
{
    const struct role_figures *c = &s->role[ROLE_CONSUMER];
    double all = sum_of(c);
    if (all <= 0)
        return;
    h->has_consumer = true;
    h->pause = fmin(s->pause_ns, all) / all;
    h->has_stacks = split_by_stack(s, h);
    if (!h->has_stacks)
        split_from_outside(s, c, all, h);
}

/* Looks miss some of the waits, not most of them: what is beyond this is of another kind (a sleep, say). */
static const double most_scale = 1.5;

/* What the stack counts as loading is more than CPU time; here that alone is wanted, and waits for a core beside it. */
static void split_loading(const struct snapshot *s, struct shares *h)
{
    const struct activity_figures *a = &s->doing[ACTIVITY_LOADING];
    double all = 0, compute = h->has_loaders ? 0 : a->off_ns[WAIT_COMPUTE];
    for (int i = 0; i < ACTIVITIES; i++)
        all += time_of(&s->doing[i]);
    h->own_loading = fmax(0, h->own_loading - (a->delay_ns + compute) / all);
    h->delay += a->delay_ns / all;
}

/* The loop told: time inside next() and the CPU in it are exact; the kinds of waits are scaled to what is left of it. */
static void take_told(const struct snapshot *s, struct shares *h)
{
    double all = sum_of(&s->role[ROLE_CONSUMER]);
    h->is_told = all > 0 && s->loop_wall_ns > 0.7 * all && s->loop_batches > 0;
    if (!h->is_told)
        return;
    if (h->has_stacks)
        split_loading(s, h);
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

/* Waiting inside a restart is counted there. A stack tells that starting workers is loading, too. */
static void take_pause_out(struct shares *h)
{
    double *waits[] = {&h->queue, &h->unexplained, &h->own_loading, &h->own_other}, sum = 0;
    int kinds = h->has_stacks ? 4 : 2;
    for (int i = 0; i < kinds; i++)
        sum += *waits[i];
    double kept = sum > 0 ? 1 - fmin(h->pause, sum) / sum : 1;
    for (int i = 0; i < kinds; i++)
        *waits[i] *= kept;
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
    if (h->has_stacks && !h->is_told && s->ticks > 0)
        h->starved_error = sqrt(h->starved * (1 - h->starved) / s->ticks);
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
