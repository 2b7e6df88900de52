/* What is drawn over time: which charts, which values. */
#include <stdio.h>

#include "jobs/report/report_chart.h"
#include "jobs/report/report_page.h"

static double share(const struct snapshot *r, enum role role, double ns)
{
    return r->role[role].wall_ns > 0 ? ns / r->role[role].wall_ns : NAN;
}

#define OFF(who, kind) (r->role[who].off_ns[kind])
static double consumer_cpu(const struct snapshot *r)
{
    return share(r, ROLE_CONSUMER, r->role[ROLE_CONSUMER].cpu_ns);
}
static double consumer_step(const struct snapshot *r)
{
    return share(r, ROLE_CONSUMER, OFF(0, WAIT_SLEEP) + OFF(0, WAIT_COMPUTE) + OFF(0, WAIT_DEVICE));
}
static double consumer_data(const struct snapshot *r)
{
    return share(r, ROLE_CONSUMER,
                 OFF(0, WAIT_FILE) + OFF(0, WAIT_REMOTE_FILE) + OFF(0, WAIT_NETWORK) + OFF(0, WAIT_FAULT) + OFF(0, WAIT_PIPE) +
                     OFF(0, WAIT_LOCK));
}
static double consumer_delay(const struct snapshot *r)
{
    return share(r, ROLE_CONSUMER, r->role[ROLE_CONSUMER].delay_ns);
}
static double consumer_rest(const struct snapshot *r)
{
    return share(r, ROLE_CONSUMER, OFF(0, WAIT_URING) + OFF(0, WAIT_WRITE) + OFF(0, WAIT_CHILD) + OFF(0, WAIT_UNKNOWN));
}
static double loader_cpu(const struct snapshot *r)
{
    return share(r, ROLE_LOADER, r->role[ROLE_LOADER].cpu_ns);
}
static double loader_delay(const struct snapshot *r)
{
    return share(r, ROLE_LOADER, r->role[ROLE_LOADER].delay_ns);
}
static double loader_files(const struct snapshot *r)
{
    return share(r, ROLE_LOADER, OFF(1, WAIT_FILE) + OFF(1, WAIT_FAULT));
}
static double loader_network(const struct snapshot *r)
{
    return share(r, ROLE_LOADER, OFF(1, WAIT_NETWORK) + OFF(1, WAIT_REMOTE_FILE));
}
static double loader_lock(const struct snapshot *r)
{
    return share(r, ROLE_LOADER, OFF(1, WAIT_LOCK));
}
static double loader_idle(const struct snapshot *r)
{
    return share(r, ROLE_LOADER,
                 OFF(1, WAIT_PIPE) + OFF(1, WAIT_SLEEP) + OFF(1, WAIT_URING) + OFF(1, WAIT_UNKNOWN) + OFF(1, WAIT_CHILD) +
                     OFF(1, WAIT_WRITE) + OFF(1, WAIT_DEVICE));
}
#undef OFF
static double gpu_busy(const struct snapshot *r)
{
    return r->gpu_ratio;
}
static double cpu_busy(const struct snapshot *r)
{
    return r->cpu_ratio;
}
static double storage_rate(const struct snapshot *r)
{
    return r->wall_s > 0 ? r->read_bytes / r->wall_s : NAN;
}
static double call_rate(const struct snapshot *r)
{
    return r->wall_s > 0 ? r->read_chars / r->wall_s : NAN;
}
static double net_rate(const struct snapshot *r)
{
    return r->wall_s > 0 ? r->net_in_bytes / r->wall_s : NAN;
}
static double tree_cores(const struct snapshot *r)
{
    double sum = 0;
    for (int k = 0; k < ROLE_COUNT; k++)
        sum += r->role[k].cpu_ns;
    return r->wall_s > 0 ? sum / 1e9 / r->wall_s : NAN;
}
static double batch_rate(const struct snapshot *r)
{
    if (isnan(r->loop_steps)) /* a recording of an older version */
        return r->wall_s > 0 ? r->loop_batches / r->wall_s : NAN;
    return r->loop_steps > 0 ? r->loop_steps / (r->loop_step_ns / 1e9) : r->loop_steps; /* none came: 0 */
}
static double machine_memory(const struct snapshot *r)
{
    return r->memory_used_bytes;
}
static double tree_memory(const struct snapshot *r)
{
    return r->rss_bytes;
}

