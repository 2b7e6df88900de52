#include "meter/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "meter/meter.h"

#define COUNTER .is_counter = true

#define MEMORY_ROWS(kind, what)                                                                                            \
    {"budget.kinds." kind ".used_bytes", "memory_" kind "_used_bytes", UNIT_BYTES, .help = "Memory in use for " what "."}, \
        {"budget.kinds." kind ".peak_bytes", "memory_" kind "_peak_bytes", UNIT_BYTES, .help = "Peak memory in use for " what "."}

/* Some stages have older names for waiting and for items; those stay. */
#define STAGE_ROWS(stage, input_name, items_name, what)                                                                         \
    {"stages." stage ".busy_seconds", stage "_seconds_total", UNIT_SECONDS, COUNTER, "Time of " what ", summed over threads."}, \
        {"stages." stage ".waiting_for_input_seconds", input_name, UNIT_SECONDS, COUNTER,                                       \
         "Time that the stage '" stage "' waited for the stage before it."},                                                    \
        {"stages." stage ".waiting_for_output_seconds", stage "_output_wait_seconds_total", UNIT_SECONDS, COUNTER,              \
         "Time that the stage '" stage "' waited for the stage after it."},                                                     \
        {"stages." stage ".items", items_name, COUNTER, .help = "Items that passed the stage '" stage "'."},                    \
        {"stages." stage ".bytes", stage "_bytes_total", UNIT_BYTES, COUNTER, "Bytes that passed the stage '" stage "'."}

