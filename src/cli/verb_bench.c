/* fullbore bench DATA: how fast can this be fed, and would an accelerator wait? */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "jobs/bench.h"

struct bench_options {
    const char *transform, *dtype, *io, *cache_dir, *device;
    int64_t batch_size, epochs, threads, seed;
    double step_ms;
    uint64_t memory, cache_limit, cache_ram;
    int on_error, sample, collate, order;
    const char *fields, *group_by;
    bool preload, cold, probe, json;
};

static const char *const on_error_names[] = {"raise", "skip", NULL};
static const char *const sample_names[] = {"auto", "row", "file", NULL};
static const char *const collate_names[] = {"none", "pad", "ragged", NULL};
static const char *const order_names[] = {"plain", "shuffled", "window", NULL};
static const double launch_share = 0.05;

#define AT(field) offsetof(struct bench_options, field)
static const struct option options[] = {
    {"transform", OPTION_STRING, AT(transform), .metavar = "T",
     .help = "rrc224 (default for images), eval224, none, or a spec as in docs/transforms.md"},
    {"batch-size", OPTION_INT, AT(batch_size), 1, 1 << 24, .metavar = "N", .help = "samples per batch (default 64)"},
    {"dtype", OPTION_STRING, AT(dtype), .metavar = "T", .help = "uint8, float16, bfloat16 or float32 (default; normalised)"},
    {"step-ms", OPTION_DOUBLE, AT(step_ms), 0, 3600000, .metavar = "T", .help = "emulate an accelerator whose step takes T ms"},
    {"epochs", OPTION_INT, AT(epochs), 1, 1 << 20, .metavar = "N", .help = "epochs to run (default 1)"},
    {"threads", OPTION_INT, AT(threads), 0, 1024, .metavar = "N",
     .help = "CPU workers (default: cores, less one when there are more than two)"},
    {"memory", OPTION_SIZE, AT(memory), .metavar = "SIZE",
     .help = "budget of the whole process, e.g. 64MiB (default: a quarter of what is free)"},
    {"seed", OPTION_INT, AT(seed), 0, 9e18, .metavar = "N", .help = "seed of the order and the random crops (default 0)"},
    {"order", OPTION_CHOICE, AT(order), .choices = order_names, .metavar = "O", .help = "shuffled (default), window or plain"},
    {"sample", OPTION_CHOICE, AT(sample), .choices = sample_names, .metavar = "S",
     .help = "arrays: a sample is a row or a file (default: auto)"},
    {"fields", OPTION_STRING, AT(fields), .metavar = "A,B", .help = "arrays: which of them, separated by commas (default: all)"},
    {"group-by", OPTION_STRING, AT(group_by), .metavar = "COLUMN",
     .help = "a manifest of bags: rows with the same value in this column are one sample"},
    {"collate", OPTION_CHOICE, AT(collate), .choices = collate_names, .metavar = "C",
     .help = "arrays and sound of different lengths: pad or ragged"},
    {"preload", OPTION_FLAG, AT(preload), .help = "arrays: read all rows into memory first"},
    {"on-error", OPTION_CHOICE, AT(on_error), .choices = on_error_names, .metavar = "P", .help = "raise (default) or skip bad samples"},
    {"cold", OPTION_FLAG, AT(cold), .help = "drop the files from the page cache first"},
    {"probe", OPTION_FLAG, AT(probe), .help = "also report how late a thread wakes every 1 ms (p99)"},
    {"cache-dir", OPTION_STRING, AT(cache_dir), .metavar = "DIR", .help = "keep what was read in this folder, for later epochs and runs"},
    {"cache-limit", OPTION_SIZE, AT(cache_limit), .metavar = "SIZE",
     .help = "largest size of that folder (default: all but 5 % of the disk)"},
    {"cache-ram", OPTION_SIZE, AT(cache_ram), .metavar = "SIZE", .help = "keep what was read in this much memory, within --memory"},
    {"io", OPTION_STRING, AT(io), .metavar = "SPEC", .help = "auto (default), uring, pread, null:..., slow:... (src/io/README.md)"},
    {"device", OPTION_STRING, AT(device), .metavar = "SPEC", .help = "copy batches to an emulated device, e.g. emulated:12GB/s,20us"},
    {"json", OPTION_FLAG, AT(json), .help = "one JSON object on stdout"},
    {0},
};
#undef AT

