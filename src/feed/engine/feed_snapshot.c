/* What a feed did so far, in the words of the rules: the consumer waited for the loaders (a lock) or did its step; the workers ran, waited
 * for storage, or had nothing to do.
 *
 * Workers that are idle while the consumer waits can only wait for storage (or for one slow sample); workers that are idle while it does
 * not wait are ahead of it. So idle time counts as waiting for files up to the consumer's wait. The wait for the very first batch is
 * start-up. What a binding does with a batch before the program has it (conversion, batch_map=) is the consumer's own work, inside next().
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "feed/crew.h"
#include "host/host.h"
#include "host/proc/proc_mounts.h"

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void look_at_place(struct feed *f, struct snapshot *s, struct run_facts *facts)
{
    struct stat st;
    struct mounts mounts;
    const struct mount_entry *m = NULL;
    if (f->dataset.root && stat(f->dataset.root, &st) == 0 && mounts_read(&mounts, "/proc", getpid(), "/sys"))
        m = mounts_find(&mounts, st.st_dev);
    s->file_kind = m ? m->kind : FILE_NONE;
    if (m)
        snprintf(facts->data_mount, sizeof(facts->data_mount), "%s", m->point);
}

static void fill_consumer(struct feed *f, struct snapshot *s)
{
    struct loop_figures g = loop_read(&f->loop.all);
    double first = (double)meter_get(&f->loop.first_wait_ns), wall = (double)g.wall_ns - first, wait = (double)g.wait_ns - first;
    struct role_figures *c = &s->role[ROLE_CONSUMER];
    wall = wall > 0 ? wall : 0;
    wait = least(wait > 0 ? wait : 0, wall);
    double own = least(meter_get(&f->convert_ns), wait);
    s->wall_s = s->at_s = wall / 1e9;
    c->threads = c->processes = 1;
    c->wall_ns = wall;
    c->cpu_ns = own;
    c->off_ns[WAIT_LOCK] = wait - own;
    c->off_ns[WAIT_SLEEP] = wall - wait;
    s->loop_wall_ns = wall, s->loop_wait_ns = wait, s->loop_wait_cpu_ns = own;
    s->loop_batches = g.batches > 0 ? (double)g.batches - 1 : 0;
    s->loop_epochs = meter_get(&f->loop.epochs);
    s->loop_steps = g.steps, s->loop_step_ns = g.step_ns;
}

/* The engine's own clocks say how long workers were at it; what they wanted of a core and did not get is in there. */
static void fill_workers(struct feed *f, struct snapshot *s)
{
    struct role_figures *w = &s->role[ROLE_LOADER];
    struct stage_figures decode, transform, read;
    double wall = s->wall_s * 1e9, mapped = 0, locked = 0, threads = crew_threads(), wait = s->role[ROLE_CONSUMER].off_ns[WAIT_LOCK];
    meter_read(&f->meter, STAGE_DECODE, &decode);
    meter_read(&f->meter, STAGE_TRANSFORM, &transform);
    meter_read(&f->meter, STAGE_READ, &read);
    for (int i = 0; i < f->function_count; i++) {
        mapped += (double)meter_get(&f->function[i].busy_ns);
        locked += (double)meter_get(&f->function[i].wait_ns);
    }
    double busy = least((double)decode.busy_ns + (double)transform.busy_ns + mapped, threads * wall);
    double idle = least(least((double)crew_idle_ns(), wait * threads), threads * wall - busy);
    bool has_read = (double)meter_get(&f->io_reads) > 0.01 * (double)read.items;
    bool is_remote = mounts_is_remote((enum file_kind)s->file_kind);
    w->threads = threads;
    w->wall_ns = threads * wall;
    w->cpu_ns = busy;
    w->off_ns[has_read ? (is_remote ? WAIT_REMOTE_FILE : WAIT_FILE) : WAIT_SLEEP] = idle;
    w->off_ns[WAIT_LOCK] = w->lock_ns = least(locked, threads * wall - busy - idle);
    w->off_ns[WAIT_SLEEP] += threads * wall - busy - idle - w->off_ns[WAIT_LOCK];
    w->active_ns = least(wall, busy);
    s->read_chars = (double)read.bytes;
    s->read_calls = (double)read.items;
    s->read_bytes = has_read ? (double)read.bytes : 0;
}

void feed_snapshot(struct feed *f, struct snapshot *s, struct run_facts *facts)
{
    for (size_t i = 0; i < sizeof(*s) / sizeof(double); i++)
        ((double *)s)[i] = (double)NAN;
    memset(s->role, 0, sizeof(s->role));
    *facts = (struct run_facts){.program = "fullbore.Loader", .exit_code = (double)NAN, .uses_fullbore = 1, .is_engine = 1};
    facts->machine_cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    s->pause_ns = s->startup_ns = s->loader_births = s->loader_deaths = 0;
    s->write_bytes = s->consumer_system_ns = s->loader_system_ns = 0;
    s->cores = host_cores();
    look_at_place(f, s, facts);
    fill_consumer(f, s);
    fill_workers(f, s);
}
