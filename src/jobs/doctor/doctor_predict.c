/* Rates by the bounds of operational analysis: a pipeline runs at the pace of its slowest stage. CPU gives threads / demand, times the
 * efficiency that was measured; storage gives what it gave cold, when it was the slowest there. Demands are CPU time of the process, which
 * other programs on the machine hardly change; the efficiency has what they take. So the table is made twice: from what was measured, and
 * from what would have been measured without the others. No rate of either is above the limits of doctor_limit.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "jobs/doctor.h"

static const double storage_share = 0.8; /* of the CPU's rate: below it, storage was in the way */

bool doctor_has_pictures(const struct doctor_result *r)
{
    return strcmp(r->data.family, "sound") != 0 && strcmp(r->data.family, "array") != 0;
}

/* What the workers reach of threads / demand when nothing else is in the way. With a bucket something always was. */
static double efficiency(const struct doctor_result *r)
{
    if (r->machine.is_bucket)
        return 0.95;
    double ideal = r->machine.threads / r->known_cpu_s, most = (double)r->machine.cores / r->machine.threads; /* more than workers work */
    return r->known_cpu_s > 0 ? fmin(fmax(1, most), r->warm_rate / ideal) : 1;
}

double doctor_cpu_rate(const struct doctor_result *r, double demand_s, double cores)
{
    return demand_s > 0 ? cores / demand_s * efficiency(r) : r->warm_rate;
}

static void fill_times(const struct doctor_request *q, const struct doctor_result *r, struct doctor_row *row)
{
    double samples = (double)r->samples, epochs = (double)q->epochs;
    double batch = fmin((double)q->options.batch_size, fmax(1, samples)); /* none is larger than the data */
    double first = isnan(row->first_rate) ? row->later_rate : row->first_rate;
    double most = q->step_seconds > 0 ? batch / q->step_seconds : INFINITY;
    row->batch_seconds = batch / fmin(row->later_rate, most);
    row->epoch_seconds = samples / fmin(row->later_rate, most);
    row->run_seconds = samples / fmin(first, most) + (epochs - 1) * row->epoch_seconds;
    row->accelerator_first = q->step_seconds > 0 ? fmin(1, first / most) : NAN;
    row->accelerator_later = q->step_seconds > 0 ? fmin(1, row->later_rate / most) : NAN;
    row->accelerator_ratio = q->step_seconds > 0 ? epochs * samples / most / row->run_seconds : NAN;
}

struct doctor_row *doctor_add_row(struct doctor_result *r, enum remedy_kind kind, double first, double later)
{
    struct doctor_row *row = &r->row[r->rows++];
    *row = (struct doctor_row){.kind = kind, .first_rate = first, .later_rate = later, .proved_first = NAN, .proved_later = NAN};
    row->alone_first = row->alone_later = NAN;
    row->first_cpu_s = r->first_cpu_s;
    row->later_cpu_s = r->known_cpu_s;
    row->first_bytes = r->first_bytes > 0 ? r->first_bytes : r->sample_bytes;
    row->later_bytes = r->known_bytes > 0 ? r->known_bytes : r->sample_bytes;
    row->cores = r->machine.cores;
    row->first_from_storage = true;
    row->later_from_storage = r->machine.is_bucket || (double)r->data.bytes >= 0.8 * r->machine.memory_available_bytes;
    return row;
}

/* ---- the rows; `fits`: the data stay in memory after the first epoch ---- */

/* Samples per second of storage with many reads in flight and nothing to open. */
static double deepest_rate(const struct doctor_result *r, double share_of_bytes)
{
    const struct storage_probe *p = &r->storage;
    double rate = p->points ? p->point[p->points - 1].reads_per_s : NAN;
    return share_of_bytes < 1 ? rate / share_of_bytes : rate; /* smaller ones: as many bytes, more samples */
}

/* CPU of a first epoch from storage, of data that was tried in memory. A probe that reads and waits pays more than an engine that has many
 * reads under way: what known files cost from storage and from memory tells, if it was measured. */
static double cold_demand(const struct doctor_result *r, double demand_s, double bytes)
{
    double per_byte = r->storage.cold_cpu_s;
    const struct doctor_run *cold = &r->known_cold, *warm = &r->known_warm;
    if (cold->read_bytes > 0 && isfinite(cold->rate) && warm->cpu_s > 0)
        per_byte = fmin(per_byte, fmax(0, cold->cpu_s - warm->cpu_s) / cold->read_bytes);
    return per_byte > 0 ? demand_s + per_byte * bytes : demand_s;
}