/* ---- what to run ---- */

static const char *expand_transform(const struct bench_options *c, char *out, size_t out_size)
{
    static const char normalize[] = "; normalize mean=0.485,0.456,0.406 std=0.229,0.224,0.225";
    const char *tail = strcmp(c->dtype, "uint8") == 0 ? "" : normalize;
    if (strcmp(c->transform, "rrc224") == 0)
        snprintf(out, out_size, "random_resized_crop size=224,224; random_horizontal_flip p=0.5%s", tail);
    else if (strcmp(c->transform, "eval224") == 0)
        snprintf(out, out_size, "resize size=256; center_crop size=224,224%s", tail);
    else if (strcmp(c->transform, "none") == 0)
        snprintf(out, out_size, "digest");
    else
        snprintf(out, out_size, "%s", c->transform);
    return out;
}

static int check_device(const char *device, struct fb_error *e)
{
    if (!device || strncmp(device, "emulated", strlen("emulated")) == 0)
        return 0;
    return error_advise(
        e, error_set(e, FB_E_USAGE, "usage", "--device takes an emulated device: the accelerator of the bench is emulated, too"),
        "use --device emulated:12GB/s,20us");
}

static int fill_request(const struct bench_options *c, const char *source, const char *transforms, char *fields, struct bench_request *r,
                        struct fb_error *e)
{
    fb_options *o = &r->options;
    cli_init_options(o, source);
    o->transforms = transforms;
    o->batch_size = (uint64_t)c->batch_size;
    o->shuffle = c->order;
    o->sample = c->sample;
    o->collate = c->collate;
    o->group_by = c->group_by;
    o->preload = c->preload;
    for (char *comma = fields; (comma = strchr(comma, ',')) != NULL;)
        *comma = '\n';
    o->fields = fields[0] ? fields : NULL;
    o->seed = (uint64_t)c->seed;
    o->threads = (int)c->threads;
    o->memory = c->memory;
    o->on_error = c->on_error ? FB_SKIP : FB_RAISE;
    o->io = c->io;
    o->cache_dir = c->cache_dir;
    o->cache_limit = c->cache_limit;
    o->cache_ram = c->cache_ram;
    o->rank = 0;
    o->world_size = 1;
    o->device = c->device;
    FB_TRY(check_device(c->device, e));
    enum fb_dtype dtype = fb_dtype_from_name(c->dtype);
    if (!dtype)
        return error_advise(e, error_set(e, FB_E_USAGE, "usage", "--dtype %s is not known", c->dtype),
                            "use uint8, float16, bfloat16 or float32");
    o->dtype = strcmp(c->transform, "none") == 0 ? 0 : dtype;
    r->step_seconds = c->step_ms / 1e3;
    r->launch_share = launch_share;
    r->epochs = c->epochs;
    r->is_cold = c->cold;
    r->has_probe = c->probe;
    return 0;
}

/* ---- what came out ---- */

