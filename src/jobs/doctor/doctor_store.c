/* A bucket: every epoch comes over the network unless something keeps it, and what must be in flight for that follows from Little's law:
 * requests in flight = requests per second x the time of one. Those lie ahead of the accelerator in memory.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "jobs/doctor.h"

static const double request_bytes = 8 << 20; /* larger objects come as ranges of this size */

/* The shallowest depth that gives what is wanted, else the one that gives most. */
static const struct storage_point *depth_for(const struct storage_probe *p, double requests_per_s)
{
    const struct storage_point *best = NULL;
    for (int i = 0; i < p->points; i++) {
        if (p->point[i].reads_per_s >= requests_per_s)
            return &p->point[i];
        if (!best || p->point[i].reads_per_s > best->reads_per_s)
            best = &p->point[i];
    }
    return best;
}

static void fill_budget(const struct doctor_request *q, struct doctor_result *r, double cpu_rate)
{
    struct doctor_budget *b = &r->budget;
    double batch = (double)q->options.batch_size, requests = fmax(1, ceil(r->sample_bytes / request_bytes));
    b->rate = isnan(r->wanted_rate) ? cpu_rate : r->wanted_rate;
    b->bytes_per_s = b->rate * r->sample_bytes;
    b->requests_per_s = b->rate * requests;
    b->given_requests_per_s = r->cold_rate * requests;
    b->given_bytes_per_s = r->cold_rate * r->sample_bytes;
    const struct storage_point *at = depth_for(&r->storage, b->requests_per_s);
    b->in_flight = at ? b->requests_per_s * at->latency_s : NAN;
    b->batches_ahead = at ? ceil(b->in_flight / requests / batch) + 1 : NAN; /* and the one that is being used */
    b->ram_bytes = b->batches_ahead * batch * (r->sample_bytes + r->output_bytes);
    b->cache_bytes = (double)r->data.bytes;
}

void doctor_predict_bucket(const struct doctor_request *q, struct doctor_result *r, const char *source)
{
    double first = doctor_cpu_rate(r, r->first_cpu_s, r->machine.threads), later = doctor_cpu_rate(r, r->known_cpu_s, r->machine.threads);
    double bytes = (double)r->data.bytes;
    fill_budget(q, r, later);
    double copy_s = bytes / fmax(1, r->budget.given_bytes_per_s);
    if (doctor_has_pictures(r)) {
        struct doctor_row *cache = doctor_add_row(r, REMEDY_CACHE, r->cold_rate, later);
        cache->disk_bytes = bytes;
        cache->later_from_storage = false;
        snprintf(cache->change, sizeof(cache->change), "cached on a local disk");
        text_format(cache->command, sizeof(cache->command), "Loader(..., cache_dir=\"/local/disk\", cache_limit=\"%.0fGiB\")",
                    ceil(1.05 * bytes / (1 << 30)));
    }
    struct doctor_row *stage = doctor_add_row(r, REMEDY_STAGE, first, later);
    stage->disk_bytes = bytes;
    stage->first_from_storage = stage->later_from_storage = false; /* that of the bucket; the disk is not known */
    text_format(stage->change, sizeof(stage->change), "staged before (%.1f min of copying)", copy_s / 60);
    snprintf(stage->command, sizeof(stage->command), "fullbore stage %.1000s /local/disk/data", source);
}
