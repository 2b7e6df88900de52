/* fullbore doctor DATA: before training. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "jobs/doctor.h"

struct doctor_options {
    const char *transform, *dtype;
    int64_t batch_size, epochs, threads, samples;
    double step_ms;
    uint64_t memory;
    int sample, collate;
    const char *fields;
    bool prove, json;
};

static const char *const sample_names[] = {"auto", "row", "file", NULL};
static const char *const collate_names[] = {"none", "pad", "ragged", NULL};

#define AT(field) offsetof(struct doctor_options, field)
static const struct option options[] = {
    {"transform", OPTION_STRING, AT(transform), .metavar = "T",
     .help = "a spec as in docs/transforms.md (default: random crop 224 and flip for pictures, none for other data)"},
    {"batch-size", OPTION_INT, AT(batch_size), 1, 1 << 24, .metavar = "N", .help = "samples per batch (default 64)"},
    {"dtype", OPTION_STRING, AT(dtype), .metavar = "T", .help = "uint8 (default for pictures), float16, bfloat16 or float32"},
    {"step-ms", OPTION_DOUBLE, AT(step_ms), 0, 3600000, .metavar = "T", .help = "how long the accelerator takes per batch"},
    {"epochs", OPTION_INT, AT(epochs), 1, 1 << 20, .metavar = "N", .help = "epochs of the whole run (default 1)"},
    {"threads", OPTION_INT, AT(threads), 0, 1024, .metavar = "N", .help = "CPU workers (default: as the loader chooses)"},
    {"memory", OPTION_SIZE, AT(memory), .metavar = "SIZE", .help = "budget of the loader, e.g. 8GiB (default: a quarter of what is free)"},
    {"sample", OPTION_CHOICE, AT(sample), .choices = sample_names, .metavar = "S",
     .help = "arrays: a sample is a row or a file (default: auto)"},
    {"fields", OPTION_STRING, AT(fields), .metavar = "A,B", .help = "arrays: which of them, separated by commas (default: all)"},
    {"collate", OPTION_CHOICE, AT(collate), .choices = collate_names, .metavar = "C",
     .help = "arrays and sound of different lengths: pad or ragged"},
    {"samples", OPTION_INT, AT(samples), 1, 1 << 30, .metavar = "N",
     .help = "samples to measure with (default: enough for steady figures)"},
    {"prove", OPTION_FLAG, AT(prove), .help = "try the remedies on a sample and print measured beside predicted figures"},
    {"json", OPTION_FLAG, AT(json), .help = "one JSON object on stdout"},
    {0},
};
#undef AT

/* Bytes are counts: whole numbers have all their digits. */
static struct json_pair figure(const char *key, double value)
{
    bool is_whole = fabs(value) < 1e15 && value == floor(value);
    return is_whole ? J_FIXED(key, 0, value) : J_DIGITS(key, 6, value);
}

static void put_storage(struct json_writer *w, const struct storage_probe *p)
{
    json_begin_array(w, "storage_reads");
    for (const struct storage_point *x = p->point; x < p->point + p->points; x++)
        json_put(w, J_OBJECT(NULL, J("depth", x->depth), figure("reads_per_second", x->reads_per_s),
                             figure("bytes_per_second", x->bytes_per_s), figure("latency_seconds", x->latency_s)));
    json_end(w);
    json_put(w, figure("storage_read_bytes", p->read_bytes), figure("open_seconds", p->open_s));
}

static void put_budget(struct json_writer *w, const struct doctor_budget *b)
{
    double given = b->rate > 0 ? b->given_requests_per_s * b->rate / b->requests_per_s : 0;
    json_put(w, J_OBJECT("bucket",
                         J_OBJECT("wanted", J_DIGITS("rate", 6, b->rate), figure("bytes_per_second", b->bytes_per_s),
                                  figure("requests_per_second", b->requests_per_s)),
                         J_OBJECT("given", J_DIGITS("rate", 6, given), figure("bytes_per_second", b->given_bytes_per_s),
                                  figure("requests_per_second", b->given_requests_per_s)),
                         figure("requests_in_flight", b->in_flight), figure("batches_ahead", b->batches_ahead),
                         figure("ram_bytes", b->ram_bytes), figure("cache_bytes", b->cache_bytes)));
}