static void print_json(const struct bench_options *c, const struct bench_request *q, const struct bench_result *r)
{
    struct text t = {.limit = 1 << 22};
    struct json_writer w = {.out = &t};
    json_begin_object(&w, NULL);
    json_put(&w, J("samples", r->samples), J("batches", r->batches), J("epochs", c->epochs), J("batch_size", c->batch_size),
             J("threads", r->threads), J("transforms", r->is_as_stored ? "" : q->options.transforms),
             J("dtype", !r->is_as_stored ? c->dtype
                        : q->dtype       ? fb_dtype_name(q->dtype)
                                         : ""),
             J_DIGITS("wall_seconds", 6, r->wall_seconds), J_DIGITS("samples_per_second", 6, r->samples_per_second),
             J_DIGITS("last_epoch_samples_per_second", 6, r->last_epoch_rate),
             J_DIGITS("step_seconds", 6, q->step_seconds > 0 ? q->step_seconds : NAN),
             J_DIGITS("launch_thread_share", 6, q->step_seconds > 0 ? q->launch_share : NAN),
             J_DIGITS("accelerator_utilization_ratio", 6, r->accelerator_utilization_ratio),
             J_DIGITS("exposed_wait_ratio", 6, r->exposed_wait_ratio),
             J_DIGITS("cpu_seconds_per_1000_samples", 6, r->cpu_seconds_per_1000_samples), J("budget_peak_bytes", r->budget_peak_bytes),
             J("rss_peak_bytes", r->rss_peak_bytes), J_DIGITS("time_to_first_batch_seconds", 6, r->time_to_first_batch_seconds),
             J_DIGITS("epoch_gap_seconds", 6, r->epoch_gap_seconds), J_DIGITS("step_median_seconds", 6, r->step_median_seconds),
             J_DIGITS("probe_lateness_p99_seconds", 6, r->probe_p99_seconds), J_DIGITS("evicted_ratio", 6, r->evicted_share));
    if (r->device[0])
        json_put(&w, J("device", r->device), J("device_copied_bytes", r->device_bytes));
    json_put(&w, J("io", r->io), J("cached_reads", r->cached_reads), J("io_reads", r->io_reads),
             J("chunks_unfiltered", r->chunks_unfiltered), J("bad_samples", r->bad), J_HEX("checksum", r->checksum));
    metrics_put_stages(&w, &r->metrics);
    json_end(&w);
    say_json(&t);
}

/* One sentence: where the time went. */
static void print_verdict(const struct bench_result *r)
{
    double read = r->cached_reads >= r->io_reads ? bench_stage(r, "read", "busy_seconds") : 0;
    double decode = bench_stage(r, "decode", "busy_seconds"), transform = bench_stage(r, "transform", "busy_seconds");
    double work = read + decode + transform, idle = bench_stage(r, "decode", "waiting_for_input_seconds");
    bool is_emulated = !isnan(r->accelerator_utilization_ratio);
    if (is_emulated && r->exposed_wait_ratio < 0.05)
        say("\nThe accelerator was the limit: it waited %.1f %% of the time, the workers were idle %.0f %%.\n", 100 * r->exposed_wait_ratio,
            100 * idle / (idle + work));
    else if (idle > 0.3 * (idle + work))
        say("\nStorage was the limit: the workers waited %.0f %% of their time for bytes (%llu of %llu reads came from %s).\n",
            100 * idle / (idle + work), (unsigned long long)r->io_reads, (unsigned long long)(r->io_reads + r->cached_reads), r->io);
    else
        say("\nThe CPU was the limit: %d workers spent %.0f %% on decoding, %.0f %% on transforms, %.0f %% on reading.\n", r->threads,
            100 * decode / work, 100 * transform / work, 100 * read / work);
}

static void print_stages(const struct bench_result *r)
{
    char bytes[32];
    say("\n%-10s %10s %10s %10s %10s %12s\n", "stage", "busy s", "input s", "output s", "items", "bytes");
    for (int i = 0; i < STAGE_COUNT; i++) {
        const char *name = meter_stage_name((enum stage)i);
        say("%-10s %10.3f %10.3f %10.3f %10.0f %12s\n", name, bench_stage(r, name, "busy_seconds"),
            bench_stage(r, name, "waiting_for_input_seconds"), bench_stage(r, name, "waiting_for_output_seconds"),
            bench_stage(r, name, "items"), text_size((uint64_t)bench_stage(r, name, "bytes"), bytes, sizeof(bytes)));
    }
    say("(sums over threads; input: waited for the stage before, output: for the stage after)\n");
}

