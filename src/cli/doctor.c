/* fullbore doctor DATA: before training. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "jobs/doctor.h"

struct doctor_options {
    const char *transform, *dtype;
    int64_t batch_size, epochs, threads, samples;
    double step_ms;
    bool json;
};

#define AT(field) offsetof(struct doctor_options, field)
static const struct option options[] = {
    {"transform", OPTION_STRING, AT(transform), .metavar = "T", .help = "a spec as in docs/transforms.md (default: random crop 224, flip)"},
    {"batch-size", OPTION_INT, AT(batch_size), 1, 1 << 24, .metavar = "N", .help = "samples per batch (default 64)"},
    {"dtype", OPTION_STRING, AT(dtype), .metavar = "T", .help = "uint8 (default), float16, bfloat16 or float32"},
    {"step-ms", OPTION_DOUBLE, AT(step_ms), 0, 3600000, .metavar = "T", .help = "how long the accelerator takes per batch"},
    {"epochs", OPTION_INT, AT(epochs), 1, 1 << 20, .metavar = "N", .help = "epochs of the whole run (default 1)"},
    {"threads", OPTION_INT, AT(threads), 0, 1024, .metavar = "N", .help = "CPU workers (default: as the loader chooses)"},
    {"samples", OPTION_INT, AT(samples), 1, 1 << 30, .metavar = "N", .help = "samples to measure with (default 1000)"},
    {"json", OPTION_FLAG, AT(json), .help = "one JSON object on stdout"},
    {0},
};
#undef AT

static void put(struct text *t, const char *name, double value)
{
    text_printf(t, isfinite(value) ? ",\"%s\":%.6g" : ",\"%s\":null", name, value);
}

static void put_text(struct text *t, const char *name, const char *value)
{
    text_printf(t, ",\"%s\":", name);
    text_json_string(t, value);
}

static void print_json(const struct doctor_result *r)
{
    struct text t = {.limit = 1 << 20};
    const struct doctor_machine *m = &r->machine;
    text_printf(&t, "{\"samples\":%llu,\"bytes\":%llu,\"measured_samples\":%llu", (unsigned long long)r->data.samples,
                (unsigned long long)r->data.bytes, (unsigned long long)r->measured);
    put(&t, "cores", m->cores), put(&t, "threads", m->threads), put(&t, "memory_available_bytes", m->memory_available_bytes);
    put(&t, "shm_free_bytes", m->shm_free_bytes), put(&t, "open_files_limit", m->files_limit);
    put_text(&t, "storage", m->kind), put_text(&t, "mount", m->mount), put_text(&t, "accelerator", m->gpu), put_text(&t, "io", r->io);
    put(&t, "cold_samples_per_second", r->cold_rate), put(&t, "warm_samples_per_second", r->warm_rate);
    put(&t, "decode_seconds", r->decode_s), put(&t, "transform_seconds", r->transform_s), put(&t, "first_cpu_seconds", r->first_cpu_s);
    put(&t, "read_seconds", r->read_s), put(&t, "wanted_samples_per_second", r->wanted_rate);
    text_printf(&t, ",\"bottleneck\":\"%s\",\"table\":[", r->storage_limits ? "storage" : "cpu");
    for (int i = 0; i < r->rows; i++) {
        const struct doctor_row *w = &r->row[i];
        text_printf(&t, "%s{\"change\":", i ? "," : "");
        text_json_string(&t, w->change);
        put(&t, "first_epoch_samples_per_second", w->first_rate), put(&t, "later_samples_per_second", w->later_rate);
        put(&t, "batch_seconds", w->batch_seconds), put(&t, "epoch_seconds", w->epoch_seconds);
        put(&t, "run_seconds", w->run_seconds);
        put(&t, "accelerator_utilization_ratio", w->accelerator_ratio), put(&t, "ram_bytes", w->ram_bytes);
        text_printf(&t, "}");
    }
    text_printf(&t, "]}");
    puts(t.data ? t.data : "{}");
    text_free(&t);
}

static void print_facts(const struct doctor_result *r)
{
    const struct doctor_machine *m = &r->machine;
    char bytes[32], memory[32], shm[32], mount[300];
    printf("%-12s %d cores, %d workers, %s of memory free, %s in /dev/shm, %.0f open files, reads by %s\n", "machine", m->cores, m->threads,
           text_size((uint64_t)m->memory_available_bytes, memory, sizeof(memory)), text_size((uint64_t)m->shm_free_bytes, shm, sizeof(shm)),
           m->files_limit, r->io);
    printf("%-12s %s\n", "accelerator", m->gpu);
    printf("%-12s %llu samples, %s, on %s at %s\n", "data", (unsigned long long)r->data.samples,
           text_size(r->data.bytes, bytes, sizeof(bytes)), m->kind, text_escape(m->mount, mount, sizeof(mount)));
    printf("%-12s %llu samples: a read takes %.3f ms with many in flight; "
           "%.3f ms of CPU at first, %.3f ms later (decode %.3f, transform %.3f)\n",
           "measured", (unsigned long long)r->measured, 1e3 * r->read_s, 1e3 * r->first_cpu_s, 1e3 * r->known_cpu_s, 1e3 * r->decode_s,
           1e3 * r->transform_s);
    if (isnan(r->cold_rate))
        printf("%-12s storage was not measured: the files could not be dropped from memory\n", "");
    printf("%-12s %s\n", "bottleneck",
           isnan(r->cold_rate) ? "the CPU, once the data is in memory"
           : r->storage_limits ? "storage in the first epoch, the CPU later"
                               : "the CPU: storage keeps up");
}

static void print_rate(double x)
{
    if (isnan(x))
        printf(" %10s", "n/a");
    else
        printf(" %10.0f", x);
}

static void print_table(const struct doctor_result *r)
{
    bool has_step = !isnan(r->wanted_rate);
    print_facts(r);
    if (has_step)
        printf("%-12s %.0f samples/s\n", "wanted", r->wanted_rate);
    printf("\n%-42s %10s %10s %9s %9s %9s%s\n", "predicted", "1st/s", "later/s", "s/batch", "s/epoch", "run h", has_step ? "  busy" : "");
    for (int i = 0; i < r->rows; i++) {
        const struct doctor_row *w = &r->row[i];
        printf("%-42s", w->change);
        print_rate(w->first_rate);
        print_rate(w->later_rate);
        printf(" %9.3f %9.1f %9.2f", w->batch_seconds, w->epoch_seconds, w->run_seconds / 3600);
        if (has_step)
            printf(" %4.0f %%", 100 * w->accelerator_ratio);
        printf("%s%s\n", w->command[0] ? "   " : "", w->command);
    }
}

static int fill(const struct doctor_options *c, const char *source, struct doctor_request *q, struct fb_error *e)
{
    fb_init_options(&q->options);
    cli_wire(&q->options);
    q->options.source = source;
    q->options.transforms = c->transform;
    q->options.batch_size = (uint64_t)c->batch_size;
    q->options.shuffle = 1;
    q->options.threads = (int)c->threads;
    q->options.on_error = FB_SKIP; /* a bad file is no reason not to look at the others */
    q->options.rank = 0;
    q->options.world_size = 1;
    q->options.dtype = fb_dtype_from_name(c->dtype);
    q->step_seconds = c->step_ms / 1e3;
    q->epochs = c->epochs;
    q->sample_limit = (uint64_t)c->samples;
    return q->options.dtype ? 0 : error_set(e, FB_E_USAGE, "usage", "--dtype %s is not known", c->dtype);
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct doctor_options chosen = {.transform = "random_resized_crop size=224,224; random_horizontal_flip p=0.5",
                                    .dtype = "uint8",
                                    .batch_size = 64,
                                    .epochs = 1,
                                    .samples = 1000};
    const char *source[1];
    int rc = cli_parse(&verb_doctor, argc, argv, &chosen, source, 1);
    if (rc < 0)
        return -1 - rc;
    struct doctor_request q = {0};
    struct doctor_result r;
    struct fb_error e = {0};
    if (fill(&chosen, source[0], &q, &e) < 0 || doctor_run(&q, &r, &e) < 0)
        return cli_fail(&e);
    if (chosen.json)
        print_json(&r);
    else
        print_table(&r);
    doctor_free(&r);
    return EXIT_DONE;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .usage = "DATA [--batch-size N] [--step-ms T] [--epochs N] [options]",
    .summary = "before training: what this machine can feed, what is in the way, what a change would bring",
    .examples = "  fullbore doctor photos/                                        rates, bottleneck, predictions\n"
                "  fullbore doctor photos/ --step-ms 100 --batch-size 256         would the accelerator wait?\n",
    .options = options,
    .run = run,
};