static void put_row(struct json_writer *w, const struct doctor_row *r)
{
    json_put(w, J_OBJECT(NULL, J("change", r->change), figure("first_epoch_samples_per_second", r->first_rate),
                         figure("later_samples_per_second", r->later_rate), figure("alone_first_epoch_samples_per_second", r->alone_first),
                         figure("alone_later_samples_per_second", r->alone_later), figure("batch_seconds", r->batch_seconds),
                         figure("epoch_seconds", r->epoch_seconds), figure("run_seconds", r->run_seconds),
                         figure("accelerator_utilization_ratio", r->accelerator_ratio),
                         figure("first_epoch_accelerator_utilization_ratio", r->accelerator_first),
                         figure("later_accelerator_utilization_ratio", r->accelerator_later), figure("ram_bytes", r->ram_bytes),
                         figure("disk_bytes", r->disk_bytes), J("command", r->command),
                         figure("proved_first_epoch_samples_per_second", r->proved_first),
                         figure("proved_later_samples_per_second", r->proved_later), J("not_proved_because", r->unproved)));
}

static void put_states(struct json_writer *w, const char *key, const struct doctor_result *r, bool is_alone)
{
    const struct doctor_run *run[] = {&r->fresh_cold, &r->fresh_warm, &r->known_cold, &r->known_warm};
    double rate[4];
    for (int i = 0; i < 4; i++)
        rate[i] = is_alone ? doctor_alone(run[i], r->machine.cores) : run[i]->rate;
    json_put(w, J_OBJECT(key, figure("new_files_from_storage", rate[0]), figure("new_files_from_memory", rate[1]),
                         figure("known_files_from_storage", rate[2]), figure("known_files_from_memory", rate[3])));
}

/* What was measured, what that says of other programs, and the limits that follow. */
static void put_measured(struct json_writer *w, const struct doctor_result *r)
{
    const struct doctor_limits *most = &r->limits;
    put_states(w, "measured_samples_per_second", r, false);
    put_states(w, "alone_samples_per_second", r, true);
    json_put(w, figure("known_files_ratio", r->known_share), figure("cores_used", r->known_warm.cores.used),
             figure("cores_wanted_in_vain", r->known_warm.cores.delayed), figure("memory_limit_bytes_per_second", most->memory_bytes_per_s),
             figure("storage_limit_bytes_per_second", most->storage_bytes_per_s), figure("read_bytes_per_sample", r->known_bytes),
             figure("first_read_bytes_per_sample", r->first_bytes), figure("batch_bytes_per_sample", r->output_bytes));
}

static void print_json(const struct doctor_result *r)
{
    struct text t = {.limit = 1 << 20};
    struct json_writer w = {.out = &t};
    const struct doctor_machine *m = &r->machine;
    json_begin_object(&w, NULL);
    json_put(&w, J("samples", r->samples), J("bytes", r->data.bytes), J("measured_samples", r->measured));
    json_put(&w, figure("cores", m->cores), figure("threads", m->threads), figure("memory_available_bytes", m->memory_available_bytes),
             figure("shm_free_bytes", m->shm_free_bytes), figure("open_files_limit", m->files_limit),
             figure("processes_limit", m->processes_limit), figure("locked_memory_limit_bytes", m->locked_bytes_limit),
             figure("memory_copy_bytes_per_second", m->copy_bytes_per_s), figure("machine_cores", m->online_cores));
    put_storage(&w, &r->storage);
    put_measured(&w, r);
    json_put(&w, J("storage", m->kind), J("mount", m->mount), J("accelerator", m->gpu), J("io", r->io),
             figure("cold_samples_per_second", r->cold_rate), figure("warm_samples_per_second", r->warm_rate),
             figure("decode_seconds", r->decode_s), figure("transform_seconds", r->transform_s),
             figure("first_cpu_seconds", r->first_cpu_s), figure("other_programs_cores", r->others_cores),
             figure("known_cpu_seconds", r->known_cpu_s), figure("read_seconds", r->read_s),
             figure("wanted_samples_per_second", r->wanted_rate));
    if (m->is_bucket)
        put_budget(&w, &r->budget);
    if (r->chunks.now_rows)
        json_put(&w, J_OBJECT("bad_chunks", J("array", r->chunks.array), figure("chunk_rows", (double)r->chunks.now_rows),
                              figure("chunks_per_row", (double)r->chunks.chunks_of_row),
                              figure("wanted_chunk_rows", (double)r->chunks.wanted_rows)));
    json_put(&w, J("bottleneck", r->storage_limits ? "storage" : "cpu"));
    json_begin_array(&w, "table");
    for (int i = 0; i < r->rows; i++)
        put_row(&w, &r->row[i]);
    json_end(&w);
    json_end(&w);
    say_json(&t);
}