static void print_table(const struct bench_request *q, const struct bench_result *r)
{
    char peak[32], rss[32];
    say("%-22s %.1f per second (%llu samples in %llu batches, %d threads)\n", "samples", r->samples_per_second,
        (unsigned long long)r->samples, (unsigned long long)r->batches, r->threads);
    if (q->step_seconds > 0)
        say("%-22s %.1f %% busy with steps of %g ms\n", "accelerator", 100 * r->accelerator_utilization_ratio, q->step_seconds * 1e3);
    say("%-22s %.1f %% of the time\n", "waiting for data", 100 * r->exposed_wait_ratio);
    if (r->device[0])
        say("%-22s %s copied to it (%s)\n", "device", text_size(r->device_bytes, peak, sizeof(peak)), r->device);
    say("%-22s %.3f s per 1000 samples\n", "CPU", r->cpu_seconds_per_1000_samples);
    say("%-22s %s in the budget, %s resident, at the peak\n", "memory", text_size(r->budget_peak_bytes, peak, sizeof(peak)),
        text_size(r->rss_peak_bytes, rss, sizeof(rss)));
    say("%-22s %.3f s\n", "first batch after", r->time_to_first_batch_seconds);
    if (!isnan(r->epoch_gap_seconds))
        say("%-22s %.1f ms (median step %.1f ms)\n", "gap between epochs", r->epoch_gap_seconds * 1e3, r->step_median_seconds * 1e3);
    if (!isnan(r->probe_p99_seconds))
        say("%-22s %.2f ms late at p99\n", "a 1 ms timer is", r->probe_p99_seconds * 1e3);
    if (!isnan(r->evicted_share))
        say("%-22s %.0f %% of the files' pages dropped from the cache first\n", "cold", 100 * r->evicted_share);
    print_stages(r);
    print_verdict(r);
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    struct bench_options c = {.transform = NULL, .dtype = NULL, .batch_size = 64, .epochs = 1, .order = 1};
    const char *source[1];
    int rc = cli_parse(&verb_bench, argc, argv, &c, source, 1);
    if (rc < 0)
        return -1 - rc;
    char transforms[1024], fields[1024];
    struct bench_request q = {.started_ns = started_ns, .has_own_choice = !c.transform, .dtype = c.dtype ? fb_dtype_from_name(c.dtype) : 0};
    c.transform = c.transform ? c.transform : "rrc224";
    c.dtype = c.dtype ? c.dtype : "float32";
    snprintf(fields, sizeof(fields), "%s", c.fields ? c.fields : "");
    struct bench_result r = {0};
    struct fb_error e = {0};
    rc = fill_request(&c, source[0], expand_transform(&c, transforms, sizeof(transforms)), fields, &q, &e);
    if (rc == 0)
        rc = bench_run(&q, &r, &e);
    if (rc < 0) {
        error_reword(&e, "on_error=\"skip\"", "--on-error skip");
        return cli_fail(&e);
    }
    if (c.json)
        print_json(&c, &q, &r);
    else
        print_table(&q, &r);
    if (r.bad)
        talk_list("fullbore: %llu bad samples were replaced:\n", r.bad, r.bad_list);
    int code = r.bad ? EXIT_PARTLY : EXIT_DONE;
    bench_free(&r);
    return code;
}

const struct verb verb_bench = {
    .name = "bench",
    .usage = "DATA [--step-ms T] [--transform rrc224|eval224|none] [options]",
    .summary = "measure how fast a data set can be fed, or how busy an accelerator would be",
    .examples = "  fullbore bench photos/                              as fast as possible\n"
                "  fullbore bench photos/ --step-ms 100 --epochs 3     would an accelerator with 100 ms steps wait?\n"
                "  fullbore bench train.h5 --batch-size 8192           rows of arrays\n"
                "  fullbore bench slides/ --sample file --collate pad  bags\n"
                "  fullbore bench slides.csv --group-by patient --collate pad\n"
                "  fullbore bench photos/ --cold --json                from storage, as JSON\n"
                "  fullbore bench photos/ --dtype uint8 --memory 64MiB in little memory\n"
                "  fullbore bench photos/ --step-ms 100 --device emulated:12GB/s,20us   with the copy to a device\n",
    .options = options,
    .run = run,
};