static void costs(struct doctor_row *row, double first_cpu_s, double later_cpu_s, double bytes, bool fits)
{
    row->first_cpu_s = first_cpu_s;
    row->later_cpu_s = later_cpu_s;
    row->first_bytes = row->later_bytes = bytes;
    row->later_from_storage = !fits;
}

/* Every epoch of pictures as arrays of numbers; what decoding them once costs is not in it. */
static void add_decoded(struct doctor_result *r, const char *source)
{
    double each = 3.0 * r->decoded_side * r->decoded_side, bytes = each * (double)r->samples, threads = r->machine.threads;
    double storage = r->limits.storage_bytes_per_s / each;
    bool fits = bytes < 0.8 * r->machine.memory_available_bytes;
    double first = doctor_cpu_rate(r, cold_demand(r, r->decoded_first_cpu_s, each), threads);
    double later = r->decoded.rate > 0 ? r->decoded.rate : doctor_cpu_rate(r, r->decoded_cpu_s, threads);
    struct doctor_row *row =
        doctor_add_row(r, REMEDY_DECODED, isnan(r->cold_rate) ? NAN : fmin(storage, first), fits ? later : fmin(storage, later));
    costs(row, cold_demand(r, r->decoded_first_cpu_s, each), r->decoded_cpu_s, each, fits);
    row->disk_bytes = bytes;
    row->ram_bytes = fits ? bytes : 0;
    snprintf(row->change, sizeof(row->change), "decoded once, %d x %d (lossy)", r->decoded_side, r->decoded_side);
    snprintf(row->command, sizeof(row->command), "fullbore pack %.1000s -o data.npy --decode %dx%d", source, r->decoded_side,
             r->decoded_side);
}

static void add_memory(struct doctor_result *r, const char *source)
{
    double bytes = (double)r->data.bytes;
    double spared = r->storage.cold_cpu_s > 0 ? r->storage.cold_cpu_s * r->first_bytes : 0; /* the kernel fetches nothing */
    double first_s = fmax(r->first_cpu_s - spared, fmin(r->first_cpu_s, r->known_cpu_s));
    double first = r->first_warm_rate > 0 ? r->first_warm_rate : doctor_cpu_rate(r, first_s, r->machine.threads);
    struct doctor_row *row = doctor_add_row(r, REMEDY_MEMORY, first, r->warm_rate);
    row->first_cpu_s = first_s;
    row->first_from_storage = row->later_from_storage = false;
    row->ram_bytes = bytes;
    snprintf(row->change, sizeof(row->change), "copied to the RAM disk");
    snprintf(row->command, sizeof(row->command), "cp -r %.1000s /dev/shm/", source);
}

/* No file has to be opened, and where storage was in the way its depth counts. */
static void add_pack(struct doctor_result *r, const char *source, bool fits)
{
    double saved = isnan(r->storage.open_s) ? 0 : fmin(r->storage.open_s, 0.5 * r->known_cpu_s), threads = r->machine.threads;
    double first_cpu = doctor_cpu_rate(r, r->first_cpu_s - saved, threads);
    double later_cpu = doctor_cpu_rate(r, r->known_cpu_s - saved, threads), deep = deepest_rate(r, 1);
    double storage = r->storage_limits ? fmax(r->cold_rate, isnan(deep) ? r->cold_rate : deep) : INFINITY;
    struct doctor_row *row =
        doctor_add_row(r, REMEDY_PACK, isnan(r->cold_rate) ? NAN : fmin(storage, first_cpu), fits ? later_cpu : fmin(storage, later_cpu));
    row->first_cpu_s -= saved;
    row->later_cpu_s -= saved;
    row->disk_bytes = (double)r->data.bytes;
    row->ram_bytes = fits ? (double)r->data.bytes : 0;
    snprintf(row->change, sizeof(row->change), "packed into one file");
    snprintf(row->command, sizeof(row->command), "fullbore pack %.1000s -o data.tar", source);
}