static void print_limit(const char *name, double value)
{
    if (isfinite(value))
        say("%.0f %s", value, name);
    else
        say("%s without limit", name);
}

static void print_limits(const struct doctor_machine *m)
{
    char locked[32];
    say("%-12s ", "limits");
    print_limit("open files", m->files_limit);
    say(", ");
    print_limit("processes", m->processes_limit);
    say(", %s of locked memory\n",
        isfinite(m->locked_bytes_limit) ? text_size((uint64_t)m->locked_bytes_limit, locked, sizeof(locked)) : "any amount");
}

static void print_storage(const struct storage_probe *p, bool is_bucket)
{
    if (!p->points)
        return;
    say("%-12s %s of %.*f KB", is_bucket ? "bucket" : "storage", is_bucket ? "requests" : "reads", p->read_bytes < 1e4,
        p->read_bytes / 1e3);
    for (int i = 0; i < p->points; i++)
        say("%s %d at a time %.0f/s (%.0f MB/s, %.2f ms)", i ? "," : ":", p->point[i].depth, p->point[i].reads_per_s,
            p->point[i].bytes_per_s / 1e6, 1e3 * p->point[i].latency_s);
    if (is_bucket)
        say("\n");
    else
        say("%s; an open %.3f ms\n", p->is_direct ? "" : " (through the page cache)", 1e3 * p->open_s);
}

/* What the data is and where it lies. */
static void print_data(const struct doctor_result *r)
{
    const struct doctor_machine *m = &r->machine;
    char bytes[32], mount[300];
    say("%-12s %llu %s, %s, ", "data", (unsigned long long)r->samples, r->data.has_rows ? "rows" : "samples",
        text_size(r->data.bytes, bytes, sizeof(bytes)));
    if (m->is_bucket)
        say("in a bucket");
    else
        say("on %s at %s", m->kind, text_escape(m->mount, mount, sizeof(mount)));
    for (int i = 0; i < r->data.format_count; i++)
        say("%s%s %.0f %%", i ? ", " : "; ", r->data.format[i].name, 100.0 * (double)r->data.format[i].files / (double)r->data.examined);
    if (r->data.width_median)
        say("; %u x %u", r->data.width_median, r->data.height_median);
    say("\n");
    for (int i = 0; i < r->data.remark_count; i++)
        say("%-12s %s\n", i ? "" : "to know", r->data.remark[i]);
}

static void print_chunks(const struct doctor_chunks *c)
{
    char name[200];
    text_escape(c->array, name, sizeof(name));
    if (c->chunks_of_row > 1)
        say("%-12s slow for rows: one row of %s lies in %llu chunks\n", "chunked", name, (unsigned long long)c->chunks_of_row);
    else
        say("%-12s slow for rows in random order: %llu rows of %s are decompressed for each one that is needed\n", "chunked",
            (unsigned long long)c->now_rows, name);
}

static void print_budget(const struct doctor_budget *b)
{
    char ram[32], cache[32];
    say("%-12s %.0f samples/s from the bucket take %.3f GB/s and %.0f requests/s; it gave %.3f GB/s and %.0f requests/s\n", "epoch 0",
        b->rate, b->bytes_per_s / 1e9, b->requests_per_s, b->given_bytes_per_s / 1e9, b->given_requests_per_s);
    if (isfinite(b->in_flight))
        say("%-12s %.0f requests in flight: %.0f batches ahead, %s of memory\n", "for that", ceil(b->in_flight), b->batches_ahead,
            text_size((uint64_t)b->ram_bytes, ram, sizeof(ram)));
    say("%-12s full speed with a cache of %s\n", "epoch 1 on", text_size((uint64_t)b->cache_bytes, cache, sizeof(cache)));
}

static const char *duration(double seconds, char *out, size_t size)
{
    text_format(out, size, seconds < 1e-4 ? "%.2f us" : "%.3f ms", seconds * (seconds < 1e-4 ? 1e6 : 1e3));
    return out;
}

