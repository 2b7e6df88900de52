/* Monitors: a training loop seen from inside. The loop's own calls give exact waits; a thread looks at the program and the machine, as
 * `fullbore watch` does from outside, and the same rules judge both.
 *
 * Only the observing thread observes. A thread that asks for a verdict holds the lock while the rules run (milliseconds); the loop never
 * takes it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "feed/feed.h"
#include "meter/metrics.h"
#include "monitor/observer.h"
#include "monitor/live_line.h"

struct fb_monitor {
    struct loop loop;                /* the loop's thread writes */
    uint64_t asked_ns, asked_cpu_ns; /* its own */
    enum fb_look kind;
    pid_t pid; /* a forked child has no thread */
    pthread_t thread;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t wakes;
    bool is_ending;
    struct observer observer;
    struct loop_figures told; /* what the rows have so far */
    uint64_t epochs_told;
};

static bool looks(const fb_monitor *m)
{
    return m->kind == FB_LOOK_MACHINE || m->kind == FB_LOOK_PROGRAM;
}

/* ---- the loop's side ---- */

/* A loop that never asks before an epoch's first batch has waited for it since the epoch began. */
void fb_begin_epoch(fb_monitor *m, uint64_t batches)
{
    if (!m->asked_ns)
        fb_ask_batch(m);
    loop_begin_epoch(&m->loop, clock_now_ns(), batches);
}

void fb_ask_batch(fb_monitor *m)
{
    m->asked_ns = clock_now_ns();
    m->asked_cpu_ns = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
}

void fb_take_batch(fb_monitor *m, uint64_t samples)
{
    uint64_t cpu = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID), now = clock_now_ns();
    loop_take(&m->loop, now, now - m->asked_ns, cpu > m->asked_cpu_ns ? cpu - m->asked_cpu_ns : 0, samples);
}

void fb_end_epoch(fb_monitor *m)
{
    m->asked_ns = 0;
    loop_end_epoch(&m->loop, clock_now_ns());
}

/* ---- looking ---- */

static double more(uint64_t now, uint64_t *before)
{
    double d = now > *before ? (double)(now - *before) : 0;
    *before = now;
    return d;
}

/* What the loop did since the last row. Called by observer_step, under the lock. */
static void tell(void *ctx, struct snapshot *row)
{
    fb_monitor *m = ctx;
    struct loop_figures now = loop_read(&m->loop.all);
    row->loop_wall_ns = more(now.wall_ns, &m->told.wall_ns);
    row->loop_wait_ns = more(now.wait_ns, &m->told.wait_ns);
    row->loop_wait_cpu_ns = more(now.wait_cpu_ns, &m->told.wait_cpu_ns);
    row->loop_batches = more(now.batches, &m->told.batches);
    row->loop_steps = more(now.steps, &m->told.steps);
    row->loop_step_ns = more(now.step_ns, &m->told.step_ns);
    row->loop_epochs = more(atomic_load_explicit(&m->loop.epochs, memory_order_relaxed), &m->epochs_told);
}