/* Loaders have always shown the sums of all epochs at the top, too; the loop's own rows come after them. */
const struct metric_row metric_table[] = {
    {"epoch", "epoch", .help = "The epoch that the consumer is in."},
    {"position", "position_samples", .help = "Samples of this epoch returned so far, over all ranks."},
    {"samples", "samples_total", COUNTER, .help = "Samples returned so far, over all epochs."},
    {"batches", "batches_total", COUNTER, .help = "Batches returned so far, over all epochs."},
    {"threads", "threads", .help = "CPU workers of the process."},
    {"wall_seconds", "wall_seconds_total", UNIT_SECONDS, COUNTER,
     "Time from asking for the first batch of each epoch to having its last one in hand, summed: the time the consumer was iterating."},
    {"exposed_wait_seconds", "exposed_wait_seconds_total", UNIT_SECONDS, COUNTER,
     "Time from entering `next()` to having the batch in hand, summed; `iter()` counts as waiting for the first batch."},
    {"exposed_wait_ratio", "exposed_wait_ratio", UNIT_RATIO,
     .help = "`exposed_wait_seconds` as a share of `wall_seconds`; 0 means that the loader is never in the way."},
    {"wait_p50_seconds", "wait_p50_seconds", UNIT_SECONDS, .help = "Median wait for a batch (the upper edge of a power-of-two bin)."},
    {"wait_p99_seconds", "wait_p99_seconds", UNIT_SECONDS,
     .help = "99th percentile of the waits for a batch (the upper edge of a power-of-two bin)."},
    {"load_p50_seconds", "load_p50_seconds", UNIT_SECONDS,
     .help = "Median time of one sample on a worker: read if cached, decode, transform."},
    {"load_p99_seconds", "load_p99_seconds", UNIT_SECONDS, .help = "99th percentile of the time of one sample on a worker."},
    {"first_batch_seconds", "first_batch_seconds", UNIT_SECONDS, .help = "Time from opening to the first batch."},
    {"look_ahead_batches", "look_ahead_batches", .help = "How many batches the planner may go ahead."},
    {"ahead_batches", "ahead_batches", .help = "How many batches the planner is ahead."},
    {"held_batches", "held_batches", .help = "Batches that the program holds."},
    {"given_away_batches", "given_away_batches_total", COUNTER,
     .help = "Batches the program kept beyond two; they left the memory budget and were replaced."},
    {"changed_files", "changed_files_total", COUNTER, .help = "Files whose size or time differs from the catalog's when read."},
    {"left_behind_threads", "left_behind_threads",
     .help = "Threads of the process that were still busy when their loader was closed, and have not come back."},
    {"left_behind_reads", "left_behind_reads",
     .help = "Reads of the process that could not be cancelled at all; their memory is never freed."},
    {"map_seconds", "map_seconds_total", UNIT_SECONDS, COUNTER,
     "Time inside functions of your own among the transforms, summed over threads."},
    {"gil_wait_seconds", "gil_wait_seconds_total", UNIT_SECONDS, COUNTER,
     "Time that workers waited for the interpreter's lock to call such functions, summed over threads."},
    {"batch_map_seconds", "batch_map_seconds_total", UNIT_SECONDS, COUNTER,
     "Time inside the function that `batch_map=` names, part of the exposed wait; counted in Python."},
    {"release_seconds", "release_seconds_total", UNIT_SECONDS, COUNTER,
     "Time that taking batches back took, when the program had dropped them; not part of the exposed wait."},
    {"bad", "bad_samples_total", COUNTER, .help = "Samples that were replaced, with `on_error=\"skip\"`."},

    {"budget.limit_bytes", "memory_limit_bytes", UNIT_BYTES, .help = "The memory budget of the process."},
    {"budget.used_bytes", "memory_used_bytes", UNIT_BYTES, .help = "Memory of the budget in use."},
    {"budget.peak_bytes", "memory_peak_bytes", UNIT_BYTES, .help = "Peak memory use of the budget."},
    MEMORY_ROWS("slots", "batches"),
    MEMORY_ROWS("reads", "bytes that are being read"),
    MEMORY_ROWS("scratch", "the workers' scratch buffers"),
    MEMORY_ROWS("cache", "caches"),

    {"catalog.samples", "catalog_samples", .help = "Samples of the whole source."},

    {"io.reads", "io_reads_total", COUNTER, .help = "Reads, including those that the page cache answered."},
    {"io.bytes", "io_read_bytes_total", UNIT_BYTES, COUNTER, "Bytes that the back-end read."},
    {"io.failures", "io_failures_total", COUNTER, .help = "Reads that failed."},
    {"io.in_flight", "reads_in_flight", .help = "Reads under way."},
    {"io.in_flight_seconds", "reads_in_flight_seconds_total", UNIT_SECONDS, COUNTER,
     "Time that reads were under way, summed over reads; divided by the time it is their mean number."},
    {"io.in_flight_peak", "reads_in_flight_peak", .help = "Peak number of reads under way at once."},
    {"io.depth", "reads_in_flight_limit", .help = "How many reads may be under way at once."},
    {"io.cached_reads", "cached_reads_total", COUNTER, .help = "Reads that the workers themselves found in the page cache."},
    {"io.part_reads", "part_reads_total", COUNTER, .help = "Reads that fetched only the part of a large file that a crop needs."},

    {"cache.ram_hits", "cache_ram_hits_total", COUNTER, .help = "Requests that the RAM cache answered."},
    {"cache.disk_hits", "cache_disk_hits_total", COUNTER, .help = "Requests that the disk cache answered."},
    {"cache.joined", "cache_joined_total", COUNTER, .help = "Requests that a fetch under way answered."},
    {"cache.misses", "cache_misses_total", COUNTER, .help = "Requests that the source had to answer."},
    {"cache.ram_hit_bytes", "cache_ram_hit_bytes_total", UNIT_BYTES, COUNTER, "Bytes from the RAM cache."},
    {"cache.disk_hit_bytes", "cache_disk_hit_bytes_total", UNIT_BYTES, COUNTER, "Bytes from the disk cache."},
    {"cache.miss_bytes", "cache_miss_bytes_total", UNIT_BYTES, COUNTER, "Bytes from the source."},
    {"cache.filled", "cache_filled_total", COUNTER, .help = "Samples fetched ahead."},
    {"cache.filled_bytes", "cache_filled_bytes_total", UNIT_BYTES, COUNTER, "Bytes fetched ahead."},
    {"cache.stored", "cache_stored_total", COUNTER, .help = "Samples written to the disk cache."},
    {"cache.stored_bytes", "cache_stored_bytes_total", UNIT_BYTES, COUNTER, "Bytes written to the disk cache."},
    {"cache.evicted", "cache_evicted_total", COUNTER, .help = "Samples that this process evicted."},
    {"cache.evicted_bytes", "cache_evicted_bytes_total", UNIT_BYTES, COUNTER, "Bytes that this process evicted."},
    {"cache.damaged", "cache_damaged_total", COUNTER, .help = "Entries refused because their checksum did not match."},
    {"cache.changed", "cache_changed_total", COUNTER, .help = "Entries refused because their source's version did not match."},
    {"cache.ram_bytes", "cache_ram_bytes", UNIT_BYTES, .help = "Bytes in the RAM cache."},
    {"cache.ram_limit_bytes", "cache_ram_limit_bytes", UNIT_BYTES, .help = "The limit of the RAM cache."},
    {"cache.disk_bytes", "cache_disk_bytes", UNIT_BYTES, .help = "Bytes in the disk cache."},
    {"cache.disk_limit_bytes", "cache_disk_limit_bytes", UNIT_BYTES, .help = "The limit of the disk cache; `null`: there is none."},

    STAGE_ROWS("plan", "plan_input_wait_seconds_total", "plan_items_total", "planning"),
    STAGE_ROWS("read", "read_input_wait_seconds_total", "reads_total", "reads from request to bytes"),
    STAGE_ROWS("decode", "workers_idle_seconds_total", "decode_items_total", "decoding"),
    STAGE_ROWS("transform", "transform_input_wait_seconds_total", "transform_items_total", "transforms"),
    STAGE_ROWS("deliver", "deliver_input_wait_seconds_total", "deliver_items_total", "the program's own steps"),

    {"regions.by_checkpoints", "regions_by_checkpoints_total", COUNTER, .help = "Images decoded from checkpoints."},
    {"regions.plainly", "regions_plainly_total", COUNTER, .help = "Images decoded without checkpoints."},
    {"regions.by_fallback", "regions_by_fallback_total", COUNTER,
     .help = "Images that libjpeg-turbo decoded because the fast decoder met something odd."},

    {"learnt.records", "learnt_records", .help = "Records of earlier decodes on disk."},
    {"learnt.bytes", "learnt_bytes", UNIT_BYTES, .help = "Bytes of these records."},
    {"learnt.found", "learnt_found_total", COUNTER, .help = "Decodes that found a record."},
    {"learnt.missed", "learnt_missed_total", COUNTER, .help = "Decodes that found no record."},
    {"learnt.stale", "learnt_stale_total", COUNTER, .help = "Records not used because the file changed."},
    {"learnt.written", "learnt_written_total", COUNTER, .help = "Records written by this loader."},

    {"chunks.bytes", "chunks_bytes", UNIT_BYTES, .help = "Bytes of decompressed chunks that are kept."},
    {"chunks.limit", "chunks_limit_bytes", UNIT_BYTES, .help = "How many bytes of them may be kept."},
    {"chunks.hits", "chunks_hits_total", COUNTER, .help = "Requests for chunks that were kept."},
    {"chunks.unfiltered", "chunks_unfiltered_total", COUNTER, .help = "Chunks that were decompressed."},
    {"chunks.evictions", "chunks_evictions_total", COUNTER, .help = "Chunks that made room for others."},

    {"device.shipped_batches", "device_shipped_batches_total", COUNTER, .help = "Batches sent to the device."},
    {"device.copies", "device_copies_total", COUNTER, .help = "Copies to the device."},
    {"device.copied_bytes", "device_copied_bytes_total", UNIT_BYTES, COUNTER, "Bytes copied to the device."},
    {"device.pinned_bytes", "device_pinned_bytes", UNIT_BYTES, .help = "Page-locked memory."},
    {"device.memory_bytes", "device_memory_bytes", UNIT_BYTES, .help = "Memory of the device in use."},
    {"device.waiting_for_buffers_seconds", "device_buffer_wait_seconds_total", UNIT_SECONDS, COUNTER,
     "Time while all buffers on the device were in use by the program."},

    {"loop.epochs", "epochs_total", COUNTER, .help = "Epochs begun."},
    {"loop.epoch_length_batches", "epoch_length_batches", .help = "Batches the epoch will have; 0: not known."},
    {"loop.batches", "batches_total", COUNTER, .help = "Batches taken."},
    {"loop.samples", "samples_total", COUNTER, .help = "Samples taken, as far as a batch shows how many it holds."},
    {"loop.wall_seconds", "wall_seconds_total", UNIT_SECONDS, COUNTER,
     "Time from asking for the first batch of each epoch to having its last one in hand, summed."},
    {"loop.exposed_wait_seconds", "exposed_wait_seconds_total", UNIT_SECONDS, COUNTER,
     "Time from entering `next()` to having the batch in hand, summed; `iter()` counts as waiting for the first batch."},
    {"loop.exposed_wait_ratio", "exposed_wait_ratio", UNIT_RATIO, .help = "The same as a share of `wall_seconds`."},
    {"loop.wait_mean_seconds", "wait_mean_seconds", UNIT_SECONDS, .help = "Mean wait for a batch."},
    {"loop.wait_max_seconds", "wait_max_seconds", UNIT_SECONDS, .help = "Longest wait for a batch."},
    {"loop.step_mean_seconds", "step_mean_seconds", UNIT_SECONDS,
     .help = "Mean time from batch to batch inside an epoch; 0: no epoch has had two batches."},
    {"loop.batches_per_second", "batches_per_second", UNIT_PER_SECOND, .help = "1 / `step_mean_seconds`."},
    {"loop.samples_per_second", "samples_per_second", UNIT_PER_SECOND,
     .help = "Samples that came at the ends of these intervals, per second of them."},
    {"loop.epoch_batches", "epoch_batches", .help = "Batches of this epoch taken."},
    {"loop.epoch_samples", "epoch_samples", .help = "Samples of this epoch taken."},
    {"loop.epoch_wall_seconds", "epoch_wall_seconds", UNIT_SECONDS,
     .help = "Time from asking for the first batch of this epoch to having its last one in hand."},
    {"loop.epoch_exposed_wait_seconds", "epoch_exposed_wait_seconds", UNIT_SECONDS, .help = "Exposed wait of this epoch."},
    {"loop.epoch_exposed_wait_ratio", "epoch_exposed_wait_ratio", UNIT_RATIO, .help = "The same as a share of `epoch_wall_seconds`."},
    {"loop.epoch_wait_mean_seconds", "epoch_wait_mean_seconds", UNIT_SECONDS, .help = "Mean wait for a batch in this epoch."},
    {"loop.epoch_wait_max_seconds", "epoch_wait_max_seconds", UNIT_SECONDS, .help = "Longest wait for a batch in this epoch."},
    {"loop.epoch_step_mean_seconds", "epoch_step_mean_seconds", UNIT_SECONDS,
     .help = "Mean time from batch to batch in this epoch; 0: it has not had two batches."},
    {"loop.epoch_batches_per_second", "epoch_batches_per_second", UNIT_PER_SECOND, .help = "1 / `epoch_step_mean_seconds`."},
    {"loop.epoch_samples_per_second", "epoch_samples_per_second", UNIT_PER_SECOND,
     .help = "Samples that came at the ends of these intervals, per second of them."},
    {"loop.first_wait_seconds", "first_wait_seconds", UNIT_SECONDS, .help = "Wait for the very first batch."},
    {"loop.epoch_gap_seconds", "epoch_gap_seconds", UNIT_SECONDS,
     .help = "The longest time from the last batch of an epoch to the first of the next."},
    {"loop.wait_p50_seconds", "wait_p50_seconds", UNIT_SECONDS, .help = "Median wait (within 9 %)."},
    {"loop.wait_p99_seconds", "wait_p99_seconds", UNIT_SECONDS, .help = "99th percentile of waits (within 9 %)."},
    {"loop.step_p50_seconds", "step_p50_seconds", UNIT_SECONDS, .help = "Median time from batch to batch inside an epoch (within 9 %)."},
    {"loop.step_p99_seconds", "step_p99_seconds", UNIT_SECONDS,
     .help = "99th percentile of the time from batch to batch inside an epoch (within 9 %)."},
};
const int metric_count = sizeof(metric_table) / sizeof(*metric_table);
_Static_assert(sizeof(metric_table) / sizeof(*metric_table) <= METRICS_MOST, "a struct metrics has room for all");

