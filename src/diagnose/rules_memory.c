/* Memory that is too small for what is touched: pages are dropped and fetched again. */
#include "diagnose/findings.h"

/* PSI memory is not inflated by idle rings, unlike PSI io. */
bool memory_is_tight(const struct snapshot *s)
{
    bool group_full = s->memory_group_bytes > 0.93 * s->memory_limit_bytes;
    bool machine_full = s->memory_used_bytes > 0.95 * s->memory_total_bytes;
    bool comes_back = s->refaults > 50 * s->wall_s;
    return (group_full && comes_back) || (machine_full && comes_back) || s->psi_memory > 0.2;
}

void explain_memory(struct findings *f)
{
    const struct snapshot *s = &f->w->sum;
    double wall = fmax(1e-9, s->wall_s);
    finding_say(f, "%.0f major page faults/s; waiting for pages takes %.0f %% of the time of the %s", s->major_faults / wall,
                100 * (f->h->queue > 0 ? f->h->work_fault : f->h->own_fault), f->h->queue > 0 ? "loaders" : "training loop");
    if (!isnan(s->memory_limit_bytes))
        finding_say(f, "the control group holds %.2f of %.2f GB", s->memory_group_bytes / 1e9, s->memory_limit_bytes / 1e9);
    if (!isnan(s->refaults))
        finding_say(f, "%.0f pages/s came back soon after they had been dropped", s->refaults / wall);
    if (!isnan(s->memory_limit_bytes))
        finding_advise(f, finding_gain(f, 50), "a memory limit that holds the working set, e.g. %.1f GB (now %.1f GB)",
                       2 * s->memory_limit_bytes / 1e9, s->memory_limit_bytes / 1e9);
    finding_advise(f, finding_gain(f, 4),
                   "read the rows that are needed (pread, fullbore.Loader) instead of mapping the file (now %.0f faults/s)",
                   s->major_faults / wall);
}
