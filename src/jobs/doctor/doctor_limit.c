/* What no prediction may exceed, and what other programs took.
 *
 * Every sample needs CPU time, bytes from where it lies, and a copy of them: so a rate is at most cores / CPU time, bandwidth of storage /
 * bytes, rate of copying / bytes. Bandwidth and rate of copying are the most that any measurement of this run shows, be it a probe or the
 * feeding itself: what was seen is possible.
 *
 * Without the others, threads would have had the cores that they wanted in vain, but no more than the others used and than there are.
 */
#include <math.h>

#include "jobs/doctor.h"

double doctor_alone(const struct doctor_run *r, int cores)
{
    const struct core_use *u = &r->cores;
    if (!(u->used > 0) || !(u->others > 0) || !(u->delayed > 0))
        return r->rate;
    double wanted = fmin(u->used + fmin(u->delayed, u->others), cores);
    return wanted > u->used ? r->rate * wanted / u->used : r->rate;
}

int doctor_free_cores(const struct doctor_result *r)
{
    double others = isfinite(r->others_cores) ? r->others_cores : 0;
    int cores = r->machine.cores, left = (int)floor(cores - others + 0.5), most = cores > 2 ? cores - 1 : cores; /* one for the trainer */
    return left < 1 ? 1 : left < most ? left : most;
}

/* ---- limits ---- */

static double at_least(double most, double seen)
{
    return isfinite(seen) && seen > most ? seen : most;
}

static double moved(double rate, double read_bytes, double output_bytes)
{
    return rate * fmax(read_bytes, output_bytes);
}

/* Enough reads were made to call what they gave a limit: a handful of files is read before all threads of the probe have begun. */
static bool knows_storage(const struct doctor_result *r)
{
    enum { FILES_ENOUGH = 64 };
    return r->storage.points && (r->data.has_rows || r->machine.is_bucket || r->data.samples >= FILES_ENOUGH);
}

void doctor_find_limits(struct doctor_result *r)
{
    const struct doctor_run *run[] = {&r->fresh_cold, &r->known_cold, &r->fresh_warm, &r->known_warm, &r->smaller, &r->decoded};
    double storage = 0, memory = 0, out = r->output_bytes;
    for (int i = 0; i < r->storage.points; i++)
        storage = at_least(storage, r->storage.point[i].bytes_per_s);
    storage = at_least(storage, r->cold_rate * (r->first_bytes > 0 ? r->first_bytes : r->sample_bytes));
    for (int i = 0; i < 2; i++)
        storage = at_least(storage, run[i]->rate * run[i]->read_bytes);
    r->limits = (struct doctor_limits){storage > 0 && knows_storage(r) ? storage : INFINITY, INFINITY};
    if (!(r->machine.copies_bytes_per_s > 0))
        return;
    memory = at_least(r->machine.copies_bytes_per_s, r->machine.copy_bytes_per_s);
    for (int i = 0; i < 6; i++)
        memory = at_least(memory, moved(run[i]->rate, run[i]->read_bytes, out));
    memory = at_least(memory, moved(r->warm_rate, r->known_bytes, out));
    memory = at_least(memory, moved(r->window.later_rate, r->known_bytes, out));
    r->limits.memory_bytes_per_s = at_least(memory, moved(r->preload.later_rate, 0, out));
}

static double most_of(const struct doctor_result *r, double cores, double cpu_s, double bytes, bool is_from_storage)
{
    double most = cpu_s > 0 ? cores / cpu_s : INFINITY, through_memory = fmax(bytes, r->output_bytes);
    if (is_from_storage && bytes > 0)
        most = fmin(most, r->limits.storage_bytes_per_s / bytes);
    return through_memory > 0 ? fmin(most, r->limits.memory_bytes_per_s / through_memory) : most;
}

static double within(double rate, double most)
{
    return rate > most ? most : rate; /* NAN stays */
}

void doctor_keep_limits(const struct doctor_result *r, struct doctor_row *row)
{
    double first = most_of(r, row->cores, row->first_cpu_s, row->first_bytes, row->first_from_storage);
    double later = most_of(r, row->cores, row->later_cpu_s, row->later_bytes, row->later_from_storage);
    row->first_rate = within(row->first_rate, first);
    row->alone_first = within(row->alone_first, first);
    row->later_rate = within(row->later_rate, later);
    row->alone_later = within(row->alone_later, later);
}