void metrics_clear(struct metrics *m)
{
    for (int i = 0; i < metric_count; i++)
        m->value[i] = (double)NAN;
    m->last = 0;
}

/* The row of a path, looked for from row `start` on and around; -1: there is none. */
static int row_of(const char *path, int start)
{
    for (int n = 0; n < metric_count; n++)
        if (strcmp(metric_table[(start + n) % metric_count].path, path) == 0)
            return (start + n) % metric_count;
    return -1;
}

void metrics_set(struct metrics *m, const char *path, double value)
{
    int row = row_of(path, m->last);
    assert(row >= 0);
    if (row >= 0)
        m->value[m->last = row] = value;
}

void metrics_set_ns(struct metrics *m, const char *path, uint64_t ns)
{
    metrics_set(m, path, (double)ns / 1e9);
}

double metrics_get(const struct metrics *m, const char *path)
{
    int row = row_of(path, 0);
    return row < 0 ? (double)NAN : m->value[row];
}

/* "reads" if `path` is "io.reads" and `under` is "io"; NULL if it lies elsewhere. */
static const char *key_under(const char *path, const char *under)
{
    const char *dot = strrchr(path, '.'), *key = dot ? dot + 1 : path;
    size_t length = dot ? (size_t)(dot - path) : 0;
    return strlen(under) == length && strncmp(path, under, length) == 0 ? key : NULL;
}