static void print_measured(const struct doctor_result *r)
{
    char first[24], known[24], decode[24], transform[24];
    say("%-12s %llu samples: %s of CPU each at first, %s later; a worker's decode %s, transform %s\n", "measured",
        (unsigned long long)r->measured, duration(r->first_cpu_s, first, sizeof(first)), duration(r->known_cpu_s, known, sizeof(known)),
        duration(r->decode_s, decode, sizeof(decode)), duration(r->transform_s, transform, sizeof(transform)));
}

/* What is in the way, in a few words. */
static const char *bottleneck(const struct doctor_result *r)
{
    if (isnan(r->cold_rate))
        return "the CPU, once the data is in memory";
    if (r->machine.is_bucket)
        return r->storage_limits ? "the bucket, in every epoch" : "the CPU: the bucket keeps up";
    return r->storage_limits ? "storage in the first epoch, the CPU later" : "the CPU: storage keeps up";
}

static bool has_others(const struct doctor_result *r)
{
    return r->others_cores > 0.3;
}

static void print_others(const struct doctor_result *r)
{
    const struct core_use *u = &r->known_warm.cores;
    if (has_others(r))
        say("%-12s other programs used %.1f of the %d cores meanwhile; this one had %.1f and could have used %.1f more\n", "",
            r->others_cores, r->machine.cores, u->used, u->delayed);
    if (r->machine.online_cores > r->machine.cores)
        say("%-12s this process may use %d of the machine's %d cores\n", "", r->machine.cores, r->machine.online_cores);
    if (r->known_share >= 0.01)
        say("%-12s %.0f %% of the files are known from earlier epochs, so the first one is quicker\n", "", 100 * r->known_share);
}

static void print_facts(const struct doctor_result *r)
{
    const struct doctor_machine *m = &r->machine;
    char memory[32], shm[32];
    say("%-12s %d cores, %d workers, %s of memory free (copies %.1f GB/s), %s in /dev/shm, reads by %s\n", "machine", m->cores, m->threads,
        text_size((uint64_t)m->memory_available_bytes, memory, sizeof(memory)), m->copy_bytes_per_s / 1e9,
        text_size((uint64_t)m->shm_free_bytes, shm, sizeof(shm)), r->io);
    print_limits(m);
    say("%-12s %s\n", "accelerator", m->gpu);
    print_data(r);
    print_storage(&r->storage, m->is_bucket);
    print_measured(r);
    print_others(r);
    if (isnan(r->cold_rate))
        say("%-12s storage was not measured: the files could not be dropped from memory\n", "");
    if (r->chunks.now_rows)
        print_chunks(&r->chunks);
    say("%-12s %s\n", "bottleneck", bottleneck(r));
}

static void print_rate(double x)
{
    if (isnan(x))
        say(" %8s", "n/a");
    else
        say(" %8.0f", x);
}

static void print_room(double bytes)
{
    char size[32];
    say(" %9s", bytes > 0 ? text_size((uint64_t)bytes, size, sizeof(size)) : "-");
}

static void print_off(double predicted, double measured)
{
    if (measured > 0 && isfinite(predicted))
        say(" %+5.0f %%", 100 * (predicted / measured - 1));
    else
        say(" %7s", "");
}

static void print_proof(const struct doctor_result *r)
{
    say("\n%-38s %8s %8s %7s %8s %8s %7s\n", "tried on a sample", "1st/s", "measured", "off", "later/s", "measured", "off");
    for (int i = 0; i < r->rows; i++) {
        const struct doctor_row *w = &r->row[i];
        if (isnan(w->proved_later)) {
            say("%-38s not tried: %s\n", w->change, w->unproved);
            continue;
        }
        say("%-38s", w->change);
        print_rate(w->first_rate), print_rate(w->proved_first), print_off(w->first_rate, w->proved_first);
        print_rate(w->later_rate), print_rate(w->proved_later), print_off(w->later_rate, w->proved_later);
        say("\n");
    }
}

