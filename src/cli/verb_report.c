/* fullbore report: what a recording says, as text, JSON or one page. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "jobs/report.h"

struct report_options {
    const char *output;
    bool json;
};

static const struct option options[] = {
    {"output", OPTION_STRING, offsetof(struct report_options, output), .metavar = "FILE",
     .help = "write one self-contained HTML page (also -o FILE)"},
    {"json", OPTION_FLAG, offsetof(struct report_options, json), .help = "the verdict as JSON on stdout"},
    {0},
};

/* How many of the arguments are recordings; -o becomes --output. */
static int count_recordings(int argc, char **argv)
{
    static char long_output[] = "--output";
    int count = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = long_output;
        if (strcmp(argv[i], "--output") == 0)
            i++;
        else
            count += argv[i][0] != '-';
    }
    return count;
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct report_options chosen = {0};
    const char *recording[2];
    int count = count_recordings(argc, argv);
    int rc = cli_parse(&verb_report, argc, argv, &chosen, recording, count < 1 ? 1 : count > 2 ? 2 : count);
    if (rc < 0)
        return -1 - rc;
    struct fb_error e = {0};
    struct text out = {.limit = 1 << 26};
    uint64_t lost = 0;
    int done = report_run(recording, rc, chosen.output, chosen.json, &out, &lost, &e);
    if (done == 0 && out.data)
        say_lines(out.data);
    text_free(&out);
    if (done < 0)
        return cli_fail(&e);
    if (lost)
        talk("fullbore: the recording is cut: %llu bytes at its end could not be used\n", (unsigned long long)lost);
    return lost ? EXIT_PARTLY : EXIT_DONE;
}

const struct verb verb_report = {
    .name = "report",
    .usage = "RUN.fbr [OTHER.fbr] [-o PAGE.html] [--json]",
    .summary = "say what a recording of 'watch' shows, or compare two; with -o as one page of HTML",
    .examples = "  fullbore report run.fbr                               the verdict in words\n"
                "  fullbore report run.fbr -o report.html                one page with timelines, opens offline\n"
                "  fullbore report before.fbr after.fbr -o both.html     two runs side by side\n",
    .options = options,
    .run = run,
};