static void add_smaller(struct doctor_result *r, const char *source)
{
    double threads = r->machine.threads, bytes = (double)r->data.bytes * r->smaller_share;
    bool fits = bytes < 0.8 * r->machine.memory_available_bytes;
    double deep = deepest_rate(r, r->smaller_share), storage = r->storage_limits ? fmax(r->cold_rate, isnan(deep) ? 0 : deep) : INFINITY;
    double each = r->sample_bytes * r->smaller_share, cold_s = cold_demand(r, r->smaller_first_cpu_s, each);
    double first = doctor_cpu_rate(r, cold_s, threads);
    double later = r->smaller.rate > 0 ? r->smaller.rate : doctor_cpu_rate(r, r->smaller_cpu_s, threads);
    struct doctor_row *row =
        doctor_add_row(r, REMEDY_SMALLER, isnan(r->cold_rate) ? NAN : fmin(storage, first), fits ? later : fmin(storage, later));
    costs(row, cold_s, r->smaller_cpu_s, each, fits);
    row->disk_bytes = bytes;
    row->ram_bytes = fits ? bytes : 0;
    snprintf(row->change, sizeof(row->change), "packed, shorter side %d (lossy)", r->smaller_side);
    snprintf(row->command, sizeof(row->command), "fullbore pack %.1000s -o small.tar --resize-shorter %d", source, r->smaller_side);
}

/* Nothing is promised about a disk that was not measured: a cache is shown for what stays in its memory. */
static void add_cache(struct doctor_result *r)
{
    struct doctor_row *row = doctor_add_row(r, REMEDY_CACHE, r->cold_rate, r->warm_rate);
    row->disk_bytes = row->ram_bytes = (double)r->data.bytes;
    snprintf(row->change, sizeof(row->change), "cached on a local disk");
    snprintf(row->command, sizeof(row->command), "Loader(..., cache_dir=\"/local/disk\")");
}

/* Threads beyond the cores that are free only wait for each other: none are recommended. Cores that are there and may not be used are
 * named, and so is another machine, for its price is known to those who ask. */
static void add_cores(struct doctor_result *r, double storage, bool fits)
{
    int now = r->machine.threads, usable = doctor_free_cores(r), online = r->machine.online_cores;
    bool has_idle = now<usable, has_barred = online> r->machine.cores && now >= r->machine.cores;
    double more = has_idle ? usable : has_barred ? online : 2.0 * r->machine.cores;
    double threads = has_idle || has_barred ? more : 2.0 * now;
    double first = fmin(storage, doctor_cpu_rate(r, r->first_cpu_s, threads));
    struct doctor_row *row =
        doctor_add_row(r, REMEDY_CORES, first, fmin(fits ? INFINITY : storage, doctor_cpu_rate(r, r->known_cpu_s, threads)));
    row->cores = has_idle ? r->machine.cores : more;
    row->ram_bytes = fits ? (double)r->data.bytes : 0;
    if (has_idle) {
        text_format(row->change, sizeof(row->change), "%d worker threads (now %d)", usable, now);
        text_format(row->command, sizeof(row->command), "Loader(..., threads=%d)", usable);
    } else if (has_barred)
        text_format(row->change, sizeof(row->change), "all %d cores of this machine (%d allowed)", online, r->machine.cores);
    else
        text_format(row->change, sizeof(row->change), "a machine with %.0f cores (now %d)", more, r->machine.cores);
}

/* These remedies take work away and bring no bytes: one that looks slower than what was measured shows that other programs came and went
 * meanwhile. */
static double no_slower(double predicted, double as_is)
{
    return predicted < as_is ? as_is : predicted;
}

static void add_remedies(const struct doctor_request *q, struct doctor_result *r, double storage, bool fits, bool is_storage_blamed)
{
    const char *source = q->options.source ? q->options.source : "DATA";
    if (r->machine.is_bucket)
        doctor_predict_bucket(q, r, source);
    if (!r->machine.is_bucket && is_storage_blamed && (double)r->data.bytes < 0.9 * r->machine.shm_free_bytes)
        add_memory(r, source);
    if (strcmp(r->data.kind, "folder") == 0 && doctor_has_pictures(r) && !r->machine.is_bucket)
        add_pack(r, source, fits);
    if (r->smaller_side)
        add_smaller(r, source);
    if (r->decoded_side)
        add_decoded(r, source);
    if (r->machine.is_remote && fits && doctor_has_pictures(r))
        add_cache(r);
    doctor_predict_arrays(r, source);
    add_cores(r, storage, fits);
}