static struct json_pair pair_of(const char *key, double value, enum metric_unit unit)
{
    bool is_count = unit == UNIT_NUMBER || unit == UNIT_BYTES;
    return is_count || unit == UNIT_SECONDS ? J_FIXED(key, is_count ? 0 : 9, value) : J_DIGITS(key, 9, value);
}

void metrics_put(struct json_writer *w, const struct metrics *m, const char *under)
{
    for (int i = 0; i < metric_count; i++) {
        const char *key = key_under(metric_table[i].path, under);
        if (key)
            json_put(w, pair_of(key, m->value[i], metric_table[i].unit));
    }
}

void metrics_put_object(struct json_writer *w, const struct metrics *m, const char *path)
{
    const char *dot = strrchr(path, '.');
    bool has_any = false;
    for (int i = 0; i < metric_count; i++)
        has_any |= key_under(metric_table[i].path, path) && !isnan(m->value[i]);
    if (!has_any)
        return;
    json_begin_object(w, dot ? dot + 1 : path);
    metrics_put(w, m, path);
    json_end(w);
}

void metrics_put_stages(struct json_writer *w, const struct metrics *m)
{
    char path[64];
    json_begin_array(w, "stages");
    for (int s = 0; s < STAGE_COUNT; s++) {
        const char *name = meter_stage_name((enum stage)s);
        snprintf(path, sizeof(path), "stages.%s", name);
        json_begin_object(w, NULL);
        json_put(w, J("name", name));
        metrics_put(w, m, path);
        json_end(w);
    }
    json_end(w);
}

void metrics_describe(struct json_writer *w)
{
    static const char *const units[] = {"", "bytes", "seconds", "ratio", "per second"};
    json_begin_array(w, NULL);
    for (int i = 0; i < metric_count; i++) {
        const struct metric_row *r = &metric_table[i];
        json_put(w, J_OBJECT(NULL, J("path", r->path), J("name", r->name), J("unit", units[r->unit]),
                             J("kind", r->is_counter ? "counter" : "gauge"), J("help", r->help)));
    }
    json_end(w);
}