static void *look_on(void *arg)
{
    fb_monitor *m = arg;
    pthread_mutex_lock(&m->lock);
    while (!m->is_ending) {
        observer_step(&m->observer);
        thread_cond_wait_until(&m->wakes, &m->lock, m->observer.tick_at);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static int start_looking(fb_monitor *m, struct fb_error *e)
{
    if (m->kind == FB_LOOK_MACHINE)
        observer_open_machine(&m->observer, 0);
    else
        FB_TRY(observer_open(&m->observer, getpid(), false, 0, e));
    m->observer.tell = tell;
    m->observer.ctx = m;
    int rc = thread_start_prompt(&m->thread, "fb-look", look_on, m, e);
    if (rc < 0)
        observer_close(&m->observer);
    return rc;
}

int fb_open_monitor(enum fb_look look, fb_monitor **out, struct fb_error *e)
{
    struct fb_error unused = {0};
    e = e ? e : &unused;
    fb_monitor *m = *out = calloc(1, sizeof(*m));
    if (!m)
        return error_set(e, FB_E_NOMEM, "monitor", "no memory");
    m->kind = look;
    m->pid = getpid();
    pthread_mutex_init(&m->lock, NULL);
    thread_cond_init(&m->wakes);
    if (look != FB_LOOK_MACHINE && look != FB_LOOK_SILENT) /* those stand beside a loader, which tells its marks itself */
        loop_open(&m->loop);
    else
        m->loop.marks.fd = -1;
    int rc = looks(m) ? start_looking(m, e) : 0;
    if (rc < 0) {
        m->kind = FB_LOOK_NOT;
        fb_close_monitor(m);
        *out = NULL;
    }
    return rc;
}

void fb_close_monitor(fb_monitor *m)
{
    if (!m || m->pid != getpid())
        return; /* in a forked child the thread is not there and the lock may be held for ever */
    if (looks(m)) {
        pthread_mutex_lock(&m->lock);
        m->is_ending = true;
        pthread_cond_signal(&m->wakes);
        pthread_mutex_unlock(&m->lock);
        pthread_join(m->thread, NULL);
        observer_close(&m->observer);
    }
    loop_close(&m->loop);
    pthread_cond_destroy(&m->wakes);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* ---- what comes out ---- */

static int give(struct text *t, char *out, size_t out_size)
{
    int length = snprintf(out, out_size, "%s", t->failed || !t->data ? "{}" : t->data);
    text_free(t);
    return length;
}

int fb_get_monitor(const fb_monitor *m, char *out, size_t out_size)
{
    struct text t = {.limit = 1 << 16};
    struct json_writer w = {.out = &t};
    struct metrics figures;
    metrics_clear(&figures);
    loop_metrics(&m->loop, &figures);
    json_begin_object(&w, NULL);
    metrics_put(&w, &figures, "loop");
    json_end(&w);
    return give(&t, out, out_size);
}

/* What the monitor saw of the machine beside what the loader knows of itself. */
static void overlay(struct snapshot *s, const struct snapshot *seen)
{
    double scale = seen->wall_s > 0 ? s->wall_s / seen->wall_s : 1; /* sums of another interval */
    s->cpu_ratio = seen->cpu_ratio;
    s->quota_cores = seen->quota_cores, s->throttled_s = seen->throttled_s * scale;
    s->memory_used_bytes = seen->memory_used_bytes, s->memory_total_bytes = seen->memory_total_bytes;
    s->memory_limit_bytes = seen->memory_limit_bytes, s->memory_group_bytes = seen->memory_group_bytes;
    s->refaults = seen->refaults * scale;
    s->psi_cpu = seen->psi_cpu, s->psi_io = seen->psi_io, s->psi_memory = seen->psi_memory, s->psi_memory_full = seen->psi_memory_full;
    s->disk_reads = seen->disk_reads * scale, s->disk_read_bytes = seen->disk_read_bytes * scale;
    s->disk_read_s = seen->disk_read_s * scale, s->disk_queue_s = seen->disk_queue_s * scale;
    s->disk_busy_s = seen->disk_busy_s * scale, s->disk_write_bytes = seen->disk_write_bytes * scale;
    s->disk_cap_bytes = seen->disk_cap_bytes, s->disk_cap_reads = seen->disk_cap_reads;
    s->gpu_count = seen->gpu_count, s->gpu_ratio = seen->gpu_ratio, s->gpu_power_w = seen->gpu_power_w;
    s->gpu_low_ratio = seen->gpu_low_ratio, s->gpu_high_ratio = seen->gpu_high_ratio;
    s->gpu_memory_bytes = seen->gpu_memory_bytes, s->gpu_memory_total_bytes = seen->gpu_memory_total_bytes;
    s->pcie_in_bytes = seen->pcie_in_bytes, s->pcie_cap_bytes = seen->pcie_cap_bytes;
}

/* The last `seconds` of what was seen; 0: all of it. Under the lock. */
static bool seen_lately(const fb_monitor *m, double seconds, struct snapshot *sum)
{
    const struct series *s = &m->observer.series;
    int from = s->count;
    for (double wall = 0; from > 0 && (seconds <= 0 || wall < seconds); from--)
        wall += s->row[from - 1].wall_s;
    for (int i = from; i < s->count; i++) {
        if (i == from)
            *sum = s->row[i];
        else
            snapshot_merge(sum, &s->row[i]);
    }
    return s->count > 0;
}

static void judge_loader(const fb_loader *l, fb_monitor *m, struct snapshot *s, struct run_facts *facts, struct verdict *v)
{
    struct snapshot seen;
    feed_snapshot((struct feed *)l, s, facts);
    if (m && looks(m)) {
        pthread_mutex_lock(&m->lock);
        if (seen_lately(m, 0, &seen))
            overlay(s, &seen);
        snprintf(facts->gpu_name, sizeof(facts->gpu_name), "%s", m->observer.facts.gpu_name);
        snprintf(facts->gpu_reason, sizeof(facts->gpu_reason), "%s", m->observer.gpu.reason);
        pthread_mutex_unlock(&m->lock);
    }
    diagnose_whole(s, facts, v);
}

static bool is_ours(const fb_loader *l, const fb_monitor *m)
{
    return (!l || ((const struct feed *)l)->pid == getpid()) && (!m || m->pid == getpid());
}

int fb_get_verdict(const fb_loader *l, fb_monitor *m, char *out, size_t out_size)
{
    struct text t = {.limit = 1 << 22};
    struct json_writer w = {.out = &t};
    struct verdict v;
    if (!is_ours(l, m))
        return snprintf(out, out_size, "{}");
    if (l) {
        struct snapshot s;
        struct run_facts facts;
        judge_loader(l, m, &s, &facts, &v);
        verdict_json(&v, &facts, &(struct series){.row = &s, .count = 1}, &w);
    } else if (m && m->kind == FB_LOOK_PROGRAM) {
        pthread_mutex_lock(&m->lock);
        diagnose(&m->observer.series, &m->observer.facts, &v);
        verdict_json(&v, &m->observer.facts, &m->observer.series, &w);
        pthread_mutex_unlock(&m->lock);
    }
    return give(&t, out, out_size);
}

int fb_get_status_line(const fb_loader *l, fb_monitor *m, char *out, size_t out_size)
{
    struct text t = {.limit = 1 << 12};
    if (!is_ours(l, m))
        return snprintf(out, out_size, "%s", "");
    if (l) {
        struct snapshot s, seen;
        struct run_facts facts;
        struct verdict v;
        judge_loader(l, m, &s, &facts, &v);
        if (m && looks(m)) {
            pthread_mutex_lock(&m->lock);
            if (seen_lately(m, 2, &seen))
                overlay(&s, &seen);
            pthread_mutex_unlock(&m->lock);
        }
        watch_line_row(&s, &v, &t);
    } else if (m && m->kind == FB_LOOK_PROGRAM) {
        pthread_mutex_lock(&m->lock);
        if (!m->observer.series.count)
            observer_take(&m->observer, clock_now_ns()); /* the first half second: better a short interval than none */
        watch_line_text(&m->observer.series, &m->observer.facts, &t);
        pthread_mutex_unlock(&m->lock);
    }
    int length = snprintf(out, out_size, "%s", t.data ? t.data : "");
    text_free(&t);
    return length;
}
