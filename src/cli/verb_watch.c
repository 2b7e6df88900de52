/* fullbore watch: any training program, unmodified. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "jobs/watch.h"

struct watch_options {
    int64_t pid;
    double interval, line_every;
    const char *summary, *output;
    bool json, quiet, no_stacks;
};

#define AT(field) offsetof(struct watch_options, field)
static const struct option options[] = {
    {"pid", OPTION_INT, AT(pid), 1, 1 << 30, .metavar = "N", .help = "watch a process that runs already, with all its children"},
    {"summary", OPTION_STRING, AT(summary), .metavar = "FILE", .help = "write the closing verdict as JSON"},
    {"output", OPTION_STRING, AT(output), .metavar = "FILE", .help = "record the run for 'fullbore report' (also -o FILE)"},
    {"interval", OPTION_DOUBLE, AT(interval), 0.1, 3600, .metavar = "S", .help = "seconds between snapshots (default 0.5)"},
    {"line-every", OPTION_DOUBLE, AT(line_every), 0.1, 86400, .metavar = "S",
     .help = "seconds between lines when stderr is not a terminal (default 10)"},
    {"no-stacks", OPTION_FLAG, AT(no_stacks), .help = "do not read the Python stack of the program's main thread"},
    {"quiet", OPTION_FLAG, AT(quiet), .help = "no live line; the verdict at the end only"},
    {"json", OPTION_FLAG, AT(json), .help = "the summary on stdout (the program's own output goes there too)"},
    {0},
};
#undef AT

static char long_output[] = "--output";

/* Options end at the first word that is none: what follows is the command, with or without '--'. -o becomes --output. */
static int first_of_command(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            return i + 1;
        if (argv[i][0] != '-')
            return i;
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = long_output;
        if (strchr(argv[i], '='))
            continue;
        const struct option *o = strncmp(argv[i], "--", 2) == 0 ? option_find(options, argv[i] + 2) : NULL;
        i += o && o->type != OPTION_FLAG;
    }
    return argc;
}

static int usage(const char *problem)
{
    talk("fullbore watch: %s\nusage: fullbore watch %s\nRun 'fullbore watch --help' for details.\n", problem, verb_watch.usage);
    return EXIT_USAGE;
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct watch_options chosen = {0};
    int command = first_of_command(argc, argv), own = command;
    if (own > 1 && own <= argc && strcmp(argv[own - 1], "--") == 0)
        own--;
    int rc = cli_parse(&verb_watch, own, argv, &chosen, NULL, 0);
    if (rc < 0)
        return -1 - rc;
    if ((command < argc) == (chosen.pid != 0))
        return usage(chosen.pid ? "a command and --pid cannot be watched at once" : "there is nothing to watch: give a command or --pid");
    struct watch_request r = {
        .command = command < argc ? argv + command : NULL,
        .pid = (pid_t)chosen.pid,
        .interval_s = chosen.interval,
        .line_s = chosen.line_every,
        .summary = chosen.summary,
        .recording = chosen.output,
        .json = chosen.json,
        .quiet = chosen.quiet,
        .no_stacks = chosen.no_stacks,
    };
    struct fb_error e = {0};
    int code = EXIT_DONE;
    if (watch_run(&r, &code, &e) == 0)
        return code;
    int failed = cli_fail(&e);
    return code ? code : failed; /* the program's own code comes first */
}

const struct verb verb_watch = {
    .name = "watch",
    .usage = "[options] -- COMMAND...  |  --pid N [options]",
    .summary = "watch any training program: a live line, then what it waits for and what would help",
    .examples = "  fullbore watch -- python train.py --epochs 3          start it and watch; its exit code is returned\n"
                "  fullbore watch --pid 4711                             one that runs already; ctrl-C ends the watching only\n"
                "  fullbore watch -o run.fbr -- python train.py          record it, then: fullbore report run.fbr -o report.html\n"
                "  kill -USR1 PID-OF-FULLBORE                            the verdict so far\n",
    .options = options,
    .run = run,
};