static const struct chart charts[] = {
    {"accelerator", "Accelerator", "%", 100, 100, false, {{"busy", 1, gpu_busy}}, 1},
    {"consumer",
     "Main thread: where its time went",
     "%",
     100,
     100,
     true,
     {{"on the CPU", 1, consumer_cpu},
      {"step (device, sleep)", 7, consumer_step},
      {"waiting for data", 2, consumer_data},
      {"waiting for a core", 4, consumer_delay},
      {"other waits", 6, consumer_rest}},
     5},
    {"loaders",
     "Loaders: where their time went",
     "%",
     100,
     100,
     true,
     {{"on the CPU", 1, loader_cpu},
      {"waiting for a core", 4, loader_delay},
      {"files", 2, loader_files},
      {"network", 3, loader_network},
      {"locks", 5, loader_lock},
      {"idle", 6, loader_idle}},
     6},
    {"batches", "Batches, as reported by the program", "/s", 1, 0, false, {{"batches", 1, batch_rate}}, 1},
    {"reading",
     "Reading",
     "MB/s",
     1e-6,
     0,
     false,
     {{"from storage", 2, storage_rate}, {"by system calls", 3, call_rate}, {"network in", 5, net_rate}},
     3},
    {"cpu", "CPU of the machine", "%", 100, 100, false, {{"busy", 4, cpu_busy}}, 1},
    {"cores", "Cores used by the program", "", 1, 0, false, {{"cores", 1, tree_cores}}, 1},
    {"memory", "Memory", "GB", 1e-9, 0, false, {{"machine", 3, machine_memory}, {"program (private)", 5, tree_memory}}, 2},
};

enum { CONSUMER_CHART = 1 };

static bool sum_steady(const struct report_side *s, struct snapshot *sum)
{
    const struct verdict *v = &s->verdict;
    double to = v->steady_s > 0 ? v->warmup_s + v->steady_s : v->run_s;
    bool has_any = false;
    for (int i = 0; i < s->recording.series.count; i++) {
        const struct snapshot *row = &s->recording.series.row[i];
        if (row->at_s <= v->warmup_s || row->at_s > to + 0.001)
            continue;
        if (has_any)
            snapshot_merge(sum, row);
        else
            *sum = *row;
        has_any = true;
    }
    return has_any;
}

void page_shares(struct text *t, const struct report_side *s)
{
    const struct chart *c = &charts[CONSUMER_CHART];
    struct snapshot sum;
    if (!sum_steady(s, &sum) || isnan(c->layer[0].value(&sum)))
        return;
    text_printf(t, "<div class=\"split\" role=\"img\" aria-label=\"where the main thread&#39;s time went\">");
    for (int k = 0; k < c->layers; k++)
        text_printf(t, "<i class=\"c%d\" style=\"flex-grow:%.4f\"></i>", c->layer[k].colour, fmax(0, c->layer[k].value(&sum)));
    text_printf(t, "</div><div class=\"k\"><span>main thread, seen from outside:</span>");
    for (int k = 0; k < c->layers; k++)
        if (c->layer[k].value(&sum) >= 0.005)
            text_printf(t, "<span><i class=\"c%d\"></i>%s <b>%.0f %%</b></span>", c->layer[k].colour, c->layer[k].name,
                        100 * c->layer[k].value(&sum));
    text_printf(t, "</div>");
}

void page_timelines(struct text *t, const struct report_side *s, const char *prefix)
{
    const struct verdict *v = &s->verdict;
    bool has_epochs = s->has_loop && s->loop.epochs > 1;
    text_printf(t, "<h2>Timelines%s%s%s</h2><div class=\"grid\">\n", prefix[0] ? " of " : "", prefix,
                has_epochs ? " <small>dashed: an epoch begins</small>" : "");
    for (size_t i = 0; i < sizeof(charts) / sizeof(*charts); i++) {
        struct chart c = charts[i];
        char id[64];
        snprintf(id, sizeof(id), "%s%s", prefix, c.id);
        c.id = id;
        chart_draw(t, &c, &s->recording.series, v->warmup_s, v->steady_s > 0 ? v->warmup_s + v->steady_s : v->run_s);
    }
    text_printf(t, "</div>\n");
}