/* Busy: the first epoch, those behind it, all of --epochs. */
static void print_rows(const struct doctor_result *r, bool has_step)
{
    say("\n%-38s %8s %8s %8s %8s %7s%s %9s %9s\n", has_others(r) ? "predicted, as the machine is now" : "predicted", "1st/s", "later/s",
        "s/batch", "s/epoch", "run h", has_step ? " busy:1st  later  all" : "", "disk", "RAM");
    for (int i = 0; i < r->rows; i++) {
        const struct doctor_row *w = &r->row[i];
        say("%-38s", w->change);
        print_rate(w->first_rate);
        print_rate(w->later_rate);
        say(" %8.3f %8.1f %7.2f", w->batch_seconds, w->epoch_seconds, w->run_seconds / 3600);
        if (has_step)
            say("   %4.0f %% %4.0f %% %3.0f %%", 100 * w->accelerator_first, 100 * w->accelerator_later, 100 * w->accelerator_ratio);
        print_room(w->disk_bytes);
        print_room(w->ram_bytes);
        say("%s%s\n", w->command[0] ? "   " : "", w->command);
    }
}

static void print_alone(const struct doctor_result *r)
{
    say("\n%-38s %8s %8s\n", "predicted, alone on the machine", "1st/s", "later/s");
    for (int i = 0; i < r->rows; i++) {
        say("%-38s", r->row[i].change);
        print_rate(r->row[i].alone_first);
        print_rate(r->row[i].alone_later);
        say("\n");
    }
}

static void print_table(const struct doctor_result *r)
{
    bool has_step = !isnan(r->wanted_rate);
    print_facts(r);
    if (has_step)
        say("%-12s %.0f samples/s\n", "wanted", r->wanted_rate);
    if (r->machine.is_bucket)
        print_budget(&r->budget);
    print_rows(r, has_step);
    if (has_others(r))
        print_alone(r);
}

static int fill(const struct doctor_options *c, const char *source, char *fields, struct doctor_request *q, struct fb_error *e)
{
    cli_init_options(&q->options, source);
    q->options.batch_size = (uint64_t)c->batch_size;
    q->options.shuffle = 1;
    q->options.threads = (int)c->threads;
    q->options.memory = c->memory;
    q->options.sample = c->sample;
    q->options.collate = c->collate;
    for (char *comma = fields; (comma = strchr(comma, ',')) != NULL;)
        *comma = '\n';
    q->options.fields = fields[0] ? fields : NULL;
    q->options.on_error = FB_SKIP; /* a bad file is no reason not to look at the others */
    q->options.rank = 0;
    q->options.world_size = 1;
    q->has_own_choice = !c->transform;
    q->options.transforms = c->transform ? c->transform : "random_resized_crop size=224,224; random_horizontal_flip p=0.5";
    q->dtype = c->dtype ? fb_dtype_from_name(c->dtype) : 0;
    q->options.dtype = c->dtype ? q->dtype : FB_UINT8;
    q->step_seconds = c->step_ms / 1e3;
    q->epochs = c->epochs;
    q->sample_limit = (uint64_t)c->samples;
    q->proves = c->prove;
    return q->options.dtype ? 0 : error_set(e, FB_E_USAGE, "usage", "--dtype %s is not known", c->dtype);
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct doctor_options chosen = {.batch_size = 64, .epochs = 1};
    const char *source[1];
    int rc = cli_parse(&verb_doctor, argc, argv, &chosen, source, 1);
    if (rc < 0)
        return -1 - rc;
    struct doctor_request q = {0};
    struct doctor_result r;
    struct fb_error e = {0};
    char fields[1024];
    snprintf(fields, sizeof(fields), "%s", chosen.fields ? chosen.fields : "");
    if (fill(&chosen, source[0], fields, &q, &e) < 0 || doctor_run(&q, &r, &e) < 0)
        return cli_fail(&e);
    if (chosen.json)
        print_json(&r);
    else
        print_table(&r);
    if (!chosen.json && chosen.prove)
        print_proof(&r);
    doctor_free(&r);
    return EXIT_DONE;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .usage = "DATA [--batch-size N] [--step-ms T] [--epochs N] [options]",
    .summary = "before training: what this machine can feed, what the bottleneck is, what a change would bring",
    .examples = "  fullbore doctor photos/                                        rates, bottleneck, predictions\n"
                "  fullbore doctor photos/ --step-ms 100 --batch-size 256         would the accelerator wait?\n"
                "  fullbore doctor train.h5 --batch-size 8192                     rows of arrays: do their chunks suit them?\n"
                "  fullbore doctor slides/ --sample file --collate pad            bags\n"
                "  fullbore doctor s3://bucket/train --step-ms 100                what the network must give, what a cache saves\n"
                "  fullbore doctor photos/ --prove                                try the remedies on a sample of it\n",
    .options = options,
    .run = run,
};
