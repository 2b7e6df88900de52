/* fullbore index DATA: make the catalog, learn ahead, tidy up what was learnt. */
#include <stdlib.h>

#include "cli/cli.h"
#include "jobs/index.h"

struct index_options {
    int64_t threads;
    uint64_t memory;
    bool learn, json;
};

static const struct option options[] = {
    {"learn", OPTION_FLAG, offsetof(struct index_options, learn), .help = "decode every image once and keep its checkpoints"},
    {"threads", OPTION_INT, offsetof(struct index_options, threads), 0, 1024, .metavar = "N", .help = "CPU workers (default: cores)"},
    {"memory", OPTION_SIZE, offsetof(struct index_options, memory), .metavar = "SIZE",
     .help = "budget of the whole process (default: a quarter of what is free)"},
    {"json", OPTION_FLAG, offsetof(struct index_options, json), .help = "one JSON object on stdout"},
    {0},
};

static double share(const struct index_result *r)
{
    return r->bytes ? (double)r->record_bytes / (double)r->bytes : 0;
}

static void print_json(const struct index_result *r)
{
    say_value(J_OBJECT(NULL, J("samples", r->samples), J("bytes", r->bytes), J("records", r->records), J("record_bytes", r->record_bytes),
                       J_FIXED("record_ratio", 6, share(r)), J("bad_samples", r->bad), J_FIXED("learn_seconds", 3, r->learn_seconds),
                       J_BOOL("catalog_is_new", r->is_fresh)));
}

static void print_table(const struct index_result *r, bool has_learnt)
{
    char bytes[32];
    say("%-10s %llu samples, %s\n", "catalog", (unsigned long long)r->samples, r->is_fresh ? "made now" : "up to date");
    say("%-10s %llu records, %s (%.1f %% of the data)\n", "learnt", (unsigned long long)r->records,
        text_size(r->record_bytes, bytes, sizeof(bytes)), 100 * share(r));
    if (has_learnt)
        say("%-10s %.1f s, %.0f samples per second\n", "took", r->learn_seconds, (double)r->samples / r->learn_seconds);
    else if (r->records < r->samples)
        say("\nThe first epoch learns the rest, or --learn does it now.\n");
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct index_options c = {0};
    const char *source[1];
    int rc = cli_parse(&verb_index, argc, argv, &c, source, 1);
    if (rc < 0)
        return -1 - rc;
    struct index_request q = {.must_learn = c.learn};
    struct index_result r;
    struct fb_error e = {0};
    cli_init_options(&q.options, source[0]);
    q.options.threads = (int)c.threads;
    q.options.memory = c.memory;
    if (index_run(&q, &r, &e) < 0) {
        free(r.bad_list);
        return cli_fail(&e);
    }
    if (c.json)
        print_json(&r);
    else
        print_table(&r, c.learn);
    if (r.bad)
        talk_list("fullbore: %llu samples could not be decoded:\n", r.bad, r.bad_list);
    free(r.bad_list);
    return r.bad ? EXIT_PARTLY : EXIT_DONE;
}

const struct verb verb_index = {
    .name = "index",
    .usage = "DATA [--learn] [--json]",
    .summary = "make the catalog of a data set, learn about its images ahead of training, merge what was learnt",
    .examples = "  fullbore index photos/            scan, and merge what earlier runs have learnt\n"
                "  fullbore index photos/ --learn    decode every image once now, so that the first epoch is fast already\n",
    .options = options,
    .run = run,
};
