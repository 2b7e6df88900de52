#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"

const struct verb *const verb_list[] = {&verb_info,   &verb_bench,  &verb_index, &verb_watch, &verb_report, &verb_doctor, &verb_pack,
                                        &verb_verify, &verb_unpack, &verb_stage, &verb_build, &verb_audit,  NULL};

static void print_usage(FILE *to)
{
    say_to(to, "fullbore %s: feeds training loops, and says what they wait for\n\nusage: fullbore VERB [options]\n\n", fb_version());
    for (const struct verb *const *v = verb_list; *v; v++)
        say_to(to, "  %-8s %s\n", (*v)->name, (*v)->summary);
    say_to(to, "\nRun 'fullbore VERB --help' for details. --version prints the version.\n");
}

static const struct verb *find_verb(const char *name)
{
    for (const struct verb *const *v = verb_list; *v; v++)
        if (strcmp((*v)->name, name) == 0)
            return *v;
    return NULL;
}

static int flush_stdout(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    perror("fullbore: cannot write the output");
    return code == EXIT_DONE ? EXIT_FAILED : code;
}

int main(int argc, char **argv)
{
    uint64_t started_ns = clock_now_ns();
    signal(SIGPIPE, SIG_IGN); /* a reader that left shows as a write error */
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        say("fullbore %s\n", fb_version());
        return flush_stdout(EXIT_DONE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        const struct verb *v = argc > 2 ? find_verb(argv[2]) : NULL;
        if (argc > 2 && strcmp(argv[2], "--man") == 0)
            cli_print_man();
        else if (v)
            cli_print_help(v);
        else
            print_usage(stdout);
        return flush_stdout(EXIT_DONE);
    }
    const struct verb *v = find_verb(argv[1]);
    if (!v) {
        talk("fullbore: there is no verb '%s'\n\n", argv[1]);
        print_usage(stderr);
        return EXIT_USAGE;
    }
    return flush_stdout(v->run(argc - 1, argv + 1, started_ns));
}
