/* The command: verbs with tables of options. stdout is data, stderr is talk. */
#ifndef FB_CLI_CLI_H
#define FB_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text/json_writer.h"
#include "base/text/options.h"

/* Exit codes: promises. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DAMAGED = 3, EXIT_PARTLY = 4, EXIT_THRESHOLD = 5, EXIT_INTERRUPTED = 130 };

struct verb {
    const char *name;
    const char *usage;    /* "DATA [options]" */
    const char *summary;  /* one line */
    const char *examples; /* lines, each a command and what it does */
    const struct option *options;
    int (*run)(int argc, char **argv, uint64_t started_ns); /* argv[0] is the verb */
};

extern const struct verb verb_info, verb_bench, verb_index, verb_watch, verb_report, verb_doctor, verb_pack, verb_verify, verb_unpack,
    verb_stage, verb_audit, verb_build;
extern const struct verb *const verb_list[]; /* NULL-terminated */

/* Parses options (--name value, --name=value) and up to `most` positional arguments. Prints usage errors and help itself; returns a
 * count of positionals, or -1 - exit code when the verb should end now. */
int cli_parse(const struct verb *v, int argc, char **argv, void *target, const char **positional, int most);

/* What the verbs print. Strings among the arguments are data and come out escaped (text_show): only the format begins lines. `say` goes to
 * stdout, `talk` to stderr; both write numbers with a point in any locale. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void talk(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_to(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text of several lines; all but the line ends is escaped. */
void say_lines(const char *lines);
void talk_lines(const char *lines);             /* NULL: nothing */
bool say_lines_to(FILE *to, const char *lines); /* false: it could not be written */
/* "{...}" and a line end; "{}" if there was no memory for it. Frees the text. */
void say_json(struct text *t);
void say_value(struct json_pair value);
/* A count in words, then its list. */
void talk_list(const char *format, uint64_t count, const char *list);
/* Our own codes for a terminal, as they are. */
void talk_raw(const char *codes);

/* Prints an error for people and returns the exit code that goes with it. */
int cli_fail(const struct fb_error *e);

void cli_print_help(const struct verb *v);
void cli_print_man(void); /* the manual page, in roff */

/* The options of a loader, with ctrl-C, progress and log wired in. */
void cli_init_options(fb_options *o, const char *source);

/* Before cli_parse: "-o" is short for "--output". */
void cli_expand_output(int argc, char **argv);

/* Does stderr look at a person who likes colour? (a terminal, NO_COLOR unset) */
bool cli_has_colour(void);

#endif
