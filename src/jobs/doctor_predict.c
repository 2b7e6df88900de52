/* Rates by the bounds of operational analysis: a pipeline runs at the pace of its slowest stage. CPU stages give threads / demand, times
 * the efficiency that was measured; storage gives what it gave cold, when it was the slowest there.
 */
#include <math.h>
#include <stdio.h>

#include "jobs/doctor.h"

static const double storage_share = 0.8; /* of the CPU's rate: below it, storage was in the way */

/* What the workers reach of threads / demand when nothing else is in the way. */
static double efficiency(const struct doctor_result *r)
{
    double ideal = r->machine.threads / r->known_cpu_s;
    return r->known_cpu_s > 0 ? fmin(1, r->warm_rate / ideal) : 1;
}

static double cpu_rate(const struct doctor_result *r, double demand_s, double cores)
{
    return demand_s > 0 ? cores / demand_s * efficiency(r) : r->warm_rate;
}

static void fill_times(const struct doctor_request *q, const struct doctor_result *r, struct doctor_row *row)
{
    double batch = (double)q->options.batch_size, samples = (double)r->data.samples;
    double first = isnan(row->first_rate) ? row->later_rate : row->first_rate;
    double most = q->step_seconds > 0 ? batch / q->step_seconds : INFINITY;
    row->accelerator_ratio = q->step_seconds > 0 ? fmin(1, row->later_rate / most) : NAN;
    row->batch_seconds = batch / fmin(row->later_rate, most);
    row->epoch_seconds = samples / fmin(row->later_rate, most);
    row->run_seconds = samples / fmin(first, most) + (double)(q->epochs - 1) * row->epoch_seconds;
}

static void add_row(struct doctor_result *r, double first, double later, double ram, const char *command, const char *change)
{
    struct doctor_row *row = &r->row[r->rows++];
    snprintf(row->change, sizeof(row->change), "%s", change);
    row->first_rate = first;
    row->later_rate = later;
    row->ram_bytes = ram;
    snprintf(row->command, sizeof(row->command), "%s", command);
}

void doctor_predict(const struct doctor_request *q, struct doctor_result *r)
{
    double bytes = (double)r->data.bytes, first_cpu = cpu_rate(r, r->first_cpu_s, r->machine.threads);
    bool fits = bytes < 0.8 * r->machine.memory_available_bytes;
    r->rows = 0;
    r->storage_limits = r->cold_rate < storage_share * first_cpu;
    r->wanted_rate = q->step_seconds > 0 ? (double)q->options.batch_size / q->step_seconds : NAN;
    double storage = r->storage_limits ? r->cold_rate : INFINITY;
    double later = fits ? r->warm_rate : fmin(storage, r->warm_rate);
    add_row(r, r->cold_rate, later, fits ? bytes : 0, "", fits ? "as it is" : "as it is (larger than memory)");
    if (r->storage_limits && bytes < 0.9 * r->machine.shm_free_bytes)
        add_row(r, first_cpu, r->warm_rate, bytes, "cp -r DATA /dev/shm/", "copied to the RAM disk");
    char change[120];
    double more = 2.0 * r->machine.threads, disk = fits ? INFINITY : storage;
    snprintf(change, sizeof(change), "%.0f worker threads on %.0f cores (now %d)", more, more, r->machine.threads);
    double first_more = fmin(storage, cpu_rate(r, r->first_cpu_s, more)), later_more = fmin(disk, cpu_rate(r, r->known_cpu_s, more));
    add_row(r, first_more, later_more, fits ? bytes : 0, "", change);
    for (int i = 0; i < r->rows; i++)
        fill_times(q, r, &r->row[i]);
}