static bool only_helps(enum remedy_kind kind)
{
    return kind == REMEDY_MEMORY || kind == REMEDY_PACK || kind == REMEDY_CORES || kind == REMEDY_CACHE || kind == REMEDY_STAGE ||
           kind == REMEDY_RECHUNK;
}

/* The rows of both tables are the same: those for the machine as it is now. */
static void fill_rows(const struct doctor_request *q, struct doctor_result *r, bool is_storage_blamed)
{
    double bytes = (double)r->data.bytes, first_cpu = doctor_cpu_rate(r, r->first_cpu_s, r->machine.threads);
    bool fits = !r->machine.is_bucket && bytes < 0.8 * r->machine.memory_available_bytes;
    r->rows = 0;
    r->storage_limits = r->cold_rate < storage_share * first_cpu;
    double storage = r->storage_limits ? r->cold_rate : INFINITY;
    struct doctor_row *as_is =
        doctor_add_row(r, REMEDY_NONE, r->cold_rate, fits || r->machine.is_bucket ? r->warm_rate : fmin(storage, r->warm_rate));
    snprintf(as_is->change, sizeof(as_is->change),
             r->machine.is_bucket ? "as it is (every epoch from the bucket)"
             : fits               ? "as it is"
                                  : "as it is (larger than memory)");
    as_is->ram_bytes = fits ? bytes : 0;
    add_remedies(q, r, storage, fits, is_storage_blamed);
    for (int i = 0; i < r->rows; i++)
        if (only_helps(r->row[i].kind)) {
            r->row[i].first_rate = no_slower(r->row[i].first_rate, r->row[0].first_rate);
            r->row[i].later_rate = no_slower(r->row[i].later_rate, r->row[0].later_rate);
        }
}

static double or_as_now(double alone, double now)
{
    return alone > 0 ? alone : now;
}

/* What would have been measured without the other programs. */
static struct doctor_result without_others(const struct doctor_result *r)
{
    struct doctor_result a = *r;
    double share = r->warm_rate > 0 ? or_as_now(r->alone_warm, r->warm_rate) / r->warm_rate : 1;
    a.cold_rate = or_as_now(r->alone_cold, r->cold_rate);
    a.warm_rate = or_as_now(r->alone_warm, r->warm_rate);
    a.first_warm_rate = r->first_warm_rate * share;
    a.smaller.rate = doctor_alone(&r->smaller, r->machine.cores);
    a.decoded.rate = doctor_alone(&r->decoded, r->machine.cores);
    a.window = (struct doctor_trial){or_as_now(r->window.alone_first, r->window.first_rate),
                                     or_as_now(r->window.alone_later, r->window.later_rate), 0, 0};
    a.preload = (struct doctor_trial){or_as_now(r->preload.alone_first, r->preload.first_rate),
                                      or_as_now(r->preload.alone_later, r->preload.later_rate), 0, 0};
    return a;
}

static void take_alone(struct doctor_row *row, const struct doctor_result *alone)
{
    row->alone_first = row->first_rate;
    row->alone_later = row->later_rate;
    for (int i = 0; i < alone->rows; i++)
        if (alone->row[i].kind == row->kind) {
            row->alone_first = no_slower(alone->row[i].first_rate, row->first_rate);
            row->alone_later = no_slower(alone->row[i].later_rate, row->later_rate);
        }
}

void doctor_predict(const struct doctor_request *q, struct doctor_result *r)
{
    doctor_find_limits(r);
    struct doctor_result alone = without_others(r);
    r->wanted_rate = alone.wanted_rate = q->step_seconds > 0 ? (double)q->options.batch_size / q->step_seconds : NAN;
    bool is_storage_blamed = r->cold_rate < storage_share * doctor_cpu_rate(r, r->first_cpu_s, r->machine.threads);
    fill_rows(q, &alone, is_storage_blamed);
    fill_rows(q, r, is_storage_blamed);
    for (int i = 0; i < r->rows; i++) {
        take_alone(&r->row[i], &alone);
        doctor_keep_limits(r, &r->row[i]);
        fill_times(q, r, &r->row[i]);
    }
}
